"""All tasks of the embedded stack at a moment: for what a person watches, and for tests that wait.

Read out of moto's memory, not through its HTTP door: a scan for every look would take more of a small machine than the
workers do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.dynamodb.models import dynamodb_backends

from tenure.adapters import items
from tenure.core.task import Happening, Row, State
from tenure.local.atomic_moto import LOCK
from tenure.local.emulator import ACCOUNT, REGION
from tenure.rows import to_row


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Rows, in no order."""

    rows: tuple[Row, ...]

    def counts(self) -> Mapping[str, Counter[State]]:
        """Queue -> how many of its tasks are in each state."""
        found: dict[str, Counter[State]] = {}
        for row in self.rows:
            found.setdefault(row.queue, Counter())[row.state] += 1
        return found

    def events(self, limit: int) -> list[tuple[Happening, Row]]:
        """The latest happenings of all tasks, latest first."""
        told = [
            (moment(happening.at_ms), row.id, place, happening, row)
            for row in self.rows
            for place, happening in enumerate(row.history)
        ]
        told.sort(key=lambda each: each[:3], reverse=True)  # by place too: a millisecond can hold several of a task
        return [(happening, row) for *_, happening, row in told[:limit]]


def moment(at_ms: object) -> int:
    """To sort by: a time that a row holds, 0 where it is none."""
    return at_ms if isinstance(at_ms, int) else 0


def take(table: str) -> Snapshot:
    """Every row in a table of this process's emulator; none where there is no such table."""
    with LOCK:
        found = dynamodb_backends[ACCOUNT][REGION].tables.get(table)
        attributes: list[Any] = [item.to_json()["Attributes"] for item in found.all_items()] if found else []
    return Snapshot(tuple(to_row(items.from_attributes(each)) for each in attributes if each["sk"]["S"] == "R"))
