"""What must hold at the end. It knows only what was submitted and what is left: rows, effects, messages, letters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tenure.core.task import Row, State
from tools.soak.plan import planned_end

NAMED_MAX = 5
"""Culprits that a failed check names."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A line of the effect log, in the order in which it was written."""

    task_id: str
    fence: int
    at_ms: int
    step: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that an audit looks at.

    submitted: task id -> kind. letters: the task ids of the letters in the DLQ, one for each letter.
    waiting:   messages left in the main queue, visible or not. refused: submits that failed, in words.
    planned:   how many were to be submitted.
    """

    submitted: Mapping[str, str]
    rows: Mapping[str, Row]
    effects: Sequence[Effect]
    letters: Sequence[str]
    waiting: int = 0
    refused: Sequence[str] = field(default_factory=tuple)
    planned: int = 0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold; `culprits` are those of whom it does not."""

    name: str
    culprits: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nobody broke it."""
        return not self.culprits

    def __str__(self) -> str:
        told = ", ".join(self.culprits[:NAMED_MAX])
        more = f" and {len(self.culprits) - NAMED_MAX} more" if len(self.culprits) > NAMED_MAX else ""
        return f"**NO**: {told}{more}" if told else "yes"


def audit(seen: Evidence) -> list[Check]:
    """Every check, in a fixed order."""
    return [Check(name, tuple(find(seen))) for name, find in CHECKS.items()]


def takeovers(row: Row) -> int:
    """Leases of the dead that another worker took, as far as the row's history goes back."""
    return sum(each.event == "claim" and each.detail.startswith("took over") for each in row.history)


def _not_submitted(seen: Evidence) -> list[str]:
    left = seen.planned - len(seen.submitted) - len(seen.refused)
    return [f"{left} were not, in the time there was"] if left > 0 else []


def _lost(seen: Evidence) -> list[str]:
    found = [f"{task_id} has no row" for task_id in seen.submitted if task_id not in seen.rows]
    found += [f"{row.id} is {row.state}" for row in seen.rows.values() if not row.final]
    return found + [f"{task_id} was never submitted" for task_id in seen.rows if task_id not in seen.submitted]


def _otherwise_ended(seen: Evidence) -> list[str]:
    found = []
    for task_id, kind in seen.submitted.items():
        row = seen.rows.get(task_id)
        if row is None:
            continue
        state, reasons = planned_end(kind)
        if row.state is not state or (reasons and row.reason not in reasons):
            found.append(f"{task_id} ({kind}) is {row.state} {row.reason}".rstrip())
    return found


def _late_effects(seen: Evidence) -> list[str]:
    highest: dict[str, int] = {}
    found = []
    for effect in seen.effects:
        if effect.fence < highest.get(effect.task_id, 0):
            found.append(f"{effect.task_id} fence {effect.fence} after {highest[effect.task_id]}")
        highest[effect.task_id] = max(effect.fence, highest.get(effect.task_id, 0))
    return found


def _not_done_by_the_last_owner(seen: Evidence) -> list[str]:
    steps: dict[tuple[str, int], list[str]] = defaultdict(list)
    for effect in seen.effects:
        steps[effect.task_id, effect.fence].append(effect.step)
    return [
        f"{row.id} fence {row.fence}: {steps[row.id, row.fence]}"
        for row in seen.rows.values()
        if row.state is State.COMPLETED and steps[row.id, row.fence] != ["begin", "end"]
    ]


def _ran_after_its_end(seen: Evidence) -> list[str]:
    highest: dict[str, int] = {}
    for effect in seen.effects:
        highest[effect.task_id] = max(effect.fence, highest.get(effect.task_id, 0))
    return [
        f"{row.id} ended at fence {row.fence}, ran at {highest[row.id]}"
        for row in seen.rows.values()
        if row.final and highest.get(row.id, 0) > row.fence
    ]


def _done_again_without_a_death(seen: Evidence) -> list[str]:
    done = Counter(effect.task_id for effect in seen.effects if effect.step == "end")
    return [
        f"{row.id} done {done[row.id]} times, {takeovers(row)} takeovers"
        for row in seen.rows.values()
        if done[row.id] > 1 + takeovers(row)
    ]


def _still_held(seen: Evidence) -> list[str]:
    return [row.id for row in seen.rows.values() if row.lease_token or row.check_at_ms]


def _left_in_the_queue(seen: Evidence) -> list[str]:
    return [f"{seen.waiting} messages"] if seen.waiting else []


def _letters_that_do_not_match(seen: Evidence) -> list[str]:
    dead = {row.id for row in seen.rows.values() if row.state is State.DEAD_LETTERED}
    found = [f"{task_id} has no letter" for task_id in sorted(dead - set(seen.letters))]
    return found + [f"a letter of {task_id}, which is not dead" for task_id in sorted(set(seen.letters) - dead)]


CHECKS: Mapping[str, Callable[[Evidence], Sequence[str]]] = {
    "all that was planned was submitted": _not_submitted,
    "every submit was accepted": lambda seen: seen.refused,
    "nothing is lost: each submitted task has a final row, and no other row is there": _lost,
    "each task ended as it was to end": _otherwise_ended,
    "one owner at a time: no effect of a lower fence after one of a higher": _late_effects,
    "what is completed was done whole, by the row's last owner": _not_done_by_the_last_owner,
    "nothing ran after its end": _ran_after_its_end,
    "nothing was done again unless a worker was lost over it": _done_again_without_a_death,
    "no row holds a lease, and none waits to be looked at": _still_held,
    "the queue is empty": _left_in_the_queue,
    "each dead letter rings in the DLQ, and nothing else does": _letters_that_do_not_match,
}
