"""What becomes of an attempt that ended: one of a closed set, and nothing beside it (R17, R19 to R21)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core import decide, limits, machine
from tenure.core.decide import Ending, Settlement
from tenure.core.outcome import Failed, Lost, Outcome, Released, Snoozed, Succeeded
from tenure.core.retry import Retry
from tenure.core.task import Row, State, Stored
from tests.core.building import ERROR, T0, leased, stamp

RESULT = Stored("inline", "[1]", 3)
CHECKPOINT = Stored("item", "t1/C/w", 2000)
OUTCOMES: list[Outcome] = [
    Succeeded("[1]"),
    Failed(ERROR, True),
    Failed(ERROR, False),
    Snoozed(60, "later"),
    Released(started=True),
    Released(started=False),
]


def settle(
    row: Row, outcome: Outcome, *, retry: Retry | None = None, ordered: bool = False, jitter: float = 0.5
) -> Settlement:
    ending = Ending(retry or Retry(), ordered, jitter, RESULT)
    settlement = decide.settle(row, outcome, ending, stamp(10))
    assert settlement is not None
    return settlement


def test_a_lost_lease_writes_nothing_and_deletes_nothing() -> None:
    """R15. Even if a cancel was asked for."""
    row = leased(cancel_requested_at_ms=T0 + 1)
    assert decide.settle(row, Lost(), Ending(Retry(), False, 0.5), stamp(10)) is None


def test_a_success_is_completed_and_its_message_deleted() -> None:
    done = settle(leased(), Succeeded("[1]"))
    assert (done.row.state, done.row.result, done.then) == (State.COMPLETED, RESULT, "delete")


def test_a_success_whose_value_cannot_be_stored_is_a_success() -> None:
    done = settle(leased(), Succeeded(None, ERROR))
    assert (done.row.state, done.row.reason, done.row.failures) == (
        State.COMPLETED,
        machine.RESULT_NOT_STORABLE,
        0,
    )


# ---- R19: cancel wins over everything but success --------------------------------------------------------------
@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda each: type(each).__name__)
def test_after_a_request_to_cancel_only_success_stays(outcome: Outcome) -> None:
    row = leased(cancel_requested_at_ms=T0 + 1, cancel_reason="not needed")
    ended = settle(row, outcome)
    assert ended.then == "delete"
    if isinstance(outcome, Succeeded):
        assert ended.row.state is State.COMPLETED
    else:
        assert (ended.row.state, ended.row.reason) == (State.CANCELLED, "not needed")


# ---- R20: retry ------------------------------------------------------------------------------------------------
def test_a_failure_is_retried_after_a_jittered_wait() -> None:
    again = settle(leased(failures=2), Failed(ERROR, True), retry=Retry(base=2, cap=600), jitter=0.25)
    assert (again.row.state, again.row.failures, again.then) == (State.RETRYING, 3, "hide")
    assert again.hide_seconds == 8 * 0.25
    assert again.row.due_at_ms == T0 + 12_000


def test_a_handler_s_own_wait_is_kept_to() -> None:
    again = settle(leased(), Failed(ERROR, True, 300.0, "throttled"), jitter=0.0)
    assert (again.hide_seconds, again.row.due_at_ms) == (300.0, T0 + 310_000)


@pytest.mark.parametrize("outcome", [Failed(ERROR, True, 901.0), Snoozed(901.0, "later")], ids=["retry", "snooze"])
@pytest.mark.parametrize(("ordered", "then"), [(False, "delete"), (True, "hide")])
def test_a_long_wait_leaves_sqs_unless_the_task_is_ordered(outcome: Outcome, ordered: bool, then: str) -> None:
    """R20: an ordered task never leaves the queue to wait, or its successor would be let in."""
    waits = settle(leased(), outcome, ordered=ordered)
    assert (waits.then, waits.row.message_gone) == (then, not ordered)
    if not ordered:
        early = waits.row.due_at_ms - limits.SQS_DELAY_SECONDS_MAX * 1000
        assert waits.row.check_at_ms == early, "reconcile sends it with the rest as its delay"


@pytest.mark.parametrize("outcome", [Failed(ERROR, True, 900.0), Snoozed(900.0, "later")], ids=["retry", "snooze"])
def test_a_wait_that_sqs_can_keep_stays_there(outcome: Outcome) -> None:
    waits = settle(leased(), outcome)
    assert (waits.then, waits.hide_seconds, waits.row.message_gone) == ("hide", 900.0, False)


def test_a_snooze_costs_no_attempt_however_often() -> None:
    row = leased(max_attempts=1)
    for _ in range(20):
        snoozed = settle(row, Snoozed(60, "later"))
        assert snoozed.row.state is State.RETRYING
        row = replace(snoozed.row, state=State.LEASED)
    assert (row.failures, row.losses) == (0, 0)


# ---- R21: bury -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("row", "outcome", "retry", "reason"),
    [
        (leased(), Failed(ERROR, False), Retry(), "gave_up"),
        (leased(max_attempts=1), Failed(ERROR, True), Retry(), "attempts_used_up"),
        (leased(failures=4), Failed(ERROR, True), Retry(), "attempts_used_up"),
        (leased(failures=2, losses=2), Failed(ERROR, True), Retry(), "attempts_used_up"),
        (leased(), Failed(ERROR, True, 60.0), Retry(deadline="1m"), "retry_deadline"),
        (leased(deadline_at_ms=T0 + 69_999), Failed(ERROR, True, 60.0), Retry(), "deadline"),
    ],
    ids=["gave up", "one attempt", "failures", "failures and losses", "retry deadline", "deadline"],
)
def test_the_last_failure_buries_and_says_why(row: Row, outcome: Outcome, retry: Retry, reason: str) -> None:
    buried = settle(row, outcome, retry=retry)
    assert (buried.row.state, buried.row.reason, buried.then) == (State.DEAD_LETTERED, reason, "bury")
    assert (buried.row.failures, buried.row.error) == (row.failures + 1, ERROR)


@pytest.mark.parametrize(
    ("row", "retry"),
    [
        (leased(failures=3), Retry()),
        (leased(failures=2, losses=1), Retry()),
        (leased(), Retry(deadline="70s")),
        (leased(deadline_at_ms=T0 + 70_000), Retry()),
    ],
    ids=["failures", "failures and losses", "retry deadline", "deadline"],
)
def test_the_last_but_one_is_retried(row: Row, retry: Retry) -> None:
    """Each bound at its edge: an attempt that is due at 70 s after the first start is within 70 s."""
    assert settle(row, Failed(ERROR, True, 60.0), retry=retry).row.state is State.RETRYING


# ---- R17: release ----------------------------------------------------------------------------------------------
def test_an_unstarted_task_goes_back_as_it_was() -> None:
    back = settle(leased(failures=2), Released(started=False))
    assert (back.row.state, back.row.failures, back.then, back.hide_seconds) == (State.QUEUED, 2, "hide", 0.0)


def test_a_started_one_goes_back_free_only_with_a_checkpoint_of_this_attempt() -> None:
    fresh = leased(checkpoint=CHECKPOINT, checkpoint_fence=1)
    assert settle(fresh, Released(started=True)).row.failures == 0
    stale = leased(checkpoint=CHECKPOINT, checkpoint_fence=0)
    for row in (stale, leased(checkpoint_fence=1)):
        counted = settle(row, Released(started=True))
        assert (counted.row.state, counted.row.failures, counted.then) == (State.RETRYING, 1, "hide")
        assert counted.row.error is not None
        assert counted.row.error.type == "HandedOver"


def test_the_last_attempt_that_is_handed_over_without_a_checkpoint_is_buried() -> None:
    """Else a task that outlives every worker's stop would be started for ever."""
    buried = settle(leased(max_attempts=1), Released(started=True))
    assert (buried.row.state, buried.row.reason, buried.then) == (State.DEAD_LETTERED, "attempts_used_up", "bury")


@given(
    outcome=st.sampled_from(OUTCOMES),
    failures=st.integers(0, 6),
    losses=st.integers(0, 6),
    ordered=st.booleans(),
    jitter=st.floats(0, 1, exclude_max=True),
    cancel=st.booleans(),
)
def test_every_attempt_ends_somewhere_and_none_goes_past_its_budget(
    outcome: Outcome, failures: int, losses: int, ordered: bool, jitter: float, cancel: bool
) -> None:
    """A row that is to run again has attempts left, and a message is deleted only if the row has taken over."""
    row = leased(failures=failures, losses=losses, cancel_requested_at_ms=T0 + 1 if cancel else 0)
    ended = settle(row, outcome, ordered=ordered, jitter=jitter)
    assert ended.row.version == row.version + 1
    assert ended.row.lease_token == ""
    assert ended.then in {"delete", "hide", "bury"}
    assert (ended.then == "bury") == (ended.row.state is State.DEAD_LETTERED)
    if ended.then == "delete":
        assert ended.row.final or (ended.row.message_gone and ended.row.check_at_ms > 0)
    if ended.row.failures > failures and not ended.row.final:
        assert ended.row.failures + losses < row.max_attempts
