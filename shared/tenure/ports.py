"""What tenure needs of the world, as small Protocols. The docstrings are the contract, and tests/contract holds every
adapter to it: the in-memory world, moto, ministack, and AWS on demand.

Every call that takes many answers for each: an outcome per entry, in order, and never an exception for one entry.
An adapter holds no rules: what a refusal means is decided in core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tenure.core.task import Stored


# ---- the table -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Key:
    """An item's key: `pk` = "T#" + task id for tasks; `sk` = "R" row, "P#…" payload, "S#…" result, "C#…" checkpoint."""

    pk: str
    sk: str


@dataclass(frozen=True, slots=True)
class Item:
    """A versioned, durable thing. `data` is JSON-like: texts, whole numbers, booleans, None, lists, maps.

    due:  (queue, shard, at_ms): its place in the sparse due index; None: not in it.
    dead: (queue, at_ms): its place in the sparse index of open dead letters; None: not in it.
    """

    key: Key
    version: int
    write_id: str
    data: Mapping[str, Any]
    birth: str = ""
    due: tuple[str, int, int] | None = None
    dead: tuple[str, int] | None = None
    expires_at_s: int = 0


@dataclass(frozen=True, slots=True)
class Write:
    """Put `item` in the place of the one whose version and birth are `expected`; None: where there is none."""

    item: Item
    expected: tuple[int, str] | None


@dataclass(frozen=True, slots=True)
class Written:
    """The write stands."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The condition failed; `item` is the item as it is (None: there is none), without a second read.

    It may be one's own write whose reply was lost: the caller compares write ids.
    """

    item: Item | None


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No answer that settles it: throttled, timed out, 5xx. The write may or may not stand; it is safe to try again."""

    error: str


WriteOutcome = Written | Refused | Unanswered


class TaskStore(Protocol):
    """Versioned items. Reads are consistent, except by index."""

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """The items as they are now, in the order asked; None where there is none or its time to live has passed.

        Raises ServiceError if any could not be read.
        """
        ...

    def write_many(self, writes: Sequence[Write]) -> list[WriteOutcome]:
        """Conditional writes, each by itself; concurrent, unordered, any number. An expired item counts as absent."""
        ...

    def due(self, queue: str, shard: int, before_ms: int, limit: int) -> list[Key]:
        """Keys whose due time is before `before_ms`, earliest first. From an index: may be late either way.

        Raises ServiceError.
        """
        ...

    def dead(self, queue: str, after_ms: int, limit: int) -> list[tuple[Key, int]]:
        """(key, dead_at_ms) of a queue's open dead letters, oldest first, those later than `after_ms`. From an index.

        Raises ServiceError.
        """
        ...


class PayloadStore(Protocol):
    """Texts too large for a row. A key holds the write id of the row write that names it, so it is written once."""

    def put(self, place: Stored, text: str, expires_at_s: int) -> None:
        """Store `text` under `place` unless something lies there already, which then is this same text. Raises
        ServiceError, or TooLarge where the place cannot take it."""
        ...

    def get(self, place: Stored) -> str:
        """The text. Raises PayloadMissing (a ServiceError) if there is none."""
        ...

    def kind_for(self, size_bytes: int) -> str:
        """Where a text of this size belongs: "inline", "item" or "object". Raises TooLarge where nothing takes it."""
        ...


# ---- the queue -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Send:
    """A message to be sent. `group` is the ordering key's group (FIFO) or the tenant (standard, "" for none)."""

    body: str
    group: str = ""
    deduplication_id: str = ""
    delay_seconds: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    attribute_types: Mapping[str, str] = field(default_factory=dict)
    """Attribute -> SQS data type, where it is not "String"; a "Binary" one's value is base64. Only a message that was
    received so is sent so."""


@dataclass(frozen=True, slots=True)
class Sent:
    """SQS has it."""

    message_id: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """`definite`: SQS refused it and does not have it. Otherwise it may or may not (time-out, 5xx)."""

    definite: bool
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as received once. `receipt` is good for this receive only."""

    message_id: str
    receipt: str
    body: str
    receive_count: int
    sent_at_ms: int
    received_at_ms: int
    group: str = ""
    deduplication_id: str = ""
    sequence: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    attribute_types: Mapping[str, str] = field(default_factory=dict)
    """As in Send: what a foreign message needs to be sent on as it was."""
    moved_from: str = ""
    """DeadLetterQueueSourceArn: on a DLQ, the queue that SQS itself moved it from."""


@dataclass(frozen=True, slots=True)
class Done:
    """SQS answered yes. Of a visibility change or a delete this proves nothing about who owns the task."""


@dataclass(frozen=True, slots=True)
class NotDone:
    """`gone`: the receipt is no good any more (expired, deleted, redelivered), so trying again is useless."""

    gone: bool
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Depth:
    """Approximate counts, late by up to a minute on AWS."""

    visible: int
    in_flight: int
    delayed: int


class TaskQueue(Protocol):
    """One SQS queue (a tier's, or its DLQ)."""

    @property
    def name(self) -> str:
        """Its SQS name."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether it is FIFO."""
        ...

    def send_many(self, sends: Sequence[Send]) -> list[Sent | NotSent]:
        """Send any number, in calls of at most ten entries and one MiB, in order; a failed entry hinders no other."""
        ...

    def receive(self, limit: int, wait_seconds: int, visibility_seconds: int | None = None) -> list[Delivery]:
        """Up to `limit` (at most 10) messages; waits up to `wait_seconds` for the first. May be fewer, or none, or
        seen before. Raises ServiceError."""
        ...

    def set_visibility_many(self, changes: Sequence[tuple[str, int]]) -> list[Done | NotDone]:
        """(receipt, seconds from now) each. Not clamped: beyond 12 h from the receive SQS refuses."""
        ...

    def delete_many(self, receipts: Sequence[str]) -> list[Done | NotDone]:
        """Delete the messages received with these receipts."""
        ...

    def depth(self) -> Depth:
        """Approximate number of messages. Raises ServiceError."""
        ...


# ---- time, chance and threads ----------------------------------------------------------------------------------
class Clock(Protocol):
    """Time. Nothing else in tenure reads one."""

    def now_ms(self) -> int:
        """Epoch milliseconds, corrected by the service's own clock where the adapter has seen its answers."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let so much time pass for the calling thread."""
        ...


class Entropy(Protocol):
    """Chance. Nothing else in tenure draws any."""

    def token(self) -> str:
        """A fresh identifier that nobody else has: 20 to 32 letters and digits."""
        ...

    def fraction(self) -> float:
        """Evenly from [0, 1)."""
        ...


class Thread(Protocol):
    """A started thread."""

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for its end; whether it has ended."""
        ...


class Signal(Protocol):
    """A flag that can be waited for (threading.Event's three methods)."""

    def set(self) -> None:
        """Raise it, for good."""
        ...

    def is_set(self) -> bool:
        """Whether it is raised."""
        ...

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Until it is raised or the time is over; whether it is raised."""
        ...


class Threads(Protocol):
    """How the engine starts, joins and waits, so that a simulator can run real code one step at a time."""

    def start(self, name: str, target: Callable[[], None]) -> Thread:
        """Run `target` beside the caller."""
        ...

    def signal(self) -> Signal:
        """A new flag."""
        ...

    def lock(self) -> AbstractContextManager[Any]:
        """A new lock, for `with`. Not reentrant."""
        ...


# ---- what is told to people ------------------------------------------------------------------------------------
class Telemetry(Protocol):
    """Named events, each becoming a log line, a metric and a trace note (see telemetry.py for the names)."""

    def emit(self, event: str, /, **fields: Any) -> None:
        """Tell of an event. Never raises and never blocks for long: telling must not change what is told."""
        ...
