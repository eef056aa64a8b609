"""Events of a world, kept in a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenure.adapters.memory.process import Process
from tenure.adapters.memory.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Emitted:
    """One event: when, by which simulated process ("" for none), its name and its fields."""

    at_ms: int
    process: str
    event: str
    fields: dict[str, Any]


class MemoryTelemetry:
    """ports.Telemetry that remembers."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.events: list[Emitted] = []

    def emit(self, event: str, /, **fields: Any) -> None:
        """See ports.Telemetry."""
        thread = self._scheduler.current()
        process: Process | None = thread.process if thread else None
        if process is not None and process.dead:
            return
        self.events.append(Emitted(self._scheduler.now_ms, process.name if process else "", str(event), fields))

    def named(self, event: str) -> list[dict[str, Any]]:
        """The fields of every event of this name, oldest first."""
        return [each.fields for each in self.events if each.event == event]

    def count(self, event: str) -> int:
        """How often an event of this name was told."""
        return len(self.named(event))
