"""The audit log: what people (and duties acting for them) did, append-only, a record when it begins and one when it
has ended. Nothing is done whose beginning could not be recorded; an operation without an ending died on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tenure.core.errors import ServiceError
from tenure.durable import Things
from tenure.ports import Clock, Entropy, Item, Key, Refused, TaskStore

LIFE_SECONDS = 400 * 86_400
"""How long a record is kept: a year and what an auditor takes to ask."""
DAY_MS = 86_400_000
PAGE = 1000
"""Records of one day read at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One entry. `operation` joins a beginning with its ending; `counts` are as they were at that moment."""

    operation: str
    at_ms: int
    phase: Literal["begun", "ended"]
    action: str
    target: str
    by: str
    reason: str = ""
    counts: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


class Audit:
    """Writes and reads the log."""

    def __init__(self, store: TaskStore, clock: Clock, entropy: Entropy) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy

    def begin(self, action: str, target: str, by: str, reason: str, counts: Mapping[str, Any]) -> Record:
        """Record that an operation begins, with the counts before it. Raises ServiceError; then do nothing."""
        operation = f"{action}-{self._entropy.token()[:12]}"
        record = Record(
            operation=operation,
            at_ms=self._clock.now_ms(),
            phase="begun",
            action=action,
            target=target,
            by=by,
            reason=reason,
            counts=counts,
        )
        self._append(record)
        return record

    def end(self, begun: Record, counts: Mapping[str, Any]) -> Record:
        """Record that it has ended, with the counts after it; the first such record stands, since whoever goes on after
        a death may end it again. Raises ServiceError; what was done stands."""
        record = Record(**{**begun.as_dict(), "at_ms": self._clock.now_ms(), "phase": "ended", "counts": counts})
        self._append(record)
        return record

    def _append(self, record: Record) -> None:
        day = record.at_ms // DAY_MS
        item = Item(
            key=Key(f"A#{day}", f"A#{record.operation}#{record.phase}"),
            version=1,
            write_id="",
            data=record.as_dict(),
            due=(_index_name(day), 0, record.at_ms),
            expires_at_s=record.at_ms // 1000 + LIFE_SECONDS,
        )
        answer = Things(self._store, self._entropy).create(item)
        if not isinstance(answer, Item | Refused):
            raise ServiceError(f"the audit record of {record.action} on {record.target} was not written: {answer}")

    def read(self, since_ms: int) -> Iterator[Record]:
        """The records since then, latest first. Raises ServiceError."""
        for day in range(self._clock.now_ms() // DAY_MS, since_ms // DAY_MS - 1, -1):
            keys = self._day(day)
            items = [item for item in self._store.get_many(keys) if item is not None] if keys else []
            records = sorted((_record(item) for item in items), key=lambda each: (each.at_ms, each.phase), reverse=True)
            yield from (record for record in records if record.at_ms >= since_ms)

    def _day(self, day: int) -> list[Key]:
        size = PAGE
        while True:
            keys = self._store.due(_index_name(day), 0, (day + 1) * DAY_MS, size)
            if len(keys) < size:
                return keys
            size *= 2


def _index_name(day: int) -> str:
    """The day's place in the due index, beside those of queues; no queue is called so."""
    return f"!audit-{day}"


def _record(item: Item) -> Record:
    names = Record.__dataclass_fields__
    return Record(**{name: value for name, value in item.data.items() if name in names})
