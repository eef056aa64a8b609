"""A broken rule, and what a run's setting promises."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core import limits


@dataclass(frozen=True)
class Fault:
    """A rule that was broken, and by which task."""

    rule: str
    task_id: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.task_id} {self.detail}"


@dataclass(frozen=True)
class Terms:
    """What may be asked of a run."""

    may_lapse: bool = False
    """Calls failed or took long at random, so that a lease may lapse though its worker lives."""
    halts: bool = False
    """A buried head halts its key until somebody has decided about it."""
    sure: bool = False
    """Nobody is killed but by its own task and no call fails, so what is announced also happens."""
    life_seconds: int = limits.ROW_LIFE_SECONDS_MIN
    """How long a final row is remembered."""
