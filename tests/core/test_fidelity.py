"""What arrived is what was sent only if it is equal and of the same type all the way down."""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pydantic
import pytest

from tenure.core.fidelity import difference, holds_set


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any = None


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: Any = None


class Silent:
    """Compares with nothing."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not today")

    __hash__ = None  # type: ignore[assignment] # it compares with nothing


DIFFERENT: list[tuple[Any, Any]] = [
    (1, True),
    (1, 1.0),
    (0.0, -0.0),
    (float("nan"), float("nan")),
    ((1,), [1]),
    ([1, 2], [2, 1]),
    ([1], [1, 1]),
    ({"a": 1}, {"a": True}),
    ({"a": 1}, {}),
    ({}, {"a": 1}),
    ({1: 1}, {"1": 1}),
    ({1: 1}, {True: 1}),
    ({1}, {True}),
    (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
    (Decimal("1.1"), Decimal("1.10")),
    (Decimal("0"), Decimal("-0")),
    (Pair(1), Pair(True)),
    (Pair(1, [(1,)]), Pair(1, [[1]])),
    (Model(a=1), Model(a=True)),
    (Model(a=1, x=1), Model(a=1, x=1.0)),
    (Model(a=1, x=1), Model(a=1)),
    (datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))),
    (datetime(2024, 10, 27, 2, tzinfo=UTC), datetime(2024, 10, 27, 2, fold=1, tzinfo=UTC)),
    (Silent(), Silent()),
    (object(), object()),
]

SAME: list[Any] = [
    1,
    -0.0,
    [1, (2, {"a": Pair(Model(a=[1.5]))})],
    {"a": 1, "b": 2},
    {1, "a"},
    Decimal("1.10"),
    Model(a=1, x=2),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-3))),
]


@pytest.mark.parametrize(("sent", "arrived"), DIFFERENT, ids=lambda value: type(value).__name__)
def test_what_equality_would_let_pass_is_a_difference(sent: Any, arrived: Any) -> None:
    """True is not 1, a list is not a tuple, and a member deep within counts as much as the whole."""
    told = difference(sent, arrived, "`x`")
    assert told is not None
    assert told.startswith("`x`")


@pytest.mark.parametrize("value", SAME, ids=lambda value: type(value).__name__)
def test_an_equal_copy_is_no_difference(value: Any) -> None:
    """Whatever it is built of."""
    assert difference(value, copy.deepcopy(value), "`x`") is None


def test_the_place_of_a_difference_is_told_and_no_value() -> None:
    """The way to it, by members and places."""
    told = difference({"a": [Pair("secret", (1,))]}, {"a": [Pair("secret", [1])]}, "`x`")
    assert told == "`x`.a[0].b is of type tuple and would arrive as list"


@pytest.mark.parametrize(
    "value", [{1, 2}, [{1, 2}], {"a": frozenset("ab")}, (1, {"b": [{1, 2}]}), Pair({1}), Model(a=set())]
)
def test_a_set_is_found_wherever_it_hides(value: Any) -> None:
    """In members, places and fields, and whatever it holds."""
    assert holds_set(value)
    assert not holds_set(["set", (1,), Pair("a"), "text", {"a": [1]}, Pair])
