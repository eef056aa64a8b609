"""Letters: what lies in a DLQ, built and read. The row is the record and the letter only the bell, so a letter tells
enough to be understood without the table, and carries the task's own envelope so that even an operator's own redrive
in the console brings the right task back.

Three kinds of message lie in a DLQ: letters that bury sent, messages that tenure could not run (quarantined, body
untouched), and messages that SQS moved by itself. `read_letter` tells them apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tenure.core import limits
from tenure.core.envelope import LETTER_ATTRIBUTE, REASON_ATTRIBUTE, Envelope, decode, encode, envelope_of
from tenure.core.errors import DecodeError, ForeignMessage
from tenure.core.outcome import head
from tenure.core.task import ErrorRecord, Row
from tenure.core.topology import group_id

MEMBER = "letter"
"""Member of a letter's body beside the envelope's own; a worker's `decode` reads past it."""
REASON_BYTES_MAX = 256
"""tenure's own bound of a reason in a message attribute; the row and the body hold all of it."""
_TYPE_BYTES = len("String")
_NOT_SQS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that SQS refuses in bodies and attribute values. Service model, SendMessage."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A message for a DLQ, in the words of `ports.Send`, which lies above the core. Always within SQS's size."""

    body: str
    group: str
    deduplication_id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadLetter:
    """What a message in a DLQ is.

    buried: tenure's own letter; `letter_id` names its burial and `error` says why.
    moved: an envelope without bury's mark: SQS moved it by itself, after too many receives.
    quarantined: nothing here could run it; `envelope` is None where tenure did not even write it.
    """

    kind: Literal["buried", "moved", "quarantined"]
    envelope: Envelope | None
    reason: str
    letter_id: str = ""
    error: ErrorRecord | None = None
    attempts: int = 0


def letter_of(row: Row, envelope_payload: str | None) -> Letter:
    """The letter of a buried row: its envelope, the error, and how it came to it.

    `envelope_payload` is the payload's text where it travels in messages; None lets it travel as the row's reference.
    A payload that would not fit beside the error travels as a reference too, if the row has one.
    """
    payload = envelope_payload
    if payload is None and row.payload is not None and row.payload.kind == "inline":
        payload = row.payload.value
    attributes = {LETTER_ATTRIBUTE: row.letter_id, REASON_ATTRIBUTE: _attribute(row.reason)}
    room = limits.SQS_MESSAGE_BYTES_MAX - _attribute_bytes(attributes)
    body = _with_member(row, payload)
    if len(body.encode("utf-8", "replace")) > room and row.payload is not None and row.payload.kind != "inline":
        body = _with_member(row, None)
    # A confirmed letter is sent again only where a redrive took it out of the DLQ, perhaps within FIFO's five minutes.
    again = f"{row.letter_id}:{row.version}" if row.letter_confirmed else row.letter_id
    return Letter(body, group_id(row.letter_id), group_id(again), attributes)


def quarantine_of(body: str, attributes: Mapping[str, str], group: str, message_id: str, why: str) -> Letter:
    """A message that nothing here can run, on its way to the DLQ: its body untouched, its own attributes kept, and the
    reason added.

    SQS counts attributes into the message's size and takes ten of them, so where there is no room the message's own
    attributes give way, the longest first, then the reason: a body, which SQS has taken once, always fits alone.
    """
    kept = {name: value for name, value in attributes.items() if name not in (LETTER_ATTRIBUTE, REASON_ATTRIBUTE)}
    reason = {REASON_ATTRIBUTE: _attribute(why)}
    room = limits.SQS_MESSAGE_BYTES_MAX - len(body.encode("utf-8", "replace"))
    while kept and (len(kept) >= limits.SQS_ATTRIBUTES_MAX or _attribute_bytes(kept | reason) > room):
        del kept[max(kept, key=lambda name: (len(kept[name]), name))]
    together = kept | reason if _attribute_bytes(reason) <= room else {}
    return Letter(body, group_id(group or f"quarantine:{message_id}"), group_id(f"quarantine:{message_id}"), together)


def read_letter(body: str, attributes: Mapping[str, str]) -> ReadLetter:
    """What lies in a DLQ, from its body and attributes. Never raises, whatever the bytes."""
    reason = attributes.get(REASON_ATTRIBUTE, "")
    letter_id = attributes.get(LETTER_ATTRIBUTE, "")
    try:
        envelope = decode(body)
    except ForeignMessage as foreign:
        return ReadLetter("quarantined", None, reason or foreign.kind)
    except DecodeError as error:
        return ReadLetter("quarantined", None, reason or str(error))
    if letter_id:
        told = _member(body)
        return ReadLetter("buried", envelope, reason, letter_id, _error(told.get("error")), _count(told, "attempts"))
    if reason:
        return ReadLetter("quarantined", envelope, reason)
    return ReadLetter("moved", envelope, "")


def _with_member(row: Row, payload: str | None) -> str:
    told: dict[str, Any] = {
        "id": row.letter_id,
        "queue": row.queue,
        "reason": row.reason,
        "attempts": row.failures + row.losses,
        "failures": row.failures,
        "losses": row.losses,
        "replays": row.replays,
        "worker": row.worker,
        "pool": row.pool,
        "first_started_at_ms": row.first_started_at_ms,
        "first_failed_at_ms": row.first_failed_at_ms,
        "last_failed_at_ms": row.last_failed_at_ms,
        "buried_at_ms": row.ended_at_ms,
    }
    if row.error is not None:
        error = row.error
        told["error"] = {
            "type": error.type,
            "message": error.message,
            "traceback": error.traceback,
            "fingerprint": error.fingerprint,
        }
    # ASCII here: an error's text may hold characters that SQS refuses, and a refused letter is a lost bell.
    member = json.dumps(told, ensure_ascii=True, separators=(",", ":"))
    return f'{encode(envelope_of(row, payload))[:-1]},"{MEMBER}":{member}}}'


def _member(body: str) -> Mapping[str, Any]:
    told = json.loads(body).get(MEMBER)
    return told if isinstance(told, dict) else {}


def _error(told: Any) -> ErrorRecord | None:
    if not isinstance(told, dict):
        return None
    parts = [told.get(name) for name in ("type", "message", "traceback", "fingerprint")]
    return ErrorRecord(*(part if isinstance(part, str) else "" for part in parts))


def _count(told: Mapping[str, Any], name: str) -> int:
    value = told.get(name, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _attribute(text: str) -> str:
    """`text` as an attribute value: never empty, bounded, and of characters that SQS takes."""
    return head(_NOT_SQS.sub("?", text), REASON_BYTES_MAX) or "unknown"


def _attribute_bytes(attributes: Mapping[str, str]) -> int:
    """What SQS counts of attributes: names, types and values."""
    return sum(len(n.encode()) + _TYPE_BYTES + len(v.encode("utf-8", "replace")) for n, v in attributes.items())
