"""A shop: an app with one task for each kind of queue, connected to the world in memory. For tests of the producer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.adapters.memory import World
from tenure.adapters.memory.queue import MemoryQueue
from tenure.application import App
from tenure.client import Client
from tenure.core import machine
from tenure.core.machine import Stamp
from tenure.core.task import Row
from tenure.core.topology import Pool, Queue, Tier, Topology
from tenure.ports import NotSent, Send, Sent, TaskQueue, Unanswered, WriteOutcome
from tenure.rows import Rows
from tenure.worker.engine import Engine
from tenure.worker.held import Inbox
from tenure.worker.settling import EngineParts
from tests.support.lab import Answers

REFUSED = NotSent(True, "AWS.SimpleQueueService.NonExistentQueue", "the queue does not exist")
UNANSWERED = NotSent(False, "ServiceUnavailable", "no answer came")


def topology() -> Topology:
    """A standard queue with two tiers, an ordered one, and one that takes small messages only."""
    return Topology(
        app="shop",
        environment="test",
        queues=(
            Queue(name="media", pool="many", tiers=("high", "normal")),
            Queue(name="ledger", pool="many", ordered=True),
            Queue(name="small", pool="many", message_bytes_max=1024),
        ),
        pools=(Pool(name="many", kind="fargate"),),
    )


@dataclass
class Scripted:
    """A queue before the world's own, which answers sends as a test says: an answer each, None for the real one.

    `stored`: whether a send that is answered UNANSWERED was stored nevertheless.
    """

    real: MemoryQueue
    answers: list[NotSent | None] = field(default_factory=list)
    stored: bool = False
    calls: list[int] = field(default_factory=list)
    sent: list[Send] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def send_many(self, sends: Sequence[Send]) -> list[Sent | NotSent]:
        self.calls.append(len(sends))
        self.sent += sends
        return [self._one(send) for send in sends]

    def _one(self, send: Send) -> Sent | NotSent:
        answer = self.answers.pop(0) if self.answers else None
        if answer is None or (self.stored and not answer.definite):
            real = self.real.send_many([send])[0]
        return answer or real


class Shop:
    """The world, the app and its client."""

    def __init__(self, world: World | None = None) -> None:
        self.topology = topology()
        self.world = world or World(topology=self.topology)
        self.rows = Rows(self.world.store)
        self.app = App("shop")
        self.effects: list[Any] = []
        self._queues: dict[str, Scripted] = {}
        self.client = self.another_client()
        self.app.connect(client=self.client)

    def another_client(self, **changes: Any) -> Client:
        """Another producer on the same world."""
        parts: dict[str, Any] = {
            "app_name": "shop",
            "topology": self.topology,
            "rows": self.rows,
            "payloads": self.world.payloads,
            "queues": self.queue_of,
            "clock": self.world.clock,
            "entropy": self.world.entropy,
            "telemetry": self.world.telemetry,
            "tasks": {},
        }
        return Client(**(parts | changes))

    # ---- the queues ------------------------------------------------------------------------------------------------
    def queue_of(self, tier: Tier) -> TaskQueue:
        """The queue of a tier, as the client sees it."""
        if tier.name not in self._queues:
            self._queues[tier.name] = Scripted(self.world.queues(tier))
        return self._queues[tier.name]

    def queue(self, name: str = "media", tier: str = "normal") -> Scripted:
        """The queue of a tier by name."""
        found = self.queue_of(self.topology.tier(name, tier))
        assert isinstance(found, Scripted)
        return found

    def messages(self) -> list[Any]:
        """Every message in every queue."""
        return [message for queue in self.world.all_queues for message in queue.all()]

    def items(self) -> list[Any]:
        """Every item in the table."""
        return list(self.world.store.all())

    def nothing_exists(self) -> bool:
        """Whether table, payload store and queues are empty."""
        return self.messages() == [] and self.items() == [] and not self.client.payloads._texts  # type: ignore[attr-defined] # the world's own

    # ---- the rows --------------------------------------------------------------------------------------------------
    def row(self, task_id: str) -> Row:
        """The row as it is."""
        row = self.rows.get(task_id)
        assert row is not None, f"no row {task_id}"
        return row

    def stamp(self) -> Stamp:
        """Now."""
        return Stamp(self.world.clock.now_ms(), self.world.entropy.token(), "test")

    def claim(self, task_id: str, alone: bool = False) -> Row:
        """Claim a task as a worker would, and keep it."""
        row = self.row(task_id)
        lease = machine.Lease(60, self.world.entropy.token(), "w1", alone, row.max_attempts)
        new = machine.claim(row, self.stamp(), lease)
        self.rows.replace(row, new)
        return new

    def change(self, task_id: str, make: Callable[[Row, Stamp], Row]) -> Row:
        """Write what `make` makes of the row."""
        row = self.row(task_id)
        new = make(row, self.stamp())
        self.rows.replace(row, new)
        return new

    # ---- the worker ------------------------------------------------------------------------------------------------
    def work(self, name: str = "media", tier: str = "normal", rounds: int = 1) -> None:
        """Receive, admit and run, so many times."""
        place = self.topology.tier(name, tier)
        queue = self.world.queues(place)
        engine = Engine(
            EngineParts(
                app=self.app,
                rows=self.rows,
                payloads=self.world.payloads,
                clock=self.world.clock,
                entropy=self.world.entropy,
                threads=self.world.threads,
                telemetry=self.world.telemetry,
                worker_id="w1",
            )
        )
        inbox = Inbox(place, queue, self.world.dead(place), Answers(queue))
        for _ in range(rounds):
            for unit in engine.admit(inbox, queue.receive(10, 0, None)):
                engine.run(unit)


class Table:
    """A store before the world's own, whose next writes are applied or not, as told, and not answered."""

    def __init__(self, shop: Shop, applied: bool, times: int) -> None:
        self._store, self._applied, self.left = shop.world.store, applied, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write_many(self, writes: Any) -> list[WriteOutcome]:
        if self.left <= 0:
            return self._store.write_many(writes)
        self.left -= 1
        if self._applied:
            self._store.write_many(writes)
        return [Unanswered("timed out") for _ in writes]


def counting(items: Sequence[Any], read: list[int]) -> Iterator[Any]:
    """Yield the items, noting how many were taken."""
    for item in items:
        read.append(1)
        yield item
