"""A row as plain data: what is stored of it, under which short names. DynamoDB bills names too."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tenure.core.errors import UnsupportedVersion
from tenure.core.task import Disposition, ErrorRecord, Happening, Row, State, Stored

CODES: dict[str, str] = {
    "id": "id",
    "birth": "b",
    "task": "t",
    "task_version": "tv",
    "queue": "q",
    "pool": "po",
    "tier": "ti",
    "tenant": "te",
    "ordering_key": "ok",
    "state": "st",
    "version": "v",
    "write_id": "w",
    "fence": "f",
    "fence_floor": "ff",
    "lease_token": "lt",
    "lease_end_at_ms": "le",
    "claimed_alone": "al",
    "last_heartbeat_at_ms": "hb",
    "worker": "wk",
    "max_attempts": "ma",
    "failures": "fa",
    "losses": "lo",
    "sends": "se",
    "replays": "re",
    "submitted_at_ms": "sa",
    "due_at_ms": "du",
    "deadline_at_ms": "dl",
    "first_started_at_ms": "fs",
    "last_started_at_ms": "ls",
    "ended_at_ms": "en",
    "check_at_ms": "ca",
    "expires_at_s": "ex",
    "message_gone": "mg",
    "digest": "di",
    "payload": "pa",
    "result": "rs",
    "checkpoint": "cp",
    "checkpoint_fence": "cf",
    "progress_permille": "pr",
    "error": "er",
    "first_failed_at_ms": "ff1",
    "last_failed_at_ms": "lf",
    "reason": "rn",
    "cancel_requested_at_ms": "cr",
    "cancel_reason": "cn",
    "disposition": "ds",
    "letter_confirmed": "lc",
    "traceparent": "tp",
    "depth": "de",
    "history": "hi",
}
"""Field of Row -> name in the item's map. A name is never used again for something else."""

_DEFAULTS = {f.name: f.default for f in fields(Row)}


def to_data(row: Row) -> dict[str, Any]:
    """The row as JSON-like data (texts, whole numbers, booleans, lists, maps); fields at their default are left out."""
    data: dict[str, Any] = {}
    for name, code in CODES.items():
        value = getattr(row, name)
        if value != _DEFAULTS[name]:
            data[code] = _plain(value)
    return data


def from_data(data: dict[str, Any]) -> Row:
    """The row that `to_data` wrote. Unknown names are ignored, so that an older worker can read a newer row.

    Raises UnsupportedVersion for a row that cannot be read so: a newer tenure gave it a state, or a part of it a shape,
    that is not known here. Nothing may be decided about it.
    """
    try:
        return _row(data)
    except (KeyError, TypeError, ValueError) as error:
        raise UnsupportedVersion(
            f"the row of task {data.get('id', '?')} was written by a newer tenure than this one, which cannot read it "
            f"({type(error).__name__}: {error}). Upgrade tenure here."
        ) from error


def _row(data: dict[str, Any]) -> Row:
    values: dict[str, Any] = {name: data[code] for name, code in CODES.items() if code in data}
    values["state"] = State(values["state"])
    for name in ("payload", "result", "checkpoint"):
        if name in values:
            values[name] = Stored(*values[name])
    if "error" in values:
        values["error"] = ErrorRecord(*values["error"])
    if "disposition" in values:
        values["disposition"] = Disposition(*values["disposition"])
    values["history"] = tuple(Happening(*line) for line in values.get("history", ()))
    return Row(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, Stored):
        return [value.kind, value.value, value.size_bytes]
    if isinstance(value, ErrorRecord):
        return [value.type, value.message, value.traceback, value.fingerprint]
    if isinstance(value, Disposition):
        return [value.kind, value.by, value.at_ms, value.reason]
    if isinstance(value, tuple):
        return [[h.at_ms, h.event, h.fence, h.detail] for h in value]
    return value.value if isinstance(value, State) else value
