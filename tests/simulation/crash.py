"""Stops one process between any two of its calls, lets the others recover, and counts what was lost or done twice.

For each operation of the protocol, for each of its calls, twice: the process dies there, or it stalls there for ten
minutes and then goes on with what it believes. "With and without the last call applied" is both sides of each point:
before the n-th call is after the one before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tenure.adapters.memory import World
from tenure.adapters.memory.process import Process
from tenure.core.errors import ServiceError
from tenure.core.task import FINAL, State
from tenure.core.topology import Pool, Queue, Topology
from tenure.maintenance.reconcile import Reconcile
from tenure.worker.acks import DirectAck
from tenure.worker.engine import Engine
from tenure.worker.held import Inbox
from tests.simulation.auditor import Auditor, Fault
from tests.simulation.cast import Cast
from tests.simulation.evidence import Evidence
from tests.simulation.settings import CALM_SECONDS_MAX, coarse_ticks
from tests.simulation.story import story
from tests.simulation.workload import Act, Planned

STALL_SECONDS = 600.0
POINTS_MAX = 400


class Stage:
    """A world with one workload, in which one process, the victim, does one operation."""

    def __init__(self, plan: tuple[Planned, ...]) -> None:
        self.plan = {planned.name: planned for planned in plan}
        self.actors: list[str] = []
        """Processes of which several act at once."""
        self.topology = Topology(
            app="sim",
            environment="test",
            queues=(Queue(name="work", pool="many"), Queue(name="ledger", pool="many", ordered=True)),
            pools=(Pool(name="many", kind="fargate", threads=2),),
        )
        self.world = World(topology=self.topology)
        self.evidence = Evidence(self.world)
        self.evidence.watch(self.topology)
        self.cast = Cast(self.world, self.topology, self.evidence, self.plan)

    # ---- what operations are made of ---------------------------------------------------------------------------
    def submit(self, *names: str, process: str = "producer") -> None:
        """Submit planned tasks, all if none is named."""
        client = self.cast.client(process)
        for name in names or self.plan:
            planned = self.plan[name]
            handle = client.submit(planned.task, planned.payload(), options=planned.options())
            self.evidence.names[handle.id] = name
            self.evidence.tell("submitted", name, handle.id, rival=planned.letter(0))
            self.world.clock.sleep(0.005)

    def engine(self, process: Process) -> Engine:
        """A worker's engine in a process."""
        return self.cast.engine(process)

    def inbox(self) -> Inbox:
        """The queue of the first planned task."""
        ordered = next(iter(self.plan.values())).ordered
        tier = self.topology.tier("ledger" if ordered else "work")
        main = self.world.queues(tier)
        return Inbox(tier, main, self.world.dead(tier), DirectAck(main, self.world.telemetry))

    def work(self, process: Process, rounds: int = 1, limit: int = 10) -> None:
        """Receive at most so many, admit, run and settle, as a worker does."""
        engine, inbox = self.engine(process), self.inbox()
        engine.holder.start()
        for _ in range(rounds):
            for unit in engine.admit(inbox, inbox.queue.receive(limit, 20)):
                engine.run(unit)
        engine.holder.stop()

    def lose_messages(self) -> None:
        """The main queues forget everything they hold."""
        for tier in self.topology.tiers():
            self.world.queues(tier).purge()

    def reconcile(self, process: str) -> None:
        """One run."""
        Reconcile(self.cast.parts(process)).run_once()

    def task_id(self, name: str) -> str:
        """A submitted task's id."""
        return next(i for i, n in self.evidence.names.items() if n == name)

    # ---- afterwards --------------------------------------------------------------------------------------------
    def recover(self) -> None:
        """A healthy worker and reconcile each minute, until all has ended."""
        rescuer = self.world.process("rescuer")
        rescuer.start(lambda: self.cast.poller(rescuer).run() and None)

        def ticking() -> None:
            while True:
                self.world.clock.sleep(60)
                self.reconcile("schedule")

        self.world.process("schedule").start(ticking)
        self.world.run(until=self.over, seconds=CALM_SECONDS_MAX)

    def over(self) -> bool:
        """Whether everything has ended, messages and letters included."""
        if self.evidence.open_rows or self.evidence.messages_left:
            return False
        return all(row.letter_confirmed for row in self.evidence.rows.values() if row.state is State.DEAD_LETTERED)


@dataclass(frozen=True)
class Operation:
    """One operation: what stands before it, and what the victim does."""

    name: str
    plan: tuple[Planned, ...]
    before: Callable[[Stage], Any]
    act: Callable[[Stage, Process], Any]


@dataclass(frozen=True)
class Point:
    """What came of one stop."""

    operation: str
    how: str
    step: int
    faults: tuple[Fault, ...]
    ran_again: bool
    """The handler had had its effect, and had it once more because the row had not been told: at least once."""
    text: str


def stop_everywhere(operation: Operation, how: str) -> list[Point]:
    """The operation, stopped at each of its steps in turn. `how`: "dies" or "stalls"."""
    points = []
    for step in range(1, POINTS_MAX):
        point, reached = _stop_at(operation, how, step)
        if not reached:
            return points
        points.append(point)
    raise AssertionError(f"{operation.name} has no end: {POINTS_MAX} steps")


def _stop_at(operation: Operation, how: str, step: int) -> tuple[Point, bool]:
    stage = Stage(operation.plan)
    with coarse_ticks(), stage.world:
        operation.before(stage)
        victim = stage.world.process("victim")
        reached: list[int] = []

        def stop() -> None:
            reached.append(step)
            if how == "dies":
                stage.cast.kill(victim)
            else:
                stage.evidence.stalls.append((stage.world.scheduler.now_ms, victim.name))
                victim.stall(STALL_SECONDS)

        def act() -> None:
            try:
                operation.act(stage, victim)
            except ServiceError as error:
                stage.evidence.tell("failed", "", "", str(error))

        victim.at_step(step, stop)
        thread = victim.start(act)
        stage.world.run(until=lambda: bool(reached) or thread.ended, seconds=3600)
        if reached:
            stage.recover()
    faults = Auditor(list(operation.plan), stage.evidence, may_lapse=False).audit() if reached else []
    text = "\n".join(
        [f"{operation.name}, {how} at step {step}:", *map(str, faults)]
        + [story(stage.evidence, fault.task_id) for fault in faults[:1]]
    )
    return Point(operation.name, how, step, tuple(faults), _ran_again(stage.evidence), text if faults else ""), bool(
        reached
    )


def _ran_again(evidence: Evidence) -> bool:
    names = [effect.name for effect in evidence.effects if effect.accepted]
    return len(names) > len(set(names))


OK = Act("ok", 0.1)


# ---- the operations --------------------------------------------------------------------------------------------
def task(name: str, *acts: Act, **options: Any) -> Planned:
    """A planned task on the standard queue."""
    return Planned(
        name, options.pop("task", "work"), options.pop("key", ""), acts or (Act("ok", 0.1),), (0.0,), **options
    )


def ordered(name: str, *acts: Act, **options: Any) -> Planned:
    """A planned task on the ordered queue."""
    return task(name, *acts, task="post", key="k", **options)


def _submit_first(stage: Stage) -> None:
    stage.submit()


def _nothing(stage: Stage) -> None:
    """Nothing stands before it."""


def _work(stage: Stage, victim: Process) -> None:
    stage.work(victim)


def _submit(stage: Stage, victim: Process) -> None:
    stage.submit(process=victim.name)


def _twice(stage: Stage, victim: Process) -> None:
    stage.work(victim, rounds=2)


def _left_leased(stage: Stage) -> None:
    """A worker took everything and died; its lease has lapsed and its messages are back."""
    stage.submit()
    first = stage.world.process("first")
    first.start(lambda: stage.engine(first).admit(stage.inbox(), stage.inbox().queue.receive(10, 0)) and None)
    stage.world.run(seconds=1)
    stage.cast.kill(first)
    stage.world.run(seconds=120)


def _release(stage: Stage, victim: Process) -> None:
    engine, inbox = stage.engine(victim), stage.inbox()
    for unit in engine.admit(inbox, inbox.queue.receive(10, 20)):
        engine.release(unit)


def _hand_over(stage: Stage, victim: Process) -> None:
    engine, inbox, world = stage.engine(victim), stage.inbox(), stage.world
    engine.holder.start()
    units = engine.admit(inbox, inbox.queue.receive(10, 20))
    runners = [world.threads.start(f"runner-{n}", lambda u=unit: engine.run(u)) for n, unit in enumerate(units)]
    world.clock.sleep(7)
    engine.stop_starting()
    engine.hand_over()
    for runner in runners:
        runner.join(60)
    engine.holder.stop()


def _cancel(stage: Stage, victim: Process) -> None:
    task_id = stage.task_id("a")
    answer = stage.cast.client(victim.name).handle(task_id).cancel("planned")
    stage.evidence.tell("cancel", "a", task_id, answer.value)


def _running(stage: Stage) -> None:
    """A healthy worker is in the midst of it."""
    stage.submit()
    busy = stage.world.process("busy")
    busy.start(lambda: stage.work(busy))
    stage.world.run(seconds=3)


def _lost_messages(stage: Stage) -> None:
    stage.submit()
    stage.lose_messages()
    stage.world.run(seconds=400)


def _never_sent(stage: Stage) -> None:
    """Each producer died between its row and its send."""
    for name in stage.plan:
        producer = stage.world.process(f"producer-{name}")
        producer.at_step(2, producer.kill)
        producer.start(lambda n=name, p=producer: stage.submit(n, process=p.name))  # type: ignore[misc] # bound now
        stage.world.run(seconds=1)
    stage.world.run(seconds=400)


def _waiting_for_reconcile(stage: Stage) -> None:
    stage.submit()
    stage.world.run(seconds=max(0.0, stage.plan["a"].delay_seconds - 800))


def _buried_without_letter(stage: Stage) -> None:
    """Its worker died between the row and the letter."""
    stage.submit()
    first = stage.world.process("first")
    first.start(lambda: stage.work(first))
    stage.world.run(until=lambda: any(row.state in FINAL for row in stage.evidence.rows.values()))
    stage.cast.kill(first)
    stage.lose_messages()
    stage.world.run(seconds=400)


def _reconcile(stage: Stage, victim: Process) -> None:
    stage.reconcile(victim.name)


LONG = Act("ok", 50.0)
FAIL = Act("fail", 0.1)
LATER = Act("later", 0.1, 1500)
OPERATIONS = [
    Operation("submit", (task("a"),), _nothing, _submit),
    Operation("submit, ordered", (ordered("a"), ordered("b")), _nothing, _submit),
    Operation("submit, scheduled", (task("a", delay_seconds=2000),), _nothing, _submit),
    Operation("submit, payload in the bucket", (task("a", size_bytes=20_000),), _nothing, _submit),
    Operation("submit again by key", (task("a", idempotency_key="k"),), _submit_first, _submit),
    Operation("claim and succeed", (task("a"),), _submit_first, _work),
    Operation("claim in company", (task("a"), task("b"), task("c")), _submit_first, _work),
    Operation("claim, ordered", (ordered("a"), ordered("b"), ordered("c")), _submit_first, _work),
    Operation("claim, payload in an item", (task("a", size_bytes=2000),), _submit_first, _work),
    Operation("beat", (task("a", LONG),), _submit_first, _work),
    Operation("beat, ordered", (ordered("a", LONG), ordered("b")), _submit_first, _work),
    Operation("checkpoint", (task("a", Act("checkpoint", 0.1), OK),), _submit_first, _work),
    Operation("retry", (task("a", FAIL, OK),), _submit_first, _work),
    Operation("retry, ordered", (ordered("a", FAIL, OK), ordered("b")), _submit_first, _work),
    Operation("retry, long", (task("a", LATER, OK),), _submit_first, _work),
    Operation("retry, long, ordered", (ordered("a", LATER, OK), ordered("b")), _submit_first, _work),
    Operation("snooze", (task("a", Act("snooze", 0.1, 70), OK),), _submit_first, _work),
    Operation("snooze, long", (task("a", Act("snooze", 0.1, 1500), OK),), _submit_first, _work),
    Operation("bury", (task("a", Act("give_up", 0.1)),), _submit_first, _work),
    Operation("bury, ordered", (ordered("a", Act("give_up", 0.1)), ordered("b")), _submit_first, _work),
    Operation("take over", (task("a"), task("b")), _left_leased, _work),
    Operation("take over, ordered", (ordered("a"), ordered("b")), _left_leased, _work),
    Operation("bury what was lost", (task("a", task="once"),), _left_leased, _work),
    Operation("release unstarted", (task("a"), task("b")), _submit_first, _release),
    Operation("release unstarted, ordered", (ordered("a"), ordered("b")), _submit_first, _release),
    Operation("hand over", (task("a", LONG, Act("ok", 1)), task("b", LONG, Act("ok", 1))), _submit_first, _hand_over),
    Operation("expire", (task("a", deadline_seconds=30.0),), lambda s: (s.submit(), s.world.run(seconds=60)), _work),
    Operation("cancel, queued", (task("a"),), _submit_first, _cancel),
    Operation("cancel, running", (task("a", LONG),), _running, _cancel),
    Operation("reconcile, lost messages", (task("a"), task("b")), _lost_messages, _reconcile),
    Operation("reconcile, never sent", (task("a"), task("b")), _never_sent, _reconcile),
    Operation("reconcile, never sent, ordered", (ordered("a"), ordered("b")), _never_sent, _reconcile),
    Operation("reconcile, scheduled", (task("a", delay_seconds=2000),), _waiting_for_reconcile, _reconcile),
    Operation("reconcile, letter", (task("a", Act("give_up", 0.1)),), _buried_without_letter, _reconcile),
    Operation("reconcile, expire", (task("a", deadline_seconds=30.0),), _lost_messages, _reconcile),
]  # fmt: skip
