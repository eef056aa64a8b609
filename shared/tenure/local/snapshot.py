"""All tasks of the embedded stack at a moment: for what a person watches. A scan, fit for a table on this machine and
for no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenure.adapters import items
from tenure.core.task import Happening, Row, State
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
            (happening.at_ms, row.id, place, happening, row)
            for row in self.rows
            for place, happening in enumerate(row.history)
        ]
        told.sort(key=lambda each: each[:3], reverse=True)  # by place too: a millisecond can hold several of a task
        return [(happening, row) for *_, happening, row in told[:limit]]


def take(dynamodb: Any, table: str) -> Snapshot:
    """Read every row. Raises botocore's ClientError and BotoCoreError."""
    rows: list[Row] = []
    more: dict[str, Any] = {}
    while True:
        page = dynamodb.scan(
            TableName=table,
            ConsistentRead=True,
            FilterExpression="sk = :row",
            ExpressionAttributeValues={":row": {"S": "R"}},
            **more,
        )
        rows += [to_row(items.from_attributes(attributes)) for attributes in page["Items"]]
        if not page.get("LastEvaluatedKey"):
            return Snapshot(tuple(rows))
        more = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
