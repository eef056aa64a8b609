"""The scenes whose every order of calls is explored: two or three workers, and who else comes near their task."""

from __future__ import annotations

from tenure.adapters.memory.process import Process
from tenure.maintenance.replay import Replays
from tenure.maintenance.replay_record import ReplaySpec
from tenure.ports import Send
from tests.simulation.crash import FAIL, Stage, ordered, task
from tests.simulation.director import AGAIN, DIES, REPLY, TIME
from tests.simulation.interleavings import Actor, Scene
from tests.simulation.workload import Act

OVERDUE_SECONDS = 400
OK = Act("ok", 0)
BEATEN = Act("ok", 12)
"""Long enough for one heartbeat."""


# ---- before ------------------------------------------------------------------------------------------------------
def _submitted(stage: Stage) -> None:
    stage.submit()


def _twice(stage: Stage) -> None:
    """A lost reply to the send: SQS has its message twice."""
    stage.submit()
    queue = stage.world.queues(stage.inbox().tier)
    queue.send_many([Send(message.body) for message in queue.all()])


def _missed(stage: Stage) -> None:
    """Its message is gone, so long that reconcile will send another."""
    stage.submit()
    stage.lose_messages()
    stage.world.advance(OVERDUE_SECONDS)


def _missed_in_vain(stage: Stage) -> None:
    """And when it was given up, it comes all the same."""
    stage.submit()
    queue = stage.world.queues(stage.inbox().tier)
    kept = [Send(message.body) for message in queue.all()]
    stage.lose_messages()
    stage.world.advance(OVERDUE_SECONDS)
    queue.send_many(kept)


def _overdue(stage: Stage) -> None:
    """Submitted, and nobody has looked at it for so long that reconcile does."""
    stage.submit()
    stage.world.advance(OVERDUE_SECONDS)


def _nothing(stage: Stage) -> None:
    """Nothing stands before it."""


# ---- actors ------------------------------------------------------------------------------------------------------
def worker(number: int, rounds: int = 1, limit: int = 1) -> Actor:
    """Receives so often and so many, and runs what it got; its heartbeat beside it."""
    return Actor(f"worker-{number}", lambda stage, process: stage.work(process, rounds, limit))


def _reconcile(stage: Stage, process: Process) -> None:
    stage.reconcile(process.name)


def _submit(stage: Stage, process: Process) -> None:
    stage.submit(process=process.name)


def _cancel(stage: Stage, process: Process) -> None:
    task_id = stage.task_id("a")
    answer = stage.cast.client(process.name).handle(task_id).cancel("planned")
    stage.evidence.tell("cancel", "a", task_id, answer.value)


def _replay(stage: Stage, process: Process) -> None:
    replays = Replays(stage.cast.parts(process.name))
    replays.run(replays.create(ReplaySpec(filter="state:dead_lettered", reason="planned", by="somebody")).id)


def _release(stage: Stage, process: Process) -> None:
    engine, inbox = stage.engine(process), stage.inbox()
    for unit in engine.admit(inbox, inbox.queue.receive(10, 0)):
        engine.release(unit)


RECONCILE = Actor("reconcile", _reconcile)
ONE = (task("a", OK),)
ALL = (DIES, TIME, AGAIN, REPLY)
SCENES = [
    Scene("two workers, one message twice", ONE, _twice, (worker(1), worker(2)), 2),
    Scene("two workers, a lease that lapses", ONE, _submitted, (worker(1), worker(2)), 3, (TIME,)),
    Scene("two workers and a heartbeat", (task("a", BEATEN),), _submitted, (worker(1), worker(2)), 2, (TIME,)),
    Scene(
        "three workers and reconcile",
        ONE,
        _missed_in_vain,
        (worker(1), worker(2), worker(3), RECONCILE),
        1,
        (TIME, AGAIN),
    ),
    Scene(
        "a worker, a cancel and reconcile", ONE, _overdue, (worker(1), Actor("canceller", _cancel), RECONCILE), 1, ALL
    ),
    Scene("a worker that fails, and reconcile", (task("a", FAIL, OK),), _overdue, (worker(1, 2), RECONCILE), 1, ALL),
    Scene(
        "a submit, reconcile and a worker",
        ONE,
        _nothing,
        (Actor("producer", _submit), RECONCILE, worker(1)),
        1,
        ALL,
        jump_seconds=OVERDUE_SECONDS,
    ),
    Scene(
        "a burial, reconcile and a replay",
        (task("a", Act("give_up", 0), OK),),
        _overdue,
        (worker(1), RECONCILE, Actor("replay", _replay)),
        1,
        ALL,
    ),
    Scene(
        "two of one key, two workers",
        (ordered("a", OK), ordered("b", OK)),
        _submitted,
        (worker(1, limit=10), worker(2, limit=10)),
        2,
        (DIES, TIME),
    ),
    Scene(
        "two submits of one key, a worker",
        (task("a", OK, task="once", idempotency_key="k"),),
        _nothing,
        (Actor("producer-1", _submit), Actor("producer-2", _submit), worker(1)),
        1,
        ALL,
    ),
    Scene("two reconciles and a worker", ONE, _missed, (RECONCILE, Actor("reconcile-2", _reconcile), worker(1)), 1),
    Scene("a worker that gives back, and another", ONE, _submitted, (Actor("drainer", _release), worker(1)), 1, ALL),
]
"""In the whole suite each to its own bound; `python -m tools.interleave` goes deeper."""
