"""The application that the tests and the worker share. All settings come from the environment."""

import os
import pathlib
import time

from celery import Celery

endpoint = os.environ["AWS_ENDPOINT_URL_SQS"].removeprefix("http://")
key, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
prefix = os.environ["CELERY_QUEUE_PREFIX"]
folder = pathlib.Path(os.environ["CELERY_FOLDER"])

app = Celery("tasks", broker=f"sqs://{key}:{secret}@{endpoint}//", backend=f"file://{folder}")
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "region": os.environ["AWS_REGION"],
        "is_secure": False,
        "queue_name_prefix": prefix,
        "visibility_timeout": 5,
        "wait_time_seconds": 5,
        "polling_interval": 0,
    },
    task_default_queue="default",
    worker_prefetch_multiplier=1,
    worker_send_task_events=False,
    worker_enable_remote_control=False,
)


@app.task
def echo(value):
    return value


@app.task(bind=True, max_retries=3)
def succeed_the_second_time(self):
    if self.request.retries == 0:
        raise self.retry(countdown=1)
    return self.request.retries


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def outlive_a_worker(self, name):
    """Kills its process the first time it runs; a redelivery must bring it back."""
    mark = folder / f"{name}.died"
    if not mark.exists():
        mark.touch()
        os._exit(1)
    return "redelivered"


@app.task
def note(name, number):
    with open(folder / f"{name}.order", "a") as out:
        out.write(f"{number}\n")
    time.sleep(0.01)
