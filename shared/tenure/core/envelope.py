"""Envelope v1: the body of a message, documented JSON that a producer in any language can write (docs/envelope.md).

The envelope is a snapshot of the task's row as it was when the message was sent, so that a first delivery is claimed
with one write and no read.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, TypeGuard

from tenure.core import limits
from tenure.core.errors import ForeignMessage, UnsupportedVersion
from tenure.core.machine import Event, check_at
from tenure.core.task import Happening, Row, State, Stored

VERSION = 1
ID_BYTES_MAX = limits.DYNAMODB_KEY_BYTES_MAX - len("T#")
"""A longer id would fail the read of every batch that its message comes in, and of its neighbours with it."""
LETTER_ATTRIBUTE = "tenure-letter"
"""Message attribute that bury puts on a letter. On a main queue it tells of an operator's own redrive."""
REASON_ATTRIBUTE = "tenure-reason"
"""Message attribute on a letter or a quarantined message: why it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One message's content. `payload` is canonical JSON text; None when it lies elsewhere, at `payload_at`."""

    id: str
    birth: str
    task: str
    task_version: int = 1
    row_version: int
    sends: int = 1
    digest: str
    payload: str | None
    payload_at: Stored | None = None
    tenant: str = ""
    key: str = ""
    tier: str = "normal"
    submitted_at_ms: int
    due_at_ms: int = 0
    deadline_at_ms: int = 0
    max_attempts: int = 5
    fence_floor: int = 0
    write_id: str = ""
    depth: int = 0
    traceparent: str = ""


def canonical(value: Any) -> str:
    """The one JSON text of a value: members sorted, no blanks, non-ASCII as itself. Raises ValueError for NaN and
    Infinity, TypeError for what JSON does not know."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def parse(text: str) -> Any:
    """What a JSON text says. Raises ValueError for what is not JSON, for NaN and its like, and for an object with one
    member twice, of which each reader would take another; RecursionError for what is nested too deep."""
    return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_members)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twice!r} stands twice in one object")
    return members


def digest_of(payload: str) -> str:
    """SHA-256 of a payload's canonical text, as 32 hex digits: what an idempotency key's payload is compared by."""
    return hashlib.sha256(payload.encode("utf-8")).hexdigest()[:32]


def envelope_of(row: Row, payload: str | None) -> Envelope:
    """The message for a row as it is now. `payload` is its text if it is to travel in the message."""
    return Envelope(
        id=row.id,
        birth=row.birth,
        task=row.task,
        task_version=row.task_version,
        row_version=row.version,
        sends=row.sends,
        digest=row.digest,
        payload=payload,
        payload_at=row.payload
        if payload is None or (row.payload is not None and row.payload.kind != "inline")
        else None,
        tenant=row.tenant,
        key=row.ordering_key,
        tier=row.tier,
        submitted_at_ms=row.submitted_at_ms,
        due_at_ms=row.due_at_ms,
        deadline_at_ms=row.deadline_at_ms,
        max_attempts=row.max_attempts,
        fence_floor=row.fence_floor,
        write_id=row.write_id,
        depth=row.depth,
        traceparent=row.traceparent,
    )


def snapshot(envelope: Envelope, queue: str) -> Row | None:
    """The row as it was when this message was sent, if the message tells all of it: the first send of a task that
    nobody has claimed. None otherwise; then the row must be read."""
    if envelope.sends != 1 or envelope.row_version != 1:
        return None
    check = check_at(envelope.due_at_ms, envelope.submitted_at_ms, message_held=True, sends=1)
    stored = envelope.payload_at
    if stored is None and envelope.payload is not None:
        stored = Stored("inline", envelope.payload, len(envelope.payload.encode("utf-8")))
    return Row(
        id=envelope.id,
        birth=envelope.birth,
        task=envelope.task,
        task_version=envelope.task_version,
        queue=queue,
        tier=envelope.tier,
        tenant=envelope.tenant,
        ordering_key=envelope.key,
        state=State.QUEUED,
        version=envelope.row_version,
        write_id=envelope.write_id,
        fence=envelope.fence_floor,
        fence_floor=envelope.fence_floor,
        max_attempts=envelope.max_attempts,
        sends=1,
        submitted_at_ms=envelope.submitted_at_ms,
        due_at_ms=envelope.due_at_ms,
        deadline_at_ms=envelope.deadline_at_ms,
        digest=envelope.digest,
        payload=stored,
        depth=envelope.depth,
        traceparent=envelope.traceparent,
        check_at_ms=check,
        history=(Happening(envelope.submitted_at_ms, Event.SUBMIT.value, envelope.fence_floor),),
    )


_TEXTS = ("birth", "digest", "tenant", "key", "tier", "write_id", "traceparent")
_NUMBERS = (
    "task_version",
    "row_version",
    "sends",
    "submitted_at_ms",
    "due_at_ms",
    "deadline_at_ms",
    "max_attempts",
    "fence_floor",
    "depth",
)
_DEFAULTS: dict[str, Any] = {
    "birth": "",
    "digest": "",
    "tenant": "",
    "key": "",
    "tier": "normal",
    "write_id": "",
    "traceparent": "",
    "task_version": 1,
    "row_version": 0,
    "sends": 1,
    "submitted_at_ms": 0,
    "due_at_ms": 0,
    "deadline_at_ms": 0,
    "max_attempts": 5,
    "fence_floor": 0,
    "depth": 0,
}


def encode(envelope: Envelope) -> str:
    """The envelope as JSON text that SQS carries. Members at their default are left out."""
    body: dict[str, Any] = {"tenure": VERSION, "id": envelope.id, "task": envelope.task}
    for name in (*_TEXTS, *_NUMBERS):
        value = getattr(envelope, name)
        if value != _DEFAULTS[name]:
            body[name] = value
    if envelope.payload_at is not None:
        place = envelope.payload_at
        body["payload_ref"] = {"kind": place.kind, "key": place.value, "bytes": place.size_bytes}
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if envelope.payload is not None:
        text = f'{text[:-1]},"payload":{envelope.payload}}}'
    # Of what SQS refuses JSON escapes every control character and leaves these two bare (service model, SendMessage).
    return text.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def decode(body: str) -> Envelope:
    """The envelope in a message body.

    Raises ForeignMessage, with what it looks like, for anything that tenure did not write, and UnsupportedVersion for
    an envelope of a newer version. Never raises anything else, whatever the bytes.
    """
    value = _object(body)
    version = value.get("tenure")
    if isinstance(version, bool) or not isinstance(version, int):
        raise ForeignMessage(_looks_like(value), "it has no member `tenure` with a version")
    if version != VERSION:
        raise UnsupportedVersion(f"envelope version {version}; this worker reads version {VERSION}. Deploy it first.")
    fields: dict[str, Any] = {name: _text(value, name) for name in _TEXTS}
    fields |= {name: _number(value, name) for name in _NUMBERS}
    for name in ("id", "task"):
        if not _text(value, name, ""):
            raise ForeignMessage("envelope", f"its member `{name}` is missing or empty")
        fields[name] = value[name]
    if len(value["id"].encode()) > ID_BYTES_MAX:
        raise ForeignMessage("envelope", f"its member `id` is longer than {ID_BYTES_MAX} bytes")
    place = _place(value.get("payload_ref"))
    if "payload" not in value and place is None:
        raise ForeignMessage("envelope", "it has neither `payload` nor `payload_ref`")
    payload = canonical(value["payload"]) if "payload" in value else None
    if not fields["digest"] and payload is not None:
        fields["digest"] = digest_of(payload)
    return Envelope(payload=payload, payload_at=place, **fields)


def _object(body: str) -> dict[str, Any]:
    if not body.strip():
        raise ForeignMessage("empty", "the body is empty")
    try:
        value = json.loads(body, parse_constant=_no_constant)
        canonical(value).encode("utf-8")  # lone surrogates cannot be written back
    except (ValueError, RecursionError) as error:
        raise ForeignMessage("text", f"the body is not JSON ({type(error).__name__})") from None
    if not isinstance(value, dict):
        raise ForeignMessage("json", f"the body is a JSON {type(value).__name__}, not an object")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _looks_like(value: dict[str, Any]) -> str:
    records = value.get("Records")
    if isinstance(records, list) and records and isinstance(records[0], dict):
        source = records[0].get("eventSource") or records[0].get("EventSource") or "records"
        return str(source)[:40].replace("aws:", "")
    if value.get("Event") == "s3:TestEvent":
        return "s3-test"
    if value.get("Type") in ("Notification", "SubscriptionConfirmation"):
        return "sns"
    if "detail-type" in value:
        return "eventbridge"
    return "json"


def _text(value: dict[str, Any], name: str, default: str | None = None) -> str:
    found = value.get(name, _DEFAULTS[name] if default is None else default)
    if not isinstance(found, str):
        raise ForeignMessage("envelope", f"its member `{name}` is not a text")
    return found


def _number(value: dict[str, Any], name: str) -> int:
    found = value.get(name, _DEFAULTS[name])
    if not _is_count(found):
        raise ForeignMessage("envelope", f"its member `{name}` is not a whole number from 0")
    return found


def _is_count(value: Any) -> TypeGuard[int]:
    """A whole number that every JSON reader can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _place(value: Any) -> Stored | None:
    if value is None:
        return None
    if isinstance(value, dict):
        kind, key, size = value.get("kind"), value.get("key"), value.get("bytes")
        if kind in ("item", "object") and isinstance(key, str) and key and _is_count(size):
            return Stored(kind, key, size)
    raise ForeignMessage("envelope", "its member `payload_ref` is not {kind, key, bytes}")
