"""Every program of web/snippets does what the page says: run as shown, with the two strings replaced, it prints its `.out` file."""

import os
import pathlib
import re
import secrets
import shutil
import string
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
WEB = HERE.parents[1] / "web"
SNIPPETS = WEB / "snippets"
SQS = os.environ.get("COMPAT_SQS", os.environ["AWS_ENDPOINT_URL_SQS"])
PLACEHOLDER = "YOUR-TENANT-IDENTIFIER"
ENDPOINT = "https://sqs.powerqueue.link"
# As the page says to run them; {} is the file.
COMMANDS = {
    "python": "python {}",
    "javascript": "node {}",
    "go": "go run {}",
    "java": "java -cp 'lib/*' {}",
    "cli": "bash {}",
}
SUFFIXES = {"python": ".py", "javascript": ".mjs", "go": ".go", "java": ".java", "cli": ".sh"}
PROGRAMS = sorted(path for language, suffix in SUFFIXES.items() for path in (SNIPPETS / "sqs" / language).glob(f"*{suffix}"))
TOPICS = sorted(path.stem for path in (SNIPPETS / "sqs").glob("*.out"))


def name_of(path):
    return f"{path.parent.name}/{path.name}"


def identifier():
    letters = string.ascii_lowercase
    return secrets.choice(letters) + "".join(secrets.choice(letters + string.digits) for _ in range(23))


def shell(command, folder, **environment):
    """Runs a line as the page shows it, without any credential or endpoint but the program's own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_ACCESS", "AWS_SECRET", "AWS_ENDPOINT", "AWS_REGION", "AWS_DEFAULT"))}
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(["bash", "-c", command], cwd=folder, env=inherited | {"PATH": path} | environment, capture_output=True, text=True, timeout=200)


@pytest.fixture(scope="session")
def java(tmp_path_factory):
    """The jars, installed by the page's own pom.xml and command, and the authorities that Java is to trust."""
    folder = tmp_path_factory.mktemp("java")
    shutil.copy(SNIPPETS / "sqs/java/pom.xml", folder)
    installed = shell((SNIPPETS / "sqs/java/install.txt").read_text(), folder)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    if "COMPAT_CA" not in os.environ:
        return folder, {}
    store = folder / "authorities"
    subprocess.run(["keytool", "-importcert", "-noprompt", "-alias", "edge", "-file", os.environ["COMPAT_CA"], "-keystore", str(store),
                    "-storepass", "changeit"], check=True, capture_output=True)
    return folder, {"JAVA_TOOL_OPTIONS": f"-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword=changeit"}


@pytest.fixture
def installed(request, tmp_path):
    """Answers, for a language, further environment; its SDK is then installed in the test's folder."""
    def install(language):
        if language == "javascript":
            (tmp_path / "node_modules").symlink_to((HERE / "javascript/node_modules").resolve())
        elif language == "go":
            for file in ("go.mod", "go.sum"):
                shutil.copy(HERE / "go" / file, tmp_path)
        elif language == "java":
            folder, environment = request.getfixturevalue("java")
            (tmp_path / "lib").symlink_to(folder / "lib")
            return environment
        return {}
    return install


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_a_program_prints_what_the_page_says(program, installed, tmp_path):
    language = program.parent.name
    environment = installed(language)
    text = program.read_text()
    assert text.count(PLACEHOLDER) == 1 and text.count(ENDPOINT) == 1
    (tmp_path / program.name).write_text(text.replace(PLACEHOLDER, identifier()).replace(ENDPOINT, SQS))
    ran = shell(COMMANDS[language].format(program.name), tmp_path, **environment)
    expected = (SNIPPETS / "sqs" / f"{program.stem.lower()}.out").read_text()
    assert (ran.returncode, ran.stdout) == (0, expected), ran.stderr


def test_a_program_is_refused_while_it_has_the_placeholder(installed, tmp_path):
    """Two visitors who forget to replace it must not meet in one tenant."""
    assert not re.fullmatch("[a-z][a-z0-9]{23}", PLACEHOLDER)
    program = SNIPPETS / "sqs/python/first.py"
    (tmp_path / program.name).write_text(program.read_text().replace(ENDPOINT, SQS))
    ran = shell(COMMANDS["python"].format(program.name), tmp_path)
    assert ran.returncode != 0
    assert "InvalidClientTokenId" in ran.stderr and "needs a tenant identifier" in ran.stderr


def test_every_topic_has_a_program_in_every_language():
    assert len(TOPICS) >= 6
    for language in COMMANDS:
        assert sorted(path.stem.lower() for path in PROGRAMS if path.parent.name == language) == TOPICS


def test_the_page_says_the_commands_that_are_tested_here():
    code = (WEB / "pages/_code.html").read_text()
    shown = dict(re.findall(r'"id": "(\w+)".*?"run": "([^"]+)"', code))
    first = {language: ("First" if language == "java" else "first") + suffix for language, suffix in SUFFIXES.items()}
    assert shown == {language: command.format(first[language]) for language, command in COMMANDS.items()}


@pytest.mark.parametrize(("language", "package", "pins"), [
    ("python", "boto3", "requirements.txt"), ("cli", "awscli", "requirements.txt"), ("javascript", "@aws-sdk/client-sqs", "javascript/package.json"),
    ("go", "github.com/aws/aws-sdk-go-v2", "go/go.mod"),
])
def test_the_page_installs_what_is_tested_here(language, package, pins):
    assert package in (SNIPPETS / "sqs" / language / "install.txt").read_text()
    assert package in (HERE / pins).read_text()


def test_the_shell_line_makes_identifiers(tmp_path):
    line = (SNIPPETS / "identifier.sh").read_text()
    made = {shell(line, tmp_path).stdout.strip() for _ in range(20)}
    assert len(made) == 20
    for each in made:
        assert re.fullmatch("[a-z][a-z0-9]{23}", each)
