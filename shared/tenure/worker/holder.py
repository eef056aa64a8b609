"""The holder: every message in this worker's hands, and the heartbeat that keeps them. A thread of its own, never the
handler's, so that a busy handler cannot stop it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenure.core import lease, machine
from tenure.core.machine import Stamp
from tenure.core.task import Row, State
from tenure.ports import Clock, Entropy, NotDone, Signal, Telemetry, Thread, Threads
from tenure.rows import Overtaken, Rows, Stands, Unknown
from tenure.worker.held import Held

TICK_SECONDS = 1.0
"""How often the heartbeat thread looks whether something is due, at the most. Leases are at least ten seconds."""


class Holder:
    """Keeps leases alive and messages hidden.

    Row first, then visibility: a message hidden without a beaten row would hide work that nobody holds. A beat starts
    after a third of the lease, so a task that ends sooner never pays for one.
    """

    def __init__(
        self,
        rows: Rows,
        clock: Clock,
        entropy: Entropy,
        threads: Threads,
        telemetry: Telemetry,
        *,
        on_timeout: Callable[[Held], None] = lambda held: None,
    ) -> None:
        self._rows = rows
        self._clock = clock
        self._entropy = entropy
        self._threads = threads
        self._telemetry = telemetry
        self._on_timeout = on_timeout
        self._lock = threads.lock()
        self._held: list[Held] = []
        self._stop: Signal | None = None
        self._thread: Thread | None = None
        self._endings: list[Thread] = []
        """Those that settle timeouts: never more than there are handlers whose time is over."""

    def start(self) -> None:
        """Start the heartbeat thread, unless it runs already."""
        if self._thread is None:
            stop = self._stop = self._threads.signal()
            self._thread = self._threads.start("tenure-heartbeat", lambda: self._loop(stop))

    def stop(self) -> None:
        """Stop the heartbeat thread and wait for it: no beat is under way after this, and every timeout is settled."""
        if self._thread is not None and self._stop is not None:
            self._stop.set()
            self._thread.join()
            self._thread = self._stop = None
        while self._endings:
            self._endings.pop().join()

    def add(self, held: Held) -> None:
        """Take a message into care: from now on it is kept hidden, and beaten once it has a row."""
        now = self._clock.now_ms()
        held.beats_at_ms = now + lease.beat_every_ms(held.lease_seconds_at(now))
        with self._lock:
            self._held.append(held)

    def drop(self, held: Held) -> bool:
        """Let go of a message. When this returns no beat of it is under way and none will start.

        Whether this call was the one that let go: of a handler's return and its timeout, one settles."""
        with self._lock:
            if held in self._held:
                self._held.remove(held)
        with held.lock:  # joins a beat that is under way
            first, held.settled = not held.settled, True
        return first

    def all(self) -> list[Held]:
        """The messages in care now."""
        with self._lock:
            return list(self._held)

    def _loop(self, stop: Signal) -> None:
        while not stop.wait(TICK_SECONDS):
            self.tick()

    def tick(self) -> None:
        """Beat whatever is due. Never raises: a fault in one message's beat must not stop the others'."""
        for held in self.all():
            try:
                self._look_at(held)
            except Exception as error:
                self._telemetry.emit("beat.failed", task_id=held.envelope.id, error=repr(error))

    def _look_at(self, held: Held) -> None:
        now = self._clock.now_ms()
        if held.stops_at_ms and now >= held.stops_at_ms and not held.timed_out:
            held.timed_out = True
            self._endings = [thread for thread in self._endings if not thread.join(0)]
            self._endings.append(self._threads.start("tenure-timeout", lambda: self._end(held)))
        if now >= held.beats_at_ms:
            self.beat(held)

    def _end(self, held: Held) -> None:
        """Settle a timeout. Not in the heartbeat thread: a slow table or DLQ would cost the others their leases."""
        try:
            self._on_timeout(held)
        except Exception as error:
            self._telemetry.emit("beat.failed", task_id=held.envelope.id, error=repr(error))

    def beat(self, held: Held, write: Callable[[Row, Stamp], Row] | None = None) -> bool:
        """One heartbeat, with `write` in the place of a plain beat where a checkpoint is to be named.

        Returns whether the lease is still this worker's. False at once if it is lost.
        """
        with held.lock:
            if held.settled or held.lost:
                return not held.lost
            if held.row is not None and not self._beat_row(held, write):
                return False
            self._hide(held)
            now = self._clock.now_ms()
            held.beats_at_ms = now + lease.beat_every_ms(held.lease_seconds_at(now))
            return True

    def _beat_row(self, held: Held, write: Callable[[Row, Stamp], Row] | None) -> bool:
        row = held.row
        while row is not None and row.state is State.LEASED:
            stamp = Stamp(self._clock.now_ms(), self._entropy.token())
            if lease.lapsed(row.lease_end_at_ms, stamp.now_ms):
                return self.lose(held, "it lapsed before its heartbeat")
            outcome = self._rows.replace(row, self._beaten(held, row, stamp, write))
            if isinstance(outcome, Stands):
                held.row = outcome.row
                held.cancelled = held.cancelled or bool(outcome.row.cancel_requested_at_ms)
                return True
            if isinstance(outcome, Unknown):
                # The old end still holds; past it the handler is told before anyone else may begin.
                self._telemetry.emit("beat.failed", task_id=row.id, error=outcome.error)
                return not lease.ended(row.lease_end_at_ms, self._clock.now_ms()) or self.lose(held, "no beat stood")
            row = self.adopt(held, outcome)
        return self.lose(held, "its row moved on")

    @staticmethod
    def _beaten(held: Held, row: Row, stamp: Stamp, write: Callable[[Row, Stamp], Row] | None) -> Row:
        if write is not None:
            return write(row, stamp)
        changes: dict[str, Any] = {}
        if held.progress_permille != row.progress_permille:
            changes["progress_permille"] = held.progress_permille
        return machine.beat(row, stamp, held.lease_seconds_at(stamp.now_ms), **changes)

    @staticmethod
    def adopt(held: Held, overtaken: Overtaken) -> Row | None:
        """The newer row, if it is still this lease (same token): a cancel request, say. None: the lease is lost."""
        mine, row = held.row, overtaken.row
        if mine is None or row is None or row.state is not State.LEASED or row.lease_token != mine.lease_token:
            return None
        held.row = row
        return row

    def lose(self, held: Held, why: str) -> bool:
        """The lease is lost: tell the handler, write nothing, delete nothing. Always False, for the caller's return."""
        if not held.lost:
            held.lost = True
            held.cancelled = True
            self._telemetry.emit("lease.lost", task_id=held.envelope.id, queue=held.inbox.tier.queue, why=why)
            if held.interrupt:
                held.interrupt()
        return False

    def _hide(self, held: Held) -> None:
        delivery, now = held.delivery, self._clock.now_ms()
        if lease.beyond_cap(delivery.received_at_ms, now):
            return  # only the row is beaten from here on; redeliveries meet the live lease
        seconds = lease.visibility_seconds(held.lease_seconds_at(now), delivery.received_at_ms, now)
        answer = held.inbox.queue.set_visibility_many([(delivery.receipt, seconds)])[0]
        if isinstance(answer, NotDone):
            # Not a lost lease: only the row tells. A redelivery will meet the live lease and be handed back.
            self._telemetry.emit("ack.failed", task_id=held.envelope.id, what="visibility", code=answer.code)
