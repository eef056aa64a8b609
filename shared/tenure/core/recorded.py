"""Texts that others give, as a row holds them: text whatever was given, valid UTF-8, bounded. Applied to every write.

A write that the table refuses for such a text would leave its task for ever as it was, and end it in a dead letter
that tells of a lost worker.
"""

from __future__ import annotations

from typing import Any, Literal

from tenure.core import limits
from tenure.core.outcome import said
from tenure.core.task import Disposition, Happening

_BYTES_MAX = {
    "reason": limits.ERROR_MESSAGE_BYTES_MAX,
    "cancel_reason": limits.ERROR_MESSAGE_BYTES_MAX,
    "worker": limits.NAME_BYTES_MAX,
    "pool": limits.NAME_BYTES_MAX,
}


def bounded(changes: dict[str, Any]) -> dict[str, Any]:
    """Changes of a row, the texts of others among them as it holds them."""
    return changes | {name: said(changes[name], most) for name, most in _BYTES_MAX.items() if name in changes}


def happening(at_ms: int, event: str, fence: int, detail: object) -> Happening:
    """A line of a row's history."""
    return Happening(at_ms, event, fence, said(detail, limits.DETAIL_BYTES_MAX))


def disposed(kind: Literal["replayed", "discarded"], by: object, at_ms: int, reason: object) -> Disposition:
    """What somebody decided about a dead letter."""
    return Disposition(kind, said(by, limits.NAME_BYTES_MAX), at_ms, said(reason))
