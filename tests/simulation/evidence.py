"""What was seen of a simulated run, and by whom it can be retold. The auditor knows this and the workload, no more."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tenure.adapters.memory import World
from tenure.adapters.memory.message import Message
from tenure.adapters.memory.queue import MemoryQueue
from tenure.adapters.memory.scheduler import LATE
from tenure.core.envelope import Envelope, decode
from tenure.core.errors import DecodeError
from tenure.core.task import FINAL, Row, State, Stored
from tenure.core.topology import Topology
from tenure.ports import Item
from tenure.rows import to_row


@dataclass(frozen=True)
class Start:
    """A handler was called."""

    name: str
    task_id: str
    fence: int
    attempt: int
    at_ms: int
    process: str
    row: Row | None
    """The row as the table held it at that moment."""
    act: str = ""
    """What its plan lets it do."""
    filler: str = ""
    """The letter that its payload is filled with."""


@dataclass(frozen=True)
class End:
    """A handler returned or raised."""

    task_id: str
    fence: int
    at_ms: int


@dataclass(frozen=True)
class Effect:
    """A handler wrote downstream, where a lower fence than the highest seen is refused."""

    name: str
    fence: int
    at_ms: int
    accepted: bool


@dataclass(frozen=True)
class Change:
    """A write of a row that took effect."""

    before: Row | None
    after: Row
    at_ms: int
    process: str


@dataclass(frozen=True)
class Mail:
    """Something that happened to a message."""

    what: str
    queue: str
    envelope: Envelope | None
    message_id: str
    letter: bool
    row: Row | None
    at_ms: int
    process: str


@dataclass(frozen=True)
class Told:
    """A producer's or an operator's answer, as it got it."""

    what: str
    name: str
    task_id: str
    detail: str
    at_ms: int
    rival: str = ""
    """The letter that the payload was filled with, of those submitted under one key."""


@dataclass
class Evidence:
    """Everything seen in one run."""

    world: World
    starts: list[Start] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    mail: list[Mail] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    deaths: list[tuple[int, str]] = field(default_factory=list)
    """(at_ms, process): killed, by chaos or by a handler."""
    stalls: list[tuple[int, str]] = field(default_factory=list)
    pauses: list[tuple[str, int, bool]] = field(default_factory=list)
    """(queue, at_ms, whether it is paused from then on)."""
    rows: dict[str, Row] = field(default_factory=dict)
    open_rows: int = 0
    keys_halted: set[str] = field(default_factory=set)
    """Ordering keys that are not open, as the table holds them."""
    names: dict[str, str] = field(default_factory=dict)
    """Task id -> the workload's name for it."""
    highest_fence: Counter[str] = field(default_factory=Counter)
    started: Counter[str] = field(default_factory=Counter)
    _mains: list[MemoryQueue] = field(default_factory=list)
    _deads: list[MemoryQueue] = field(default_factory=list)

    def watch(self, topology: Topology) -> None:
        """See every write of a row, and every message of every queue come and go."""
        self.world.store.watchers.append(self._written)
        for tier in topology.tiers():
            self._watch(self.world.queues(tier), is_main=True)
            self._watch(self.world.dead(tier), is_main=False)

    def _watch(self, queue: MemoryQueue, *, is_main: bool) -> None:
        (self._mains if is_main else self._deads).append(queue)
        queue.watchers.append(lambda what, message: self._mailed(what, queue.name, message))

    @property
    def messages_left(self) -> int:
        """How many messages the main queues hold."""
        return sum(len(queue.all()) for queue in self._mains)

    @property
    def letters_left(self) -> set[str]:
        """Ids of the messages in the DLQs, one that came back after its delete among them."""
        return {message.message_id for queue in self._deads for message in queue.all()}

    def bells_missing(self) -> list[str]:
        """Ids of dead letters whose letter is not confirmed, those apart that somebody has discarded."""
        dead = [row for row in self.rows.values() if row.state is State.DEAD_LETTERED and not row.letter_confirmed]
        return [row.id for row in dead if row.disposition is None or row.disposition.kind != "discarded"]

    def process(self) -> str:
        """Who acts now."""
        thread = self.world.scheduler.current()
        return thread.process.name.removeprefix(LATE) if thread else "test"

    def effect(self, name: str, fence: int) -> bool:
        """A write downstream; whether it was accepted."""
        accepted = fence >= self.highest_fence[name]
        self.highest_fence[name] = max(fence, self.highest_fence[name])
        self.effects.append(Effect(name, fence, self.world.scheduler.now_ms, accepted))
        return accepted

    def tell(self, what: str, name: str, task_id: str, detail: str = "", rival: str = "") -> None:
        """Note an answer."""
        self.told.append(Told(what, name, task_id, detail, self.world.scheduler.now_ms, rival))

    def text_of(self, place: Stored) -> str:
        """The text at a place, in its row or beside it; empty if none lies there."""
        return place.value if place.kind == "inline" else self.world.payloads.peek(place)

    def _written(self, before: Item | None, after: Item) -> None:
        if after.key.sk == "PAUSE":
            queue = after.key.pk.removeprefix("Q#")
            self.pauses.append((queue, self.world.scheduler.now_ms, bool(after.data["paused"])))
        if after.key.pk.startswith("K#"):
            (self.keys_halted.discard if after.data["phase"] == "open" else self.keys_halted.add)(after.data["key"])
        if after.key.sk != "R" or not after.key.pk.startswith("T#"):
            return
        row = to_row(after)
        old = self.rows.get(row.id) if before is not None else None
        self.open_rows += (row.state not in FINAL) - (old is not None and old.state not in FINAL)
        self.rows[row.id] = row
        self.changes.append(Change(old, row, self.world.scheduler.now_ms, self.process()))

    def _mailed(self, what: str, queue: str, message: Message) -> None:
        envelope: Envelope | None
        try:
            envelope = decode(message.body)
        except DecodeError:
            envelope = None
        row = self.rows.get(envelope.id) if envelope else None
        letter = "tenure-letter" in message.attributes
        now = self.world.scheduler.now_ms
        self.mail.append(Mail(what, queue, envelope, message.message_id, letter, row, now, self.process()))
