"""Celery over SQS as an application uses it, with a worker in a process of its own."""

import os
import pathlib
import secrets
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent
WITHIN = 40


@pytest.fixture(scope="session")
def prefix():
    return f"celery-{secrets.token_hex(4)}-"


@pytest.fixture(scope="session")
def tasks(prefix, tmp_path_factory):
    folder = tmp_path_factory.mktemp("celery")
    os.environ |= {"CELERY_QUEUE_PREFIX": prefix, "CELERY_FOLDER": str(folder)}
    sys.path.insert(0, str(HERE))
    import tasks

    return tasks


def start_worker(queues, log, environment=None):
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "2", "-Q", queues, "--loglevel=INFO",
               "--without-gossip", "--without-mingle", "--without-heartbeat"]
    return subprocess.Popen(command, cwd=HERE, env=os.environ | (environment or {}), stdout=log, stderr=log)


def stop(worker):
    worker.terminate()
    try:
        worker.wait(15)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


@pytest.fixture(scope="session")
def worker(tasks, tmp_path_factory):
    log = tmp_path_factory.mktemp("worker") / "worker.log"
    with open(log, "wb") as out:
        process = start_worker("default,other,ordered.fifo", out)
        yield process
        stop(process)
    print(log.read_text()[-6000:])


@pytest.mark.parametrize("value", ["plain", "zażółć 🐇\r\n<&>", {"nested": [1, 2.5, None, "ü"]}, "x" * 100_000, ""])
def test_a_task_runs_with_its_argument_as_sent(tasks, worker, value):
    assert tasks.echo.delay(value).get(timeout=WITHIN) == value


def test_many_tasks_all_run(tasks, worker):
    results = [tasks.echo.delay(n) for n in range(60)]
    assert [result.get(timeout=WITHIN) for result in results] == list(range(60))


def test_a_task_of_another_queue_runs(tasks, worker):
    assert tasks.echo.apply_async(("routed",), queue="other").get(timeout=WITHIN) == "routed"


def test_a_delayed_task_runs_after_its_delay(tasks, worker):
    began = time.monotonic()
    assert tasks.echo.apply_async(("later",), countdown=2).get(timeout=WITHIN) == "later"
    assert time.monotonic() - began >= 1.9


def test_a_task_that_retries_succeeds_the_second_time(tasks, worker):
    assert tasks.succeed_the_second_time.delay().get(timeout=WITHIN) == 1


def test_a_task_whose_process_died_is_delivered_again(tasks, worker):
    assert tasks.outlive_a_worker.delay(secrets.token_hex(4)).get(timeout=WITHIN) == "redelivered"


def test_a_fifo_queue_runs_each_task_once_though_it_is_sent_twice(tasks, worker):
    name = secrets.token_hex(4)

    def send(number):
        return tasks.note.apply_async((name, number), queue="ordered.fifo", MessageGroupId=f"g{number % 2}",
                                      MessageDeduplicationId=f"{name}-{number}")

    results = [send(number) for number in range(10)]
    for number in range(5):
        send(number)
    for result in results:
        result.get(timeout=WITHIN)
    time.sleep(1)
    # Two processes run side by side, so only what ran is told, not in which order.
    assert sorted((tasks.folder / f"{name}.order").read_text().split(), key=int) == [str(number) for number in range(10)]


def test_messages_on_a_queue_can_be_counted_and_purged(tasks):
    with tasks.app.connection_for_write() as connection:
        queue = connection.SimpleQueue("idle")
        for n in range(3):
            queue.put(n)
        assert queue.qsize() == 3
        assert queue.clear() > 0  # kombu adds the size up several times over
        assert queue.qsize() == 0


def test_a_worker_of_another_tenant_takes_nothing_away(tasks, tmp_path):
    """The other tenant's worker reads a queue of the same name; the task must wait for a worker of its own tenant."""
    theirs = {"AWS_ACCESS_KEY_ID": os.environ["OTHER_ACCESS_KEY_ID"], "AWS_SECRET_ACCESS_KEY": os.environ["OTHER_SECRET_ACCESS_KEY"]}
    result = tasks.echo.apply_async(("mine",), queue="shared-name")
    with open(tmp_path / "worker.log", "wb") as out:
        foreign = start_worker("shared-name", out, theirs)
        time.sleep(8)
        stop(foreign)
    assert "ready." in (tmp_path / "worker.log").read_text()
    assert not result.ready()
    with open(tmp_path / "own.log", "wb") as out:
        own = start_worker("shared-name", out)
        try:
            assert result.get(timeout=WITHIN) == "mine"
        finally:
            stop(own)
