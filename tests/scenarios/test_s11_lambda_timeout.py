"""S11: a Lambda was killed by its timeout in mid-task; what it left must neither block nor burn the retries."""

from __future__ import annotations

import pytest

from tenure.application import App
from tenure.core import lease, limits
from tenure.core.task import State
from tests.support.lab import Lab

SECONDS_LEFT = 30
SKEW = limits.SKEW_SECONDS


def killed() -> tuple[Lab, str, int]:
    """A task that a Lambda with 30 s left has claimed and never settled; and the time of that claim."""
    app = App("lab")
    app.task(queue="work", name="work", lease="60s")(lambda: None)
    it = Lab(app)
    task_id = it.submit()
    engine = it.engine("vanished")
    claimed_at_ms = it.world.clock.now_ms()
    engine.dies_at_ms = claimed_at_ms + SECONDS_LEFT * 1000
    [unit] = engine.admit(it.inbox(), it.queue.receive(1, 0, 10))
    assert engine._claim(unit.members[0], alone=True) == "claimed"
    return it, task_id, claimed_at_ms


def test_the_lease_ends_with_the_invocation_not_after_it() -> None:
    """R16: a lease of 60 s taken by a Lambda with 30 s left is one of 30 s, in epoch milliseconds."""
    it, task_id, claimed_at_ms = killed()
    assert it.row(task_id).lease_end_at_ms == claimed_at_ms + SECONDS_LEFT * 1000


def test_deliveries_that_meet_the_live_lease_go_back_for_the_rest_of_it() -> None:
    """At +10 s and +20 s nothing runs, nothing is counted, and the message is hidden for at least what is left."""
    it, task_id, claimed_at_ms = killed()
    it.world.advance(10)
    it.work(it.engine("next"))
    [(_, hidden)] = it.answers.kept
    assert hidden >= 20
    row = it.row(task_id)
    assert (row.fence, row.failures, row.losses, row.attempt) == (1, 0, 0, 1)
    it.world.advance(10)
    assert it.receive() == [], "so the receive count does not rise either"
    assert it.world.clock.now_ms() == claimed_at_ms + 20_000


def test_past_the_lease_the_task_is_taken_over_and_runs_once() -> None:
    it, task_id, _ = killed()
    ran: list[int] = []
    it.app = App("lab")
    it.app.task(queue="work", name="work", lease="60s")(lambda: ran.append(1))
    it.world.advance(10)
    it.work(it.engine("next"))
    it.world.advance(SECONDS_LEFT + 5)
    [delivery] = it.receive()
    assert delivery.receive_count == 3, "one for the lost attempt, one for the hand back, one for the takeover"
    engine = it.engine("next")
    for unit in engine.admit(it.inbox(), [delivery]):
        engine.run(unit)
    row = it.row(task_id)
    assert (row.state, row.fence, row.losses, ran) == (State.COMPLETED, 2, 1, [1])
    assert it.messages() == 0


def test_exactly_at_the_boundary_nobody_takes_over() -> None:
    """Clocks differ: a lease is taken over only once it lapsed by more than they can."""
    for after, fence in ((SECONDS_LEFT, 1), (SECONDS_LEFT + SKEW, 1), (SECONDS_LEFT + SKEW + 0.001, 2)):
        it, task_id, _ = killed()
        it.world.advance(after)
        it.work(it.engine("next"))
        assert it.row(task_id).fence == fence, f"{after} s after the claim"


HIDDEN_SECONDS = 340
"""For how long the queue of a pool whose functions may run for 330 s hides a message."""


@pytest.mark.parametrize("beaten", [False, True])
def test_the_moment_that_is_told_is_the_moment_at_which_it_is_taken_over(beaten: bool) -> None:
    """Before the first beat the message is hidden for the queue's own time; after one, for the lease. Reconcile aside,
    nothing brings it back earlier, and by the moment told it is taken over."""
    app = App("lab")
    app.task(queue="work", name="work", lease="60s")(lambda: None)
    it = Lab(app)
    task_id = it.submit()
    engine = it.engine("vanished")
    engine.dies_at_ms = it.world.clock.now_ms() + 330_000
    [unit] = engine.admit(it.inbox(), it.queue.receive(1, 0, HIDDEN_SECONDS))
    [held] = unit.members
    assert engine._claim(held, alone=True) == "claimed"
    claimed_at_ms = it.world.clock.now_ms()
    if beaten:
        it.world.advance(20)
        assert engine.holder.beat(held)
    told_ms = lease.back_at_ms(
        it.row(task_id).lease_end_at_ms, claimed_at_ms, beaten=beaten, hidden_seconds=HIDDEN_SECONDS
    )
    assert (told_ms - claimed_at_ms) // 1000 == (20 + 60 + 11 if beaten else HIDDEN_SECONDS)
    while it.row(task_id).fence == 1:
        it.world.advance(1)
        it.work(it.engine("next"))
    early_ms = told_ms - it.world.clock.now_ms()
    assert -1000 < early_ms <= (5000 if beaten else 0)
