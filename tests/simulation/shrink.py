"""Makes a failure small: fewer deviations of a schedule, or fewer tasks and troubles of a seed, under the same rule.

Both by delta debugging (A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE
Transactions on Software Engineering 28(2), 2002), bounded in runs: what is left need not be the smallest there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from tenure.adapters.memory import Faults
from tests.simulation.director import AGAIN, DIES, REPLY, TIME, Line
from tests.simulation.interleavings import Run, Scene, Schedule, explore, play
from tests.simulation.play import Play
from tests.simulation.settings import SETTINGS, Setting, setting_of
from tests.simulation.story import story
from tests.simulation.verdict import Verdict, judge_plan
from tests.simulation.workload import Planned

RUNS_MAX = 300
"""Of a seed's shrinking: about a minute."""
SCHEDULES_MAX = 2000
"""Of a schedule's: some seconds."""
SHORT = 2
"""Deviations up to which a schedule is looked for among all, where delta debugging leaves more."""
SEEDS_EACH = 4
"""Seeds tried for each smaller candidate: with another task left out, chance falls otherwise."""
Part = TypeVar("Part")


class Budget:
    """So many runs may be spent."""

    def __init__(self, runs_max: int) -> None:
        self.left = runs_max
        self.spent = 0

    def take(self) -> bool:
        """Whether one more may be had; it is spent then."""
        if not self.left:
            return False
        self.left -= 1
        self.spent += 1
        return True


def minimised(parts: Sequence[Part], still: Callable[[list[Part]], bool]) -> list[Part]:
    """A part of these of which `still` holds and, unless runs ran out, of none with one more left out."""
    left, pieces = list(parts), 2
    while left:
        size = max(1, len(left) // pieces)
        for start in range(0, len(left), size):
            fewer = left[:start] + left[start + size :]
            if still(fewer):
                left, pieces = fewer, max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces *= 2
    return left


# ---- a schedule --------------------------------------------------------------------------------------------------
def shrink_schedule(run: Run, runs_max: int = SCHEDULES_MAX) -> Run:
    """The same rule broken by fewer deviations, then by fewer actors, then by as few calls as that takes."""
    rule, budget, best = run.faults[0].rule, Budget(runs_max), run

    def still(scene: Scene, schedule: Schedule) -> bool:
        nonlocal best
        if not budget.take():
            return False
        tried = play(scene, schedule)
        broken = [fault for fault in tried.faults if fault.rule == rule]
        if broken:
            best = replace(tried, faults=tuple(broken))
        return bool(broken)

    minimised(run.schedule, lambda fewer: still(run.scene, tuple(fewer)))
    if best is run:
        still(run.scene, run.schedule)  # once more without a memory, so that its end is seen too
    # None of them can be left out, and yet others may do with fewer.
    bound = min(SHORT, len(best.schedule) - 1)
    shorter = explore(best.scene, bound, rule=rule, schedules_max=budget.left).broken
    if shorter:
        still(best.scene, shorter[0].schedule)
    minimised(
        best.scene.actors, lambda fewer: bool(fewer) and still(replace(run.scene, actors=tuple(fewer)), best.schedule)
    )
    minimised(best.schedule, lambda fewer: still(best.scene, tuple(fewer)))
    return best


def tell(run: Run) -> str:
    """A broken schedule for people: who stands before which call, who goes on instead, and what came of it."""
    rules = ", ".join(dict.fromkeys(fault.rule for fault in run.faults))
    start_ms = run.lines[0].at_ms if run.lines else 0
    lines = [
        f"{run.scene.name}: {rules}, by {len(run.schedule)} deviations: {'; '.join(map(str, run.schedule)) or 'none'}",
        *(f"  {fault}" for fault in run.faults),
        "  who made which call:",
        *(
            f"  {(line.at_ms - start_ms) / 1000:10.3f} {_told(line)}"
            for line in run.lines
            if line.call or line.deviation
        ),
    ]
    ids = {fault.task_id for fault in run.faults if fault.task_id in run.stage.evidence.rows}
    return "\n".join(lines + [story(run.stage.evidence, task_id) for task_id in sorted(ids)])


def _told(line: Line) -> str:
    if not line.deviation:
        return f"{line.who:16} {line.call}"
    place = f"stands before {line.call}" if line.call else "does not go on yet"
    event = {
        DIES: "and dies",
        TIME: "and time passes, so that leases have lapsed and messages are back",
        AGAIN: "and its message is delivered once more",
        REPLY: "which will take effect, but its reply is lost",
    }
    return f"{line.who:16} * {place}, {event.get(line.deviation, f'and {line.deviation} goes on')}"


# ---- a seed ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Shrunk:
    """What is left of a seed that broke a rule."""

    rule: str
    plan: tuple[Planned, ...]
    setting: Setting
    verdict: Verdict
    runs: int
    tasks_before: int

    @property
    def text(self) -> str:
        """For people."""
        troubles = [f"{name}={value}" for name, value in _troubles(self.setting)]
        return "\n".join(
            [
                f"{self.rule}: in {self.runs} runs from {self.tasks_before} tasks to {len(self.plan)}, which take:",
                *(f"  {_described(planned)}" for planned in self.plan),
                f"  and what may go wrong: {', '.join(troubles) or 'nothing but that'}",
                self.verdict.text,
            ]
        )


def shrink_seed(seed: int, setting: str = "", runs_max: int = RUNS_MAX) -> Shrunk | None:
    """A smaller plan in a calmer world that still breaks the first rule broken by this seed; None if it breaks none."""
    name = setting or setting_of(seed)
    first = Play(seed, SETTINGS[name])
    plan, calmest = list(first.plan), SETTINGS[name]
    verdict = judge_plan(seed, plan, calmest)
    if not verdict.faults:
        return None
    search = _Search(verdict, Budget(runs_max))
    before = 0
    while search.budget.spent > before or not before:
        before = search.budget.spent
        sizes = len(plan), calmest, tuple(plan)
        plan = minimised(plan, lambda fewer, world=calmest: bool(fewer) and search.still(fewer, world))  # type: ignore[misc] # bound now
        calmest = _calmer(plan, calmest, search)
        plan = _plainer(plan, calmest, search)
        if (len(plan), calmest, tuple(plan)) == sizes or not search.budget.left:
            break
    return Shrunk(search.rule, tuple(plan), calmest, search.best, search.budget.spent, len(first.plan))


class _Search:
    """Whether a candidate still breaks the rule, under one of a few seeds; the latest that did is kept."""

    def __init__(self, verdict: Verdict, budget: Budget) -> None:
        self.rule = verdict.faults[0].rule
        self.best = verdict
        self.budget = budget

    def still(self, plan: list[Planned], setting: Setting) -> bool:
        for seed in range(self.best.seed, self.best.seed + SEEDS_EACH):
            if not self.budget.take():
                return False
            verdict = judge_plan(seed, plan, setting)
            if any(fault.rule == self.rule for fault in verdict.faults):
                self.best = verdict
                return True
        return False


def _described(planned: Planned) -> str:
    """A task with what is special about it."""
    options = [each for each in fields(planned) if getattr(planned, each.name) != each.default]
    return ", ".join(f"{each.name}={getattr(planned, each.name)!r}" for each in options)


def _troubles(setting: Setting) -> Iterator[tuple[str, Any]]:
    """What may go wrong in a setting: its chances, and those of its faults."""
    for each in fields(setting):
        value = getattr(setting, each.name)
        if (isinstance(value, float) and 0 < value <= 1) or (each.name == "skew_ms" and value):
            yield each.name, value
    for each in fields(Faults):
        if getattr(setting.faults, each.name) and not each.name.startswith("slow_call_"):
            yield f"faults.{each.name}", getattr(setting.faults, each.name)


def _calmer(plan: list[Planned], setting: Setting, search: _Search) -> Setting:
    """Without the troubles that it does not take: all of a kind at once, then one by one."""
    if setting.faults != Faults.none() and search.still(plan, replace(setting, faults=Faults.none())):
        setting = replace(setting, faults=Faults.none())
    for name, value in list(_troubles(setting)):
        nothing = type(value)(0)
        field_name = name.removeprefix("faults.")
        if field_name == name:
            calmer = replace(setting, **{name: nothing})
        else:
            calmer = replace(setting, faults=replace(setting.faults, **{field_name: nothing}))
        if search.still(plan, calmer):
            setting = calmer
    if setting.workers > 1 and search.still(plan, replace(setting, workers=1)):
        setting = replace(setting, workers=1)
    return setting


def _plainer(plan: list[Planned], setting: Setting, search: _Search) -> list[Planned]:
    """Each task with fewer acts, fewer submits and no option that it does not take."""
    for number in range(len(plan)):
        for simpler in _simpler(plan[number]):
            changed = simpler(plan[number])
            candidate = [*plan[:number], changed, *plan[number + 1 :]]
            if changed != plan[number] and search.still(candidate, setting):
                plan = candidate
    return plan


def _simpler(planned: Planned) -> list[Callable[[Planned], Planned]]:
    return [
        lambda each: replace(each, acts=each.acts[-1:]),
        lambda each: replace(each, acts=each.acts[:1]),
        lambda each: replace(each, submit_at_seconds=each.submit_at_seconds[:1]),
        lambda each: replace(each, submit_at_seconds=(0.0,) * len(each.submit_at_seconds)),
        lambda each: replace(each, idempotency_key=None) if len(each.submit_at_seconds) == 1 else each,
        lambda each: replace(each, cancel_at_seconds=None),
        lambda each: replace(each, deadline_seconds=None),
        lambda each: replace(each, delay_seconds=0.0),
        lambda each: replace(each, size_bytes=0),
        lambda each: replace(each, priority="normal", tenant=""),
    ]
