"""Durations as people write them: `timedelta`, "90s", "20m", "2h30m", "7d", or a number of seconds."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

from tenure.core.errors import UsageError

Duration = timedelta | str | int | float

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")


def seconds_of(value: object, where: str) -> float:
    """Seconds in `value`; `where` names the option in the error. Raises UsageError for anything else, or below zero."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = _finite(value)
    elif isinstance(value, str):
        seconds = _parse(value, where)
    else:
        raise UsageError(f'{where}: {value!r} is not a duration. Write a timedelta, seconds, or text such as "20m".')
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"{where}: a duration cannot be {value!r}; it must be zero or more, and finite.")
    return seconds


def _finite(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:  # a whole number beyond all floats
        return float("inf")


def _parse(text: str, where: str) -> float:
    compact = text.replace(" ", "").lower()
    if not compact or _PART.sub("", compact):
        raise UsageError(f'{where}: {text!r} is not a duration. Write for example "90s", "20m", "2h30m" or "7d".')
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(compact))


def text_of(seconds: float) -> str:
    """The shortest text a person would write: 0.25 -> "250ms", 90 -> "1m30s", 3600 -> "1h"."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    whole = round(seconds)
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def exact_text_of(seconds: float) -> str:
    """As `text_of` where that says all of it; else in seconds, to the last digit: 93784 -> "93784s"."""
    short = text_of(seconds)
    return short if short and seconds_of(short, "") == seconds else f"{Decimal(repr(seconds)):f}s"
