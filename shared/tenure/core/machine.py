"""Every change of a task's row. If it changes a task's life, it is in this file; what a moment calls for is decided
in core/decide.py, which can only choose among the constructors below.

Rules for this file: every transition is a row of TRANSITIONS, and a pair that is absent is illegal; a constructor
takes the row as last seen and a Stamp, and returns the row as it shall be; nobody else builds a changed Row.

A write replaces the row only if `version` and `birth` in the table are still those it was decided on. Every write
bears a fresh write id, by which its author, and nobody else, recognises it after a lost reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tenure.core import lease, limits
from tenure.core.errors import IllegalTransition
from tenure.core.recorded import bounded, disposed, happening
from tenure.core.task import Disposition, ErrorRecord, Happening, Row, State, Stored


class Event(StrEnum):
    """What can happen to a task."""

    SUBMIT = "submit"
    SCHEDULE = "schedule"
    CLAIM = "claim"
    BEAT = "beat"
    SUCCEED = "succeed"
    RETRY = "retry"
    SNOOZE = "snooze"
    BURY = "bury"
    RELEASE = "release"
    """A started attempt is given back."""
    UNCLAIM = "unclaim"
    """A claimed task that was never started is given back, free of charge."""
    SEND = "send"
    """Reconcile or ingest sends another message, or a submit that relies on another's row."""
    PARK = "park"
    """The message is taken off the queue and the row waits (a halted key)."""
    REQUEST_CANCEL = "request_cancel"
    CANCEL = "cancel"
    EXPIRE = "expire"
    REFUSE = "refuse"
    """SQS refused the first send for certain."""
    CONFIRM_LETTER = "confirm_letter"
    REPLAY = "replay"
    DISCARD = "discard"


S, E = State, Event

TRANSITIONS: Mapping[tuple[State | None, Event], State] = {
    (None, E.SUBMIT): S.QUEUED,
    (None, E.SCHEDULE): S.SCHEDULED,
    # a worker
    (S.QUEUED, E.CLAIM): S.LEASED,
    (S.RETRYING, E.CLAIM): S.LEASED,
    (S.SCHEDULED, E.CLAIM): S.LEASED,
    (S.LEASED, E.CLAIM): S.LEASED,  # a lapsed lease is taken over
    (S.LEASED, E.BEAT): S.LEASED,
    (S.LEASED, E.SUCCEED): S.COMPLETED,
    (S.LEASED, E.RETRY): S.RETRYING,
    (S.LEASED, E.SNOOZE): S.RETRYING,
    (S.LEASED, E.RELEASE): S.RETRYING,
    (S.LEASED, E.UNCLAIM): S.QUEUED,
    (S.LEASED, E.BURY): S.DEAD_LETTERED,
    # a task that may not run any more is ended by whoever meets it
    (S.QUEUED, E.BURY): S.DEAD_LETTERED,
    (S.RETRYING, E.BURY): S.DEAD_LETTERED,
    (S.SCHEDULED, E.BURY): S.DEAD_LETTERED,
    (S.QUEUED, E.EXPIRE): S.EXPIRED,
    (S.SCHEDULED, E.EXPIRE): S.EXPIRED,
    (S.WAITING, E.EXPIRE): S.EXPIRED,
    (S.RETRYING, E.EXPIRE): S.EXPIRED,
    (S.LEASED, E.EXPIRE): S.EXPIRED,  # met lapsed, or given back, after its deadline
    # maintenance
    (S.SCHEDULED, E.SEND): S.QUEUED,
    (S.WAITING, E.SEND): S.QUEUED,
    (S.RETRYING, E.SEND): S.QUEUED,
    (S.QUEUED, E.SEND): S.QUEUED,
    (S.LEASED, E.SEND): S.LEASED,  # lapsed, and its message has not come back
    (S.QUEUED, E.PARK): S.WAITING,
    (S.RETRYING, E.PARK): S.WAITING,
    (S.DEAD_LETTERED, E.CONFIRM_LETTER): S.DEAD_LETTERED,
    # people
    (S.QUEUED, E.CANCEL): S.CANCELLED,
    (S.SCHEDULED, E.CANCEL): S.CANCELLED,
    (S.WAITING, E.CANCEL): S.CANCELLED,
    (S.RETRYING, E.CANCEL): S.CANCELLED,
    (S.LEASED, E.REQUEST_CANCEL): S.LEASED,
    (S.LEASED, E.CANCEL): S.CANCELLED,  # settled or met lapsed after a request
    (S.DEAD_LETTERED, E.REPLAY): S.QUEUED,
    (S.DEAD_LETTERED, E.DISCARD): S.DEAD_LETTERED,
    # a submit that SQS refused, and a later one that opens it again
    (S.QUEUED, E.REFUSE): S.CANCELLED,
    (S.CANCELLED, E.SUBMIT): S.QUEUED,
    (S.CANCELLED, E.SCHEDULE): S.SCHEDULED,
}
"""(state, event) -> state. None stands for "no row"."""

REFUSED = "refused"
"""Reason of a row whose submit SQS refused, for people: anybody may give it. What tells such a row is Row.refused."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a write takes from outside: the time, its fresh id, and who makes it (for people to read)."""

    now_ms: int
    write_id: str
    by: str = ""


def next_state(state: State | None, event: Event) -> State:
    """The state after `event`. Raises IllegalTransition where the table has no row."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(f"no transition from {state or 'no row'} by {event}") from None


def _next(row: Row, event: Event, stamp: Stamp, detail: str = "", **changes: Any) -> Row:
    state = next_state(row.state, event)
    line = happening(stamp.now_ms, event.value, changes.get("fence", row.fence), detail)
    return replace(
        row,
        state=state,
        version=row.version + 1,
        write_id=stamp.write_id,
        history=(*row.history, line)[-limits.HISTORY_EVENTS_MAX :],
        **bounded(changes),
    )


_NO_LEASE: dict[str, Any] = {"lease_token": "", "lease_end_at_ms": 0, "claimed_alone": False}


def own_write(seen: Row | None, written: Row) -> bool:
    """Whether a refused write was in truth applied before its reply was lost: the row bears that write's own id.

    Never judged by equal values: another worker may have written the same ones.
    """
    return seen is not None and seen.birth == written.birth and seen.write_id == written.write_id


# ---- submit ----------------------------------------------------------------------------------------------------
def submitted(row: Row, stamp: Stamp) -> Row:
    """The first version of a new task: `queued`, or `scheduled` when it is due later than SQS can delay."""
    scheduled = row.due_at_ms - stamp.now_ms > limits.SQS_DELAY_SECONDS_MAX * 1000
    event = E.SCHEDULE if scheduled else E.SUBMIT
    return replace(
        row,
        state=next_state(None, event),
        version=1,
        write_id=stamp.write_id,
        fence=row.fence_floor,
        sends=0 if scheduled else 1,
        message_gone=scheduled,
        submitted_at_ms=stamp.now_ms,
        check_at_ms=check_at(row.due_at_ms, stamp.now_ms, message_held=not scheduled, sends=1),
        history=(Happening(stamp.now_ms, event.value, row.fence_floor),),
    )


def refuse(row: Row, stamp: Stamp, reason: str) -> Row:
    """SQS refused the send of a submit for certain. Only a row that is still as its submit left it can be refused."""
    if not row.untouched:
        raise IllegalTransition(f"task {row.id} is at version {row.version}: somebody has it, so it was not refused")
    return _next(row, E.REFUSE, stamp, reason, reason=REFUSED, **_ending(row, stamp))


def rely(row: Row, stamp: Stamp) -> Row:
    """Another submit of the key counts on this row: the one that wrote it cannot take it back. Not a new send."""
    return _next(row, E.SEND, stamp, "found by another submit")


def reopen(row: Row, fresh: Row, stamp: Stamp) -> Row:
    """A refused task is submitted again: the new submit's content in the old row's place, whose versions go on."""
    if not row.refused:
        raise IllegalTransition(f"task {row.id} was cancelled ({row.reason}), not refused")
    new = submitted(replace(fresh, birth=row.birth), stamp)
    event = E.SCHEDULE if new.state is S.SCHEDULED else E.SUBMIT
    return replace(
        new,
        state=next_state(row.state, event),
        version=row.version + 1,
        fence=row.fence,
        fence_floor=row.fence_floor,
        sends=max(row.sends + 1, new.sends),
    )


# ---- the worker ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Lease:
    """What a claim brings: how long, under which token, by which worker, alone in its process or in company."""

    seconds: float
    token: str
    worker: str
    alone: bool
    max_attempts: int
    pool: str = ""


def claim(row: Row, stamp: Stamp, new: Lease) -> Row:
    """A worker takes the task. Taking over a lease that lapsed while its worker ran nothing else is a loss."""
    lost = taken_over_losses(row)
    return _next(
        row,
        E.CLAIM,
        stamp,
        f"took over, lost {lost}" if row.state is S.LEASED else "",
        fence=row.fence + 1,
        lease_token=new.token,
        lease_end_at_ms=lease.lease_end_at_ms(stamp.now_ms, new.seconds),
        claimed_alone=new.alone,
        worker=new.worker,
        pool=new.pool or row.pool,
        max_attempts=new.max_attempts,
        losses=row.losses + lost,
        message_gone=False,
        last_heartbeat_at_ms=stamp.now_ms,
        first_started_at_ms=row.first_started_at_ms or stamp.now_ms,
        last_started_at_ms=stamp.now_ms,
    )


def taken_over_losses(row: Row) -> int:
    """Losses that taking this row's lapsed lease adds: one if it was claimed alone, none in company or unleased."""
    return 1 if row.state is S.LEASED and row.claimed_alone else 0


def beat(row: Row, stamp: Stamp, lease_seconds: float, **progress: Any) -> Row:
    """The holder is alive: the lease runs anew. `progress` may set progress_permille and checkpoint. No history."""
    new = _next(
        row,
        E.BEAT,
        stamp,
        lease_end_at_ms=lease.lease_end_at_ms(stamp.now_ms, lease_seconds),
        last_heartbeat_at_ms=stamp.now_ms,
        **progress,
    )
    return replace(new, history=row.history)


def checkpointed(row: Row, stamp: Stamp, lease_seconds: float, place: Stored, progress_permille: int) -> Row:
    """A beat that also names a newer checkpoint."""
    told = {"progress_permille": progress_permille, "checkpoint": place, "checkpoint_fence": row.fence}
    return beat(row, stamp, lease_seconds, **told)


def succeed(row: Row, stamp: Stamp, result: Stored | None, unstorable: ErrorRecord | None = None) -> Row:
    """The handler returned; `unstorable` tells why its value is not kept, if it is not."""
    reason = RESULT_NOT_STORABLE if unstorable else ""
    return _next(
        row,
        E.SUCCEED,
        stamp,
        reason,
        result=result,
        reason=reason,
        error=unstorable or row.error,
        progress_permille=1000,
        **_ending(row, stamp),
    )


def retry(row: Row, stamp: Stamp, error: ErrorRecord, due_at_ms: int, *, message_held: bool) -> Row:
    """The attempt failed and another is due later. `message_held`: SQS keeps the message until then."""
    return _next(
        row,
        E.RETRY,
        stamp,
        error.type,
        **_failure(row, stamp, error),
        **_waiting_until(row, stamp, due_at_ms, message_held),
    )


def snooze(row: Row, stamp: Stamp, due_at_ms: int, reason: str, *, message_held: bool) -> Row:
    """The handler asked for later; nothing failed."""
    return _next(row, E.SNOOZE, stamp, reason, **_waiting_until(row, stamp, due_at_ms, message_held))


def release(row: Row, stamp: Stamp, error: ErrorRecord | None) -> Row:
    """A started attempt is given back after its handler returned. With `error` it counts as a failure."""
    counted = _failure(row, stamp, error) if error else {}
    return _next(
        row,
        E.RELEASE,
        stamp,
        error.type if error else "handed over",
        **counted,
        **_waiting_until(row, stamp, stamp.now_ms, True),
    )


def unclaim(row: Row, stamp: Stamp) -> Row:
    """A claimed task that was never started goes back as it was."""
    began: dict[str, Any] = {}
    if row.first_started_at_ms == row.last_started_at_ms:  # no attempt before this claim
        began = {"first_started_at_ms": 0, "last_started_at_ms": 0}
    return _next(row, E.UNCLAIM, stamp, **began, **_waiting_until(row, stamp, row.due_at_ms, True))


def bury(row: Row, stamp: Stamp, error: ErrorRecord, reason: str) -> Row:
    """The task is set aside as a dead letter; its letter is still to be sent, and reconcile looks that it was."""
    failed = _failure(row, stamp, error) if reason not in (WORKER_LOST, UNRUNNABLE) else _seen(row, stamp, error)
    losses = row.losses + (taken_over_losses(row) if reason == WORKER_LOST else 0)
    ending = _ending(row, stamp) | {
        "expires_at_s": 0,  # an open dead letter has no time to live
        "check_at_ms": stamp.now_ms + limits.RECONCILE_GRACE_SECONDS * 1000,
    }
    return _next(
        row,
        E.BURY,
        stamp,
        reason,
        reason=reason,
        losses=losses,
        letter_confirmed=False,
        disposition=Disposition("open"),
        **failed,
        **ending,
    )


WORKER_LOST = "worker_lost"
RESULT_NOT_STORABLE = "result_not_storable"
UNRUNNABLE = "unrunnable"
"""Reason of a task that no worker here can run: unknown name, or a payload that its handler cannot take."""


# ---- endings that anyone may write -----------------------------------------------------------------------------
def cancel(row: Row, stamp: Stamp, reason: str) -> Row:
    """The task ends cancelled."""
    return _next(row, E.CANCEL, stamp, reason, reason=reason, **_ending(row, stamp))


def request_cancel(row: Row, stamp: Stamp, reason: str) -> Row:
    """A running task is asked to stop. Only a success still counts after this."""
    return _next(row, E.REQUEST_CANCEL, stamp, reason, cancel_requested_at_ms=stamp.now_ms, cancel_reason=reason)


def expire(row: Row, stamp: Stamp) -> Row:
    """The task's deadline has passed."""
    return _next(row, E.EXPIRE, stamp, reason="deadline", **_ending(row, stamp))


# ---- maintenance -----------------------------------------------------------------------------------------------
def send(row: Row, stamp: Stamp) -> Row:
    """Another message is about to be sent for this row; written before it is, so that each send has its own id."""
    check = check_at(max(row.due_at_ms, row.lease_end_at_ms), stamp.now_ms, message_held=True, sends=row.sends + 1)
    return _next(row, E.SEND, stamp, sends=row.sends + 1, check_at_ms=check, message_gone=False)


def look_again(row: Row, stamp: Stamp, at_ms: int) -> Row:
    """Reconcile found nothing to do yet. Not an event in the task's life: only its place in the index moves."""
    return replace(row, version=row.version + 1, write_id=stamp.write_id, check_at_ms=at_ms)


def confirm_letter(row: Row, stamp: Stamp) -> Row:
    """The letter lies in the DLQ: nothing about this burial is left to do."""
    return _next(row, E.CONFIRM_LETTER, stamp, letter_confirmed=True, check_at_ms=0)


def replay(row: Row, stamp: Stamp, reason: str, payload: Stored | None = None, digest: str = "") -> Row:
    """A dead letter gets a new budget. Its message is sent after this write, under a new deduplication id."""
    return _next(
        row,
        E.REPLAY,
        stamp,
        reason,
        failures=0,
        losses=0,
        replays=row.replays + 1,
        sends=row.sends + 1,
        due_at_ms=0,
        first_started_at_ms=0,  # Retry(deadline=...) counts from it, and this is a new budget
        ended_at_ms=0,
        reason="",
        cancel_requested_at_ms=0,
        cancel_reason="",
        progress_permille=0,
        # Steps and checkpoint say what was done with the old payload: an edited one begins anew.
        **({"payload": payload, "digest": digest, "checkpoint": None, "checkpoint_fence": 0} if payload else {}),
        disposition=disposed("replayed", stamp.by, stamp.now_ms, reason),
        expires_at_s=0,
        message_gone=False,
        letter_confirmed=False,
        check_at_ms=check_at(0, stamp.now_ms, message_held=True, sends=1),
    )


def discard(row: Row, stamp: Stamp, reason: str) -> Row:
    """A person has decided that this dead letter needs nothing more."""
    return _next(
        row,
        E.DISCARD,
        stamp,
        reason,
        disposition=disposed("discarded", stamp.by, stamp.now_ms, reason),
        expires_at_s=expires_at_s(stamp),
        check_at_ms=0,
    )


def park(row: Row, stamp: Stamp, reason: str) -> Row:
    """The message leaves SQS and the row waits for its ordering key to open."""
    return _next(row, E.PARK, stamp, reason, check_at_ms=0)


# ---- shared pieces ---------------------------------------------------------------------------------------------
def check_at(due_at_ms: int, now_ms: int, *, message_held: bool, sends: int) -> int:
    """When reconcile should look at a task that is due then.

    With a message in SQS: a grace after it was due, doubling with each send up to an hour, since SQS cannot be asked
    whether it still holds one. Without: as early as SQS's own delay can carry a message to the second.
    """
    due = max(due_at_ms, now_ms)
    if not message_held:
        return max(now_ms, due - limits.SQS_DELAY_SECONDS_MAX * 1000)
    grace: int = limits.RECONCILE_GRACE_SECONDS * 2 ** min(max(sends, 1) - 1, 20)
    return due + min(grace, limits.RECONCILE_BACKOFF_SECONDS_MAX) * 1000


def expires_at_s(stamp: Stamp) -> int:
    """When a row that ends now may be forgotten."""
    return stamp.now_ms // 1000 + limits.ROW_LIFE_SECONDS_MIN


def _ending(row: Row, stamp: Stamp) -> dict[str, Any]:
    return {**_NO_LEASE, "ended_at_ms": stamp.now_ms, "check_at_ms": 0, "expires_at_s": expires_at_s(stamp)}


def _failure(row: Row, stamp: Stamp, error: ErrorRecord) -> dict[str, Any]:
    return {**_seen(row, stamp, error), "failures": row.failures + 1}


def _seen(row: Row, stamp: Stamp, error: ErrorRecord) -> dict[str, Any]:
    return {
        "error": error,
        "first_failed_at_ms": row.first_failed_at_ms or stamp.now_ms,
        "last_failed_at_ms": stamp.now_ms,
    }


def _waiting_until(row: Row, stamp: Stamp, due_at_ms: int, message_held: bool) -> dict[str, Any]:
    check = check_at(due_at_ms, stamp.now_ms, message_held=message_held, sends=row.sends)
    return {**_NO_LEASE, "due_at_ms": due_at_ms, "check_at_ms": check, "message_gone": not message_held}
