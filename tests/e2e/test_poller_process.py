"""`python -m functions.poller` as a container runs it: real processes, real signals, an emulator behind a port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock
from tenure.adapters.dynamodb import DynamoStore
from tenure.core.task import Row, State
from tenure.core.topology import Pool, Queue, Topology
from tenure.local import atomic_moto
from tenure.local.emulator import Emulator
from tenure.local.provision import provision
from tenure.rows import Rows
from tenure.wiring.producer import client_of
from tests.e2e.poller_app import app, hold, kill, quick

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 100.0
"""When a test gives up waiting for a condition."""


class Container:
    """The container's first process, and the environment it works in."""

    def __init__(self, emulator: Emulator, folder: Path, threads: int) -> None:
        self.emulator = emulator
        self.notes = folder / "notes"
        self.notes.touch()
        self.folder = folder
        self.clients: Clients = emulator.clients(SystemClock().now_ms)
        topology = Topology(
            app="polled",
            environment=f"test-{folder.name[-12:].strip('-_').replace('_', '-')}",
            queues=(Queue(name="work", pool="steady"),),
            pools=(Pool(name="steady", kind="fargate", threads=threads),),
        )
        self.topology = provision(topology, self.clients)
        self.url = self.topology.tier("work").url
        app.connect(client=client_of(self.topology, self.clients, {}))
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        variables = {
            **self.emulator.environment(),
            "PATH": os.environ["PATH"],
            "TENURE_APP": "tests.e2e.poller_app:app",
            "TENURE_ENVIRONMENT": self.topology.environment,
            "TENURE_POOL": "steady",
            "TENURE_TOPOLOGY": self.topology.model_dump_json(),
            "TENURE_LIVENESS_FILE": str(self.folder / "alive"),
            "POLLED_NOTES": str(self.notes),
        }
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "functions.poller"], cwd=ROOT, env=variables, stdout=log, stderr=log, text=True
            )

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def lines(self) -> list[str]:
        return self.notes.read_text().splitlines()

    def visible(self) -> int:
        told: Any = self.clients.sqs.get_queue_attributes(
            QueueUrl=self.url, AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(told["Attributes"]["ApproximateNumberOfMessages"])

    def row(self, task_id: str) -> Row:
        row = Rows(DynamoStore(self.clients.dynamodb, self.topology.table_name, SystemClock())).get(task_id)
        assert row is not None
        return row

    def wait(self, holds: Callable[[], bool]) -> float:
        """Until it holds; the seconds it took."""
        began = time.monotonic()
        while not holds():
            assert time.monotonic() - began < SECONDS_MAX, (self.lines(), self.log()[-3000:])
            time.sleep(0.05)
        return time.monotonic() - began

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> int:
        assert self.process is not None
        return self.process.wait(SECONDS_MAX)


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator() as running:
        yield running


@pytest.fixture
def container(emulator: Emulator, tmp_path: Path) -> Iterator[Container]:
    atomic_moto.HURRY.clear()  # what an earlier test's hurry left behind
    made = Container(emulator, tmp_path, threads=1)
    made.start()
    yield made
    if made.process is not None and made.process.poll() is None:
        for child in children(made.process.pid):
            os.kill(child, signal.SIGKILL)
        made.process.kill()
        made.process.wait()


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_in_mid_task(container: Container, number: int) -> None:
    """S25: one handler runs and four tasks wait. After the signal none starts, the running one ends in peace, the
    process with code 0; then another container does the rest, each once and at its first attempt."""
    handles = [hold.submit(name) for name in "abcde"]
    container.wait(lambda: len(container.lines()) == 1)
    container.signal(number)
    container.wait(lambda: "worker.draining" in container.log())
    assert container.visible() == 4
    running = container.lines()[0].removeprefix("start ")
    (container.folder / running).touch()
    assert container.end() == 0
    assert container.lines() == [f"start {running}", f"end {running}"]
    rows = [container.row(handle.id) for handle in handles]
    assert sorted(row.state for row in rows) == [State.COMPLETED] + [State.QUEUED] * 4
    assert all((row.attempt, row.lease_token) == (1, "") for row in rows)

    for name in "abcde":
        (container.folder / name).touch()
    container.start()
    container.wait(lambda: len(container.lines()) == 10)
    container.signal(signal.SIGTERM)
    container.emulator.hurry()
    assert container.end() == 0
    assert [container.row(handle.id).attempt for handle in handles] == [1] * 5


def test_a_message_that_a_poll_brings_after_sigterm_goes_back(container: Container) -> None:
    """S25: the signal comes in a 20 s long poll, then a message does; it is visible again before the process ends."""
    container.wait(lambda: (container.folder / "alive.0").exists())
    container.signal(signal.SIGTERM)
    container.wait(lambda: "worker.draining" in container.log())
    handle = quick.submit("late")
    assert container.end() == 0
    assert container.lines() == []
    received: Any = container.clients.sqs.receive_message(
        QueueUrl=container.url, MessageSystemAttributeNames=["ApproximateReceiveCount"]
    )
    assert [each["Attributes"]["ApproximateReceiveCount"] for each in received["Messages"]] == ["2"]
    row = container.row(handle.id)
    assert (row.state, row.fence) == (State.QUEUED, 0)


def test_the_health_check_of_a_running_container(container: Container) -> None:
    container.wait(lambda: (container.folder / "alive.0").exists())
    done = subprocess.run(
        [sys.executable, "-m", "functions.poller.health"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "TENURE_LIVENESS_FILE": str(container.folder / "alive")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "alive\n")


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_task_that_kills_its_process_each_time_ends_as_a_dead_letter(container: Container) -> None:
    """S31: three starts, each taking the process with it; then it is buried as worker_lost, its letter lies in the DLQ,
    and a healthy task of the same queue is done in between. The container itself lives on."""
    container.clients.sqs.set_queue_attributes(QueueUrl=container.url, Attributes={"VisibilityTimeout": "10"})
    killer = kill.submit("killer")
    container.wait(lambda: container.lines() == ["start killer 1"])
    healthy = quick.submit("healthy")
    container.wait(lambda: container.row(healthy.id).final)
    container.wait(lambda: container.row(killer.id).final)
    row = container.row(killer.id)
    assert (row.state, row.reason, row.attempt, row.losses) == (State.DEAD_LETTERED, "worker_lost", 3, 3)
    assert [line for line in container.lines() if "killer" in line] == [f"start killer {n}" for n in (1, 2, 3)]
    assert container.row(healthy.id).state is State.COMPLETED
    letters = container.clients.sqs.receive_message(
        QueueUrl=container.topology.tier("work").dead_url, MessageAttributeNames=["All"]
    )["Messages"]
    assert [letter["MessageAttributes"]["tenure-reason"]["StringValue"] for letter in letters] == ["worker_lost"]
    assert container.log().count('"worker.crashed"') == 3
    container.signal(signal.SIGTERM)
    container.emulator.hurry()
    assert container.end() == 0
