"""A row told to a person: where the task is, how it came there, and what happens next."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tenure.core import lease
from tenure.core.durations import text_of
from tenure.core.task import Row, State


def tell(row: Row, now_ms: int, hidden_seconds: int = 0) -> str:
    """A few lines of text about a task. Shows no payload and no result.

    hidden_seconds: for how long its queue hides a message (Topology.visibility_seconds); 0 where that is not known.
    """
    present = [_PRESENT[row.state](row, now_ms)]
    if row.state is State.LEASED:
        present += _takeover(row, now_ms, hidden_seconds)
    lines = [_headline(row), "", *present, *_next(row, now_ms)]
    if row.cancel_requested_at_ms and not row.final:
        lines.append(f"A cancel was asked for {_when(row.cancel_requested_at_ms, now_ms)}: {row.cancel_reason}")
    if row.error is not None:
        lines += ["", f"Last error ({row.error.fingerprint}): {row.error.type}: {row.error.message}"]
    lines += ["", "History:"]
    lines += [f"  {_at(h.at_ms)}  {h.event:<15}{h.detail}".rstrip() for h in row.history]
    return "\n".join(lines)


def _headline(row: Row) -> str:
    of = f" for tenant {row.tenant}" if row.tenant else ""
    key = f", ordering key {row.ordering_key!r}" if row.ordering_key else ""
    return f"Task {row.id} ({row.task}{of}) on queue {row.queue}/{row.tier}{key} is {row.state}."


def _spent(row: Row) -> str:
    return f"{row.failures} failed and {row.losses} lost of {row.max_attempts} attempts"


def _scheduled(row: Row, now_ms: int) -> str:
    return f"It is due {_when(row.due_at_ms, now_ms)}; until SQS can carry the rest of the delay, it has no message."


def _waiting(row: Row, now_ms: int) -> str:
    return "It is off the queue until its ordering key opens."


def _queued(row: Row, now_ms: int) -> str:
    if row.due_at_ms > now_ms:
        return f"It is due {_when(row.due_at_ms, now_ms)}; SQS holds its message until then."
    since = max(row.due_at_ms, row.submitted_at_ms)
    again = f" It has been sent {row.sends} times." if row.sends > 1 else ""
    return f"It became ready {_when(since, now_ms)}; no worker has it.{again}"


def _retrying(row: Row, now_ms: int) -> str:
    return f"Its next attempt is due {_when(row.due_at_ms, now_ms)} ({_spent(row)})."


def _leased(row: Row, now_ms: int) -> str:
    who = (
        f"Worker {row.worker} began attempt {row.attempt} of {row.max_attempts} {_when(row.last_started_at_ms, now_ms)}"
    )
    beat = f"last beat {_when(row.last_heartbeat_at_ms, now_ms)}"
    if lease.lapsed(row.lease_end_at_ms, now_ms):
        return f"{who}; {beat}. Its lease lapsed {_when(row.lease_end_at_ms, now_ms)}: the worker has died or stalled."
    return f"{who}; {beat}; the lease ends {_when(row.lease_end_at_ms, now_ms)}."


def _takeover(row: Row, now_ms: int, hidden_seconds: int) -> list[str]:
    """By when another worker may have the task, if this one has died."""
    beaten = row.last_heartbeat_at_ms > row.last_started_at_ms
    back_ms = lease.back_at_ms(
        row.lease_end_at_ms, row.last_started_at_ms, beaten=beaten, hidden_seconds=hidden_seconds
    )
    why = "" if beaten or not hidden_seconds else f"; before its first beat, its queue hides it for {hidden_seconds} s"
    if not lease.lapsed(row.lease_end_at_ms, now_ms):
        return [f"If that worker dies now, its message is back {_by(back_ms, now_ms)}{why}."]
    if back_ms <= now_ms:
        return ["Next: another worker takes it over as soon as one is free; its message is back."]
    return [f"Next: its message comes back {_by(back_ms, now_ms)}{why}; then another worker takes it over."]


def _completed(row: Row, now_ms: int) -> str:
    note = f" ({row.reason})" if row.reason else ""
    return f"Its handler returned {_when(row.ended_at_ms, now_ms)}{note}, in attempt {row.attempt}."


def _dead_lettered(row: Row, now_ms: int) -> str:
    kind = row.disposition.kind if row.disposition else "open"
    return f"It was buried {_when(row.ended_at_ms, now_ms)}: {row.reason} ({_spent(row)}). The dead letter is {kind}."


def _cancelled(row: Row, now_ms: int) -> str:
    if row.refused:
        return f"SQS refused its message {_when(row.ended_at_ms, now_ms)}, so it was never submitted."
    return f"It was cancelled {_when(row.ended_at_ms, now_ms)}: {row.reason}"


def _expired(row: Row, now_ms: int) -> str:
    return f"Its deadline ({_at(row.deadline_at_ms)}) passed before it was done."


_PRESENT: dict[State, Callable[[Row, int], str]] = {
    State.SCHEDULED: _scheduled,
    State.WAITING: _waiting,
    State.QUEUED: _queued,
    State.RETRYING: _retrying,
    State.LEASED: _leased,
    State.COMPLETED: _completed,
    State.DEAD_LETTERED: _dead_lettered,
    State.CANCELLED: _cancelled,
    State.EXPIRED: _expired,
}


def _next(row: Row, now_ms: int) -> list[str]:
    if row.state is State.DEAD_LETTERED and (row.disposition is None or row.disposition.kind == "open"):
        return ["Next: nothing, until somebody replays or discards it."]
    if not row.final and row.check_at_ms:
        if row.check_at_ms <= now_ms:
            return ["If nothing moves it, reconcile looks at it in its next run."]
        return [f"If nothing moves it, reconcile looks at it {_when(row.check_at_ms, now_ms)}."]
    return []


def _at(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _by(at_ms: int, now_ms: int) -> str:
    return f"by {_at(at_ms)} ({_when(at_ms, now_ms)})"


def _when(at_ms: int, now_ms: int) -> str:
    seconds = (at_ms - now_ms) / 1000
    return f"in {text_of(seconds)}" if seconds > 0 else f"{text_of(-seconds)} ago"
