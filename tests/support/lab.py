"""A lab: one queue in the world in memory, an app, and engines that take turns at it. For tests of the worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import tenure.core.machine as machine
from tenure.adapters.memory import World
from tenure.application import App
from tenure.core.envelope import canonical, digest_of, encode, envelope_of
from tenure.core.machine import Stamp
from tenure.core.task import Row, State, Stored
from tenure.core.topology import Pool, Queue, Topology, group_id
from tenure.ports import Delivery, Item, Send, Sent
from tenure.rows import Rows, row_key
from tenure.worker.context import context
from tenure.worker.engine import Engine
from tenure.worker.held import Inbox, Unit
from tenure.worker.settling import EngineParts


def topology() -> Topology:
    """A standard queue "work" and an ordered queue "ledger", each on a pool of its own."""
    return Topology(
        app="lab",
        environment="test",
        queues=(Queue(name="work", pool="many"), Queue(name="ledger", pool="many", ordered=True)),
        pools=(Pool(name="many", kind="fargate"),),
    )


@dataclass
class Answers:
    """An Ack that answers SQS at once and remembers what it answered."""

    queue: Any
    deleted: list[str] = field(default_factory=list)
    kept: list[tuple[str, int]] = field(default_factory=list)

    def delete(self, delivery: Delivery) -> None:
        self.deleted.append(json.loads(delivery.body)["id"] if delivery.body.startswith("{") else delivery.body)
        self.queue.delete_many([delivery.receipt])

    def keep(self, delivery: Delivery, seconds: int) -> None:
        self.kept.append((json.loads(delivery.body).get("id", "?"), seconds))
        self.queue.set_visibility_many([(delivery.receipt, seconds)])


class Lab:
    """The world with a queue, and what a test does with it."""

    def __init__(self, app: App | None = None, queue: str = "work", world: World | None = None) -> None:
        self.app = app or App("lab")
        self.topology = topology()
        self.world = world or World(topology=self.topology)
        self.tier = self.topology.tier(queue)
        self.queue = self.world.queues(self.tier)
        self.dead = self.world.dead(self.tier)
        self.rows = Rows(self.world.store)
        self.answers = Answers(self.queue)
        self.effects: list[Any] = []

    # ---- the producer's part -------------------------------------------------------------------------------------
    def submit(self, task: str = "work", *, send: bool = True, **options: Any) -> str:
        """Put a task's row and message where a client would. `args` are its arguments; other options are the row's."""
        args = options.pop("args", {})
        payload = canonical(args)
        task_id = options.pop("id", "") or f"t{self.world.entropy.token()[:8]}"
        row = Row(
            id=task_id,
            birth=self.world.entropy.token()[:8],
            task=task,
            queue=self.tier.queue,
            state=State.QUEUED,
            digest=digest_of(payload),
            payload=Stored("inline", payload, len(payload)),
            **options,
        )
        row = machine.submitted(row, self.stamp())
        self.rows.replace(None, row)
        if send:
            self.send(row)
        return task_id

    def send(self, row: Row) -> None:
        """Send a row's message."""
        group = group_id(row.ordering_key) if row.ordering_key else ""
        body = encode(envelope_of(row, row.payload.value if row.payload else None))
        sent = self.queue.send_many([Send(body, group, row.deduplication_id if self.tier.ordered else "")])
        assert isinstance(sent[0], Sent), sent

    def stamp(self) -> Stamp:
        """Now."""
        return Stamp(self.world.clock.now_ms(), self.world.entropy.token(), "lab")

    # ---- the worker's part ---------------------------------------------------------------------------------------
    def engine(self, worker_id: str = "w1", **parts: Any) -> Engine:
        """A worker's engine. Its heartbeat thread is not started: tests call holder.tick()."""
        options = {"paused": parts.pop("paused")} if "paused" in parts else {}
        made = EngineParts(
            app=self.app,
            rows=self.rows,
            payloads=self.world.payloads,
            clock=self.world.clock,
            entropy=self.world.entropy,
            threads=self.world.threads,
            telemetry=self.world.telemetry,
            worker_id=worker_id,
            **parts,
        )
        return Engine(made, **options)

    def inbox(self) -> Inbox:
        """The lab's queue, answered at once."""
        return Inbox(self.tier, self.queue, self.dead, self.answers)

    def receive(self, limit: int = 10) -> list[Delivery]:
        """What SQS gives now."""
        return self.queue.receive(limit, 0, None)

    def admit(self, engine: Engine, limit: int = 10) -> list[Unit]:
        """Receive and admit."""
        return engine.admit(self.inbox(), self.receive(limit))

    def work(self, engine: Engine | None = None, limit: int = 10) -> None:
        """One round: receive, admit, run every unit."""
        worker = engine or self.engine()
        for unit in self.admit(worker, limit):
            worker.run(unit)

    def work_until_quiet(self, engine: Engine | None = None, rounds: int = 50, step_seconds: float = 700) -> None:
        """Rounds with time passing between them, until no message is left."""
        worker = engine or self.engine()
        for _ in range(rounds):
            self.work(worker)
            if self.messages() == 0:
                return
            self.world.advance(step_seconds)
        raise AssertionError(f"not quiet after {rounds} rounds: {self.queue.depth()}")

    # ---- what is to be seen --------------------------------------------------------------------------------------
    def row(self, task_id: str) -> Row:
        """The row as it is."""
        row = self.rows.get(task_id)
        assert row is not None, f"no row {task_id}"
        return row

    def item(self, task_id: str) -> Item:
        """The row's item."""
        item = self.world.store.get_many([row_key(task_id)])[0]
        assert item is not None
        return item

    def change(self, task_id: str, **values: Any) -> None:
        """Change a row behind everybody's back, as another worker would: with a new version and write id."""
        row = self.row(task_id)
        new = replace(row, version=row.version + 1, write_id=self.world.entropy.token(), **values)
        self.rows.replace(row, new)

    def messages(self) -> int:
        """How many messages the queue holds in any condition."""
        depth = self.queue.depth()
        return depth.visible + depth.in_flight + depth.delayed

    def letters(self) -> list[Delivery]:
        """What lies in the DLQ."""
        return self.dead.receive(10, 0, 0)

    def events(self, name: str) -> list[dict[str, Any]]:
        """What was told under this name."""
        return self.world.telemetry.named(name)


def lab(handler: Callable[..., Any] | None = None, queue: str = "work", **task: Any) -> Lab:
    """A lab with one task, "work", that does as told and appends to `effects`."""
    app = App("lab")
    made = Lab(app, queue)

    def work(key: str = "") -> Any:
        made.effects.append((key, context().fence))
        return handler() if handler else "done"

    options = {"ordered_by": "key"} if queue == "ledger" else {}
    app.task(queue=queue, name="work", **options, **task)(work)
    return made


def raising(error: BaseException) -> Callable[[], Any]:
    def handler() -> Any:
        raise error

    return handler
