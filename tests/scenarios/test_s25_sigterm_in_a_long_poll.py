"""S25: SIGTERM while a long poll is in flight, or messages wait: nothing is received by nobody."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tenure.application import App
from tenure.core.retry import Retry
from tenure.core.task import State
from tenure.ports import Delivery
from tenure.worker.context import context
from tests.support.lab import Lab
from tests.support.runtimes import Served, serve

SEEDS = range(100)


class Generous:
    """A queue that hands out up to five messages however few are asked for: the buffered messages of the scenario."""

    def __init__(self, lab: Lab) -> None:
        self._queue = lab.queue

    def __getattr__(self, name: str) -> object:
        return getattr(self._queue, name)

    def receive(self, limit: int, wait_seconds: int, visibility_seconds: int | None = None) -> list[Delivery]:
        return self._queue.receive(5, wait_seconds, visibility_seconds)


class Shift:
    """A poller of one thread, a handler that takes its time, and what was called when."""

    def __init__(self, seed: int, queue: str = "work", handler_seconds: float = 40) -> None:
        app = App("lab")
        self.lab = Lab(app, queue)
        self.random = Random(seed)
        self.lab.world.scheduler.random = Random(seed + 1)
        self.started: list[tuple[int, str]] = []
        self.ended: list[str] = []
        clock = self.lab.world.clock

        def work(key: str = "") -> str:
            self.started.append((clock.now_ms(), key))
            clock.sleep(handler_seconds)
            self.ended.append(key)
            return key

        options = {"ordered_by": "key"} if queue == "ledger" else {}
        app.task(queue=queue, name="work", **options)(work)

    def submit(self, keys: Sequence[str]) -> list[str]:
        ordering = self.lab.tier.ordered
        return [self.lab.submit(args={"key": k}, ordering_key="k" if ordering else "") for k in keys]

    def serve(self, **parts: object) -> Served:
        return serve(self.lab, queue=Generous(self.lab), **parts)  # type: ignore[arg-type] - it is one by delegation

    def unstarted(self, ids: Sequence[str]) -> list[str]:
        return [i for i in ids if self.lab.row(i).state is not State.COMPLETED]


@pytest.mark.parametrize("seed", SEEDS)
def test_unstarted_messages_go_back_at_once_and_nothing_starts_after_sigterm(seed):
    """One handler runs, four messages wait; SIGTERM comes at any moment around the receive that brings them."""
    shift = Shift(seed)
    lab, world = shift.lab, shift.lab.world
    served = shift.serve()
    world.run(seconds=shift.random.random() * 10)  # somewhere in its long poll
    ids = shift.submit(["a", "b", "c", "d", "e"])
    world.run(seconds=shift.random.random() * 6)
    served.poller.drain()
    asked_at = world.clock.now_ms()
    world.run(seconds=1)
    running = [key for _, key in shift.started]
    # A second later a neighbour can receive all that was not started, in the order it was sent.
    visible = lab.queue.receive(10, 0, 0)
    assert len(visible) == 5 - len(running)
    assert len(running) <= 1
    world.run(until=lambda: served.ended)
    assert served.codes == [0]
    assert all(at <= asked_at + 200 for at, _ in shift.started)
    assert shift.ended == running
    assert world.clock.now_ms() - asked_at < 115_000
    for task_id in shift.unstarted(ids):
        row = lab.row(task_id)
        assert (row.state, row.attempt, row.failures, row.losses) == (State.QUEUED, 1, 0, 0)
        assert (row.lease_token, row.lease_end_at_ms) == ("", 0)
    # And nothing is lost: the next worker does the rest, each once.
    lab.work_until_quiet(step_seconds=70)
    assert sorted(shift.ended) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("seed", range(20))
def test_an_ordered_group_goes_back_in_order(seed):
    """The rest of a group is not started after its head, and the next worker finds it in order."""
    shift = Shift(seed, queue="ledger")
    lab, world = shift.lab, shift.lab.world
    served = shift.serve()
    ids = shift.submit(["a", "b", "c", "d"])
    world.run(seconds=1 + shift.random.random() * 100)
    served.poller.drain()
    asked_at = world.clock.now_ms()
    world.run(until=lambda: served.ended)
    assert served.codes == [0]
    assert all(at <= asked_at + 200 for at, _ in shift.started)
    done = list(shift.ended)
    assert done == ["a", "b", "c", "d"][: len(done)]
    assert all(lab.row(i).attempt == 1 for i in ids)
    lab.work_until_quiet(step_seconds=61)
    assert shift.ended == ["a", "b", "c", "d"]


def test_a_running_handler_gets_the_stop_window_and_is_then_told_to_stop():
    """It outlasts the window: it is told, returns by raising, and its task goes back (a started one: it counts)."""
    app = App("lab")
    lab = Lab(app)
    clock = lab.world.clock
    told_after: list[float] = []

    def work(key: str = "") -> str:
        began = clock.now_ms()
        while not context().cancelled:
            clock.sleep(1)
        told_after.append((clock.now_ms() - began) / 1000)
        raise RuntimeError("told to stop")

    app.task(queue="work", name="work", timeout="2h")(work)
    task_id = lab.submit()
    served = serve(lab, stop_seconds=50)
    lab.world.run(seconds=5)
    served.poller.drain()
    lab.world.run(until=lambda: served.ended)
    assert served.codes == [0]
    assert 50 <= told_after[0] <= 58
    row = lab.row(task_id)
    assert (row.state, row.failures, row.lease_token) == (State.RETRYING, 1, "")
    assert len(lab.receive()) == 1


def test_a_second_signal_hurries_but_still_gives_back():
    """The long poll under way when the second signal comes still brings messages, and they still go back."""
    shift = Shift(7, handler_seconds=1000)
    lab, world = shift.lab, shift.lab.world
    served = serve(lab, threads_count=2)
    shift.submit(["a"])
    world.run(seconds=1)
    served.poller.drain()
    served.poller.drain()
    asked_at = world.clock.now_ms()
    world.run(seconds=8)
    shift.submit(["b"])
    world.run(until=lambda: served.ended)
    assert served.codes == [0]
    assert [key for _, key in shift.started] == ["a"]
    assert (world.clock.now_ms() - asked_at) / 1000 <= 26, "the handler alone would take a thousand seconds"
    assert [d.receive_count for d in lab.receive() if '"b"' in d.body] == [2], "received by the last poll, given back"


def test_a_suspect_that_waits_to_run_alone_goes_back_at_once():
    """It waits in the engine, its message received, until the company has ended: at SIGTERM it waits no longer."""
    app = App("lab")
    lab = Lab(app)
    started: list[str] = []

    def work(key: str = "") -> str:
        started.append(key)
        lab.world.clock.sleep(60)
        return key

    app.task(queue="work", name="work")(work)
    app.task(queue="work", name="once", retry=Retry(max_attempts=1))(work)
    served = serve(lab, threads_count=2)
    lab.submit("work", args={"key": "company"})
    lab.world.run(seconds=5)
    suspect = lab.submit("once", args={"key": "suspect"})
    lab.world.run(seconds=5)
    assert lab.messages() == 2
    assert lab.queue.depth().visible == 0
    served.poller.drain()
    lab.world.run(seconds=1)
    assert [d for d in lab.receive() if suspect in d.body]
    lab.world.run(until=lambda: served.ended)
    assert started == ["company"]


def test_an_idle_poller_ends_when_its_long_poll_does():
    lab = Lab()
    served = serve(lab)
    lab.world.run(seconds=5)
    served.poller.drain()
    asked_at = lab.world.clock.now_ms()
    lab.world.run(until=lambda: served.ended)
    assert served.codes == [0]
    assert lab.world.clock.now_ms() - asked_at <= 21_000
