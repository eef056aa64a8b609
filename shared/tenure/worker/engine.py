"""The engine: claim, run, settle. It knows no runtime: Lambda and Fargate bring it deliveries and take its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenure.core import decide, lease
from tenure.core.errors import ServiceError, UnsupportedVersion
from tenure.core.outcome import Failed, Released, named
from tenure.core.task import Row
from tenure.ports import Delivery
from tenure.worker.attempt import Invoker
from tenure.worker.gate import Gate
from tenure.worker.held import Held, Inbox, Unit
from tenure.worker.holder import Holder
from tenure.worker.intake import AWAY, CLAIMED, FINAL, Intake
from tenure.worker.settling import UNSURE_SECONDS, EngineParts, Settler


class Engine:
    """Runs what is delivered to one process.

    A runtime calls `admit` with what it received, `run` with each unit (on one of `max_running` threads), `release`
    with units that it will not run, and starts and stops `holder` around that. None of these raises: a fault with one
    message is told and leaves its neighbours alone.
    """

    def __init__(self, parts: EngineParts, paused: Callable[[str], bool] = lambda queue: False) -> None:
        self._parts = parts
        self.dies_at_ms = 0
        """When this process is gone for certain (set by the Lambda runtime for each invocation); 0: it goes on."""
        self.holder = Holder(
            parts.rows, parts.clock, parts.entropy, parts.threads, parts.telemetry, on_timeout=self._time_out
        )
        self._settler = Settler(parts, self.holder)
        self._intake = Intake(parts, self.holder, self._settler, paused)
        self._invoker = Invoker(parts, self.holder, self._settler)
        self._gate = Gate(parts.threads)
        self._lock = parts.threads.lock()
        self._running: list[Held] = []
        self._starting = True

    @property
    def running(self) -> int:
        """Handlers that run now."""
        with self._lock:
            return len(self._running)

    @property
    def stuck(self) -> int:
        """Handlers that have not returned though their time is over. Their tasks are settled; their threads are not
        to be had back, so a process whose threads are all stuck should be replaced."""
        return self.stuck_for(0)

    def stuck_for(self, seconds: float) -> int:
        """Those of them whose time was over so long ago: one that heeds its timeout needs a moment to return."""
        latest_ms = self._parts.clock.now_ms() - round(seconds * 1000)
        with self._lock:
            return sum(held.timed_out and held.stops_at_ms <= latest_ms for held in self._running)

    def admit(self, inbox: Inbox, deliveries: Sequence[Delivery]) -> list[Unit]:
        """Let deliveries in: what is not ours is quarantined, what may not run goes back, the rest becomes units.

        First deliveries of a standard queue are claimed together; redeliveries and ordered tasks just before they run,
        suspects among them with nothing beside them.
        """
        opened: list[Held] = []
        barred: set[str] = set()
        for delivery in deliveries:
            held = self._open(inbox, delivery, barred)
            if held is not None:
                opened.append(held)
        try:
            return self._by_group(opened) if inbox.tier.ordered else self._standard(opened)
        except Exception as error:
            self._parts.telemetry.emit("engine.failed", queue=inbox.tier.queue, error=repr(error))
            for held in opened:
                self._abandon(held)
            return []

    def _open(self, inbox: Inbox, delivery: Delivery, barred: set[str]) -> Held | None:
        """One delivery opened. On an ordered queue whatever follows a message that was set aside goes back unread."""
        ordered = inbox.tier.ordered
        try:
            if ordered and (not delivery.group or delivery.group in barred):
                inbox.ack.keep(delivery, 0 if delivery.group else UNSURE_SECONDS)
                return None
            held = self._intake.open(inbox, delivery, self.dies_at_ms)
        except Exception as error:
            self._parts.telemetry.emit("engine.failed", queue=inbox.tier.queue, error=repr(error))
            inbox.ack.keep(delivery, UNSURE_SECONDS)
            held = None
        if held is None and ordered:
            barred.add(delivery.group)
        return held

    def _by_group(self, opened: list[Held]) -> list[Unit]:
        groups: dict[str, list[Held]] = {}
        for held in opened:
            groups.setdefault(held.delivery.group, []).append(held)
        suspects = self._suspects(opened)
        return [Unit(members, ordered=True, exclusive=not suspects.isdisjoint(members)) for members in groups.values()]

    def _suspects(self, opened: Sequence[Held]) -> set[Held]:
        """Those that may have killed a worker, in a process that runs several at once. A group with one in it runs
        with nothing beside it. Who cannot be read now counts as one; each is read again just before it is claimed."""
        if self._parts.max_running == 1:
            return set()
        known = {held: self._intake.beginning(held) for held in opened}
        unread = [held for held, row in known.items() if row is None]
        try:
            known |= zip(unread, self._parts.rows.get_many([held.envelope.id for held in unread]), strict=True)
        except (ServiceError, UnsupportedVersion):
            return set(unread)
        return {held for held, row in known.items() if row and decide.must_run_alone(row, _attempts_max(held))}

    def _standard(self, opened: list[Held]) -> list[Unit]:
        known = [(held, self._intake.beginning(held)) for held in opened]
        unread = [held for held, row in known if row is None]
        rows = iter(self._intake.read(unread) or [None] * len(unread))
        together: list[tuple[Held, Row]] = []
        units: list[Unit] = []
        for held, row in known:
            seen = row if row is not None else next(rows)
            if held.settled:
                continue  # its row could not be read, and it has been handed back
            if seen is not None and decide.must_run_alone(seen, _attempts_max(held)):
                units.append(Unit([held], exclusive=True))
            elif row is not None and (len(opened) > 1 or self._parts.max_running > 1):
                together.append((held, row))
            else:
                held.seen = seen
                units.append(Unit([held]))
        claimed = self._intake.claim_together(together) if together else []
        return [Unit([held]) for held in claimed] + units

    def run(self, unit: Unit, *, stop_at_ms: int | None = None) -> None:
        """Run a unit to its end in the calling thread; what has not started by `stop_at_ms` is released."""
        try:
            with self._gate.passing(alone=unit.exclusive) as inside:
                if inside:
                    self._run_members(unit, stop_at_ms)
                else:
                    self._give_back(unit.members)
        except Exception as error:
            self._parts.telemetry.emit("engine.failed", error=repr(error))
            for held in unit.members:
                self._abandon(held)

    def _run_members(self, unit: Unit, stop_at_ms: int | None) -> None:
        waiting = list(unit.members)
        while waiting:
            if not self._starting or (stop_at_ms is not None and self._parts.clock.now_ms() >= stop_at_ms):
                break
            held = waiting.pop(0)
            if not self._run_one(held, unit) and unit.ordered:
                break  # a successor is claimed only after its head is seen final
        self._give_back(waiting)

    def _run_one(self, held: Held, unit: Unit) -> bool:
        """One task from wherever it stands to its answer; whether it is seen final."""
        if held.row is None:
            ended = self._claim(held, alone=unit.exclusive or self._parts.max_running == 1)
            if ended != CLAIMED:
                return ended == FINAL
        row = held.row
        if row is None or held.lost:
            return False
        if lease.ended(row.lease_end_at_ms, self._parts.clock.now_ms()):
            self.holder.lose(held, "it lapsed before its handler was called")
            self.holder.drop(held)
            return False
        if not self._begin(held):
            self._give_back([held])
            return False
        try:
            outcome = self._invoker.run(held, row)
        finally:
            with self._lock:
                self._running.remove(held)
        if held.settled:
            return False  # settled by its timeout, while its handler went on
        return self._settler.settle(held, outcome)

    def _begin(self, held: Held) -> bool:
        with self._lock:
            if self._starting:
                self._running.append(held)
            return self._starting

    def _claim(self, held: Held, *, alone: bool) -> str:
        row = held.seen or self._intake.beginning(held)
        if row is None:
            rows = self._intake.read([held])
            if rows is None or held.settled:
                return AWAY
            row = rows[0]
        return self._intake.admit(held, row, alone=alone)

    def release(self, unit: Unit) -> None:
        """Give a unit back that was not started: visible at once, free of charge."""
        self._give_back(unit.members)

    def _give_back(self, members: Sequence[Held]) -> None:
        for held in members:
            try:
                if held.row is not None and not held.lost:
                    self._settler.settle(held, Released(started=False))
                elif not held.settled:
                    self._intake.give_back(held, 0, "its worker will not run it")
            except Exception as error:
                self._parts.telemetry.emit("engine.failed", task_id=held.envelope.id, error=repr(error))
                self._abandon(held)

    def stop_starting(self) -> None:
        """The process drains: once this returns no handler is called any more, and what waits to run is given back."""
        with self._lock:
            self._starting = False
        self._gate.close()

    def hand_over(self) -> None:
        """The stop window ends: running handlers are told to stop, and one that then raises is given back.

        One that does not return keeps its lease until it lapses: it may still be at work.
        """
        with self._lock:
            running = list(self._running)
        for held in running:
            held.handing_over = True
            held.cancelled = True
            if held.interrupt:
                held.interrupt()

    def close(self) -> None:
        """End what the engine keeps for the life of its process."""
        self.holder.stop()
        self._invoker.coroutines.close()

    def _time_out(self, held: Held) -> None:
        """A handler's time is over: its attempt has failed, and whatever it still does is fenced off."""
        if not self.holder.drop(held):
            return  # it returned in the same moment
        held.cancelled = True
        if held.interrupt:
            held.interrupt()
        seconds = held.definition.timeout_seconds if held.definition else 0
        self._settler.record(held, Failed(named("TimedOut", f"it ran longer than its timeout of {seconds:g} s"), True))

    def _abandon(self, held: Held) -> None:
        """Something of our own failed: let go without a word to SQS; the message comes back by itself."""
        self.holder.drop(held)


def _attempts_max(held: Held) -> int:
    return held.definition.retry.max_attempts if held.definition else held.envelope.max_attempts
