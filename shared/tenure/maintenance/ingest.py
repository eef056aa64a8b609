"""Ingest: reads the DLQs when they hold something else than the table says (R22, R26, R27).

It takes up what SQS moved there by itself, drains letters whose dead letters are decided about, and names what it
cannot place. A scan hides the letters it reads for a moment, so it runs only where depth and table differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.core.errors import ServiceError
from tenure.core.topology import Tier
from tenure.durable import Things
from tenure.maintenance.letters import count_open
from tenure.maintenance.parts import Parts
from tenure.maintenance.scan import Scan
from tenure.ports import Item, Key

LETTERS_MAX = 5000
"""Letters read of one DLQ in one run: some 500 receives, and well below SQS's bound of messages in flight."""
UNSETTLED_SECONDS = 900
"""A difference that never is the same in two runs (counts are approximate) is looked into after so long anyway."""
RESCAN_SECONDS = 86_400
"""DLQs that hold letters are read once a day even so, to report those that are about to be lost to retention."""
BY = "ingest"


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What a run did: counts by kind.

    scanned: DLQs read. read: letters. sent_back: tasks sent to work again. buried: tasks whose budget was spent.
    drained: letters deleted whose rows tell all. confirmed: rows whose letter was found. open: letters of open dead
    letters. foreign: letters without a row. leased: left, since a worker is at it. ahead: letters that know more than
    their rows. expiring: letters that will be lost within two days. moved_on: rows that moved while we wrote. unsent,
    failed: what a service did not do; a later run tries again.
    """

    counts: Counter[str] = field(default_factory=Counter)
    ahead: tuple[str, ...] = ()
    """Ids of tasks whose letters know more than their rows."""

    def as_dict(self) -> dict[str, Any]:
        """For logs and programs."""
        return {name: self.counts[name] for name in COUNTED} | {"ahead_ids": list(self.ahead)}


COUNTED = (
    "scanned",
    "read",
    "sent_back",
    "buried",
    "drained",
    "confirmed",
    "open",
    "foreign",
    "leased",
    "ahead",
    "expiring",
    "moved_on",
    "unsent",
    "failed",
)


def mark_key(queue: str) -> Key:
    """Where it is remembered what the last scan of a queue's DLQs left."""
    return Key(f"Q#{queue}", "DLQ")


class Ingest:
    """One run reads the DLQs of those queues whose depth differs from the table's count; `force` reads all."""

    def __init__(self, parts: Parts, letters_max: int = LETTERS_MAX, by: str = BY) -> None:
        self._parts = parts
        self._letters_max = letters_max
        self._by = by

    def run_once(
        self, queues: Sequence[str] | None = None, *, force: bool = False, stop_at_ms: int | None = None
    ) -> IngestReport:
        """Look at every queue (or at `queues`). One queue's trouble is counted and hinders no other."""
        counts: Counter[str] = Counter()
        ahead: list[str] = []
        for queue in self._parts.topology.queues:
            if queues is not None and queue.name not in queues:
                continue
            try:
                self._look(queue.name, counts, ahead, force, stop_at_ms)
            except ServiceError as error:
                counts["failed"] += 1
                self._parts.telemetry.emit("ingest.failed", queue=queue.name, error=str(error))
        report = IngestReport(counts, tuple(ahead))
        self._parts.telemetry.emit("ingest.done", **report.as_dict())
        return report

    def _look(self, queue: str, counts: Counter[str], ahead: list[str], force: bool, stop_at_ms: int | None) -> None:
        parts = self._parts
        tiers = [tier for tier in parts.topology.tiers() if tier.queue == queue]
        things = Things(parts.store, parts.entropy)
        mark = things.get(mark_key(queue))
        difference = self._difference(queue, tiers)
        known: Mapping[str, Any] = mark.data if mark else {"left": 0, "seen": 0, "since_ms": 0, "scanned_ms": 0}
        if not (force or self._is_due(known, difference)):
            self._remember(things, mark, queue, known, difference)
            return
        for tier in tiers:
            scan = Scan(parts, tier, self._by)
            try:
                scan.run(self._letters_max, stop_at_ms)
            finally:
                counts.update(scan.counts)
                ahead += scan.ahead
        left = self._difference(queue, tiers)
        self._remember(
            things, mark, queue, {**known, "left": left, "since_ms": 0, "scanned_ms": parts.clock.now_ms()}, left
        )

    def _difference(self, queue: str, tiers: Sequence[Tier]) -> int:
        depths = [self._parts.dead(tier).depth() for tier in tiers]
        letters = sum(depth.visible + depth.in_flight + depth.delayed for depth in depths)
        return letters - count_open(self._parts.store, queue, letters + 1)

    def _is_due(self, known: Mapping[str, Any], difference: int) -> bool:
        """Whether the difference is new and settled. Depths follow late, so one look alone proves nothing."""
        now, since = self._parts.clock.now_ms(), known["since_ms"]
        if difference == known["left"]:
            return bool(known["scanned_ms"]) and now - known["scanned_ms"] >= RESCAN_SECONDS * 1000
        return bool(since) and (difference == known["seen"] or now - since >= UNSETTLED_SECONDS * 1000)

    def _remember(
        self, things: Things, mark: Item | None, queue: str, known: Mapping[str, Any], difference: int
    ) -> None:
        since = 0 if difference == known["left"] else known["since_ms"] or self._parts.clock.now_ms()
        data = {**known, "seen": difference, "since_ms": since}
        if mark is None:
            if difference or known["scanned_ms"]:
                things.create(Item(mark_key(queue), 1, "", data))
        elif data != {name: mark.data.get(name) for name in data}:
            things.change(mark, data)  # refused: another ingest was at it, and its own account stands
