"""A message in this worker's hands, and the task's row while it holds the lease."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tenure.application import TaskDefinition
from tenure.core.envelope import Envelope
from tenure.core.task import Row
from tenure.core.topology import Tier
from tenure.ports import Delivery, TaskQueue

UNKNOWN_LEASE_SECONDS = 60.0
"""How long a message is hidden at a time whose task this worker does not know."""


class Ack(Protocol):
    """What becomes of a message once its row stands. Lambda collects answers; the poller calls SQS."""

    def delete(self, delivery: Delivery) -> None:
        """The message is done with."""
        ...

    def keep(self, delivery: Delivery, seconds: int) -> None:
        """The message stays, hidden for so long from now."""
        ...


@dataclass(frozen=True, slots=True)
class Inbox:
    """Where a worker's messages come from: a tier's queue, its DLQ, and how its messages are answered."""

    tier: Tier
    queue: TaskQueue
    dead: TaskQueue
    ack: Ack


@dataclass(eq=False, slots=True)
class Held:
    """One delivery from its receive to its answer. Its fields change only under `lock`.

    `row` is this worker's view of the row while it is leased; None while the message waits unclaimed.
    """

    inbox: Inbox
    delivery: Delivery
    envelope: Envelope
    definition: TaskDefinition | None
    lock: Any
    row: Row | None = None
    seen: Row | None = None
    """The row as read when the message came, for a claim still to be made; the claim's guard tells if it moved."""
    lost: bool = False
    """The lease is someone else's, or lapsed: nothing may be written or deleted any more."""
    settled: bool = False
    """The attempt has its outcome: nothing beats it any more."""
    started_at_ms: int = 0
    """When its handler was called; 0 until it is. Of a task claimed in company, later than its claim."""
    timed_out: bool = False
    cancelled: bool = False
    """The handler is asked to stop: by the caller, by a lost lease, or because its worker stops."""
    handing_over: bool = False
    beats_at_ms: int = 0
    """When the next heartbeat is due; 0 before the first is planned."""
    stops_at_ms: int = 0
    """When the attempt's timeout is over; 0 until it is started."""
    dies_at_ms: int = 0
    """When this process is gone for certain (a Lambda's end); no lease is taken beyond it. 0: it goes on."""
    progress_permille: int = 0
    interrupt: Callable[[], None] | None = field(default=None)
    """How an async handler is told to stop at once."""

    def lease_seconds_at(self, now_ms: int) -> float:
        """The lease that a claim or beat takes now: the task's, but never past the end of this process."""
        seconds = self.definition.lease_seconds if self.definition else UNKNOWN_LEASE_SECONDS
        if self.dies_at_ms:
            seconds = min(seconds, max(1.0, (self.dies_at_ms - now_ms) / 1000))
        return seconds


@dataclass(eq=False, slots=True)
class Unit:
    """What one thread runs in sequence: one standard task, or the rest of one ordering group in order.

    `exclusive`: it may have killed a worker before, so nothing runs beside it and a second death is known to be its
    own.
    """

    members: list[Held]
    ordered: bool = False
    exclusive: bool = False
