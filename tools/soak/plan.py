"""What is submitted, drawn from a seed."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from tenure.core.task import State

SHARES = {
    "flaky": 0.05,
    "snoozing": 0.03,
    "long": 0.02,
    "gives_up": 0.01,
    "exhausted": 0.005,
    "killer": 0.001,
    "poison": 0.00025,
}
"""Of each kind, what part of all tasks. The rest is quick."""
KILLS = ("killer", "poison")
KILLS_WITHIN = 0.8
"""Those that kill lie within this first part, so that the run's end does not wait for the last of their leases."""
LONG_SECONDS = (6.0, 9.0)
QUICK_SECONDS = (0.0, 1.0)
"""Long enough that a worker killed at a random moment is at work on something."""

ENDS: dict[str, tuple[State, tuple[str, ...]]] = {
    "gives_up": (State.DEAD_LETTERED, ("gave_up",)),
    # A worker may be killed while it runs alone: then that death was the last attempt.
    "exhausted": (State.DEAD_LETTERED, ("attempts_used_up", "worker_lost")),
    "poison": (State.DEAD_LETTERED, ("worker_lost",)),
}
"""How a kind is to end, and for which reasons. All others are to be completed."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A task to be submitted. seconds: how long it works."""

    kind: str
    number: int
    seconds: float


def plan(tasks: int, seed: int) -> list[Planned]:
    """So many tasks, in the order in which they are submitted; the same for the same seed."""
    rng = random.Random(seed)
    counts = {kind: round(tasks * share) for kind, share in SHARES.items()}
    counts["killer"] = max(1, counts["killer"])
    calm = [kind for kind, count in counts.items() if kind not in KILLS for _ in range(count)]
    calm += ["quick"] * (tasks - sum(counts.values()))
    rng.shuffle(calm)
    kinds = calm
    for kind in KILLS:
        for _ in range(counts[kind]):
            kinds.insert(rng.randrange(max(1, int(len(kinds) * KILLS_WITHIN))), kind)
    return [
        Planned(kind, number, round(rng.uniform(*(LONG_SECONDS if kind == "long" else QUICK_SECONDS)), 3))
        for number, kind in enumerate(kinds)
    ]


def planned_end(kind: str) -> tuple[State, tuple[str, ...]]:
    """(state, reasons) in which a task of this kind is to end."""
    return ENDS.get(kind, (State.COMPLETED, ()))


def counted(tasks: list[Planned]) -> Counter[str]:
    """Kind -> how many."""
    return Counter(task.kind for task in tasks)
