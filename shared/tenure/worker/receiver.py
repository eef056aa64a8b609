"""One SQS queue's receiver: a thread that polls it for as long as the process lives, whatever happens to a poll.

A thread for each queue, because only a long poll is cheap while nothing comes (three requests a minute and queue), and
one long poll at a time would let a message on every other queue wait for up to twenty seconds.

It polls in one of two ways. *Hungry*, after a poll that brought all it asked for: it takes its turn for free places
first (worker/slots.py) and polls for just so many, without waiting. *Idle* otherwise: a long poll that holds no place,
so that quiet queues do not keep busy ones from the process; it asks for its share only, and starts only while a place
is free. What an idle poll brings while the places have gone elsewhere is held for a moment, then given back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tenure.core import limits
from tenure.ports import Clock, Delivery, Entropy, Signal, Telemetry
from tenure.worker.acks import DirectAck
from tenure.worker.engine import Engine
from tenure.worker.held import Inbox, Unit
from tenure.worker.slots import Slots

HOLD_SECONDS = 5.0
"""How long received messages wait for a place before they are given back: less than it costs to receive them again."""
BACKOFF_SECONDS_BASE = 0.5
BACKOFF_SECONDS_MAX = 30.0
"""Between failed polls: doubling from the base to this, less up to half of it by chance. A quarter of the time after
which the process counts as dead (worker/liveness.py), so that a queue that heals is seen to heal."""
EMPTY_SECONDS = 1.0
"""After an idle poll that came back empty at once, which SQS does not do: whatever does must not be asked in a loop."""
RECONNECT_AFTER_FAILURES = 3
"""After so many failures in a row, and at each multiple, the queue's client is built anew: its connections or its
credentials may be what is broken."""
_EXPIRED = ("ExpiredToken", "InvalidClientTokenId", "UnrecognizedClient", "InvalidAccessKeyId", "CredentialsError")
"""Parts of the codes with which AWS refuses credentials that were good once. Common errors of every AWS API."""


@dataclass(eq=False)
class Flow:
    """One SQS queue as a process serves it. `connect` builds its inbox, and another when its client may be broken."""

    index: int
    connect: Callable[[], Inbox]
    inbox: Inbox
    share: int


@dataclass(frozen=True)
class Surroundings:
    """What all receivers of a process share. `put`: to the runners; False once they take no more."""

    engine: Engine
    slots: Slots
    put: Callable[[Unit], bool]
    stopping: Signal
    clock: Clock
    entropy: Entropy
    telemetry: Telemetry


class Receiver:
    """Polls one queue until the process stops, and never ends before."""

    def __init__(self, flow: Flow, around: Surroundings) -> None:
        self._flow = flow
        self._around = around
        self._hungry = False
        self._failures = 0
        self.turned_at_ms = around.clock.now_ms()
        """When it last came round: a poll answered, well or ill, or a wait for a place."""
        self.received_at_ms = self.turned_at_ms
        """When SQS last answered a poll of it."""
        self.waiting = False
        """It waits for a place in this process, which is not a fault of its own."""

    @property
    def name(self) -> str:
        """The SQS queue's name."""
        return self._flow.inbox.tier.name

    def run(self) -> None:
        """Poll until stopped. What one turn raises is told, waited out and left behind."""
        while not self._around.stopping.is_set():
            try:
                self._turn()
            except Exception as error:  # of any kind: a poller that stops polling is the one fault nobody sees
                self._failed(error)
            self.turned_at_ms = self._around.clock.now_ms()

    def _turn(self) -> None:
        flow, slots = self._flow, self._around.slots
        granted = self._take(limits.SQS_BATCH_ENTRIES_MAX if self._hungry else 1)
        if not granted:
            return
        limit, wait_seconds = granted, 0
        if not self._hungry:
            slots.give(granted, unused_by=flow.index)
            granted, limit, wait_seconds = 0, flow.share, limits.SQS_WAIT_SECONDS_MAX
        began_at_ms = self._around.clock.now_ms()
        try:
            deliveries = flow.inbox.queue.receive(limit, wait_seconds)
        except BaseException:
            slots.give(granted, unused_by=flow.index)
            raise
        self._answered()
        self._hungry = len(deliveries) >= limit
        if wait_seconds and not deliveries and self.received_at_ms - began_at_ms < EMPTY_SECONDS * 1000:
            self._around.stopping.wait(EMPTY_SECONDS)
        self._pass_on(deliveries, granted)

    def _take(self, wanted: int, timeout_seconds: float | None = None) -> int:
        self.waiting = True
        try:
            return self._around.slots.take(self._flow.index, wanted, timeout_seconds)
        finally:
            self.waiting = False

    def _pass_on(self, deliveries: Sequence[Delivery], granted: int) -> None:
        """Give as many messages to the engine as there are places, and the rest back, in their order."""
        around, flow = self._around, self._flow
        bundles = _bundles(deliveries, flow.inbox.tier.ordered)
        until_ms = around.clock.now_ms() + round(HOLD_SECONDS * 1000)
        while granted < len(bundles) and not around.stopping.is_set():
            left_seconds = (until_ms - around.clock.now_ms()) / 1000
            more = self._take(len(bundles) - granted, max(0.0, left_seconds))
            if not more:
                break
            granted += more
        taken = {id(d) for bundle in bundles[: 0 if around.stopping.is_set() else granted] for d in bundle}
        self._give_back([delivery for delivery in deliveries if id(delivery) not in taken])
        units: list[Unit] = []
        try:
            units = around.engine.admit(flow.inbox, [d for d in deliveries if id(d) in taken]) if taken else []
        finally:
            around.slots.give(granted - len(units), unused_by=flow.index)
        for unit in units:
            if not around.put(unit):
                around.engine.release(unit)
                around.slots.give(1)

    def _give_back(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            DirectAck(self._flow.inbox.queue, self._around.telemetry).keep_many(deliveries, 0)

    def _answered(self) -> None:
        self.received_at_ms = self._around.clock.now_ms()
        if self._failures:
            self._around.telemetry.emit("poll.resumed", queue=self.name, failures=self._failures)
            self._failures = 0

    def _failed(self, error: Exception) -> None:
        around = self._around
        self._failures += 1
        self._hungry = False
        ceiling = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_BASE * 2.0 ** min(self._failures - 1, 16))
        delay = ceiling * (1 - around.entropy.fraction() / 2)
        around.telemetry.emit(
            "poll.failed", queue=self.name, error=repr(error), failures=self._failures, retry_seconds=round(delay, 3)
        )
        if self._failures % RECONNECT_AFTER_FAILURES == 0 or any(code in repr(error) for code in _EXPIRED):
            self._reconnect()
        around.stopping.wait(delay)

    def _reconnect(self) -> None:
        try:
            self._flow.inbox = self._flow.connect()
        except Exception as error:  # the old client stays, and the next failure tries again
            self._around.telemetry.emit("poll.failed", queue=self.name, error=f"no new client: {error!r}")


def _bundles(deliveries: Sequence[Delivery], ordered: bool) -> list[list[Delivery]]:
    """What will need a place each: every message of a standard queue, every group of an ordered one."""
    if not ordered:
        return [[delivery] for delivery in deliveries]
    groups: dict[str, list[Delivery]] = {}
    for delivery in deliveries:
        groups.setdefault(delivery.group, []).append(delivery)
    return list(groups.values())
