"""The operations of the protocol, each as one process carries it out over HTTP, and the running of their points."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tenure.core.outcome import GiveUp, RetryAfter, Snooze
from tenure.core.task import State
from tenure.maintenance.reconcile import Reconcile
from tenure.maintenance.replay import NothingMatched, Replays
from tenure.maintenance.replay_record import ReplaySpec
from tenure.ports import Send
from tenure.worker.context import context
from tests.adapters.crash_process import Process
from tests.adapters.crash_site import Site
from tests.adapters.crash_stage import Fault, Operation, Outcome, Planned, Prepared, Stage
from tests.adapters.wire import Crash, How

READS = ("BatchGetItem", "Query", "GetObject", "GetQueueAttributes")


# ---- running them --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Point:
    """What came of one stop."""

    where: str
    reached: bool
    faults: tuple[Fault, ...]
    outcomes: dict[str, Outcome]
    ran_again: bool
    """A handler had come to its end, and came there once more since the row had not been told: at least once."""


class Points:
    """Every request of an operation, and what may happen at it. Made once for an operation, whose requests it counts in
    a run to which nothing happens."""

    def __init__(self, at: Site, operation: Operation) -> None:
        self._site, self._operation = at, operation
        self._prepared: Prepared | None = None
        self.undisturbed, self.requests = self._run(0, How.BEFORE)

    def all(self, *hows: How) -> list[Point]:
        """What comes of each of these at each request, the first to the last."""
        return [self._run(number, how)[0] for number in range(1, len(self.requests) + 1) for how in hows]

    def _run(self, number: int, how: How) -> tuple[Point, list[str]]:
        stage, wire = Stage(self._site, self._operation), self._site.victim
        self._prepared = stage.prepare(self._prepared)
        wire.arm(number, how)
        victim = Process(stage, wire, "victim")
        with suppress(Crash):
            self._operation.act(victim)
        victim.end()
        sent, reached = list(wire.sent), wire.reached
        stage.stopped()
        # The world after a request that changed it is that before the next: so each is recovered from in both orders.
        stage.recover(reconcile_first=how is How.AFTER and sent[-1] not in READS)
        again = len(stage.effects) > len(set(stage.effects))
        where = f"{self._operation.name}, request {number} of {sent}: {how.value}"
        return Point(where, reached, tuple(stage.audit()), stage.outcomes(), again), sent


# ---- what handlers do ----------------------------------------------------------------------------------------------
def succeed(process: Process) -> str:
    return "done"


def succeed_at_length(process: Process) -> str:
    """Its result lies beside the row."""
    return "r" * 3000


def beat(process: Process) -> str:
    process.beat()
    process.beat()
    return "done"


def checkpoint(process: Process) -> str:
    if context().last_checkpoint is None:
        context().checkpoint("c" * 3000)
    return "done"


def fail_first(process: Process) -> str:
    if context().attempt == 1:
        raise ValueError("not this time")
    return "done"


def fail_first_for_long(process: Process) -> str:
    if context().attempt == 1:
        raise RetryAfter(1000)
    return "done"


def snooze_first(process: Process) -> str:
    if context().fence == 1:
        raise Snooze(70)
    return "done"


def snooze_first_for_long(process: Process) -> str:
    if context().fence == 1:
        raise Snooze(1000)
    return "done"


def give_up(process: Process) -> str:
    raise GiveUp("never")


def give_up_until_fixed(process: Process) -> str:
    if process.stage.fixed:
        return "done"
    raise GiveUp("a defect")


def hand_over(process: Process) -> str:
    """Its worker is told to stop while it runs, after a checkpoint."""
    if context().fence > 1:
        return "done"
    context().checkpoint(1)
    process.engine.hand_over()
    raise RuntimeError("told to stop")


def be_cancelled(process: Process) -> str:
    """Somebody cancels it while it runs; its next beat tells."""
    stage = process.stage
    with suppress(Crash):
        Process(stage, stage.site.victim, "victim").cancel()
    process.beat()
    if context().cancelled:
        raise RuntimeError("told to stop")
    return "done"


# ---- what stands before --------------------------------------------------------------------------------------------
def nothing(stage: Stage) -> None:
    """Nothing stands before it."""


def submitted(stage: Stage) -> None:
    stage.other.submit()


def left_leased(stage: Stage) -> None:
    """A worker took it and died; its lease and its message's visibility have lapsed."""
    submitted(stage)
    stage.die(1, "UpdateItem", Process.work)
    stage.clock.sleep(90)


def left_undeleted(stage: Stage) -> None:
    """Its worker died between the row and the delete."""
    submitted(stage)
    stage.die(2, "UpdateItem", Process.work)
    stage.clock.sleep(90)


def late(stage: Stage) -> None:
    submitted(stage)
    stage.clock.sleep(90)


def foreign(stage: Stage) -> None:
    submitted(stage)
    stage.other.inbox().queue.send_many([Send('{"Records":[]}', attributes={"from": "a bucket"})])


def many_troubles(stage: Stage) -> None:
    """One of each that reconcile is there for."""
    stage.other.submit("unrung")
    stage.die(2, "UpdateItem", Process.work)
    stage.other.submit("lost")
    stage.die(1, "UpdateItem", Process.work)
    stage.other.submit("stale", "late")
    stage.purge()
    stage.die(1, "UpdateItem", lambda process: process.submit("unsent"))
    stage.clock.sleep(1300)


def ordered_troubles(stage: Stage) -> None:
    """A head whose letter is missing, and a pair that was never sent."""
    stage.other.submit("unrung")
    stage.die(2, "UpdateItem", Process.work)
    stage.purge()
    for name in ("a", "b"):
        stage.die(1, "UpdateItem", lambda process, name=name: process.submit(name))  # type: ignore[misc] # bound now
    stage.clock.sleep(400)


def dead(stage: Stage) -> None:
    """All are dead letters, and what made them fail is mended."""
    submitted(stage)
    while any(not row.final for row in stage.rows().values()):
        stage.other.work()
    stage.fixed = True


# ---- what is done --------------------------------------------------------------------------------------------------
def work_twice(process: Process) -> None:
    process.work()
    process.clock.sleep(75)
    process.work()


def reconcile(process: Process) -> None:
    Reconcile(process.parts).run_once()


def replay(process: Process) -> None:
    """Make a replay and run it; or go on with the one that there is."""
    replays = Replays(process.parts)
    if not replays.list():
        with suppress(NothingMatched):
            replays.create(ReplaySpec(filter="error:GiveUp", reason="mended", by="ann", rate_per_second=100))
    replays.run_all()


def cancel(process: Process) -> None:
    process.cancel()


def run_beside_it(process: Process) -> None:
    """Another worker runs it, and its handler lets the victim cancel it."""
    process.stage.other.work()


# ---- all of it -----------------------------------------------------------------------------------------------------
Act = Callable[[Process], object]
DEAD, CANCELLED = frozenset({State.DEAD_LETTERED}), frozenset({State.CANCELLED, State.COMPLETED})
EXPIRED = frozenset({State.EXPIRED})


def task(name: str, act: Act = succeed, **more: Any) -> Planned:
    """On the standard queue."""
    return Planned(name, act, **more)


def post(name: str, act: Act = succeed, **more: Any) -> Planned:
    """On the ordered queue, all under one key."""
    return Planned(name, act, task="post", **more)


A, B, C = task("a"), task("b"), task("c")
PAIR = (post("a"), post("b"))
TROUBLES = (
    task("unrung", give_up, ends=DEAD),
    task("lost", pad=3000),
    task("stale", options={"deadline": 60}, ends=EXPIRED),
    task("late", options={"delay": 2000}),
    task("unsent", pad=60_000),
)
BROKEN = (task("a", give_up_until_fixed, pad=60_000), task("b", give_up_until_fixed, pad=3000))
BROKEN_PAIR = (post("a", give_up_until_fixed), post("b", give_up_until_fixed))

OPERATIONS = [
    Operation("submit", (A,), nothing, Process.submit),
    Operation("submit-many", (A, B, C), nothing, Process.submit_many),
    Operation("submit-ordered", PAIR, nothing, Process.submit),
    Operation("submit-again-by-key", (task("a", options={"idempotency_key": "k"}),), submitted, Process.submit),
    Operation("submit-payload-in-an-item", (task("a", pad=3000),), nothing, Process.submit),
    Operation("submit-payload-in-s3", (task("a", pad=60_000),), nothing, Process.submit),
    Operation("claim", (A,), submitted, Process.work),
    Operation("claim-in-company", (A, B, C), submitted, Process.work),
    Operation("claim-ordered", PAIR, submitted, Process.work),
    Operation("claim-payload-in-s3", (task("a", pad=60_000),), submitted, Process.work),
    Operation("take-over", (A,), left_leased, Process.work),
    Operation("take-over-ordered", PAIR, left_leased, Process.work),
    Operation("beat", (task("a", beat),), submitted, Process.work),
    Operation("beat-ordered", (post("a", beat), post("b")), submitted, Process.work),
    Operation("checkpoint", (task("a", checkpoint),), submitted, Process.work),
    Operation("succeed-result-beside", (task("a", succeed_at_length),), submitted, Process.work),
    Operation("retry", (task("a", fail_first),), submitted, work_twice),
    Operation("retry-ordered", (post("a", fail_first), post("b")), submitted, work_twice),
    Operation("retry-long", (task("a", fail_first_for_long),), submitted, Process.work),
    Operation("snooze", (task("a", snooze_first),), submitted, work_twice),
    Operation("snooze-long", (task("a", snooze_first_for_long),), submitted, Process.work),
    Operation("bury", (task("a", give_up, ends=DEAD),), submitted, Process.work),
    Operation("bury-ordered", (post("a", give_up, ends=DEAD), post("b")), submitted, Process.work),
    Operation("bury-what-was-lost", (task("a", task="once", ends=DEAD),), left_leased, Process.work),
    Operation("finish-a-burial", (task("a", give_up, ends=DEAD),), left_undeleted, Process.work),
    Operation("drop-what-is-done", (A,), left_undeleted, Process.work),
    Operation("expire", (task("a", options={"deadline": 30}, ends=EXPIRED),), late, Process.work),
    Operation("quarantine", (A,), foreign, Process.work, foreign=1),
    Operation("release", (A, B), submitted, Process.release),
    Operation("release-ordered", PAIR, submitted, Process.release),
    Operation("hand-over", (task("a", hand_over),), submitted, Process.work),
    Operation("cancel-queued", (task("a", ends=CANCELLED),), submitted, cancel),
    Operation("cancel-running", (task("a", be_cancelled, ends=CANCELLED),), submitted, run_beside_it),
    Operation("reconcile", TROUBLES, many_troubles, reconcile),
    Operation("reconcile-ordered", (post("unrung", give_up, ends=DEAD), *PAIR), ordered_troubles, reconcile),
    Operation("replay", BROKEN, dead, replay, again=replay),
    Operation("replay-ordered", BROKEN_PAIR, dead, replay, again=replay),
]
