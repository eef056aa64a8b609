"""`tenure conformance` seen at work: on moto and on ministack, wrong expectations, an interrupt, and what is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

from tenure.cli import conformance as command
from tenure.cli.main import cli
from tenure.conformance.check import Check, Seen
from tenure.conformance.expected import EXPECTED
from tenure.conformance.sandbox import PREFIX, Sandbox
from tenure.conformance.suite import CHECKS
from tenure.local.emulator import Emulator
from tests.support import ministack as server
from tools import draw_conformance


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    with Emulator() as emulator:
        yield emulator.url


@pytest.fixture(scope="module")
def ministack_url() -> Iterator[str]:
    with server.running() as url:
        yield url


@pytest.fixture
def url(moto_url: str) -> Iterator[str]:
    """Of moto; whatever the test does with it, it leaves nothing behind."""
    yield moto_url
    assert left_behind(moto_url) == []


def left_behind(url: str) -> list[str]:
    """Names of what `tenure conformance` has made and not removed."""
    session = boto3.session.Session(region_name="us-east-1")
    sqs, dynamodb, s3 = (session.client(each, endpoint_url=url) for each in ("sqs", "dynamodb", "s3"))
    names = [each.rpartition("/")[2] for each in sqs.list_queues().get("QueueUrls", ())]
    names += dynamodb.list_tables()["TableNames"]
    names += [each["Name"] for each in s3.list_buckets()["Buckets"]]
    return [name for name in names if name.startswith(PREFIX)]


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["conformance", "--endpoint-url", url, *arguments], terminal_width=100)


def report(result: Result) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def verdicts(result: Result) -> dict[str, str]:
    return {each["id"]: each["verdict"] for each in report(result)["checks"]}


# ---- the emulators -------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_moto_differs_as_listed_and_nowhere_else(url: str) -> None:
    """Every check is looked at, the differences seen are those of the list, and the exit code is 0."""
    result = run(url, "--expect", "moto", "-o", "json")
    found = verdicts(result)
    assert {id_ for id_, verdict in found.items() if verdict != "as documented"} == set(EXPECTED["moto"])
    assert list(found) == [each.id for each in CHECKS]
    assert result.exit_code == 0
    assert all(each["seen"] and each["page"].startswith("https://") for each in report(result)["checks"])


@pytest.mark.slow
@pytest.mark.ministack
def test_ministack_differs_as_listed_and_nowhere_else(ministack_url: str) -> None:
    """The same of ministack, whose lies are others."""
    result = run(ministack_url, "--expect", "ministack", "-o", "json")
    found = verdicts(result)
    assert {id_ for id_, verdict in found.items() if verdict != "as documented"} == set(EXPECTED["ministack"])
    assert list(found) == [each.id for each in CHECKS]
    assert result.exit_code == 0
    assert left_behind(ministack_url) == []


# ---- what turns it red ---------------------------------------------------------------------------------------------
def test_a_difference_that_is_not_listed_turns_it_red(url: str) -> None:
    """Without --expect moto's characters are a failure, told with AWS's page."""
    result = run(url, "--only", "characters", "--only", "receive-count")
    assert result.exit_code == 1
    assert "DIFFERENT" in result.stdout
    assert "API_SendMessage.html" in result.stderr


def test_a_listed_difference_that_is_none_turns_it_red(url: str) -> None:
    """moto is honest where ministack is not: the wrong list is told, and not passed over."""
    result = run(url, "--expect", "ministack", "--only", "visibility-bound", "-o", "json")
    assert result.exit_code == 1
    assert verdicts(result) == {"visibility-bound": "not different"}


def test_a_wrong_expectation_of_aws_turns_it_red(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that documents what no back end does is red, and its neighbours are looked at all the same."""

    def look(sandbox: Sandbox) -> Seen:
        line = sandbox.queue()
        line.send("a")
        return Seen(line.quiet(), "it came")

    wrong = Check("wrong", "a message that was sent is never received", "https://nowhere.example", look)
    good = next(each for each in CHECKS if each.id == "receive-count")
    monkeypatch.setattr(command, "CHECKS", (wrong, good))
    result = run(url, "--expect", "moto", "-o", "json")
    assert result.exit_code == 1
    assert verdicts(result) == {"wrong": "different", "receive-count": "as documented"}


def test_a_call_that_is_refused_is_a_finding_of_its_check(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A back end that lacks something is told so for that check; the others are looked at, and all is removed."""

    def look(sandbox: Sandbox) -> Seen:
        sandbox.queue()
        sandbox.clients.sqs.get_queue_url(QueueName="nobody's")
        return Seen(True, "")

    good = next(each for each in CHECKS if each.id == "receive-count")
    monkeypatch.setattr(command, "CHECKS", (Check("lacking", "…", "https://nowhere.example", look), good))
    result = run(url, "-o", "json")
    assert result.exit_code == 1
    first, second = report(result)["checks"]
    assert first["seen"].startswith("GetQueueUrl refused: ")
    assert second["verdict"] == "as documented"


# ---- nothing is left behind ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("error", [ZeroDivisionError("a defect"), KeyboardInterrupt()])
def test_all_is_removed_whatever_ends_it(url: str, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Queue, table with items and bucket with an object were there, and the run fails; nothing is left of them."""
    made: list[str] = []

    def look(sandbox: Sandbox) -> Seen:
        sandbox.queue_with_dead(3, fifo=True)
        sandbox.clients.s3.put_object(Bucket=sandbox.bucket_name, Key="payloads/x", Body=b"x")
        made.extend(left_behind(url) if sandbox.table_name else ())
        raise error

    monkeypatch.setattr(command, "CHECKS", (Check("breaks", "…", "https://nowhere.example", look),))
    assert run(url).exit_code == 1
    assert len(made) == 4
    assert left_behind(url) == []


UNENDING = """
import threading
from tenure.cli import conformance, main
from tenure.conformance.check import Check

def look(sandbox):
    sandbox.queue_with_dead(3, fifo=True)
    sandbox.clients.s3.put_object(Bucket=sandbox.bucket_name, Key="payloads/x", Body=b"x")
    print("made", sandbox.table_name, flush=True)
    threading.Event().wait()

conformance.CHECKS = (Check("unending", "it ends", "https://nowhere.example", look),)
main.main()
"""


@pytest.mark.slow
def test_an_interrupted_run_removes_what_it_made(url: str) -> None:
    """A real Ctrl-C, sent to a real process in the midst of a check, which by itself would never end."""
    arguments = ["conformance", "--endpoint-url", url]
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", UNENDING, *arguments], stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()  # nothing, if it died
            made = left_behind(url) if told else []
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=300)
        finally:
            process.kill()
    assert told.startswith(f"made {PREFIX}"), (told, out, err)
    assert len(made) == 4
    assert process.returncode == 1, (out, err)
    assert "Aborted" in err
    assert "Traceback" not in err


def test_what_cannot_be_removed_is_named_and_turns_it_red(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket that somebody fills faster than it is emptied, say: the name is told, so that a person can do it."""
    remove = Sandbox.remove
    monkeypatch.setattr(Sandbox, "remove", lambda self: [*remove(self), f"bucket {self.prefix}: not empty"])
    result = run(url, "--only", "receive-count")
    assert result.exit_code == 1
    assert f"bucket {PREFIX}" in result.stderr
    assert "Remove it by hand" in " ".join(result.stderr.split())


# ---- a real account ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("arguments", [["--region", "eu-west-1"], ["--endpoint-url", "https://emulator.example"]])
def test_it_never_runs_by_itself_on_what_is_not_this_machine(arguments: list[str]) -> None:
    """Without --yes nothing is asked of anybody (the network guard would fail the test), and cost and time are told."""
    result = CliRunner().invoke(cli, ["conformance", *arguments])
    told = " ".join(result.stderr.split())
    assert result.exit_code == 2
    assert result.stdout == ""
    assert all(word in told for word in ("nothing was run", "--yes", "cent", "minutes", PREFIX))


def test_one_endpoint_elsewhere_makes_it_real(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQS on this machine and the table in an account is an account."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", url)
    result = CliRunner().invoke(cli, ["conformance", "--region", "eu-west-1"])
    assert result.exit_code == 2
    assert "amazonaws.com" in result.stderr


def test_unknown_checks_are_refused_with_those_there_are() -> None:
    """A misspelt --only does not pass as a run without failures."""
    result = CliRunner().invoke(cli, ["conformance", "--only", "fifo_*"])
    assert result.exit_code == 2
    assert "fifo-group-lock" in result.stderr


def test_only_checks_that_exist_are_listed_as_different() -> None:
    """A renamed check takes its entry along."""
    ids = {each.id for each in CHECKS}
    assert len(ids) == len(CHECKS)
    assert all(set(listed) <= ids for listed in EXPECTED.values())


def test_the_page_tells_of_every_check_and_every_difference() -> None:
    """docs/conformance.md has the table that checks and list make."""
    page = draw_conformance.PAGE.read_text(encoding="utf-8")
    assert page == draw_conformance.with_table(page), "run: python -m tools.draw_conformance"
