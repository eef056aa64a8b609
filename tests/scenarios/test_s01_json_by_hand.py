"""S01: payloads that no Python submit has seen meet the rules of those that one has, and what is wrong is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure.core.errors import InvalidPayload
from tenure.core.submission import TaskFacts
from tenure.core.task import State
from tests.scenarios.test_s01_payload_values import Photo, Slot, declared, refused
from tests.support.shop import Shop


@pytest.mark.parametrize(
    ("annotation", "payload"),
    [
        (datetime, "2026-01-01T00:00:00"),
        (datetime | None, "2026-01-01T00:00:00"),
        (list[datetime], ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00"]),
        (dict[datetime, int], {"2026-01-01T00:00:00": 1}),
        (list[Photo], [{"key": "k", "taken_at": "2026-01-01T00:00:00", "size": [1, 2]}]),
        (Slot, {"begins_at": "2026-01-01T00:00:00"}),
    ],
    ids=str,
)
def test_what_a_submit_refuses_is_refused_as_json_too(annotation: Any, payload: Any) -> None:
    """Whoever writes JSON by hand meets the same rule: where the types are known at once, else at the worker, which
    buries the task in its first attempt, says why, and calls no handler."""
    shop = Shop()
    task = declared(shop.app, annotation, shop.effects.append)
    with pytest.raises(InvalidPayload, match=r"`value`.* is a datetime without a time zone"):
        task.definition.decode(json.dumps({"value": payload}))
    by_name = shop.another_client(tasks={"take": TaskFacts(name="take", queue="media")})
    handle = by_name.submit("take", {"value": payload})
    shop.work()
    status = handle.status()
    assert (status.state, status.attempt, status.error.type) == (State.DEAD_LETTERED, 1, "tenure.InvalidPayload")
    assert "without a time zone" in status.error.message
    assert shop.effects == []


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (Slot, Slot("soon"), "(at begins_at)"),  # type: ignore[arg-type] # a dataclass does not check its fields
        (list[Slot], [Slot(), Slot(3.5)], "(at 1.begins_at)"),  # type: ignore[arg-type] # as above
        (Photo, Photo.model_construct(key="k", taken_at=datetime(2024, 1, 1, tzinfo=UTC), size=(1, "x")), "size.1"),
        (list[Photo], ["p1.jpg"], "(at 0)"),
        (dict[str, Slot], {"a": Slot(["x"])}, "(at a.begins_at)"),  # type: ignore[arg-type] # as above
    ],
    ids=str,
)
def test_the_part_that_does_not_fit_is_named(annotation: Any, value: Any, told: str) -> None:
    """A dataclass with forty fields "does not fit its type" in one of them, and that one is told."""
    assert told in refused(annotation, value)
