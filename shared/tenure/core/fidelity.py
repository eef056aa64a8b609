"""Whether what arrived is what was sent: equal, and of the same type all the way down."""

from __future__ import annotations

import dataclasses
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, time, timezone
from decimal import Decimal
from itertools import chain
from types import NoneType
from typing import Any

from pydantic import BaseModel
from pydantic_core import TzInfo

UTC_NAMES = ("UTC", "Etc/UTC", "Zulu")


def difference(sent: Any, arrived: Any, path: str) -> str | None:
    """Where and how `arrived` differs from `sent`, as the end of a sentence; None if it does not.

    Stricter than `==`: True is not 1, 0.0 is not -0.0, a tuple is not a list, Decimal("1.10") is not Decimal("1.1"),
    and a moment in a named time zone is not the same moment at a fixed offset. Values are never told, only their types
    and places: what is told here may end in a log.
    """
    if type(sent) is not type(arrived):
        return f"{path} is of type {_kind(sent)} and would arrive as {_kind(arrived)}"
    for kind, compare in _BY_KIND:
        if isinstance(sent, kind):
            return compare(sent, arrived, path)
    if dataclasses.is_dataclass(sent):
        return _members(_fields(sent), _fields(arrived), path)
    return None if _equal(sent, arrived) else _changed(sent, arrived, path)


def holds_set(value: Any) -> bool:
    """Whether a set is anywhere in `value`, however many it holds. Its order differs between processes, so its text
    cannot be compared; that one element has one order only must not make a submit depend on its data."""
    return isinstance(value, (set, frozenset)) or any(holds_set(part) for _, part in _parts(value))


def zoneless(value: Any, path: str) -> str | None:
    """Where a datetime without a time zone is in `value`, which nobody may send, in Python or as JSON, since it would
    be another moment on each machine: as a sentence without its end; None if there is none."""
    place = _zoneless(value)
    if place is None:
        return None
    return (
        f"{path}{place} is a datetime without a time zone, which is another moment on each machine. "
        "Send it with one: datetime.now(timezone.utc), .astimezone(timezone.utc), or in JSON with a Z at its end"
    )


def _zoneless(value: Any) -> str | None:
    if isinstance(value, datetime):
        return "" if value.tzinfo is None else None
    for step, part in _parts(value):
        place = _zoneless(part)
        if place is not None:
            return f"{_step(step)}{place}"
    return None


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    """What a value is made of, each with its step: an index, a member's name, or None for a member's key."""
    if isinstance(value, (str, bytes, int, float, NoneType)):
        return ()
    if isinstance(value, dict):
        return chain(((None, key) for key in value), value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return enumerate(value)
    if isinstance(value, BaseModel):
        return chain(value.__dict__.items(), (value.__pydantic_extra__ or {}).items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value).items()
    return ()


def _step(step: Any) -> str:
    if step is None:
        return " (a key)"
    return f"[{step}]" if isinstance(step, int) else f".{step}"


def names_set(schema: object) -> bool:
    """Whether a type, as pydantic's core schema of it, takes a set anywhere."""
    if isinstance(schema, Mapping):
        if schema.get("type") in ("set", "frozenset"):
            return True
        return any(names_set(part) for name, part in schema.items() if name not in _NO_TYPES)
    return isinstance(schema, (list, tuple)) and any(names_set(part) for part in schema)


_NO_TYPES = ("metadata", "default", "serialization", "expected")
"""Members of a core schema that hold values, not types."""


def _kind(value: Any) -> str:
    return type(value).__name__


def _changed(sent: Any, arrived: Any, path: str) -> str:
    return f"{path} is of type {_kind(sent)} and would arrive as another {_kind(arrived)}"


def _equal(sent: Any, arrived: Any) -> bool:
    try:
        return bool(sent == arrived)
    except Exception:  # an __eq__ that raises, or answers with an array, has not said that they are equal
        return False


def _float(sent: float, arrived: float, path: str) -> str | None:
    same = sent == arrived and math.copysign(1.0, sent) == math.copysign(1.0, arrived)
    return None if same else _changed(sent, arrived, path)


def _decimal(sent: Decimal, arrived: Decimal, path: str) -> str | None:
    # By its text: == takes 1.10 for 1.1, and a NaN is unequal to itself.
    return None if sent.as_tuple() == arrived.as_tuple() else _changed(sent, arrived, path)


def _moment(sent: Any, arrived: Any, path: str) -> str | None:
    zone = sent.tzinfo
    if not (zone is None or isinstance(zone, (timezone, TzInfo)) or str(zone) in UTC_NAMES):
        return (
            f"{path} would lose its time zone {zone} and arrive at a fixed offset. "
            "Send it in UTC (.astimezone(timezone.utc)), and the zone's name beside it if the handler needs it"
        )
    same = sent == arrived and sent.utcoffset() == arrived.utcoffset() and sent.fold == arrived.fold
    return None if same else _changed(sent, arrived, path)


def _mapping(sent: dict[Any, Any], arrived: dict[Any, Any], path: str) -> str | None:
    if isinstance(sent, OrderedDict) and list(sent) != list(arrived):
        return f"{path} would lose the order of its members"
    if len(sent) != len(arrived):
        return _changed(sent, arrived, path)
    moments = (_moment(key, key, f"a key of {path}") for key in sent if isinstance(key, (datetime, time)))
    wrong = next((told for told in moments if told), None)
    if wrong:
        return wrong
    ours = {(type(key), key) for key in sent}
    theirs = {(type(key), key) for key in arrived}
    if ours != theirs:
        odd = next(iter(key for _, key in ours - theirs))
        return f"{path} has a key of type {_kind(odd)}, which would arrive as a text: JSON knows no other keys"
    return _members(sent, arrived, path)


def _sequence(sent: Any, arrived: Any, path: str) -> str | None:
    if len(sent) != len(arrived):
        return _changed(sent, arrived, path)
    pairs = enumerate(zip(sent, arrived, strict=True))
    return next((found for i, (a, b) in pairs if (found := difference(a, b, f"{path}[{i}]"))), None)


def _set(sent: Any, arrived: Any, path: str) -> str | None:
    same = {(type(each), each) for each in sent} == {(type(each), each) for each in arrived}
    return None if same else _changed(sent, arrived, path)


def _model(sent: BaseModel, arrived: BaseModel, path: str) -> str | None:
    found = _members(sent.__dict__, arrived.__dict__, path)
    extra = found or _members(sent.__pydantic_extra__ or {}, arrived.__pydantic_extra__ or {}, path)
    # Private attributes and the like: what the model itself counts as equal.
    return extra or (None if _equal(sent, arrived) else _changed(sent, arrived, path))


def _members(sent: dict[Any, Any], arrived: dict[Any, Any], path: str) -> str | None:
    missing = [name for name in sent if name not in arrived]
    if missing or len(sent) != len(arrived):
        return f"{path}.{missing[0]} would not arrive" if missing else _changed(sent, arrived, path)
    return next((found for k, v in sent.items() if (found := difference(v, arrived[k], f"{path}.{k}"))), None)


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


_BY_KIND: tuple[tuple[Any, Callable[[Any, Any, str], str | None]], ...] = (
    (BaseModel, _model),
    (float, _float),
    (Decimal, _decimal),
    ((datetime, time), _moment),
    (dict, _mapping),
    ((list, tuple), _sequence),
    ((set, frozenset), _set),
)
