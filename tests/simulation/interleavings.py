"""Every order of calls up to a bound: a few processes over one task, played once for each schedule.

Stateless exploration by iterative context bounding, as CHESS does it (M. Musuvathi and S. Qadeer, "Iterative Context
Bounding for Systematic Testing of Multithreaded Programs", PLDI 2007): all schedules without a preemption first, then
all with one, and so on, since most faults need but few. Beyond the bound, schedules are drawn at random.

After each schedule a healthy worker and reconcile bring everything to its end, and the auditor judges. Nothing of the
code under test is replaced: the actors are real clients, engines, heartbeats, reconciles and replays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any
from unittest import mock

from tenure.adapters.memory import Faults
from tenure.adapters.memory.process import Process
from tenure.core import limits
from tenure.core.envelope import decode
from tenure.core.errors import ServiceError
from tenure.core.task import FINAL
from tenure.maintenance.replay import NothingMatched
from tests.simulation.auditor import Auditor, Fault
from tests.simulation.crash import Stage
from tests.simulation.director import AGAIN, DIES, TIME, Deviation, Director, Line, Point, Whim
from tests.simulation.settings import coarse_ticks
from tests.simulation.workload import Planned

Schedule = tuple[Deviation, ...]
ACTING_SECONDS_MAX = 3600
LATER = ("unfinished", "message left", "dead without a letter", "cancel forgotten")
"""Rules about where everything ends, which recovery has to come to first."""


@dataclass(frozen=True)
class Actor:
    """A process, and what it does once."""

    name: str
    act: Callable[[Stage, Process], Any]


@dataclass(frozen=True)
class Scene:
    """What stands before, and who then acts at once."""

    name: str
    plan: tuple[Planned, ...]
    before: Callable[[Stage], Any]
    actors: tuple[Actor, ...]
    bound: int
    """Preemptions and events in a schedule, where the whole suite runs."""
    events: tuple[str, ...] = (DIES, TIME, AGAIN)
    jump_seconds: float = 100.0
    """How much time passes when it does: past lease, skew and invisibility, all at once."""


@dataclass(frozen=True)
class Run:
    """One schedule, played."""

    scene: Scene
    schedule: Schedule
    """The deviations that it came to."""
    points: tuple[Point, ...]
    faults: tuple[Fault, ...]
    order: int
    """Of which interleaving it was."""
    trace: int
    stage: Stage
    lines: tuple[Line, ...]


Memory = dict[Any, frozenset[str]]
"""What recovery came to from an end state: the broken rules among LATER."""


@contextmanager
def exploring() -> Iterator[None]:
    """The due index has one shard, so that reconcile's walk over empty ones is not most of the schedules."""
    with coarse_ticks(), mock.patch.object(limits, "DUE_SHARDS", 1):
        yield


def play(scene: Scene, schedule: Sequence[Deviation], *, whim: Whim | None = None, memory: Memory | None = None) -> Run:
    """Play a schedule. With a memory, an end state from which recovery was already watched is not recovered again."""
    stage = Stage(scene.plan)
    stage.actors = [actor.name for actor in scene.actors]
    director = Director(stage, schedule, scene.events, scene.jump_seconds, whim)
    try:
        with exploring(), stage.world:
            scene.before(stage)
            _act_at_once(scene, stage, director)
            faults = _recovered(stage, {} if memory is None else memory)
    except RuntimeError as error:
        faults = (Fault("run failed", "", str(error)),)
    seen = tuple(director.taken), tuple(director.points), faults, director.order, stage.world.scheduler.trace
    return Run(scene, *seen, stage, tuple(director.lines))


def _act_at_once(scene: Scene, stage: Stage, director: Director) -> None:
    world = stage.world
    threads = []
    for actor in scene.actors:
        process = world.process(actor.name)
        threads.append(process.start(partial(_act, actor, stage, process)))
    world.scheduler.chooser = director
    world.run(until=lambda: all(thread.ended for thread in threads), seconds=ACTING_SECONDS_MAX)
    world.scheduler.chooser, world.faults = None, Faults.none()


def _act(actor: Actor, stage: Stage, process: Process) -> None:
    with suppress(NothingMatched):
        try:
            actor.act(stage, process)
        except ServiceError as error:
            stage.evidence.tell("failed", "", "", str(error))


def _recovered(stage: Stage, memory: Memory) -> tuple[Fault, ...]:
    ended = _state_of(stage)
    known = memory.get(ended)
    if known is None and not stage.over():
        stage.recover()
    faults = Auditor(list(stage.plan.values()), stage.evidence, may_lapse=False).audit()
    if known is None:
        memory[ended] = frozenset(fault.rule for fault in faults if fault.rule in LATER)
        return tuple(faults)
    return (*(f for f in faults if f.rule not in LATER), *(Fault(rule, "", "from the same end") for rule in known))


def _state_of(stage: Stage) -> Any:
    """The end of a run, as far as what recovers from it can tell it from another's: with ids and tokens left out, and
    moments as how far they are away, in steps of five seconds."""
    evidence, now = stage.evidence, stage.world.scheduler.now_ms

    def away(*moments_ms: int) -> tuple[int, ...]:
        return tuple(max(-1, (at_ms - now) // 5000) for at_ms in moments_ms)

    rows = [
        (evidence.names.get(row.id, row.id), row.state, row.reason, row.fence, row.failures, row.losses, row.sends)
        + (row.replays, row.message_gone, row.letter_confirmed, row.claimed_alone, row.cancel_requested_at_ms > 0)
        + (() if row.state in FINAL else away(row.due_at_ms, row.check_at_ms, row.lease_end_at_ms, row.deadline_at_ms))
        for row in evidence.rows.values()
    ]
    messages = [
        (queue.name, _spoken_of(stage, message.body), message.receive_count, away(message.visible_at_ms))
        for queue in stage.world.all_queues
        for message in queue.all()
    ]
    effects = tuple(sorted(evidence.highest_fence.items())), tuple(sorted(evidence.started.items()))
    return tuple(sorted(rows)), tuple(sorted(messages)), effects


def _spoken_of(stage: Stage, body: str) -> tuple[Any, ...]:
    envelope = decode(body)
    row = stage.evidence.rows.get(envelope.id)
    name = stage.evidence.names.get(envelope.id, envelope.id)
    return name, envelope.sends, envelope.row_version, row is not None and row.birth == envelope.birth


@dataclass
class Tally:
    """What an exploration came to."""

    scene: Scene
    bound: int
    rule: str = ""
    """Only this one counts; any if none is named."""
    schedules: int = 0
    orders: set[int] = field(default_factory=set)
    ends: int = 0
    """Different states in which actors left the world, from each of which recovery was watched."""
    broken: list[Run] = field(default_factory=list)
    cpu_seconds: float = 0.0

    HEAD = f"{'scene':44} {'actors':>6} {'bound':>6} {'schedules':>9} {'orders':>7} {'ends':>5} {'faults':>6} {'s':>6}"

    def __str__(self) -> str:
        counts = f"{self.schedules:9} {len(self.orders):7} {self.ends:5} {len(self.broken):6} {self.cpu_seconds:6.1f}"
        return f"{self.scene.name:44} {len(self.scene.actors):6} {self.bound:6} {counts}"


Progress = Callable[[Tally], None]


def explore(
    scene: Scene,
    bound: int,
    *,
    rule: str = "",
    schedules_max: int | None = None,
    progress: Progress = lambda tally: None,
) -> Tally:
    """Every schedule of at most this cost, the cheapest first; stops at the first that breaks a rule, or this rule."""
    tally, memory = Tally(scene, bound, rule), Memory()
    known: set[tuple[int, str, str, int]] = set()
    waiting: list[list[Schedule]] = [[()], *([] for _ in range(bound))]
    for cost in range(bound + 1):
        while waiting[cost] and not tally.broken and (schedules_max is None or tally.schedules < schedules_max):
            run = _counted(tally, waiting[cost].pop(), memory)
            for point, schedule, more in _longer(run):
                begun = (point.history, point.who, schedule[-1].choice, cost + more)
                if cost + more <= bound and begun not in known:
                    known.add(begun)
                    waiting[cost + more].append(schedule)
            progress(tally)
    return tally


def wander(scene: Scene, seeds: Sequence[int], *, progress: Progress = lambda tally: None) -> Tally:
    """One schedule at random for each seed, with few deviations or many, anywhere; stops at the first broken one."""
    tally, memory = Tally(scene, 0), Memory()
    for seed in seeds:
        random = Random(f"wander {seed}")
        whim = Whim(random, random.choice((0.1, 0.2, 0.4, 0.7)), random.randint(3, 12))
        tally.bound = max(tally.bound, len(_counted(tally, (), memory, whim).schedule))
        progress(tally)
        if tally.broken:
            break
    return tally


def _counted(tally: Tally, schedule: Schedule, memory: Memory, whim: Whim | None = None) -> Run:
    begun = time.process_time()
    run = play(tally.scene, schedule, whim=whim, memory=memory)
    tally.cpu_seconds += time.process_time() - begun
    tally.schedules += 1
    tally.orders.add(run.order)
    tally.ends = len(memory)
    if any(fault.rule == tally.rule or not tally.rule for fault in run.faults):
        tally.broken.append(run)
    return run


def _longer(run: Run) -> Iterator[tuple[Point, Schedule, int]]:
    """Each schedule that goes the way of this one and deviates once more, later; and what that costs."""
    after = 0
    if run.schedule:
        last = run.schedule[-1]
        after = 1 + next(i for i, point in enumerate(run.points) if (point.who, point.nth) == (last.who, last.nth))
    for point in run.points[after:]:
        for choice, cost in point.others:
            yield point, (*run.schedule, Deviation(point.who, point.nth, choice)), cost
