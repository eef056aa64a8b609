"""S01: a value that serialises on the way in but not on the way out.

As an argument it arrives as it was or is refused before anything exists; as a result it is stored as it is, or the
work counts as done without it. Never does a value change in silence, never does the work run again.
"""

from __future__ import annotations

import dataclasses
import math
from collections import OrderedDict
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest

from tenure.application import App
from tenure.core.errors import InvalidPayload, InvalidTask, TaskFailed
from tenure.core.fidelity import difference
from tenure.core.machine import RESULT_NOT_STORABLE
from tenure.core.task import State
from tests.support.shop import Shop


@dataclasses.dataclass
class Point:
    x: int
    y: float
    tag: bytes = b""


class Photo(pydantic.BaseModel):
    key: str
    taken_at: datetime
    size: tuple[int, int]
    note: str | None = None
    anything: Any = None


class Aliased(pydantic.BaseModel):
    key: str = pydantic.Field(alias="photoKey")


class Hidden(pydantic.BaseModel):
    shown: str
    secret: str = pydantic.Field(default="none", exclude=True)


class Colour(Enum):
    RED = "red"


class Size(StrEnum):
    LARGE = "large"


class Shout(str):
    pass


JSON_NATIVE = [
    0.1,
    1e22,
    -0.0,
    0,
    10**40 + 1,
    -(2**63) - 1,
    True,
    1,
    1.0,
    None,
    "",
    "\u00e9",
    "e\u0301",
    "\x00",
    "😀" * 10,
    [],
    {},
    [1, [True, None, {"a": 1.5}]],
    {"": 0, "b": [1, "1", True, 1.0]},
]

NOT_JSON = [
    float("nan"),
    float("inf"),
    -math.inf,
    [1, float("nan")],
    Decimal("1.10"),
    Decimal("NaN"),
    b"\x00\xff",
    b"text",
    datetime(2024, 2, 29, 12, tzinfo=UTC),
    datetime(2024, 2, 29, 12),  # noqa: DTZ001 - naive is what is tested
    (1, 2),
    [(1, 2)],
    {1, 2},
    {1},
    {1: "a"},
    {True: "a"},
    {None: "a"},
    {"a": {2: "b"}},
    Point(1, 2.0),
    Photo(key="k", taken_at=datetime(2024, 1, 1, tzinfo=UTC), size=(1, 2)),
    Colour.RED,
    Size.LARGE,
    Shout("loud"),
    OrderedDict(b=1, a=2),
    UUID(int=5),
    object(),
    print,
    Exception("no"),
    "\ud800",
    10**5000,
]

TYPED: list[tuple[Any, Any]] = [
    (Decimal, Decimal("1.10")),
    (Decimal, Decimal("-0")),
    (Decimal, Decimal("1E+3")),
    (bytes, b"\x00\xff\xfe\xfb"),
    (bytes, b""),
    (datetime, datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)),
    (time, time(12, 30)),
    (timedelta, timedelta(days=-1, microseconds=1)),
    (tuple[int, int], (1, 2)),
    (tuple[int, ...], ()),
    (dict[int, str], {1: "a", -2: "b"}),
    (list[Point], [Point(1, 2.0, b"\xff")]),
    (Point, Point(1, -0.0)),
    (Photo, Photo(key="k", taken_at=datetime(2024, 1, 1, tzinfo=UTC), size=(1, 2), anything=[1, True])),
    (Aliased, Aliased(photoKey="k")),
    (Colour, Colour.RED),
    (Size, Size.LARGE),
    (UUID, UUID(int=5)),
    (int | None, None),
    (int | str, "1"),
    (float, 1e22),
    (float, -0.0),
    (int, 10**40 + 1),
    (bool, True),
    (str, ""),
]

TYPED_REFUSED: list[tuple[Any, Any]] = [
    (float, float("nan")),
    (float, float("inf")),
    (float, 1),
    (int, True),
    (int, 1.0),
    (bool, 1),
    (str, 1),
    (str, Shout("loud")),
    (Decimal, Decimal("NaN")),
    (Decimal, 1.5),
    (set[int], {1, 2}),
    (dict[str, set[str]], {"a": {"b", "c"}}),
    (list[int], (1, 2)),
    (datetime, datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Berlin"))),
    (Photo, {"key": "k", "taken_at": datetime(2024, 1, 1, tzinfo=UTC), "size": (1, 2)}),
    (Photo, Photo(key="k", taken_at=datetime(2024, 1, 1, tzinfo=UTC), size=(1, 2), anything=(1, 2))),
    (Hidden, Hidden(shown="a", secret="b")),
    (pydantic.SecretStr, pydantic.SecretStr("hunter2")),
    (Point, Point(1, float("nan"))),
    (Point, Point("1", 2.0)),  # type: ignore[arg-type] # a dataclass does not check its fields
]


def named(value: Any) -> str:
    """The type's name, the same in every process; pytest numbers those that occur twice."""
    return str(value) if isinstance(value, (bool, float)) or value is None else type(value).__name__


def declared(app: App, annotation: Any, body: Any) -> Any:
    """A task `take` with one parameter of this type (Any stands for no annotation), and this body."""

    def take(value):  # type: ignore[no-untyped-def] # annotated below, by the case
        return body(value)

    if annotation is not Any:
        take.__annotations__["value"] = annotation
    return app.task(queue="media")(take)


def arrived(annotation: Any, value: Any) -> Any:
    """What the handler got, after one submit and one delivery."""
    shop = Shop()
    task = declared(shop.app, annotation, shop.effects.append)
    task.submit(value)
    shop.work()
    assert len(shop.effects) == 1
    return shop.effects[0]


def refused(annotation: Any, value: Any) -> str:
    """The error of a submit that is refused with nothing left behind."""
    shop = Shop()
    task = declared(shop.app, annotation, shop.effects.append)
    with pytest.raises(InvalidPayload) as caught:
        task.submit(value)
    assert shop.nothing_exists()
    return str(caught.value)


@pytest.mark.parametrize("value", JSON_NATIVE, ids=named)
def test_what_json_knows_arrives_as_it_was(value: Any) -> None:
    """Without an annotation, JSON's own values reach the handler equal and of the same type, -0.0 and 1e22 included."""
    assert difference(value, arrived(Any, value), "value") is None


@pytest.mark.parametrize("value", NOT_JSON, ids=named)
def test_what_json_does_not_know_is_refused_without_an_annotation(value: Any) -> None:
    """Nothing is turned into its nearest JSON: the submit raises, names the argument, and table and queue are empty."""
    assert "`value`" in refused(Any, value)


@pytest.mark.parametrize(("annotation", "value"), TYPED, ids=named)
def test_annotated_values_arrive_as_they_were(annotation: Any, value: Any) -> None:
    """With its type on the parameter, a rich value reaches the handler equal and of the same type."""
    assert difference(value, arrived(annotation, value), "value") is None


@pytest.mark.parametrize(("annotation", "value"), TYPED_REFUSED, ids=named)
def test_values_that_would_change_on_the_way_are_refused(annotation: Any, value: Any) -> None:
    """A value that would arrive as another one, or as another type, is refused before anything exists."""
    assert "`value`" in refused(annotation, value)


class Tagged(pydantic.BaseModel):
    tags: frozenset[str] = frozenset()
    parts: list[Tagged] = pydantic.Field(default_factory=list)


@dataclasses.dataclass
class Slot:
    begins_at: datetime | None = None


NAIVE = datetime(2024, 2, 29, 12)  # noqa: DTZ001 - naive is what is tested


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (datetime, NAIVE),
        (datetime | None, NAIVE),
        (pydantic.NaiveDatetime, NAIVE),
        (list[datetime], [datetime(2024, 1, 1, tzinfo=UTC), NAIVE]),
        (tuple[datetime, ...], (NAIVE,)),
        (dict[str, datetime], {"a": NAIVE}),
        (dict[datetime, int], {NAIVE: 1}),
        (Photo, Photo(key="k", taken_at=NAIVE, size=(1, 2))),
        (list[Photo], [Photo(key="k", taken_at=NAIVE, size=(1, 2))]),
        (Slot, Slot(NAIVE)),
        (dict[str, list[Slot]], {"a": [Slot(), Slot(NAIVE)]}),
    ],
    ids=named,
)
def test_a_datetime_without_a_zone_is_refused_wherever_it_stands(annotation: Any, value: Any) -> None:
    """In a parameter, a list, a key, a model, a dataclass: it would be another moment at the worker. Without an
    annotation too, there because JSON has no datetime."""
    told = refused(annotation, value)
    assert "is a datetime without a time zone" in told
    assert "Annotate" not in told, "its type is not what is wrong"
    assert "`value`" in refused(Any, value)


@pytest.mark.parametrize("value", [set(), {1}, {1, 2, 3}, frozenset("a"), [{1}], {"a": set()}, Tagged()], ids=named)
@pytest.mark.parametrize("annotation", [Any, set[int], frozenset[str], list[set[int]], Tagged], ids=named)
def test_a_set_is_refused_whatever_it_holds(annotation: Any, value: Any) -> None:
    """Empty, with one element or with three, with an annotation or without: a submit must not depend on its data."""
    assert "`value` holds a set" in refused(annotation, value)


@pytest.mark.parametrize(
    ("annotation", "value"), [(set[int] | None, None), (list[frozenset[str]], []), (dict[str, Tagged], {})], ids=named
)
def test_a_type_with_a_set_is_refused_before_any_set_is_sent(annotation: Any, value: Any) -> None:
    """By App.check, and by the first submit even where this call has no set in it."""
    shop = Shop()
    task = declared(shop.app, annotation, shop.effects.append)
    with pytest.raises(InvalidTask, match="parameter `value` has a type with a set in it"):
        shop.app.check(shop.topology)
    with pytest.raises(InvalidTask, match="Take a list instead"):
        task.submit(value)
    assert shop.nothing_exists()


def test_a_set_in_a_types_values_is_none() -> None:
    """Members, literals and defaults that are called "set" are texts."""

    class Named(pydantic.BaseModel):
        type: Literal["set"] = "set"
        frozenset: str = "set"

    assert arrived(Named, Named()) == Named()


def test_the_body_never_holds_a_bare_nan() -> None:
    """A NaN hidden in a list of floats is found too, and no text with NaN in it is ever made."""
    assert "NaN" not in refused(list[float], [1.0, float("nan")])


def test_a_value_of_another_type_is_told_as_that() -> None:
    """What is wrong with a text for a number is its type: JSON could write it."""
    told = refused(int, "a")
    assert "`value`, a str, does not fit its type (int)" in told
    assert "JSON" not in told


def test_an_error_shows_no_value() -> None:
    """What is told of a refused value is its type and place: the text may end in a log."""
    assert "hunter2" not in refused(int, "hunter2") + refused(Any, {"password": {"hunter2"}}) + refused(Any, b"hunter2")


@pytest.mark.parametrize("value", [*JSON_NATIVE, *NOT_JSON], ids=named)
def test_a_result_is_stored_as_it_is_or_the_work_is_done_without_it(value: Any) -> None:
    """Whatever a handler returns, its effect happens once, over two redeliveries, and the row is completed."""
    shop = Shop()

    def body(number: int) -> Any:
        shop.effects.append(number)
        return value

    handle = declared(shop.app, int, body).submit(1)
    shop.work()
    for again in range(2):
        shop.queue().real.send_many([shop.queue().sent[0]])
        shop.work()
        assert shop.effects == [1], f"after redelivery {again + 1}"
    row = shop.row(handle.id)
    assert row.state is State.COMPLETED
    assert row.lease_token == ""
    if row.reason == RESULT_NOT_STORABLE:
        assert value in NOT_JSON or value != value
        with pytest.raises(TaskFailed, match="the work is done"):
            handle.result("0s")
    else:
        assert difference(value, handle.result("0s"), "result") is None


@pytest.mark.parametrize(("annotation", "value"), TYPED, ids=named)
def test_an_annotated_result_comes_back_as_it_was(annotation: Any, value: Any) -> None:
    """A handler's rich result reaches whoever holds the handle equal and of the same type."""
    shop = Shop()
    task = declared(shop.app, int, lambda number: value)
    task.definition.function.__annotations__["return"] = annotation
    handle = task.submit(1)
    shop.work()
    assert difference(value, handle.result("0s"), "result") is None
