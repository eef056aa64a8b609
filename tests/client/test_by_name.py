"""Submits by task name: what is published of a task takes its code's place."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.errors import InvalidPayload, UsageError
from tenure.core.submission import Options, TaskFacts
from tests.client.tasks import resize
from tests.support.shop import Shop


@pytest.fixture
def shop() -> Shop:
    return Shop()


def by_name(shop: Shop, **facts: Any) -> Any:
    """A client that knows of the task only what was published."""
    published = TaskFacts(name="resize", queue="media", **facts)
    return shop.another_client(tasks={"resize": published})


def test_a_submit_by_name_needs_no_task_code(shop: Shop) -> None:
    """What is published is enough: the task runs with the arguments by name."""
    resize(shop)
    handle = by_name(shop, max_attempts=9).submit("resize", {"photo": "p1"}, options=Options(tenant="r7"))
    row = shop.row(handle.id)
    assert (row.task_version, row.max_attempts, row.tenant) == (1, 9, "r7")
    shop.work()
    assert shop.effects == [("p1", 100)]
    assert handle.result("0s") == "p1"


def test_both_ways_of_submitting_write_the_same_payload(shop: Shop) -> None:
    """A key that one producer used by name is found by another that has the code."""
    handle = resize(shop).options(idempotency_key="k").submit("p1", width=5)
    options = Options(idempotency_key="k")
    assert by_name(shop).submit("resize", {"width": 5, "photo": "p1"}, options=options).id == handle.id


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"photo": "p", "wide": 5}, "no parameter 'wide'. Its parameters: photo, width"),
        ({"width": 5}, "argument `photo` is missing"),
        ({"photo": (1, 2)}, "type tuple and would arrive as list"),
        ({"photo": float("nan")}, "photo"),
        ({"photo": {1}}, "set"),
        ([1], "not an object"),
    ],
)
def test_a_payload_by_name_is_checked_against_what_was_published(shop: Shop, payload: Any, told: str) -> None:
    """Misspelt, missing, or not JSON: refused at once, and not by the worker an hour later."""
    client = by_name(shop, required=("photo",), optional=("width",))
    with pytest.raises(InvalidPayload, match=told):
        client.submit("resize", payload)
    assert shop.nothing_exists()


def test_an_unknown_name_is_refused_with_those_that_are_known(shop: Shop) -> None:
    """Unless its queue is named: then it is taken at the caller's word."""
    client = by_name(shop)
    with pytest.raises(UsageError, match="Published: resize"):
        client.submit("resise", {})
    with pytest.raises(UsageError, match="goes to queue 'media', not to 'ledger'"):
        client.submit("resize", {}, queue="ledger")
    assert shop.row(client.submit("brand_new", {}, queue="media").id).task == "brand_new"
