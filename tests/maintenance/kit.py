"""A world with a topology, the parts of every maintenance duty, and tasks in any state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tenure.adapters.memory.world import World
from tenure.core import decide, machine
from tenure.core.decide import Arrival
from tenure.core.envelope import LETTER_ATTRIBUTE, canonical, decode, digest_of
from tenure.core.machine import Lease, Stamp
from tenure.core.outcome import named
from tenure.core.task import ErrorRecord, Row, State, Stored
from tenure.core.topology import Pool, Queue, Tier, Topology
from tenure.maintenance.parts import Parts, letter_send, message_of
from tenure.ports import Delivery, Sent
from tenure.rows import Stands

TOPOLOGY = Topology(
    app="shop",
    environment="test",
    queues=(
        Queue(name="media", pool="main", tiers=("high", "normal")),
        Queue(name="ledger", pool="main", ordered=True),
    ),
    pools=(Pool(name="main"),),
)


@dataclass
class Kit:
    """What a test of maintenance starts from."""

    world: World = field(default_factory=lambda: World(topology=TOPOLOGY))
    topology: Topology = TOPOLOGY
    made: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    """Task id -> how often `work` has run it."""
    order: list[str] = field(default_factory=list)
    """Task ids in the order in which `work` ran them."""

    @property
    def parts(self) -> Parts:
        """The parts of a duty in this world."""
        world = self.world
        return Parts(
            store=world.store,
            main=world.queues,
            dead=world.dead,
            payloads=world.payloads,
            clock=world.clock,
            entropy=world.entropy,
            telemetry=world.telemetry,
            topology=self.topology,
        )

    @property
    def now_ms(self) -> int:
        """The virtual time."""
        return self.world.clock.now_ms()

    def stamp(self, by: str = "test") -> Stamp:
        """Now, with a fresh write id."""
        return Stamp(self.now_ms, self.world.entropy.token(), by)

    def write(self, seen: Row | None, new: Row) -> Row:
        """A write that must stand."""
        assert isinstance(self.parts.rows.replace(seen, new), Stands)
        return new

    def submit(self, *, send: bool = True, **fields: Any) -> Row:
        """A task as a producer leaves it; without `send`, as one that died before its message was sent."""
        self.made += 1
        payload = canonical({"n": self.made})
        queue = fields.setdefault("queue", "media")
        fields.setdefault("task", "resize")
        if self.topology.queue(queue).ordered:
            fields.setdefault("ordering_key", "k")
        fresh = Row(
            id=fields.pop("id", f"t{self.made:05d}"),
            birth=f"b{self.made}",
            state=State.QUEUED,
            payload=Stored("inline", payload, len(payload)),
            digest=digest_of(payload),
            **fields,
        )
        row = self.write(None, machine.submitted(fresh, self.stamp()))
        if send and row.state is State.QUEUED:
            self.send(row)
        return row

    def send(self, row: Row) -> None:
        """Its message, as the row stands."""
        tier = self.topology.tier(row.queue, row.tier)
        sent = self.world.queues(tier).send_many([message_of(row, ordered=tier.ordered)])[0]
        assert isinstance(sent, Sent), sent

    def claim(self, row: Row, *, alone: bool = True, seconds: float = 60.0) -> Row:
        """A worker holds it."""
        lease = Lease(seconds, self.world.entropy.token(), "w1", alone, row.max_attempts)
        return self.write(row, machine.claim(row, self.stamp("w1"), lease))

    def bury(self, row: Row, error: str | ErrorRecord = "PDFError", *, letter: bool = True) -> Row:
        """It is claimed, fails for good and is buried; its message is deleted, and its letter lies in the DLQ."""
        if row.state is not State.LEASED:
            row = self.claim(row)
        record = named(error, f"{error} happened") if isinstance(error, str) else error
        row = self.write(row, machine.bury(row, self.stamp("w1"), record, "gave_up"))
        self.take_message(row)
        if letter:
            tier = self.topology.tier(row.queue, row.tier)
            sent = self.world.dead(tier).send_many([letter_send(row, ordered=tier.ordered)])[0]
            assert isinstance(sent, Sent), sent
            row = self.write(row, machine.confirm_letter(row, self.stamp("w1")))
        return row

    def complete(self, row: Row) -> Row:
        """It is run to its end and its message deleted."""
        if row.state is not State.LEASED:
            row = self.claim(row)
        row = self.write(row, machine.succeed(row, self.stamp("w1"), None))
        self.take_message(row)
        return row

    def take_message(self, row: Row) -> None:
        """Delete its messages from the main queue, as a worker that is done with them."""
        queue = self.world.queues(self.topology.tier(row.queue, row.tier))
        for message in [m for m in queue.all() if f'"id":"{row.id}"' in m.body]:
            del queue._messages[message.serial]

    def work(self, *, fail: Callable[[Row], bool] = lambda row: False) -> None:
        """A worker that runs everything there is until the queues are empty, waiting as long as need be."""
        for _ in range(1000):
            got = [each for tier in self.topology.tiers() for each in self._work_on(tier, fail)]
            if not got and not any(self.world.queues(tier).all() for tier in self.topology.tiers()):
                return
            if not got:
                self.advance(5)
        raise AssertionError("the queues never became empty")

    def _work_on(self, tier: Tier, fail: Callable[[Row], bool]) -> list[Delivery]:
        queue = self.world.queues(tier)
        deliveries = queue.receive(10, 0)
        for delivery in deliveries:
            envelope = decode(delivery.body)
            row = self.parts.rows.get(envelope.id)
            arrival = Arrival(envelope, delivery.receive_count, delivery.attributes.get(LETTER_ATTRIBUTE, ""))
            lease = Lease(60.0, self.world.entropy.token(), "w2", True, envelope.max_attempts)
            made = decide.admit(row, arrival, lease, self.stamp("w2"))
            if isinstance(made, decide.HandBack):
                queue.set_visibility_many([(delivery.receipt, round(made.seconds) + 1)])
                continue
            if isinstance(made, decide.Claim):
                self.write(row, made.row)
                self.runs[made.row.id] += 1
                self.order.append(made.row.id)
                if fail(made.row):
                    self.bury(made.row)
                else:
                    self.write(made.row, machine.succeed(made.row, self.stamp("w2"), None))
            queue.delete_many([delivery.receipt])
        return deliveries

    def row(self, task_id: str) -> Row:
        """The row as it is now."""
        found = self.parts.rows.get(task_id)
        assert found is not None, task_id
        return found

    def bodies(self, queue: str = "media", tier: str = "normal") -> list[str]:
        """Bodies of the messages in a main queue."""
        return [m.body for m in self.world.queues(self.topology.tier(queue, tier)).all()]

    def letters(self, queue: str = "media", tier: str = "normal") -> list[str]:
        """Bodies of the messages in a DLQ."""
        return [m.body for m in self.world.dead(self.topology.tier(queue, tier)).all()]

    def receive(self, queue: str = "media", tier: str = "normal") -> list[Delivery]:
        """What a worker would receive next."""
        return self.world.queues(self.topology.tier(queue, tier)).receive(10, 0)

    def advance(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.world.advance(seconds)
