"""What each event writes into a row, constructor by constructor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.core import limits, machine
from tenure.core.errors import IllegalTransition
from tenure.core.task import FINAL, Happening, Row, State, Stored
from tests.core.building import ERROR, OPEN, T0, blank, dead, in_state, lease_of, leased, queued, stamp

PLACE = Stored("item", "t1/C/w", 2000)
DAY_S = 86_400


# ---- submit ----------------------------------------------------------------------------------------------------
def test_a_submit_begins_at_version_one_with_one_send() -> None:
    row = machine.submitted(blank(fence_floor=40), stamp(0, "w-0"))
    assert (row.version, row.sends, row.fence, row.write_id, row.submitted_at_ms) == (1, 1, 40, "w-0", T0)
    assert row.never_claimed
    assert not row.message_gone
    assert row.check_at_ms == T0 + limits.RECONCILE_GRACE_SECONDS * 1000
    assert row.history == (Happening(T0, "submit", 40),)


@pytest.mark.parametrize(("delay_ms", "state"), [(900_000, State.QUEUED), (900_001, State.SCHEDULED)])
def test_what_is_due_later_than_sqs_can_delay_is_scheduled_and_not_sent(delay_ms: int, state: State) -> None:
    row = machine.submitted(blank(due_at_ms=T0 + delay_ms), stamp())
    assert row.state is state
    if state is State.SCHEDULED:
        assert (row.sends, row.message_gone) == (0, True)
        assert row.check_at_ms == T0 + delay_ms - 900_000, "as early as a message's own delay can carry it"
    else:
        assert (row.sends, row.message_gone) == (1, False)
        assert row.check_at_ms > row.due_at_ms


def test_only_an_untouched_row_can_be_refused() -> None:
    """A row that anybody has written since is somebody's: it was not refused, whatever SQS answered."""
    refused = machine.refuse(queued(), stamp(1), "AccessDenied")
    assert (refused.state, refused.reason, refused.version) == (State.CANCELLED, machine.REFUSED, 2)
    with pytest.raises(IllegalTransition, match="somebody has it"):
        machine.refuse(machine.send(queued(), stamp(1)), stamp(1), "AccessDenied")


def test_a_refused_task_is_opened_again_in_its_own_place() -> None:
    """Versions, fences and sends go on; content, and the right to run, are new."""
    refused = machine.refuse(queued(fence=7, fence_floor=7), stamp(1), "AccessDenied")
    again = machine.reopen(refused, blank(birth="b2", digest="other", fence_floor=99), stamp(60))
    assert (again.state, again.birth, again.digest) == (State.QUEUED, "b1", "other")
    assert (again.version, again.sends, again.fence, again.fence_floor) == (3, 2, 7, 7)
    assert (again.reason, again.ended_at_ms, again.expires_at_s) == ("", 0, 0)
    assert again.deduplication_id != queued().deduplication_id


def test_a_task_that_was_cancelled_by_a_person_is_not_opened_again() -> None:
    with pytest.raises(IllegalTransition, match="not refused"):
        machine.reopen(in_state(State.CANCELLED), blank(), stamp(60))


# ---- the worker ------------------------------------------------------------------------------------------------
def test_a_claim_raises_the_fence_and_starts_a_lease() -> None:
    row = machine.claim(queued(), stamp(5), lease_of(seconds=30, alone=False, max_attempts=3))
    assert (row.fence, row.lease_token, row.lease_end_at_ms) == (1, "tok", T0 + 35_000)
    assert (row.claimed_alone, row.worker, row.pool, row.max_attempts) == (False, "w1", "p", 3)
    assert (row.first_started_at_ms, row.last_started_at_ms, row.last_heartbeat_at_ms) == (T0 + 5000,) * 3
    assert not row.never_claimed


def test_a_claim_without_a_pool_keeps_the_one_it_knows() -> None:
    new = replace(lease_of(), pool="")
    assert machine.claim(queued(pool="old"), stamp(), new).pool == "old"


@pytest.mark.parametrize(("alone", "losses"), [(True, 1), (False, 0)])
def test_a_lapsed_lease_is_a_loss_only_if_it_was_claimed_alone(alone: bool, losses: int) -> None:
    """R11: a task that kills its worker is blamed for it, its neighbours in the batch never."""
    taken = machine.claim(leased(alone=alone), stamp(100), lease_of(token="second"))
    assert (taken.losses, taken.fence, taken.lease_token) == (losses, 2, "second")
    assert taken.first_started_at_ms == T0
    assert taken.history[-1].detail == f"took over, lost {losses}"


def test_a_beat_renews_the_lease_and_leaves_no_trace_in_history() -> None:
    row = leased()
    beaten = machine.beat(row, stamp(20), 60, progress_permille=400)
    assert (beaten.lease_end_at_ms, beaten.last_heartbeat_at_ms) == (T0 + 80_000, T0 + 20_000)
    assert (beaten.progress_permille, beaten.history) == (400, row.history)
    assert beaten.check_at_ms == row.check_at_ms, "moving it would cost an index write with every beat"


def test_a_checkpoint_remembers_under_which_fence_it_was_left() -> None:
    row = machine.checkpointed(leased(), stamp(20), 60, PLACE, 250)
    assert (row.checkpoint, row.checkpoint_fence, row.progress_permille) == (PLACE, 1, 250)
    assert row.lease_end_at_ms == T0 + 80_000, "it is a beat as well"


@pytest.mark.parametrize("state", sorted(FINAL))
def test_an_ended_task_holds_no_lease(state: State) -> None:
    row = in_state(state)
    assert (row.lease_token, row.lease_end_at_ms, row.claimed_alone) == ("", 0, False)
    assert row.ended_at_ms == T0 + 1000


@pytest.mark.parametrize("state", [State.COMPLETED, State.CANCELLED, State.EXPIRED])
def test_a_final_row_outlives_every_message_that_may_still_come(state: State) -> None:
    """R5: source retention, DLQ retention, and a day; then nothing looks at it any more."""
    row = in_state(state)
    assert row.check_at_ms == 0
    assert row.expires_at_s - row.ended_at_ms // 1000 >= (14 + 14 + 1) * DAY_S


def test_a_success_is_whole_and_one_whose_value_cannot_be_kept_says_so() -> None:
    whole = machine.succeed(leased(reason="x", progress_permille=1), stamp(1), PLACE)
    assert (whole.result, whole.reason, whole.progress_permille, whole.error) == (PLACE, "", 1000, None)
    without = machine.succeed(leased(), stamp(1), None, ERROR)
    assert (without.state, without.result) == (State.COMPLETED, None)
    assert (without.reason, without.error) == (machine.RESULT_NOT_STORABLE, ERROR)


@pytest.mark.parametrize("held", [True, False])
def test_a_retry_counts_a_failure_and_waits(held: bool) -> None:
    due = T0 + 3_600_000
    row = machine.retry(leased(), stamp(10), ERROR, due, message_held=held)
    assert (row.failures, row.error, row.due_at_ms, row.message_gone) == (1, ERROR, due, not held)
    assert (row.lease_token, row.first_failed_at_ms, row.last_failed_at_ms) == ("", T0 + 10_000, T0 + 10_000)
    assert (row.check_at_ms > due) == held, "with a message, after it was due; without, early enough to send one"


def test_the_first_failure_is_remembered_beside_the_last() -> None:
    once = machine.retry(leased(), stamp(10), ERROR, T0, message_held=True)
    twice = machine.retry(machine.claim(once, stamp(20), lease_of()), stamp(30), ERROR, T0, message_held=True)
    assert (twice.first_failed_at_ms, twice.last_failed_at_ms, twice.failures) == (T0 + 10_000, T0 + 30_000, 2)


def test_a_snooze_and_an_unclaim_cost_nothing() -> None:
    snoozed = machine.snooze(leased(), stamp(10), T0 + 60_000, "not yet", message_held=True)
    assert (snoozed.failures, snoozed.losses, snoozed.due_at_ms, snoozed.attempt) == (0, 0, T0 + 60_000, 1)
    back = machine.unclaim(leased(due_at_ms=T0 - 5), stamp(10))
    assert (back.state, back.failures, back.losses, back.due_at_ms) == (State.QUEUED, 0, 0, T0 - 5)
    assert (back.first_started_at_ms, back.last_started_at_ms) == (0, 0), "its handler was never called"
    again = machine.unclaim(machine.claim(in_state(State.RETRYING), stamp(50), lease_of()), stamp(51))
    assert again.first_started_at_ms == T0, "an earlier attempt's start stays"


def test_a_release_counts_a_failure_only_with_an_error() -> None:
    free = machine.release(leased(), stamp(10), None)
    assert (free.failures, free.due_at_ms, free.history[-1].detail) == (0, T0 + 10_000, "handed over")
    counted = machine.release(leased(), stamp(10), ERROR)
    assert (counted.failures, counted.error) == (1, ERROR)


@pytest.mark.parametrize(
    ("reason", "alone", "failures", "losses"),
    [
        ("gave_up", True, 1, 0),
        ("attempts_used_up", False, 1, 0),
        (machine.WORKER_LOST, True, 0, 1),
        (machine.WORKER_LOST, False, 0, 0),
        (machine.UNRUNNABLE, True, 0, 0),
    ],
)
def test_a_burial_counts_what_it_was_buried_for(reason: str, alone: bool, failures: int, losses: int) -> None:
    row = machine.bury(leased(alone=alone), stamp(10), ERROR, reason)
    assert (row.failures, row.losses, row.reason, row.error) == (failures, losses, reason, ERROR)
    assert (row.disposition, row.letter_confirmed) == (OPEN, False)
    assert row.expires_at_s == 0, "an open dead letter has no time to live"
    assert row.check_at_ms > T0, "reconcile looks whether its letter was sent"


# ---- people and maintenance ------------------------------------------------------------------------------------
def test_a_request_to_cancel_leaves_the_holder_its_lease() -> None:
    row = machine.request_cancel(leased(), stamp(10), "not needed")
    assert (row.cancel_requested_at_ms, row.cancel_reason, row.lease_token) == (T0 + 10_000, "not needed", "tok")


def test_each_send_has_its_own_number_and_a_longer_patience() -> None:
    """R23, R25: the grace doubles with every re-send, up to an hour."""
    row, waits, ids = queued(), [], {queued().deduplication_id}
    for _ in range(8):
        row = machine.send(row, stamp(0))
        waits.append((row.check_at_ms - T0) // 1000)
        ids.add(row.deduplication_id)
    assert waits == [240, 480, 960, 1920, 3600, 3600, 3600, 3600]
    assert len(ids) == 9


def test_a_send_for_a_lapsed_lease_looks_again_only_after_the_lease() -> None:
    row = machine.send(leased(seconds=7200), stamp(10))
    assert (row.state, row.lease_token) == (State.LEASED, "tok")
    assert row.check_at_ms > T0 + 7_200_000


def test_to_look_again_is_no_event() -> None:
    row = queued()
    later = machine.look_again(row, stamp(10), T0 + 99_000)
    assert later == replace(row, version=2, write_id="w-new", check_at_ms=T0 + 99_000)


def test_a_confirmed_letter_leaves_nothing_to_do() -> None:
    row = machine.confirm_letter(in_state(State.DEAD_LETTERED), stamp(10))
    assert (row.letter_confirmed, row.check_at_ms, row.expires_at_s) == (True, 0, 0)


def test_a_replay_gives_a_new_budget_and_keeps_what_must_go_on() -> None:
    """R27: failures and losses 0, one replay more, a new deduplication id; the fence, the birth and the story go on."""
    old = dead(failures=4, losses=1, progress_permille=300, cancel_requested_at_ms=5, cancel_reason="c")
    new = machine.replay(old, stamp(100, by="ada"), "mended")
    assert (new.state, new.failures, new.losses, new.replays, new.sends) == (State.QUEUED, 0, 0, 1, old.sends + 1)
    assert (new.fence, new.birth, new.payload, new.digest) == (old.fence, old.birth, old.payload, old.digest)
    assert (new.reason, new.ended_at_ms, new.due_at_ms, new.cancel_requested_at_ms) == ("", 0, 0, 0)
    assert (new.cancel_reason, new.progress_permille, new.expires_at_s) == ("", 0, 0)
    assert not new.letter_confirmed
    assert new.disposition is not None
    assert (new.disposition.kind, new.disposition.by, new.disposition.reason) == ("replayed", "ada", "mended")
    assert new.deduplication_id != old.deduplication_id
    assert machine.bury(machine.claim(new, stamp(101), lease_of()), stamp(102), ERROR, "x").letter_id != old.letter_id


def test_a_replay_s_retries_are_not_cut_short_by_when_the_first_life_began() -> None:
    """Retry(deadline=...) counts from an attempt's first start: a replayed task starts anew."""
    new = machine.replay(dead(), stamp(1_000_000), "mended")
    assert machine.claim(new, stamp(1_000_001), lease_of()).first_started_at_ms == T0 + 1_000_001_000


def test_an_edited_payload_begins_without_the_steps_of_the_old_one() -> None:
    """R27: what was quoted for the old amount is not charged for the new one; the same payload goes on where it was."""
    left = dead(checkpoint=PLACE, checkpoint_fence=1)
    edited = machine.replay(left, stamp(100), "mended", PLACE, "d2")
    assert (edited.checkpoint, edited.checkpoint_fence) == (None, 0)
    same = machine.replay(left, stamp(100), "mended")
    assert (same.checkpoint, same.checkpoint_fence) == (PLACE, 1)


def test_a_replay_may_bring_a_mended_payload() -> None:
    new = machine.replay(dead(), stamp(100), "mended", PLACE, "d2")
    assert (new.payload, new.digest) == (PLACE, "d2")


def test_a_discarded_letter_is_closed_and_may_be_forgotten_in_time() -> None:
    row = machine.discard(dead(), stamp(100, by="ada"), "not worth it")
    assert row.disposition is not None
    assert (row.disposition.kind, row.disposition.by) == ("discarded", "ada")
    assert row.ended_at_ms == T0 + 1000, "when it ended does not change"
    assert row.expires_at_s > (T0 + 100_000) // 1000 + 28 * DAY_S


def test_a_parked_row_is_looked_at_by_nobody() -> None:
    assert machine.park(queued(), stamp(1), "halted").check_at_ms == 0


# ---- one's own write -------------------------------------------------------------------------------------------
def test_a_write_is_one_s_own_only_by_its_id_and_birth() -> None:
    """R3: another worker may have written the very same values."""
    written = leased()
    assert machine.own_write(replace(written), written)
    assert not machine.own_write(replace(written, write_id="w-other"), written)
    assert not machine.own_write(replace(written, birth="b2"), written)
    assert not machine.own_write(None, written)


# ---- what a person counts --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("row", "attempts"),
    [
        (queued(), 1),
        (leased(), 1),
        (in_state(State.RETRYING), 2),
        (in_state(State.COMPLETED), 1),
        (in_state(State.DEAD_LETTERED), 1),
        (in_state(State.CANCELLED), 0),
        (in_state(State.EXPIRED), 0),
        (machine.cancel(leased(), stamp(5), "asked"), 1),
        (machine.cancel(machine.unclaim(leased(), stamp(5)), stamp(6), "asked"), 0),
        (machine.expire(in_state(State.RETRYING), stamp(99)), 1),
        (machine.cancel(in_state(State.RETRYING), stamp(99), "asked"), 1),
        (machine.cancel(machine.replay(dead(), stamp(99), "mended"), stamp(100), "asked"), 0),
    ],
    ids=lambda each: f"{each.state}-{each.history[-2:][0].event}" if isinstance(each, Row) else str(each),
)
def test_an_attempt_is_counted_once_it_was_made(row: Row, attempts: int) -> None:
    assert row.attempt == attempts
