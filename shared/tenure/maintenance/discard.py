"""Discard: a person decides that dead letters need nothing more. Rows first; their letters are drained by ingest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tenure.core import machine
from tenure.core.errors import UsageError
from tenure.core.filters import parse
from tenure.core.task import Row
from tenure.maintenance.audit import Audit
from tenure.maintenance.letters import is_open, queues_of
from tenure.maintenance.parts import Parts
from tenure.maintenance.plan import Plan, matching, plan
from tenure.maintenance.replay_record import REASON_CHARS_MAX
from tenure.rows import Overtaken, Stands

CHUNK = 100
"""Rows written together."""
DECIDE_TRIES = 3
"""How often a row is decided about again that somebody keeps moving."""


@dataclass(frozen=True, slots=True)
class DiscardReport:
    """discarded: dead letters closed now. elsewhere: replayed or discarded by somebody else meanwhile. unknown: writes
    without an answer; run it again."""

    counts: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {name: self.counts[name] for name in ("discarded", "elsewhere", "unknown")}


class Discard:
    """Discards by filter."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._audit = Audit(parts.store, parts.clock, parts.entropy)

    def plan(self, text: str) -> Plan:
        """What it would discard now. Raises InvalidFilter and ServiceError."""
        return plan(self._parts, parse(text), self._parts.clock.now_ms())

    def run(self, text: str, by: str, reason: str) -> DiscardReport:
        """Discard what the filter picks of what is dead now. Killed anywhere, a rerun does the rest.

        Raises InvalidFilter, UsageError without a reason, and ServiceError.
        """
        if not 0 < len(reason.strip()) <= REASON_CHARS_MAX:
            raise UsageError(f"discard: say why (--reason), in at most {REASON_CHARS_MAX} characters.")
        picked = parse(text)
        now = self._parts.clock.now_ms()
        planned = plan(self._parts, picked, now)
        begun = self._audit.begin("discard", text or "all", by, reason, planned.summary())
        report = DiscardReport()
        for queue in queues_of(self._parts, picked):
            for page in matching(self._parts, picked, now, queue):
                for start in range(0, len(page), CHUNK):
                    self._write(page[start : start + CHUNK], by, reason, report.counts)
        self._audit.end(begun, report.as_dict())
        return report

    def _write(self, rows: list[Row], by: str, reason: str, counts: Counter[str]) -> None:
        left = rows
        for _ in range(DECIDE_TRIES):
            changes = [(row, machine.discard(row, self._parts.stamp(by), reason)) for row in left]
            again: list[Row] = []
            for answer in self._parts.rows.replace_many(changes):
                if isinstance(answer, Stands):
                    counts["discarded"] += 1
                    row = answer.row
                    self._parts.telemetry.emit("task.discarded", task_id=row.id, task=row.task, queue=row.queue, by=by)
                elif not isinstance(answer, Overtaken):
                    counts["unknown"] += 1
                elif answer.row is not None and is_open(answer.row):
                    again.append(answer.row)
                else:
                    counts["elsewhere"] += 1
            left = again
            if not left:
                return
        counts["unknown"] += len(left)
