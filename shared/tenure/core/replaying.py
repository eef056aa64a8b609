"""When a dead letter may open its task again, by whatever way it is asked: one rule for all. Pure."""

from __future__ import annotations

from tenure.core import limits
from tenure.core.task import Row

REPLAYS_MAX = 3
"""How often a task is replayed at most unless told otherwise: what died four times needs a person's eyes."""


def why_not(row: Row, now_ms: int, replays_max: int = REPLAYS_MAX) -> str:
    """Why an open dead letter is not replayed; nothing if it may be."""
    if row.replays >= replays_max:
        return f"replayed {row.replays} times already (at most {replays_max})"
    beside = row.payload is not None and row.payload.kind != "inline"
    if beside and now_ms - max(row.submitted_at_ms, row.due_at_ms) > limits.PAYLOAD_LIFE_SECONDS * 1000:
        return "its payload beside the row has passed its time to live"
    if row.deadline_at_ms and row.deadline_at_ms < now_ms:
        return "its deadline has passed: it would only expire"
    return ""


def is_discarded(row: Row) -> bool:
    """Whether a person has decided that this dead letter needs nothing more."""
    return row.disposition is not None and row.disposition.kind == "discarded"


def is_present(row: Row, letter_id: str) -> bool:
    """Whether the letter of this id is the one of the row's present burial, and nobody has decided about it.

    Only such a letter opens its task when it comes back to a main queue, and once. From then on it is the task's
    message like any other, and still bears its mark when it comes again after the next burial, which has another id.
    """
    return letter_id == row.letter_id and not is_discarded(row)
