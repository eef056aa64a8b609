"""No emulator denies anything: so what each role asks for is recorded, and must be granted; and what is granted and
never asked for has its reason here. A new call fails until it is granted; a right that nobody needs, until it is gone.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from moto import mock_aws

import tenure
from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock, SystemThreads
from tenure.cli.main import cli
from tenure.config import worker_config
from tenure.core import machine
from tenure.core.machine import Lease, Stamp
from tenure.core.outcome import named
from tenure.core.submission import Options
from tenure.core.topology import Pool, Queue, Topology
from tenure.local import atomic_moto
from tenure.maintenance.reconcile import Reconcile
from tenure.rows import Stands
from tenure.wiring.maintenance import parts_of
from tenure.wiring.poller import poller_of
from tenure.wiring.producer import connect
from tenure.wiring.worker import worker_of
from tests.infra.assembly import Assembly
from tests.infra.recording import Right, granted, recorded
from tests.support.deployed import Deployed

app = tenure.App("rights")
LARGE = "x" * 60_000
"""Above what the table keeps and above what travels in a message: it goes through the bucket, both ways."""
HOURS_LATER_MS = 6 * 3_600_000


@app.task(queue="work")
def work(text: str) -> str:
    return text


@app.task(queue="work", retry=tenure.Retry(max_attempts=2, base="1s", cap="1s"))
def fails(text: str) -> None:
    raise RuntimeError(text)


@app.task(queue="work")
def gives_up(text: str) -> None:
    raise tenure.GiveUp(text)


@app.task(queue="work")
def remembers(text: str) -> str:
    tenure.context().checkpoint(text)
    return text


TOPOLOGY = Topology(
    app="rights",
    environment="test",
    queues=(Queue(name="work", pool="quick"),),
    pools=(Pool(name="quick", kind="fargate", longest_runtime_seconds=300),),
)

UNASKED: dict[str, dict[Right, str]] = {
    "producer": {
        ("s3:ListBucket", "bucket"): "else S3 answers 403, not 404, for a payload that has passed away",
    },
    "worker": {
        ("logs:CreateLogStream", "logs"): "Lambda itself writes the log, by the function's role",
        ("logs:PutLogEvents", "logs"): "Lambda itself writes the log, by the function's role",
        ("sqs:GetQueueAttributes", "main"): "Lambda's poller asks, by the function's role",
        ("s3:ListBucket", "bucket"): "else S3 answers 403, not 404, for a payload that has passed away",
        ("s3:GetObject", "files"): "the handlers' own files",
        ("s3:PutObject", "files"): "the handlers' own files",
        ("s3:ListBucket", "files"): "the handlers' own files",
    },
    "duty": {
        ("logs:CreateLogStream", "logs"): "Lambda itself writes the log, by the function's role",
        ("logs:PutLogEvents", "logs"): "Lambda itself writes the log, by the function's role",
    },
    "reconcile": {
        ("logs:CreateLogStream", "logs"): "Lambda itself writes the log, by the function's role",
        ("logs:PutLogEvents", "logs"): "Lambda itself writes the log, by the function's role",
        ("s3:ListBucket", "bucket"): "else S3 answers 403, not 404, for a payload that has passed away",
    },
}


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    loggers = [logging.getLogger(name) for name in ("tenure", "tenure.task", "")]
    before = [(logger, list(logger.handlers), logger.propagate, logger.level) for logger in loggers]
    atomic_moto.install()
    with mock_aws():
        made = Deployed(TOPOLOGY)
        for name, value in made.variables(f"{__name__}:app", "quick").items():
            monkeypatch.setenv(name, value)
        yield made
    for logger, handlers, propagate, level in before:
        logger.handlers[:] = handlers
        logger.propagate, logger.level = propagate, level
    atomic_moto.HURRY.clear()


def submit_all(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A producer's whole life, with the environment found by its name; handles by what they are."""
    monkeypatch.delenv("TENURE_TOPOLOGY", raising=False)
    client = connect("rights", environment="test")
    app.connect(client=client)
    return {
        "small": work.submit("a"),
        "large": work.submit(LARGE),
        "same": work.options(idempotency_key="k").submit("b"),
        "again": work.options(idempotency_key="k").submit("b"),
        "later": work.options(delay="20m").submit("c"),
        "retried": fails.submit("d"),
        "dead": gives_up.submit("e"),
        "kept": remembers.submit(LARGE),
        "named": client.submit("work", {"text": "f"}, queue="work", options=Options()),
    }


def work_off(deployed: Deployed, wanted: Callable[[], bool]) -> None:
    """A worker serves until `wanted()`, then drains."""
    worker = worker_of(worker_config(deployed.variables(f"{__name__}:app", "quick")))
    poller = poller_of(worker)
    threads, clock = SystemThreads(), SystemClock()
    atomic_moto.HURRY.clear()

    def watch() -> None:
        end_ms = clock.now_ms() + 60_000
        while not wanted() and clock.now_ms() < end_ms:
            clock.sleep(0.1)
        poller.drain()
        atomic_moto.HURRY.set()  # a drain waits for the long polls that are under way

    threads.start("watch", watch)
    assert poller.run() == 0
    assert wanted(), "the worker did not work everything off"


def ended(handles: dict[str, Any], *names: str) -> Callable[[], bool]:
    final = ("completed", "dead_lettered", "cancelled")
    return lambda: all(handles[name].status().state.value in final for name in names)


def statements(assembly: Assembly, part: str, role: str) -> list[dict[str, Any]]:
    """The statements of the role, or of the managed policy, whose logical id begins so."""
    template = assembly.template("dev", part)
    kinds = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
    found = [p for kind in kinds for name, p in template.properties(kind).items() if name.startswith(role)]
    assert len(found) == 1, f"{len(found)} policies begin with {role}"
    told: list[dict[str, Any]] = found[0]["PolicyDocument"]["Statement"]
    return told


def hold(asked: set[Right], given: set[Right], unasked: dict[Right, str]) -> None:
    assert asked <= given, f"asked for and not granted: {sorted(asked - given)}"
    without_reason = given - asked - set(unasked)
    assert not without_reason, f"granted, never asked for, and no reason given: {sorted(without_reason)}"
    stale = set(unasked) - given
    assert not stale, f"a reason for what is not granted: {sorted(stale)}"


def test_a_producer_has_what_it_asks_for(deployed, assembly, monkeypatch):
    """Submitting small and large, with keys and delays; following and cancelling; reading results."""
    with recorded(monkeypatch) as asked:
        handles = submit_all(deployed, monkeypatch)
        handles["later"].cancel(reason="not needed")
        rights = set(asked)
    work_off(deployed, ended(handles, "small", "large"))
    with recorded(monkeypatch) as asked:
        client = connect("rights", environment="test")
        assert client.handle(handles["large"].id).result() is not None
        client.handle(handles["small"].id).why()
        rights |= asked
    hold(rights, granted(statements(assembly, "operations", "PeopleProducer")), UNASKED["producer"])


def test_a_worker_has_what_it_asks_for(deployed, assembly, monkeypatch):
    """Receiving, running, retrying, burying, quarantining, large payloads, results and checkpoints, on either runtime:
    the poller asks for all that a function does, and receives besides."""
    handles = submit_all(deployed, monkeypatch)
    deployed.aws.sqs.send_message(QueueUrl=deployed.topology.tier("work").url, MessageBody="not ours")
    finished = ended(handles, "small", "large", "same", "retried", "dead", "kept", "named")
    dead_url = deployed.topology.tier("work").dead_url
    with recorded(monkeypatch) as asked:
        work_off(deployed, lambda: finished() and deployed.depth(dead_url) >= 3)
        rights = set(asked)
    given = granted(statements(assembly, "compute", "WorkersqueuemediaWorkerRole"))
    hold(rights, given, UNASKED["worker"])
    poller = granted(statements(assembly, "compute", "WorkerspoolheavyRole"))
    spared = {("ecs:GetTaskProtection", "tasks"), ("ecs:UpdateTaskProtection", "tasks")}
    assert spared < poller, "the agent asks ECS with the task's role (worker/protection.py)"
    assert poller - spared == {right for right in given if right[1] != "logs"}, "ECS writes a container's log itself"


def duty(name: str, event: dict[str, Any]) -> Any:
    """The handler of a duty, freshly imported as in a cold start, called once."""
    sys.modules.pop(f"functions.{name}.handler", None)
    handler = importlib.import_module(f"functions.{name}.handler").handler
    sys.modules.pop(f"functions.{name}.handler")
    return handler(event, SimpleNamespace(get_remaining_time_in_millis=lambda: 300_000))


def duty_grants(assembly: Assembly, name: str) -> set[Right]:
    return granted(statements(assembly, "compute", f"Workersduty{name}Duty"))


def lose_a_letter(deployed: Deployed, row_id: str) -> None:
    """A worker buried the task and died before it sent the letter."""
    parts = parts_of(deployed.topology, deployed.aws)
    row = parts.rows.get(row_id)
    assert row is not None
    stamp = Stamp(parts.clock.now_ms(), parts.entropy.token(), "test")
    claimed = machine.claim(row, stamp, Lease(60, "token", "w", True, 5))
    buried = machine.bury(claimed, replace(stamp, write_id=parts.entropy.token()), named("Wrong", "lost"), "gave_up")
    assert isinstance(parts.rows.replace(row, claimed), Stands)
    assert isinstance(parts.rows.replace(claimed, buried), Stands)


def buried_tasks(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    handles = submit_all(deployed, monkeypatch)
    work_off(deployed, ended(handles, "dead", "retried", "large"))
    for name, value in deployed.variables(f"{__name__}:app", "quick").items():
        monkeypatch.setenv(name, value)
    return handles


def test_reconcile_has_what_it_asks_for(deployed, assembly, monkeypatch):
    """By the function, and hours later: what was never worked off is sent again, and a letter that was never sent."""
    handles = submit_all(deployed, monkeypatch)
    lose_a_letter(deployed, handles["small"].id)
    for name, value in deployed.variables(f"{__name__}:app", "quick").items():
        monkeypatch.setenv(name, value)
    with recorded(monkeypatch) as asked:
        duty("reconcile", {})
        later = SystemClock(lambda: HOURS_LATER_MS)
        deployed.aws.sqs.purge_queue(QueueUrl=deployed.topology.tier("work").url)
        Reconcile(parts_of(deployed.topology, Clients(later.now_ms), clock=later)).run_once(None)
        rights = set(asked)
    hold(rights, duty_grants(assembly, "reconcile"), UNASKED["reconcile"])


def test_replay_has_what_it_asks_for(deployed, assembly, monkeypatch):
    handles = buried_tasks(deployed, monkeypatch)
    with recorded(monkeypatch) as asked:
        duty("replay", {})  # a tick of its schedule
        duty("replay", {"filter": "state:dead_lettered"})
        done = duty("replay", {"filter": "state:dead_lettered", "reason": "mended", "by": "ann", "dry_run": False})
        assert done["replay"]["replayed"] == 2
    work_off(deployed, ended(handles, "dead"))
    with recorded(monkeypatch) as asked_again:
        edited = {"payload": json.dumps({"text": LARGE}), "reason": "mended", "by": "ann", "dry_run": False}
        duty("replay", {"filter": f"id:{handles['dead'].id}", **edited})
        asked |= asked_again
    hold(asked, duty_grants(assembly, "replay"), UNASKED["duty"])


def moved_by_sqs(deployed: Deployed, row_id: str) -> None:
    """SQS moves the task's message into the DLQ by itself."""
    tier = deployed.topology.tier("work")
    found = deployed.aws.sqs.receive_message(QueueUrl=tier.url, MaxNumberOfMessages=10, VisibilityTimeout=0)["Messages"]
    (message,) = [each for each in found if json.loads(each["Body"])["id"] == row_id]
    deployed.aws.sqs.delete_message(QueueUrl=tier.url, ReceiptHandle=message["ReceiptHandle"])
    deployed.aws.sqs.send_message(QueueUrl=tier.dead_url, MessageBody=message["Body"])


def lose_its_worker(deployed: Deployed, row_id: str) -> None:
    """A worker claimed the task for the only attempt that it has, and died."""
    parts = parts_of(deployed.topology, deployed.aws)
    row = parts.rows.get(row_id)
    assert row is not None
    long_ago = Stamp(parts.clock.now_ms() - HOURS_LATER_MS, parts.entropy.token(), "test")
    assert isinstance(parts.rows.replace(row, machine.claim(row, long_ago, Lease(60, "token", "w", True, 1))), Stands)


def test_ingest_has_what_it_asks_for(deployed, assembly, monkeypatch):
    """A message that SQS moved into the DLQ by itself goes back to work; one whose task has no attempt left is
    buried, with a letter that says why."""
    handles = buried_tasks(deployed, monkeypatch)
    waiting = work.submit(LARGE)
    moved_by_sqs(deployed, waiting.id)
    spent = work.submit("spent")
    moved_by_sqs(deployed, spent.id)
    lose_its_worker(deployed, spent.id)
    with recorded(monkeypatch) as asked:
        duty("ingest", {"force": True})
        rights = set(asked)
    assert waiting.status().state.value == "queued"
    assert spent.status().state.value == "dead_lettered"
    assert handles
    hold(rights, duty_grants(assembly, "ingest"), UNASKED["duty"])


def run(*arguments: str, expect: tuple[int, ...] = (0,)) -> str:
    result = CliRunner().invoke(cli, [*arguments, "--app", "rights", "--env", "test"])
    assert result.exit_code in expect, f"{arguments}: exit {result.exit_code}\n{result.output}"
    return result.output


def test_operators_have_what_their_commands_ask_for(deployed, assembly, monkeypatch, tmp_path: Path):
    """Looking asks for no more than looking; acting for no more than both."""
    handles = buried_tasks(deployed, monkeypatch)
    monkeypatch.chdir(tmp_path)
    dead, large = handles["dead"].id, handles["large"].id
    with recorded(monkeypatch) as looked:
        for command in (["queues"], ["ls", "state:dead_lettered"], ["show", large], ["why", dead], ["dead"], ["audit"]):
            run(*command, expect=(0, 3))
        run("dead", "show", dead)
        run("doctor", expect=(0, 1))
        looking = set(looked)
    reads = granted(statements(assembly, "operations", "PeopleOperatorReadOnly"))
    assert looking <= reads, f"looking asks for more than looking: {sorted(looking - reads)}"
    with recorded(monkeypatch) as acted:
        run("pause", "work", "--reason", "a test")
        run("resume", "work", "--reason", "a test")
        run("cancel", handles["later"].id, "--reason", "a test", expect=(0, 3))
        run("replay", f"id:{dead}", "--reason", "a test", "--yes", expect=(0, 4))
        run("discard", "state:dead_lettered", "--reason", "a test", "--yes", expect=(0, 3))
        run("reconcile", "--letters")
        acting = set(acted)
    acts = granted(statements(assembly, "operations", "PeopleOperatorActing"))
    assert acting <= reads | acts, f"acting asks for more: {sorted(acting - reads - acts)}"
    seldom = {
        ("sqs:SendMessage", "dead"): "reconcile sends a letter that is missing; none was",
        ("sqs:ChangeMessageVisibility", "dead"): "a letter that is read and left is shown again; none was",
    }
    assert acts - acting <= set(seldom), f"granted, never asked for: {sorted(acts - acting)}"
    assert not {action for action, _ in acts} & {"sqs:PurgeQueue", "dynamodb:DeleteItem", "sqs:SetQueueAttributes"}


def test_no_action_is_a_star_and_every_star_in_a_resource_is_accounted_for(assembly):
    """All environments. Those of the CDK's own helper, which empties a bucket, are AWS's managed policies."""
    for template in assembly.templates():
        for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::Role"):
            for name, properties in template.properties(kind).items():
                documents = [properties["PolicyDocument"]] if "PolicyDocument" in properties else []
                documents += [each["PolicyDocument"] for each in properties.get("Policies", [])]
                for statement in (s for document in documents for s in document["Statement"]):
                    actions = statement["Action"]
                    assert not [a for a in ([actions] if isinstance(actions, str) else actions) if "*" in a], name
                    resource = json.dumps(statement.get("Resource", ""))
                    if "*" in resource:
                        known = (
                            "/payloads/*",
                            "/tenure/restaurant/",
                            "FilesBucket",
                            "ecr:GetAuthorizationToken",
                            ":task/",
                        )
                        assert any(mark in resource + json.dumps(actions) for mark in known), (name, resource)


def test_a_worker_reaches_no_queue_but_its_own(assembly):
    template = assembly.template("prod", "compute")
    for queue in ("media", "ledger", "partners"):
        text = json.dumps(statements_of(template, f"Workersqueue{queue}WorkerRole"))
        assert f"Stores{queue}" in text
        for other in {"media", "ledger", "partners", "reports"} - {queue}:
            assert f"Stores{other}" not in text


def statements_of(template, role):
    (found,) = [p for name, p in template.properties("AWS::IAM::Policy").items() if name.startswith(role)]
    return found["PolicyDocument"]["Statement"]
