"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.durations import exact_text_of, seconds_of, text_of
from tenure.core.errors import UsageError


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (timedelta(minutes=2), 120),
        (0, 0),
        (1.5, 1.5),
        ("90s", 90),
        ("20m", 1200),
        ("2h30m", 9000),
        ("7d", 604_800),
        ("1w", 604_800),
        ("250ms", 0.25),
        ("1.5h", 5400),
        (" 2 H ", 7200),
        ("1h1h", 7200),
    ],
)
def test_what_is_a_duration(value: Any, seconds: float) -> None:
    assert seconds_of(value, "timeout") == seconds


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "soon", "5", "5x", "m", "-5m", "5m3", "1e3s", "5 m m"),
        *(None, True, b"5m", [5], Decimal(5), timedelta(seconds=-1)),
        *(-1, float("nan"), float("inf"), 10**400, "9" * 400 + "s"),
    ],
)
def test_what_is_none_says_where_and_what_to_write(value: Any) -> None:
    with pytest.raises(UsageError, match=r"^timeout: "):
        seconds_of(value, "timeout")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.25, "250ms"), (1, "1s"), (90, "1m30s"), (3600, "1h"), (90_061, "1d1h"), (86_400, "1d")],
)
def test_the_shortest_text(seconds: float, text: str) -> None:
    assert text_of(seconds) == text


@given(st.floats(0.001, 10**8))
def test_a_text_reads_back_as_about_the_same(seconds: float) -> None:
    """Two units are told, so no more than the rest is lost."""
    again = seconds_of(text_of(seconds), "x")
    assert abs(again - seconds) <= max(0.5, seconds / 20)


@pytest.mark.parametrize(
    ("seconds", "text"), [(90, "1m30s"), (93_784, "93784.0s"), (0.25, "250ms"), (1.5, "1.5s"), (0.0001, "0.0001s")]
)
def test_an_exact_text_loses_nothing(seconds: float, text: str) -> None:
    """What a replay will pick is told by it: "1d2h" for 1d2h3m4s would pick fewer."""
    assert exact_text_of(float(seconds)) == text


@given(st.floats(0, 10**12))
def test_an_exact_text_reads_back_as_the_same(seconds: float) -> None:
    assert seconds_of(exact_text_of(seconds), "x") == seconds
