"""What becomes of a delivery, case by case (R9 to R11)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.core import decide, limits, machine
from tenure.core.decide import Bury, Claim, Drop, HandBack, Quarantine, Replay
from tenure.core.replaying import REPLAYS_MAX
from tenure.core.task import Row, State
from tests.core.building import (
    ERROR,
    T0,
    arrival,
    dead,
    envelope,
    in_state,
    lease_of,
    leased,
    queued,
    stamp,
)

LAPSED = 60 + limits.SKEW_SECONDS + 1
"""Seconds after T0 at which the lease of `leased()` may be taken over."""


def admit(row: Row | None, after_seconds: float = 0, **facts: object) -> decide.Admission:
    return decide.admit(row, replace(arrival(), **facts), lease_of(), stamp(after_seconds))  # type: ignore[arg-type] # facts of an Arrival, by name


# ---- R9: who may be claimed unread -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("receives", "sends", "redriven", "first"),
    [(1, 1, "", True), (2, 1, "", False), (1, 2, "", False), (1, 1, "t1:b1:1:0", False)],
)
def test_only_a_first_delivery_of_a_first_send_may_be_claimed_unread(
    receives: int, sends: int, redriven: str, first: bool
) -> None:
    facts = arrival(receive_count=receives, redriven=redriven)
    facts = replace(facts, envelope=envelope(sends=sends))
    assert decide.is_first_delivery(facts) is first


# ---- R10: case by case -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", [queued(), leased(), in_state(State.COMPLETED), dead()], ids=lambda row: row.state)
@pytest.mark.parametrize("redriven", ["", "t1:b1:1:0"])
def test_a_message_that_names_another_task_than_its_row_is_set_aside(row: Row, redriven: str) -> None:
    """An id that somebody gave twice never runs one task with the other's arguments, and ends neither."""
    decision = admit(row, 7200, envelope=envelope(task="another"), redriven=redriven)
    assert isinstance(decision, Quarantine)
    assert repr(row.task) in decision.why
    assert "'another'" in decision.why


@pytest.mark.parametrize("state", [State.QUEUED, State.RETRYING, State.SCHEDULED])
def test_a_task_that_is_due_is_claimed(state: State) -> None:
    decision = admit(in_state(state), after_seconds=7200)
    assert isinstance(decision, Claim)
    assert (decision.row.state, decision.row.fence) == (State.LEASED, in_state(state).fence + 1)


@pytest.mark.parametrize("after_seconds", [0, 30, 60, 60 + limits.SKEW_SECONDS])
def test_a_live_lease_is_respected_until_clocks_cannot_differ_about_its_end(after_seconds: float) -> None:
    decision = admit(leased(), after_seconds, jitter=0.5)
    assert isinstance(decision, HandBack)
    back_at = after_seconds + decision.seconds
    assert LAPSED <= back_at <= LAPSED + 5 + limits.SKEW_SECONDS, "back once it may be taken over, and soon after"


def test_a_lapsed_lease_is_taken_over() -> None:
    decision = admit(leased(), LAPSED)
    assert isinstance(decision, Claim)
    assert (decision.row.fence, decision.row.losses) == (2, 1)


@pytest.mark.parametrize("state", [State.COMPLETED, State.CANCELLED, State.EXPIRED])
def test_a_message_of_an_ended_task_is_deleted_and_runs_nothing(state: State) -> None:
    assert admit(in_state(state)) == Drop(f"already {state.value}")


def test_a_dead_letter_whose_letter_was_not_confirmed_is_sent_it_first() -> None:
    decision = admit(in_state(State.DEAD_LETTERED))
    assert isinstance(decision, Bury)
    assert decision.row is None, "the row stands already"
    assert admit(dead()) == Drop("already dead-lettered")


@pytest.mark.parametrize("row", [dead(), in_state(State.DEAD_LETTERED)], ids=["confirmed", "unconfirmed"])
def test_a_letter_that_an_operator_redrove_is_a_replay(row: Row) -> None:
    """R27: bury's mark on a main queue."""
    decision = admit(row, redriven=row.letter_id)
    assert isinstance(decision, Replay)
    assert (decision.row.state, decision.row.replays) == (State.QUEUED, 1)


def test_a_redriven_letter_opens_its_task_once() -> None:
    """R27: after the next burial the same message still bears the old mark; it sends the new letter, then it goes."""
    first = dead()
    opened = machine.replay(first, stamp(3, "w-4"), "redriven")
    again = machine.bury(machine.claim(opened, stamp(4, "w-5"), lease_of()), stamp(5, "w-6"), ERROR, "gave_up")
    assert admit(again, 10, redriven=first.letter_id) == Bury("its letter was not confirmed")
    rung = machine.confirm_letter(again, stamp(6, "w-7"))
    assert admit(rung, 10, redriven=first.letter_id) == Drop("already dead-lettered")
    assert isinstance(admit(again, 10, redriven=again.letter_id), Replay), "its own letter opens it again"


@pytest.mark.parametrize("row", [dead(), in_state(State.DEAD_LETTERED)], ids=["confirmed", "unconfirmed"])
def test_a_discarded_letter_that_is_redriven_never_runs(row: Row) -> None:
    """R27: what a person said needs nothing more is neither run nor rung for again."""
    discarded = machine.discard(row, stamp(3, "w-4"), "the customer left")
    assert admit(discarded, 10, redriven=row.letter_id) == Drop("its dead letter was discarded")
    assert admit(discarded, 10) == Drop("its dead letter was discarded"), "nor is an unconfirmed letter sent"


def test_replays_by_redrive_are_bounded_like_all_others() -> None:
    """R27: what died so often needs a person's eyes, not another pass of the console; its letter goes back."""
    last = dead(replays=REPLAYS_MAX - 1)
    assert isinstance(admit(last, 10, redriven=last.letter_id), Replay)
    over = dead(replays=REPLAYS_MAX)
    decision = admit(over, 10, redriven=over.letter_id)
    assert decision == Bury(f"replayed {REPLAYS_MAX} times already (at most {REPLAYS_MAX})")


def test_a_redriven_letter_past_its_deadline_stays_a_dead_letter() -> None:
    """R24, R27: opened, it would only expire, and with it open its ordering key. Its letter goes back."""
    late = dead(deadline_at_ms=T0 + 5000)
    decision = admit(late, 10, redriven=late.letter_id)
    assert decision == Bury("its deadline has passed: it would only expire")


def test_a_redriven_letter_of_a_task_that_was_done_since_runs_nothing() -> None:
    assert admit(in_state(State.COMPLETED), redriven=dead().letter_id) == Drop("already completed")


@pytest.mark.parametrize("state", [State.RETRYING, State.SCHEDULED])
def test_what_is_not_due_is_hidden_until_it_is(state: State) -> None:
    row = in_state(state)
    decision = admit(row, after_seconds=2)
    assert decision == HandBack((row.due_at_ms - T0) / 1000 - 2, "not due yet")


def test_a_halted_key_s_and_a_paused_queue_s_messages_go_back() -> None:
    assert isinstance(admit(in_state(State.WAITING)), HandBack)
    paused = admit(queued(), paused=True, jitter=0.5)
    assert paused == HandBack(90, "its queue is paused")


def test_past_its_deadline_a_task_expires() -> None:
    row = queued(deadline_at_ms=T0 + 10_000)
    assert isinstance(admit(row, after_seconds=10), Claim), "not at the deadline itself"
    late = admit(row, after_seconds=10.001)
    assert isinstance(late, Drop)
    assert late.row is not None
    assert (late.why, late.row.state) == ("deadline", State.EXPIRED)


@pytest.mark.parametrize("state", [State.WAITING, State.SCHEDULED, State.RETRYING])
def test_a_deadline_ends_waits_of_every_kind(state: State) -> None:
    late = admit(in_state(state, deadline_at_ms=T0 + 1), after_seconds=1, paused=True)
    assert isinstance(late, Drop)


def test_asked_to_cancel_a_lapsed_task_is_cancelled_rather_than_taken_over() -> None:
    """R19: a takeover becomes a cancellation; the deadline, passed too, is not what ended it."""
    row = leased(cancel_requested_at_ms=T0 + 1, cancel_reason="not needed", deadline_at_ms=T0 + 5)
    decision = admit(row, LAPSED)
    assert isinstance(decision, Drop)
    assert decision.row is not None
    assert (decision.row.state, decision.row.reason) == (State.CANCELLED, "not needed")


def test_a_message_without_a_row_is_quarantined() -> None:
    decision = admit(None)
    assert isinstance(decision, Quarantine)
    assert "no row for task t1" in decision.why


def test_a_message_of_another_life_is_dropped() -> None:
    """R5: even where the row is one that could run."""
    decision = decide.admit(queued(birth="b2"), arrival(), lease_of(), stamp())
    assert isinstance(decision, Drop)
    assert decision.row is None
    assert "another life" in decision.why


# ---- a task that no worker here knows --------------------------------------------------------------------------
def test_an_unknown_task_is_handed_back_while_a_deployment_may_be_under_way_and_then_buried() -> None:
    row, why = queued(), "no task 'work'"
    for receives, after_seconds in ((1, 0), (9, 600), (10, 599), (50, 599)):
        assert admit(row, after_seconds, unknown=why, receive_count=receives) == HandBack(60, why)
    last = admit(row, 600, unknown=why, receive_count=decide.UNKNOWN_RECEIVES)
    assert isinstance(last, Bury)
    assert last.row is not None
    assert last.row.error is not None
    assert (last.row.reason, last.row.error.type) == (machine.UNRUNNABLE, "UnknownTask")
    assert (last.row.failures, last.row.losses) == (0, 0), "it was never tried"


# ---- R11: who is blamed ----------------------------------------------------------------------------------------
def test_a_task_that_kills_its_workers_is_buried_once_its_budget_is_lost() -> None:
    row, takeovers = queued(), 0
    at = 0.0
    while True:
        decision = decide.admit(row, arrival(), lease_of(max_attempts=3), stamp(at))
        if not isinstance(decision, Claim):
            break
        row = decision.row
        takeovers += 1
        at += LAPSED
    assert takeovers == 3
    assert isinstance(decision, Bury)
    assert decision.row is not None
    assert (decision.row.reason, decision.row.losses, decision.row.failures) == (machine.WORKER_LOST, 3, 0)
    assert decision.row.error is not None
    assert "w1" in decision.row.error.message


def test_losses_in_company_never_bury() -> None:
    """A worker that dies with ten tasks in hand blames none of them, however often."""
    row, at = queued(), 0.0
    for _ in range(50):
        lost = decide.admit(row, arrival(), lease_of(alone=False, max_attempts=2), stamp(at))
        assert isinstance(lost, Claim)
        at += LAPSED
        again = decide.admit(lost.row, arrival(), lease_of(max_attempts=2), stamp(at))
        assert isinstance(again, Claim)
        row = machine.snooze(again.row, stamp(at, "w-s"), T0 + round(at * 1000), "later", message_held=True)
    assert (row.losses, row.fence) == (0, 100)


@pytest.mark.parametrize(
    ("row", "max_attempts"),
    [(leased(), 5), (leased(alone=False), 5), (in_state(State.RETRYING, losses=1), 5), (queued(), 1)],
    ids=["lapsed", "lapsed-in-company", "lost-before", "one-attempt"],
)
def test_a_suspect_that_is_met_in_company_goes_back_at_once(row: Row, max_attempts: int) -> None:
    """Its next delivery is read first, and runs alone; nothing is written, so nothing is counted."""
    there = decide.admit(row, arrival(), lease_of(alone=False, max_attempts=max_attempts), stamp(LAPSED))
    assert there == HandBack(0, "it may have killed its worker, and there is company here")
    assert isinstance(decide.admit(row, arrival(), lease_of(max_attempts=max_attempts), stamp(LAPSED)), Claim)


def test_a_suspect_in_company_is_still_ended_buried_or_made_to_wait_first() -> None:
    """What may not start at all is not sent round for the company it is in."""
    new, late = lease_of(alone=False, max_attempts=1), stamp(LAPSED)
    assert isinstance(decide.admit(leased(), arrival(), new, late), Bury)
    assert isinstance(decide.admit(leased(deadline_at_ms=T0 + 1), arrival(), new, late), Drop)
    waits = decide.admit(leased(), arrival(), new, stamp(1))
    assert isinstance(waits, HandBack)
    assert waits.seconds > 0


def test_failures_and_losses_share_one_budget() -> None:
    row = leased(failures=1, losses=1)
    decision = decide.admit(row, arrival(), lease_of(max_attempts=3), stamp(LAPSED))
    assert isinstance(decision, Bury)
    assert isinstance(decide.admit(row, arrival(), lease_of(max_attempts=4), stamp(LAPSED)), Claim)


def test_the_fence_is_no_measure_of_the_budget() -> None:
    """Deferrals, snoozes and clean hand-overs raise the fence and cost nothing."""
    row = in_state(State.RETRYING, fence=5000)
    assert isinstance(decide.admit(row, arrival(), lease_of(max_attempts=2), stamp(60)), Claim)


@pytest.mark.parametrize(
    ("row", "max_attempts", "alone"),
    [
        (queued(), 5, False),
        (in_state(State.RETRYING), 5, False),
        (leased(), 5, True),
        (leased(alone=False), 5, True),
        (in_state(State.RETRYING, losses=1), 5, True),
        (queued(), 1, True),
    ],
    ids=["fresh", "failed", "lapsed", "lapsed-in-company", "lost-before", "one-attempt"],
)
def test_who_may_have_killed_a_worker_runs_alone(row: Row, max_attempts: int, alone: bool) -> None:
    assert decide.must_run_alone(row, max_attempts) is alone
