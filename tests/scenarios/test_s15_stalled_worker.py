"""S15: a worker stalls past its lease, another takes the task over, and the first wakes up and writes.

Both workers bear the same name, since ownership must never be judged by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tenure.core.machine as machine
from tenure.application import App
from tenure.core.outcome import Failed, Outcome, Released, Snoozed, Succeeded, named
from tenure.core.task import State
from tenure.worker.attempt import RunningAttempt
from tenure.worker.engine import Engine
from tenure.worker.held import Held
from tests.support.lab import Lab


class Stall:
    """Two engines by the name host-1-0 and one task: attempt 1 has stalled past its lease, attempt 2 holds it."""

    def __init__(self) -> None:
        app = App("lab")
        app.task(queue="work", name="work", lease="30s")(lambda: "two")
        self.lab = Lab(app)
        self.task_id = self.lab.submit()
        self.first, self.late = self._claim()
        self.lab.world.advance(70)
        self.second, self.newer = self._claim()

    def _claim(self) -> tuple[Engine, Held]:
        engine = self.lab.engine("host-1-0")
        [unit] = self.lab.admit(engine)
        assert engine._claim(unit.members[0], alone=True) == "claimed"
        return engine, unit.members[0]


def complete(stall: Stall) -> None:
    stall.first._settler.settle(stall.late, Succeeded('"one"'))


def settle(outcome: Outcome) -> Callable[[Stall], None]:
    def act(stall: Stall) -> None:
        stall.first._settler.settle(stall.late, outcome)

    return act


def beat(stall: Stall) -> None:
    assert not stall.first.holder.beat(stall.late)


def checkpoint(stall: Stall) -> None:
    row = stall.late.row
    assert row is not None
    parts = stall.first._parts
    running = RunningAttempt(stall.late, row, parts, stall.first.holder, stall.first._settler)
    with pytest.raises(BaseException, match="no longer owns it"):
        running.save_checkpoint({"late": True})


LATE: dict[str, Callable[[Stall], None]] = {
    "heartbeat": beat,
    "checkpoint": checkpoint,
    "complete": complete,
    "fail": settle(Failed(named("Late", "late"), retriable=True)),
    "give up": settle(Failed(named("Late", "late"), retriable=False)),
    "snooze": settle(Snoozed(1.0, "late")),
    "release": settle(Released(started=True)),
}


@pytest.mark.parametrize("act", LATE.values(), ids=LATE.keys())
def test_every_late_write_is_refused_and_no_late_answer_is_sent(act: Callable[[Stall], None]) -> None:
    """The row keeps attempt 2's lease, token and fence; nothing is deleted or hidden by attempt 1."""
    stall = Stall()
    before = stall.lab.item(stall.task_id)
    act(stall)
    assert stall.lab.item(stall.task_id) == before
    assert stall.lab.answers.deleted == []
    assert stall.lab.answers.kept == []
    assert len(stall.lab.events("lease.lost")) == 1, "told once"


@pytest.mark.parametrize("act", LATE.values(), ids=LATE.keys())
def test_the_newer_attempts_result_stands(act: Callable[[Stall], None]) -> None:
    """Attempt 2 completes after attempt 1's late act, and its result is the task's."""
    stall = Stall()
    act(stall)
    stall.second._settler.settle(stall.newer, Succeeded('"two"'))
    row = stall.lab.row(stall.task_id)
    assert (row.state, row.fence) == (State.COMPLETED, 2)
    assert row.result is not None
    assert row.result.value == '"two"'
    assert stall.lab.answers.deleted == [stall.task_id], "by attempt 2, once"


@pytest.mark.parametrize("act", LATE.values(), ids=LATE.keys())
@pytest.mark.parametrize(
    "newer", [Succeeded('"two"'), Failed(named("Second", "failed too"), retriable=True)], ids=["done", "retrying"]
)
def test_a_late_act_after_the_newer_attempt_ended_changes_nothing(act: Callable[[Stall], None], newer: Outcome) -> None:
    """Whether attempt 2 had succeeded or is to be retried."""
    stall = Stall()
    stall.second._settler.settle(stall.newer, newer)
    before: Any = stall.lab.item(stall.task_id)
    answered = (list(stall.lab.answers.deleted), list(stall.lab.answers.kept))
    act(stall)
    assert stall.lab.item(stall.task_id) == before
    assert (stall.lab.answers.deleted, stall.lab.answers.kept) == answered


def test_a_stalled_worker_goes_on_to_its_next_message() -> None:
    """Losing a lease is no error of the worker's."""
    stall = Stall()
    complete(stall)
    other = stall.lab.submit()
    stall.lab.work(stall.first)
    assert stall.lab.row(other).state is State.COMPLETED


def test_a_newer_row_under_the_same_token_is_adopted_and_settled() -> None:
    """R12: a cancel request raises the version but not the token; the holder decides again on it."""
    stall = Stall()
    row = stall.lab.row(stall.task_id)
    stall.lab.rows.replace(row, machine.request_cancel(row, stall.lab.stamp(), "enough"))
    stall.second._settler.settle(stall.newer, Failed(named("Second", "stopped"), retriable=True))
    assert stall.lab.row(stall.task_id).state is State.CANCELLED
