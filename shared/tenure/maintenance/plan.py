"""What a replay or a discard would do: dead letters grouped by cause, and what would be skipped and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tenure.core import limits
from tenure.core.filters import Filter
from tenure.core.replaying import why_not
from tenure.core.task import Row
from tenure.maintenance.letters import open_pages, queues_of
from tenure.maintenance.parts import Parts

SAMPLES_MAX = 100
"""Tasks of one cause kept for a canary to choose from."""
CAUSES_MAX = 50
"""Causes told in an audit record."""
EXPIRING_SECONDS = limits.SQS_RETENTION_SECONDS_MAX - 2 * 86_400
"""A dead letter older than this: its letter leaves the DLQ within two days. Its row stays as long as it is open."""


@dataclass(slots=True)
class Group:
    """Dead letters of one cause: the same class of error at the same place."""

    fingerprint: str
    error: str
    message: str
    reason: str
    count: int = 0
    oldest_at_ms: int = 0
    newest_at_ms: int = 0
    tasks: dict[str, int] = field(default_factory=dict)
    queues: dict[str, int] = field(default_factory=dict)
    samples: list[str] = field(default_factory=list)
    """Ids, oldest first, at most SAMPLES_MAX; of ordered tasks only the first of each key."""

    def add(self, row: Row, *, sample: bool) -> None:
        """Count a dead letter."""
        self.count += 1
        self.tasks[row.task] = self.tasks.get(row.task, 0) + 1
        self.queues[row.queue] = self.queues.get(row.queue, 0) + 1
        self.oldest_at_ms = min(self.oldest_at_ms or row.ended_at_ms, row.ended_at_ms)
        self.newest_at_ms = max(self.newest_at_ms, row.ended_at_ms)
        if sample and len(self.samples) < SAMPLES_MAX:
            self.samples.append(row.id)

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(slots=True)
class Plan:
    """What a filter picks now. Holds one entry for each cause and a few ids, however many letters there are."""

    filter: str
    groups: dict[str, Group] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    """Why -> how many that match would be left as they are."""
    oldest_at_ms: int = 0
    expiring: int = 0
    """Letters that leave the DLQ within two days; their rows stay."""

    @property
    def count(self) -> int:
        """Dead letters that would be taken."""
        return sum(group.count for group in self.groups.values())

    def causes(self) -> list[Group]:
        """The groups, the largest first."""
        return sorted(self.groups.values(), key=lambda group: (-group.count, group.fingerprint))

    def summary(self) -> dict[str, Any]:
        """For the audit log: bounded, however many causes there are."""
        causes = {group.fingerprint: group.count for group in self.causes()[:CAUSES_MAX]}
        return {"count": self.count, "causes": causes, "skipped": dict(self.skipped)}

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "filter": self.filter,
            "count": self.count,
            "causes": [group.as_dict() for group in self.causes()],
            "skipped": dict(self.skipped),
            "oldest_at_ms": self.oldest_at_ms,
            "expiring": self.expiring,
        }


def matching(parts: Parts, picked: Filter, now_ms: int, queue: str, after_ms: int = 0) -> Iterator[list[Row]]:
    """Pages of a queue's open dead letters that the filter picks and that were dead by `now_ms`, oldest first.

    Raises ServiceError.
    """
    for page in open_pages(parts, queue, after_ms):
        yield [row for row in page if row.ended_at_ms <= now_ms and picked.matches(row, now_ms)]


def why_not_here(parts: Parts, row: Row, now_ms: int, replays_max: int) -> str:
    """Why an open dead letter is not replayed in this environment; nothing if it may be."""
    if not parts.has_tier(row):
        return f"its tier {row.queue}/{row.tier} is not in this environment: nowhere to send it"
    return why_not(row, now_ms, replays_max)


def plan(parts: Parts, picked: Filter, now_ms: int, replays_max: int | None = None) -> Plan:
    """What the filter picks now. With `replays_max`, as a replay would take it; else all of it. Raises ServiceError."""
    made = Plan(picked.text)
    keys: set[tuple[str, str]] = set()
    for queue in queues_of(parts, picked):
        ordered = parts.topology.queue(queue).ordered
        for page in matching(parts, picked, now_ms, queue):
            for row in page:
                why = why_not_here(parts, row, now_ms, replays_max) if replays_max is not None else ""
                if why:
                    made.skipped[why] += 1
                else:
                    first = not ordered or (queue, row.ordering_key) not in keys
                    keys |= {(queue, row.ordering_key)} if ordered else set()
                    _count(made, row, now_ms, sample=first)
    return made


def _count(made: Plan, row: Row, now_ms: int, *, sample: bool) -> None:
    error = row.error
    fingerprint = error.fingerprint if error else ""
    if fingerprint not in made.groups:
        first = error.message.strip().split("\n", 1)[0] if error else ""
        made.groups[fingerprint] = Group(fingerprint, error.type if error else "", first, row.reason)
    made.groups[fingerprint].add(row, sample=sample)
    made.oldest_at_ms = min(made.oldest_at_ms or row.ended_at_ms, row.ended_at_ms)
    made.expiring += now_ms - row.ended_at_ms > EXPIRING_SECONDS * 1000
