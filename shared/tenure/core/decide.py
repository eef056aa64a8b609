"""What a moment calls for: (what is known) -> one of a closed set of decisions. Pure, like everything here.

Three moments: a delivery arrives, an attempt ends, reconcile looks at a row; a submit that meets a row is decided in
core/resubmission.py. Each decision carries the row to write, built by core/machine.py, and what to do with the message
once that write stands. A refused write is decided again on the row that the refusal carried.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core import lease, limits, machine
from tenure.core.adoption import adopted
from tenure.core.envelope import Envelope
from tenure.core.machine import Event, Lease, Stamp
from tenure.core.outcome import Failed, Lost, Outcome, Released, Snoozed, Succeeded, named
from tenure.core.replaying import is_discarded, is_present, why_not
from tenure.core.retry import Retry, fits_visibility
from tenure.core.task import Row, State, Stored


# ---- a delivery arrives ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Claim:
    """Write `row`; if it stands, this worker holds the task."""

    row: Row


@dataclass(frozen=True, slots=True)
class HandBack:
    """It may not run now: hide the message for so long, count nothing, keep it."""

    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Delete the message, run nothing. With `row`, only after that write stands (an ending)."""

    why: str
    row: Row | None = None


@dataclass(frozen=True, slots=True)
class Bury:
    """Write `row` (None where it is already dead-lettered), send its letter, confirm it, then delete the message."""

    why: str
    row: Row | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """An operator's own redrive brought a letter back to the main queue: write `row`, then decide again."""

    row: Row


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Nothing here can be run: send the message to the DLQ with its reason, then delete it."""

    why: str


Admission = Claim | HandBack | Drop | Bury | Replay | Quarantine


@dataclass(frozen=True, slots=True)
class Arrival:
    """What is known of a delivery besides its row."""

    envelope: Envelope
    receive_count: int
    redriven: str = ""
    """It bears bury's mark on a main queue: the id of the letter that it was."""
    paused: bool = False
    adopting_queue: str = ""
    """The standard queue it came from, whose messages may begin a task; "" on an ordered one, where none may."""
    adopting_tier: str = ""
    unknown: str = ""
    """Why this worker could not run it even if it were let in: it knows no such task, or only another version."""
    sent_at_ms: int = 0
    """When SQS took the message; 0 if it does not say."""
    jitter: float = 0.0
    """A fraction in [0, 1) that spreads those who wait for the same moment."""


UNKNOWN_RECEIVES = 10
UNKNOWN_SECONDS = 60
"""A task that this worker does not know is handed back for a minute at a time, at least ten times and for ten minutes
since it could first run, before it is buried: a deployment under way brings workers that know it by then."""


def is_first_delivery(arrival: Arrival) -> bool:
    """Whether the message alone tells the row, so that it may be claimed with one write and no read.

    All three are needed: a message received before may have been claimed; a re-send follows an earlier message that
    may have been; and a snapshot above its first version is not the row's beginning.
    """
    return arrival.receive_count == 1 and arrival.envelope.sends == 1 and not arrival.redriven


def admit(row: Row | None, arrival: Arrival, new: Lease, stamp: Stamp) -> Admission:
    """What to do with a delivery, given the row as last seen. None: there is none, and a row decided on is inserted."""
    envelope, known = arrival.envelope, row is not None
    if row is None:
        begun = adopted(envelope, arrival.adopting_queue, stamp, arrival.sent_at_ms, arrival.adopting_tier)
        if isinstance(begun, str):
            return Quarantine(begun)
        row = begun
    if row.task != envelope.task:
        return Quarantine(f"its id is that of a task {row.task!r}, and it names {envelope.task!r}")
    if envelope.birth and row.birth != envelope.birth:
        return Drop("another life of this task: its message is older than its row")
    if row.final:
        return _meet_final(row, arrival, stamp)
    barred = _not_now(row, arrival, stamp) or _never_again(row, arrival, new, stamp)
    if not barred and known and not new.alone and must_run_alone(row, new.max_attempts):
        # Seen only now, since another worker had it in between. Its next delivery is read first, and runs alone.
        return HandBack(0, "it may have killed its worker, and there is company here")
    return barred or Claim(machine.claim(row, stamp, new))


def _not_now(row: Row, arrival: Arrival, stamp: Stamp) -> Admission | None:
    """Handed back, or ended because it may not start any more."""
    if row.state is State.LEASED and not lease.lapsed(row.lease_end_at_ms, stamp.now_ms):
        rest = lease.rest_seconds(row.lease_end_at_ms, stamp.now_ms) + limits.SKEW_SECONDS
        return HandBack(rest + 1 + arrival.jitter * 5, "another worker holds a live lease")
    ended = end_instead_of_run(row, stamp)
    if ended:
        return Drop(ended.reason, ended)
    if row.state is State.WAITING:
        return HandBack(limits.SQS_DELAY_SECONDS_MAX, "its ordering key is halted")
    if row.state is not State.LEASED and row.due_at_ms > stamp.now_ms:
        return HandBack(lease.rest_seconds(row.due_at_ms, stamp.now_ms), "not due yet")
    if arrival.paused:
        return HandBack(60 + arrival.jitter * 60, "its queue is paused")
    if arrival.unknown and not _unknown_for_good(row, arrival, stamp):
        return HandBack(UNKNOWN_SECONDS, arrival.unknown)
    return None


def _unknown_for_good(row: Row, arrival: Arrival, stamp: Stamp) -> bool:
    """Both are asked: receives alone may have been used up by retries and pauses, time alone by a backlog."""
    since_ms = max(row.submitted_at_ms, row.due_at_ms, row.last_started_at_ms)
    waited_seconds = (stamp.now_ms - since_ms) / 1000
    return arrival.receive_count >= UNKNOWN_RECEIVES and waited_seconds >= UNKNOWN_RECEIVES * UNKNOWN_SECONDS


def _never_again(row: Row, arrival: Arrival, new: Lease, stamp: Stamp) -> Admission | None:
    """Buried instead of run: nobody here can, or it has used up its budget by killing its workers."""
    if arrival.unknown:
        error = named("UnknownTask", arrival.unknown)
        return Bury(machine.UNRUNNABLE, machine.bury(row, stamp, error, machine.UNRUNNABLE))
    lost = machine.taken_over_losses(row)
    if lost and row.failures + row.losses + lost >= new.max_attempts:
        count = row.losses + lost
        error = named(
            "WorkerLost", f"its worker was lost in each of {count} attempts that ran alone; last {row.worker}"
        )
        return Bury(machine.WORKER_LOST, machine.bury(row, stamp, error, machine.WORKER_LOST))
    return None


def can_wait(row: Row, envelope: Envelope) -> bool:
    """Whether a task whose ordering key is halted is to wait for it. What has ended, runs, or may not run any more is
    decided about as ever."""
    another_life = row.birth != (envelope.birth or row.birth)
    return not another_life and row.state in (State.QUEUED, State.RETRYING, State.WAITING)


def must_run_alone(row: Row, max_attempts: int) -> bool:
    """Whether this task may have killed a worker, so that the next one runs it with nothing beside it.

    Then a second death is known to be its own, and its neighbours are never blamed. A task with one attempt only runs
    alone from the start, since a death in company could never be charged.
    """
    return row.state is State.LEASED or row.losses > 0 or max_attempts == 1


def end_instead_of_run(row: Row, stamp: Stamp) -> Row | None:
    """The row ended, if it may not start any more: cancelled on request, or past its deadline. Else None."""
    if row.cancel_requested_at_ms:
        return machine.cancel(row, stamp, row.cancel_reason)
    if row.deadline_at_ms and stamp.now_ms > row.deadline_at_ms:
        return machine.expire(row, stamp)
    return None


def _meet_final(row: Row, arrival: Arrival, stamp: Stamp) -> Admission:
    if row.state is not State.DEAD_LETTERED:
        return Drop(f"already {row.state}")
    if is_present(row, arrival.redriven):
        barred = why_not(row, stamp.now_ms)  # then its letter goes back: an open dead letter keeps its bell
        return Bury(barred) if barred else Replay(machine.replay(row, stamp, "redriven from the DLQ by hand"))
    if not row.letter_confirmed and not is_discarded(row):
        return Bury("its letter was not confirmed")
    return Drop("its dead letter was discarded" if is_discarded(row) else "already dead-lettered")


# ---- an attempt ends -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Settlement:
    """Write `row`, then do `then` with the message: delete it, bury it (letter, confirm, delete) or hide it."""

    row: Row
    then: str
    """ "delete", "bury" or "hide"."""
    hide_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known when an attempt ends, besides the row and the outcome."""

    retry: Retry
    ordered: bool
    jitter: float
    result: Stored | None = None


def settle(row: Row, outcome: Outcome, ending: Ending, stamp: Stamp) -> Settlement | None:
    """What becomes of an attempt that ended. None: the lease was lost, so nothing at all is written or deleted."""
    if isinstance(outcome, Lost):
        return None
    if isinstance(outcome, Succeeded):
        return Settlement(machine.succeed(row, stamp, ending.result, outcome.unstorable), "delete")
    if row.cancel_requested_at_ms:
        return Settlement(machine.cancel(row, stamp, row.cancel_reason), "delete")
    if isinstance(outcome, Failed):
        return _fail(row, outcome, ending, stamp)
    if isinstance(outcome, Snoozed):
        due = stamp.now_ms + round(outcome.delay_seconds * 1000)
        held = fits_visibility(outcome.delay_seconds, ordered=ending.ordered)
        new = machine.snooze(row, stamp, due, outcome.reason, message_held=held)
        return Settlement(new, "hide" if held else "delete", outcome.delay_seconds)
    return _give_back(row, outcome, stamp)


def _fail(row: Row, outcome: Failed, ending: Ending, stamp: Stamp) -> Settlement:
    reason = _why_no_more(row, outcome, ending, stamp)
    if reason:
        return Settlement(machine.bury(row, stamp, outcome.error, reason), "bury")
    delay = _delay_seconds(row, outcome, ending)
    held = fits_visibility(delay, ordered=ending.ordered)
    due = stamp.now_ms + round(delay * 1000)
    return Settlement(
        machine.retry(row, stamp, outcome.error, due, message_held=held), "hide" if held else "delete", delay
    )


def _delay_seconds(row: Row, outcome: Failed, ending: Ending) -> float:
    if outcome.delay_seconds is not None:
        return outcome.delay_seconds
    return ending.retry.delay_seconds(row.failures + 1, ending.jitter)


def _why_no_more(row: Row, outcome: Failed, ending: Ending, stamp: Stamp) -> str:
    """The reason for which a failed attempt is the last one, or nothing."""
    if not outcome.retriable:
        return "gave_up"
    if row.failures + 1 + row.losses >= row.max_attempts:
        return "attempts_used_up"
    due = stamp.now_ms + round(_delay_seconds(row, outcome, ending) * 1000)
    within = ending.retry.deadline_seconds
    if within is not None and due > row.first_started_at_ms + within * 1000:
        return "retry_deadline"
    if row.deadline_at_ms and due > row.deadline_at_ms:
        return "deadline"
    return ""


def _give_back(row: Row, outcome: Released, stamp: Stamp) -> Settlement:
    if not outcome.started:
        return Settlement(machine.unclaim(row, stamp), "hide", outcome.wait_seconds)
    if row.checkpoint_fence == row.fence and row.checkpoint is not None:
        return Settlement(machine.release(row, stamp, None), "hide", 0.0)
    error = named("HandedOver", "its worker stopped before it was done, and it had left no newer checkpoint")
    if row.failures + 1 + row.losses >= row.max_attempts:
        return Settlement(machine.bury(row, stamp, error, "attempts_used_up"), "bury")
    return Settlement(machine.release(row, stamp, error), "hide", 0.0)


# ---- reconcile looks at a row ----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Resend:
    """Write `row` first, then send its message, delayed by so many seconds."""

    row: Row
    delay_seconds: int


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Nothing to do yet: write `row`, which only moves its place in the due index."""

    row: Row
    why: str


@dataclass(frozen=True, slots=True)
class End:
    """Write `row`, which ends the task; its message, if one comes, will be dropped."""

    row: Row


@dataclass(frozen=True, slots=True)
class SendLetter:
    """The row is dead-lettered and its letter unconfirmed: send it, then confirm."""

    row: Row


@dataclass(frozen=True, slots=True)
class Leave:
    """The row has moved on since the index said so (an index is read late): nothing to do."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What reconcile knows of a row's queue."""

    paused: bool = False
    backlog: int = 0
    """Visible messages in the row's SQS queue."""
    drain_seconds: float = float("inf")
    """How long that backlog may be expected to take: messages in it are late, not lost. Unknown: while it lasts."""
    look_again_seconds: float = limits.RECONCILE_BACKOFF_SECONDS_MAX
    """When to look again at a row whose wait the backlog explains."""
    retention_seconds: int = limits.SQS_RETENTION_SECONDS_DEFAULT
    restored: tuple[int, int] | None = None
    """(from, to): the table was put back to what it was at `from`, and its writes until `to` are lost."""


Reconciled = Resend | LookAgain | End | SendLetter | Leave


def reconcile(row: Row, around: Surroundings, stamp: Stamp) -> Reconciled:
    """What reconcile does about a row whose time to be looked at has come.

    SQS cannot be asked whether it holds a message, so a re-send is decided on time alone: never while a backlog or a
    pause explains the wait, always once the message must be gone by retention.
    """
    if not row.check_at_ms or row.check_at_ms > stamp.now_ms:
        return Leave()
    if row.state is State.DEAD_LETTERED:
        return SendLetter(row)
    if row.final or row.state is State.WAITING:
        return Leave()
    if row.state is State.LEASED and not lease.lapsed(row.lease_end_at_ms, stamp.now_ms):
        at_ms = row.lease_end_at_ms + limits.RECONCILE_GRACE_SECONDS * 1000
        return LookAgain(machine.look_again(row, stamp, at_ms), "its lease is live")
    if _may_be_finished(row, around):
        return _later(row, stamp, limits.RECONCILE_BACKOFF_SECONDS_MAX, HELD)
    ended = end_instead_of_run(row, stamp)
    if ended:
        return End(ended)
    return _explained(row, around, stamp) or Resend(
        machine.send(row, stamp), min(lease.rest_seconds(row.due_at_ms, stamp.now_ms), limits.SQS_DELAY_SECONDS_MAX)
    )


HELD = "the table was put back to an earlier time: it may have been done since"
"""Why a row is not re-sent that a person has to decide about."""


def _may_be_finished(row: Row, around: Surroundings) -> bool:
    """Whether the task may have been done in the time whose writes are lost. A message that still comes proves it was
    not, and its claim touches the row; without one, only a person can tell."""
    if around.restored is None:
        return False
    from_ms, to_ms = around.restored
    touched_ms = max(row.submitted_at_ms, row.last_heartbeat_at_ms, *(line.at_ms for line in row.history), 0)
    return touched_ms <= from_ms and row.due_at_ms <= to_ms


_SENDING = frozenset({Event.SUBMIT.value, Event.SEND.value, Event.REPLAY.value})


def _explained(row: Row, around: Surroundings, stamp: Stamp) -> LookAgain | None:
    """Why the message may well be where it should be, so that no other is sent yet. None: nothing explains it."""
    sent = (line.at_ms for line in row.history if line.event in _SENDING)  # an old row's latest message may be young
    since_ms = max(row.due_at_ms, row.submitted_at_ms, row.last_started_at_ms, *sent)
    waited_seconds = (stamp.now_ms - since_ms) / 1000
    if row.message_gone or waited_seconds > around.retention_seconds:
        return None
    if around.paused:
        return _later(row, stamp, limits.RECONCILE_BACKOFF_SECONDS_MAX, "its queue is paused")
    if around.backlog and waited_seconds < around.drain_seconds:
        return _later(row, stamp, around.look_again_seconds, "the backlog explains the wait")
    return None


def _later(row: Row, stamp: Stamp, seconds: float, why: str) -> LookAgain:
    return LookAgain(machine.look_again(row, stamp, stamp.now_ms + round(seconds * 1000)), why)
