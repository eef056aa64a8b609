"""A message that came before its row: what a producer in another language writes is the message alone.

It says so itself, by `row_version` 0: the first worker that meets it makes the row, with the payload in it. Every other
message is a snapshot of a row that was written first, and one whose row is missing is never taken for new work.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core import limits, machine
from tenure.core.envelope import Envelope
from tenure.core.machine import Stamp
from tenure.core.outcome import head
from tenure.core.sizes import text_bytes
from tenure.core.task import Row, State, Stored
from tenure.core.topology import PRIORITIES

PAYLOAD_BYTES_MAX = limits.SIBLING_BYTES_MAX
"""What such a message may carry: it comes to lie in the row, by whose size every later write is billed."""

MOMENT_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999, beyond which calendars (and Python's) tell no date."""


def adopted(envelope: Envelope, queue: str, stamp: Stamp, sent_at_ms: int = 0, tier: str = "") -> Row | str:
    """The row that the message begins, not written yet; or why it begins none.

    `queue`: the standard queue it came from, "" for an ordered one: there the producer's row must stand first, since
    what is sent again for it goes by the row's own ordering key.
    `sent_at_ms`: when SQS took the message, 0 if unknown; it is the submit of a producer that names none.
    `tier`: the tier it came from, by which it is sent again, whatever it says itself; "" if unknown.
    """
    refusal = _refusal(envelope, queue) or _unfit(envelope, stamp.now_ms)
    if refusal:
        return refusal
    payload = envelope.payload or ""
    row = Row(
        id=envelope.id,
        birth=envelope.birth or stamp.write_id,
        task=envelope.task,
        task_version=envelope.task_version,
        queue=queue,
        tier=tier or envelope.tier,
        tenant=envelope.tenant,
        state=State.QUEUED,
        digest=envelope.digest,
        payload=Stored("inline", payload, text_bytes(payload)),
        due_at_ms=envelope.due_at_ms,
        deadline_at_ms=envelope.deadline_at_ms,
        max_attempts=envelope.max_attempts,
        fence_floor=envelope.fence_floor,
        depth=envelope.depth,
        traceparent=envelope.traceparent,
    )
    submitted_at_ms = min(envelope.submitted_at_ms or sent_at_ms or stamp.now_ms, stamp.now_ms)
    return machine.submitted(row, replace(stamp, now_ms=submitted_at_ms))


def _refusal(envelope: Envelope, queue: str) -> str:
    if envelope.row_version:
        return f"no row for task {envelope.id}: its time to live passed, or it was never submitted here"
    if not queue:
        return f"no row for task {envelope.id}: on an ordered queue its producer must write the row first"
    if envelope.payload is None:
        return f"no row for task {envelope.id}: a message alone must carry its payload"
    size = text_bytes(envelope.payload)
    if size > PAYLOAD_BYTES_MAX:
        return f"no row for task {envelope.id}: a message alone carries {PAYLOAD_BYTES_MAX:,} bytes, not {size:,}"
    return ""


_BYTES_MAX = {
    "task": limits.NAME_BYTES_MAX,
    "birth": limits.NAME_BYTES_MAX,
    "digest": limits.NAME_BYTES_MAX,
    "tenant": limits.TENANT_BYTES_MAX,
    "traceparent": limits.NAME_BYTES_MAX,
}


def _unfit(envelope: Envelope, now_ms: int) -> str:
    """Why a row with all that the message says could not be held, sent again, or told of; "" if it could. Said at once:
    each later write or send would fail instead, for as long as SQS keeps the message."""
    why = ""
    for name, most in _BYTES_MAX.items():
        size = text_bytes(getattr(envelope, name))
        if size > most:
            why = f"its member `{name}` is {size:,} bytes; the limit is {most}"
    if envelope.tier not in PRIORITIES:
        why = f"its member `tier` is none of {', '.join(PRIORITIES)}: {envelope.tier[:40]!r}"
    if envelope.due_at_ms > now_ms + limits.DELAY_SECONDS_MAX * 1000:
        why = f"its member `due_at_ms` is more than {limits.DELAY_SECONDS_MAX // 86_400} days from now"
    if envelope.deadline_at_ms > MOMENT_MS_MAX:
        why = "its member `deadline_at_ms` is beyond the year 9999"
    return why and f"no row for task {head(envelope.id, limits.NAME_BYTES_MAX)}: {why}"
