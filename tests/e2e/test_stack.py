"""The embedded stack with real processes: Lambda and Fargate pools, order, deaths, and an end that leaves nothing."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure import Cancellation, TaskFailed
from tenure.core.task import State
from tenure.core.topology import Pool, Queue, Topology
from tenure.local.stack import EmbeddedStack, StackOptions
from tenure.wiring.producer import client_of
from tests.e2e.stack_app import app, append, dies, flaky, who

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 90.0

TOPOLOGY = Topology(
    app="stacked",
    environment="test",
    queues=(
        Queue(name="quick", pool="short"),
        Queue(name="ordered", pool="short", ordered=True),
        Queue(name="steady", pool="long"),
    ),
    pools=(Pool(name="short", longest_runtime_seconds=20), Pool(name="long", kind="fargate", threads=2)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stack")


@pytest.fixture(scope="module")
def stack(folder: Path) -> Iterator[EmbeddedStack]:
    options = StackOptions(ROOT, folder / "logs", environments_max=2, variables={"STACK_FOLDER": str(folder)})
    tasks = [task.facts() for task in app.tasks.values()]
    with EmbeddedStack(TOPOLOGY, "tests.e2e.stack_app:app", options, tasks=tasks) as running:
        app.connect(client=client_of(running.topology, running.clients, {}))
        yield running


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, f"gave up waiting: {what}"
        time.sleep(0.05)


def test_a_lambda_pool_retries_and_completes(stack: EmbeddedStack) -> None:
    """The real runtime under the stand-in's mapping: a failed attempt comes back by its visibility."""
    assert flaky.submit(fails=1).result("60s") == 2


def test_a_task_whose_attempts_are_used_up_is_a_dead_letter_with_its_letter(stack: EmbeddedStack) -> None:
    """Row, letter and reason, on the embedded stack as on AWS."""
    handle = flaky.submit(fails=5)
    with pytest.raises(TaskFailed, match="attempt 2"):
        handle.result("60s")
    tier = stack.topology.tier("quick")

    def letters() -> int:
        names = ["ApproximateNumberOfMessages"]
        found = stack.clients.sqs.get_queue_attributes(QueueUrl=tier.dead_url, AttributeNames=names)  # type: ignore[arg-type] # the stubs want literals
        return int(found["Attributes"][names[0]])

    until(lambda: letters() == 1, "the letter")


def test_an_ordering_key_keeps_its_order(stack: EmbeddedStack, folder: Path) -> None:
    """Three keys, five tasks each: every file is in the order of its submits."""
    handles = [append.submit(key=key, number=number) for number in range(5) for key in ("a", "b", "c")]
    assert [handle.result("60s") for handle in handles] == [number for number in range(5) for _ in range(3)]
    for key in ("a", "b", "c"):
        assert (folder / key).read_text().split() == ["0", "1", "2", "3", "4"]


def test_a_killed_worker_is_replaced_and_its_task_taken_over(stack: EmbeddedStack) -> None:
    """kill -9 in the middle: another process ends the task, at the cost of a lease."""
    (process,) = stack.processes["long"]
    handle = who.submit(seconds=8.0)
    until(lambda: handle.status().state is State.LEASED, "the claim")
    # Its first beat, at a third of the lease, shortens the message's wait from the queue's minute to the lease.
    until(lambda: handle.status().last_heartbeat_at_ms > handle.status().started_at_ms, "the first beat")
    dead = process.pid
    process.kill()
    assert handle.result("90s") != dead
    assert any(what == "worker died" and f"pid {dead}" in detail for _, what, detail in stack.notes)


def test_a_handler_that_kills_its_lambda_is_buried_as_worker_lost(stack: EmbeddedStack) -> None:
    """Nobody is left to tell: the next to meet the lapsed lease buries it, and neighbours go on."""
    handle = dies.submit()
    assert flaky.submit(fails=0).result("60s") == 1
    with pytest.raises(TaskFailed, match="WorkerLost"):
        handle.result("90s")


def test_a_waiting_task_is_cancelled(stack: EmbeddedStack) -> None:
    """What no worker has yet ends at once."""
    handle = who.options(delay="10m").submit()
    assert handle.cancel("not needed") is Cancellation.CANCELLED
    assert handle.status().state is State.CANCELLED
