"""What reconcile does about a row: on time alone, since SQS cannot be asked what it holds (R25, R26)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.core import decide, limits, machine
from tenure.core.decide import End, Leave, LookAgain, Resend, SendLetter, Surroundings
from tenure.core.task import Row, State
from tests.core.building import ERROR, T0, blank, dead, in_state, leased, queued, stamp

GRACE = limits.RECONCILE_GRACE_SECONDS
CALM = Surroundings()


def reconcile(row: Row, after_seconds: float, around: Surroundings = CALM) -> decide.Reconciled:
    return decide.reconcile(row, around, stamp(after_seconds))


def test_before_its_time_a_row_is_left_alone() -> None:
    """An index is read late: the row may have moved on since."""
    assert reconcile(queued(), GRACE - 0.001) == Leave()
    assert reconcile(queued(check_at_ms=0), 10_000_000) == Leave()


@pytest.mark.parametrize("state", [State.COMPLETED, State.CANCELLED, State.EXPIRED, State.WAITING])
def test_ended_and_parked_rows_are_left_alone(state: State) -> None:
    assert reconcile(in_state(state, check_at_ms=T0), 1000) == Leave()


def test_a_message_that_has_not_been_heard_of_is_sent_again() -> None:
    decision = reconcile(queued(), GRACE)
    assert isinstance(decision, Resend)
    assert (decision.row.sends, decision.delay_seconds, decision.row.state) == (2, 0, State.QUEUED)
    assert decision.row.check_at_ms == T0 + GRACE * 1000 + 2 * GRACE * 1000


@pytest.mark.parametrize("early_seconds", [900, 300, 1])
def test_what_is_scheduled_is_sent_early_with_the_rest_as_its_delay(early_seconds: int) -> None:
    """R20: to the second, by SQS's own delay."""
    row = machine.submitted(blank(due_at_ms=T0 + 3_600_000), stamp(0))
    decision = reconcile(row, 3600 - early_seconds)
    assert isinstance(decision, Resend)
    assert (decision.delay_seconds, decision.row.state, decision.row.sends) == (early_seconds, State.QUEUED, 1)


def test_a_retry_that_left_sqs_is_sent_in_time() -> None:
    row = machine.retry(leased(), stamp(0), ERROR, T0 + 7_200_000, message_held=False)
    assert reconcile(row, 7200 - 901) == Leave()
    decision = reconcile(row, 7200 - 900)
    assert isinstance(decision, Resend)
    assert decision.delay_seconds == 900


def test_a_live_lease_is_looked_at_again_after_its_end() -> None:
    row = leased(seconds=600)
    decision = reconcile(row, 300)
    assert isinstance(decision, LookAgain)
    assert decision.row.check_at_ms == T0 + 600_000 + GRACE * 1000
    assert (decision.row.state, decision.row.history) == (State.LEASED, row.history)


def test_a_lapsed_lease_whose_message_has_not_come_back_is_sent_one() -> None:
    decision = reconcile(leased(), 600)
    assert isinstance(decision, Resend)
    assert (decision.row.state, decision.row.sends, decision.row.lease_token) == (State.LEASED, 2, "tok")


def test_what_may_not_start_any_more_is_ended() -> None:
    late = reconcile(queued(deadline_at_ms=T0 + 1), GRACE)
    assert isinstance(late, End)
    assert late.row.state is State.EXPIRED
    cancelled = reconcile(leased(cancel_requested_at_ms=T0 + 1, cancel_reason="c"), 600)
    assert isinstance(cancelled, End)
    assert cancelled.row.state is State.CANCELLED


def test_a_missing_letter_is_sent() -> None:
    row = in_state(State.DEAD_LETTERED)
    assert reconcile(row, 600) == SendLetter(row)
    assert reconcile(dead(), 600) == Leave()


# ---- what explains a wait --------------------------------------------------------------------------------------
def test_a_paused_queue_explains_every_wait() -> None:
    decision = reconcile(queued(), GRACE, Surroundings(paused=True))
    assert isinstance(decision, LookAgain)
    assert decision.row.sends == 1
    assert decision.row.check_at_ms > T0 + GRACE * 1000


def test_a_backlog_explains_a_wait_for_as_long_as_it_may_take() -> None:
    around = Surroundings(backlog=10_000, drain_seconds=1000, look_again_seconds=120)
    decision = reconcile(queued(), 999, around)
    assert isinstance(decision, LookAgain)
    assert decision.row.check_at_ms == T0 + (999 + 120) * 1000
    assert isinstance(reconcile(queued(), 1000, around), Resend)
    endless = Surroundings(backlog=1)
    assert isinstance(reconcile(queued(), 300_000, endless), LookAgain), "unknown: while it lasts"


def test_an_empty_queue_explains_nothing() -> None:
    assert isinstance(reconcile(queued(), GRACE, Surroundings(backlog=0, drain_seconds=99_999)), Resend)


@pytest.mark.parametrize("around", [Surroundings(paused=True), Surroundings(backlog=1_000_000)])
def test_past_retention_the_message_is_gone_whatever_else_is(around: Surroundings) -> None:
    assert isinstance(reconcile(queued(), around.retention_seconds, around), LookAgain)
    assert isinstance(reconcile(queued(), around.retention_seconds + 1, around), Resend)


@pytest.mark.parametrize("around", [Surroundings(paused=True), Surroundings(backlog=1_000_000)])
def test_a_wait_that_the_row_has_taken_over_is_not_explained_by_the_queue(around: Surroundings) -> None:
    """There is no message that the backlog could hold: without a send the task would never run."""
    row = machine.submitted(blank(due_at_ms=T0 + 3_600_000), stamp(0))
    assert isinstance(reconcile(row, 2700, around), Resend)


def test_age_counts_from_the_latest_send() -> None:
    """An old task's latest message may be young: it is not sent again as if it had been lost for days."""
    old = machine.replay(dead(), stamp(1_000_000), "mended")
    around = Surroundings(backlog=5, drain_seconds=600)
    assert isinstance(reconcile(old, 1_000_000 + 300, around), LookAgain)
    assert isinstance(reconcile(old, 1_000_000 + 601, around), Resend)


# ---- after a restore -------------------------------------------------------------------------------------------
def test_after_a_restore_what_may_be_done_is_held_for_a_person() -> None:
    around = Surroundings(restored=(T0 + 10_000, T0 + 600_000))
    decision = reconcile(queued(), 700, around)
    assert isinstance(decision, LookAgain)
    assert decision.why == decide.HELD
    assert decision.row.sends == 1


@pytest.mark.parametrize(
    "row",
    [
        replace(queued(), submitted_at_ms=T0 + 20_000),
        replace(queued(), last_heartbeat_at_ms=T0 + 20_000),
        replace(queued(), due_at_ms=T0 + 600_001),
    ],
    ids=["submitted since", "beaten since", "due since"],
)
def test_what_was_touched_or_due_after_the_restore_goes_on(row: Row) -> None:
    around = Surroundings(restored=(T0 + 10_000, T0 + 600_000))
    assert isinstance(reconcile(replace(row, check_at_ms=T0 + 700_000), 700, around), Resend)
