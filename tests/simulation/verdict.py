"""One seed: played, audited, and told."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.auditor import Auditor
from tests.simulation.fault import Fault
from tests.simulation.play import Play
from tests.simulation.settings import SETTINGS, Setting, setting_of
from tests.simulation.story import story
from tests.simulation.workload import Planned

STORIES_MAX = 2


@dataclass(frozen=True)
class Verdict:
    """What came of one seed."""

    seed: int
    setting: str
    faults: tuple[Fault, ...]
    steps: int
    virtual_seconds: float
    trace: int
    text: str
    """For people: the broken rules, and the story of the tasks that they are about. Empty if all is well."""


def judge(seed: int, setting: str = "") -> Verdict:
    """Play one seed, under its own setting or the one named."""
    name = setting or setting_of(seed)
    return judge_play(Play(seed, SETTINGS[name]), name)


def judge_plan(seed: int, plan: list[Planned], setting: Setting) -> Verdict:
    """Play a given workload."""
    return judge_play(Play(seed, setting, plan), "a plan of its own")


def judge_play(play: Play, name: str) -> Verdict:
    """Run a play and audit it. A run that never ends, or a defect that escapes from a thread, is a fault too."""
    try:
        evidence = play.run()
        setting = play.setting
        auditor = Auditor(play.plan, evidence, setting.terms)
        faults = auditor.audit()
        if play.setting.patience_seconds:
            faults = auditor.dawdled(play.setting.patience_seconds)
    except RuntimeError as error:
        evidence, faults = play.evidence, [Fault("run failed", "", str(error))]
    text = ""
    if faults:
        ids = list(dict.fromkeys(fault.task_id for fault in faults if fault.task_id in evidence.rows))
        lines = [f"seed {play.seed} ({name}, {play.runtime}): {len(faults)} broken rules", *map(str, faults)]
        text = "\n".join(lines + [story(evidence, task_id) for task_id in ids[:STORIES_MAX]])
    virtual_seconds = (play.world.clock.now_ms() - play.start_ms) / 1000
    scheduler = play.world.scheduler
    return Verdict(play.seed, name, tuple(faults), scheduler.steps, virtual_seconds, scheduler.trace, text)
