"""A Fargate worker's process: receivers that poll its pool's queues, runners that run what they bring, and a main
thread that watches over both, until it is told to drain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tenure.core import limits
from tenure.ports import Clock, Entropy, Telemetry, Thread, Threads
from tenure.worker.engine import Engine
from tenure.worker.held import Inbox, Unit
from tenure.worker.liveness import LivenessFile, proof_at_ms
from tenure.worker.mailbox import Mailbox
from tenure.worker.receiver import Flow, Receiver, Surroundings
from tenure.worker.slots import WEIGHTS, Slots

TICK_SECONDS = 0.2
"""How often the main thread looks up. A signal is acted on within it, so unstarted messages go back within a second."""
STOP_SECONDS = 110.0
"""What running handlers get after SIGTERM, of the 120 s that Fargate grants (ContainerDefinition.stopTimeout)."""
FLUSH_SECONDS = 60.0
"""How often gathered metrics are written: CloudWatch keeps standard metrics by the minute."""
STUCK_SECONDS = 30.0
"""How long after its timeout a handler counts as one that will not return: one that heeds it needs a moment."""
LAST_GRACE_SECONDS = 5.0
"""What handlers get to return in after they were told to stop: still within the 120 s."""


@dataclass(frozen=True)
class PollerParts:
    """What a poller is made of. `connects`: for each SQS queue it serves, in order of preference, how to build its
    inbox. `threads_count`: tasks that it runs at once."""

    engine: Engine
    connects: Sequence[Callable[[], Inbox]]
    clock: Clock
    entropy: Entropy
    threads: Threads
    telemetry: Telemetry
    worker_id: str
    threads_count: int = 1
    stop_seconds: float = STOP_SECONDS
    liveness: LivenessFile | None = None
    abandoned: Callable[[], bool] = lambda: False
    """Whether whoever watches over this process is gone; then it drains by itself."""
    flush: Callable[[], None] = lambda: None
    """Writes the metrics that were gathered."""


class Poller:
    """Receives, runs, and drains.

    `drain()` may be called from a signal handler: it only counts, and the main thread acts on it. The first call stops
    receiving and starting; whatever was not started is visible again at once, what comes out of polls under way as
    soon as it comes. Running handlers may end within `stop_seconds`; then, or on the second call, they are told to stop
    and get a last short grace.
    """

    def __init__(self, parts: PollerParts) -> None:
        self._parts = parts
        self._asked = 0
        inboxes = [connect() for connect in parts.connects]
        weights = [WEIGHTS[inbox.tier.tier] for inbox in inboxes]
        share = max(1, min(limits.SQS_BATCH_ENTRIES_MAX, parts.threads_count // max(1, len(inboxes))))
        self._slots = Slots(parts.threads_count, weights, parts.threads)
        self._units: Mailbox[Unit] = Mailbox(parts.threads)
        self._stopping = parts.threads.signal()
        around = Surroundings(
            parts.engine,
            self._slots,
            self._units.put,
            self._stopping,
            parts.clock,
            parts.entropy,
            parts.telemetry,
        )
        self._receivers = [
            Receiver(Flow(index, connect, inbox, share), around)
            for index, (connect, inbox) in enumerate(zip(parts.connects, inboxes, strict=True))
        ]
        self._receiver_threads: list[Thread] = []
        self._runner_threads: list[Thread] = []
        self._file_failed = False
        self._flushed_at_ms = parts.clock.now_ms()

    def drain(self) -> None:
        """Ask the process to end; asked again, to hurry. Safe in a signal handler, and from any thread."""
        self._asked += 1

    def run(self) -> int:
        """Serve until drained. The exit code: 0, or 1 if the process should be replaced (a thread died or is stuck)."""
        parts = self._parts
        parts.engine.holder.start()
        for number in range(parts.threads_count):
            self._runner_threads.append(parts.threads.start(f"tenure-runner-{number}", self._run_units))
        for receiver in self._receivers:
            self._receiver_threads.append(parts.threads.start(f"tenure-receiver-{receiver.name}", receiver.run))
        parts.telemetry.emit("worker.started", worker=parts.worker_id, queues=[r.name for r in self._receivers])
        fault = self._watch()
        self._stop_starting()
        parts.telemetry.emit("worker.draining", worker=parts.worker_id, running=parts.engine.running)
        if fault:
            self._let_the_healthy_end()
        self._wind_down()
        parts.engine.holder.stop()
        parts.telemetry.emit("worker.stopped", worker=parts.worker_id, why=fault or "drained")
        self._flush(parts.clock.now_ms())
        return 1 if fault else 0

    # ---- the runners -------------------------------------------------------------------------------------------
    def _run_units(self) -> None:
        while (unit := self._units.take()) is not None:
            try:
                self._parts.engine.run(unit)
            except BaseException as error:  # the engine does not raise; if it does, this runner still goes on
                self._parts.telemetry.emit("engine.failed", error=repr(error))
            finally:
                self._slots.give(1)

    # ---- the main thread ---------------------------------------------------------------------------------------
    def _watch(self) -> str:
        """Until drained: nothing; or until the process is not fit to go on: why."""
        while not self._asked:
            self._tick()
            if self._parts.abandoned():
                self.drain()
            fault = self._fault()
            if fault:
                self._parts.telemetry.emit("worker.unfit", worker=self._parts.worker_id, why=fault)
                return fault
        return ""

    def _tick(self) -> None:
        self._parts.clock.sleep(TICK_SECONDS)
        self._tell_alive()
        now = self._parts.clock.now_ms()
        if now - self._flushed_at_ms >= FLUSH_SECONDS * 1000:
            self._flush(now)

    def _flush(self, now: int) -> None:
        self._flushed_at_ms = now
        try:
            self._parts.flush()
        except Exception as error:  # a full disk or a closed pipe must not cost a task
            self._parts.telemetry.emit("engine.failed", error=f"its metrics could not be written: {error!r}")

    def _fault(self) -> str:
        if any(thread.join(0) for thread in self._receiver_threads + self._runner_threads):
            return "one of its threads died"
        if self._stuck():
            return "a handler does not return though its time is over, and its thread cannot be had back"
        return ""

    def _tell_alive(self) -> None:
        parts = self._parts
        if parts.liveness is None:
            return
        now = parts.clock.now_ms()
        try:
            parts.liveness.write(proof_at_ms(self._receivers, self._running_well(), now), now)
        except OSError as error:
            if not self._file_failed:  # once: the health check will say the rest
                parts.telemetry.emit("worker.unfit", worker=parts.worker_id, why=f"its liveness file: {error}")
            self._file_failed = True

    def _stuck(self) -> int:
        return self._parts.engine.stuck_for(STUCK_SECONDS)

    def _running_well(self) -> int:
        return self._parts.engine.running - self._stuck()

    # ---- the end -----------------------------------------------------------------------------------------------
    def _stop_starting(self) -> None:
        self._stopping.set()
        self._parts.engine.stop_starting()
        self._slots.close()
        for unit in self._units.close():
            self._parts.engine.release(unit)

    def _let_the_healthy_end(self) -> None:
        """Unfit, but not asked to end: nothing presses, so those who run well run to their end."""
        while not self._asked and self._running_well() > 0:
            self._tick()

    def _wind_down(self) -> None:
        now = self._parts.clock.now_ms
        until_ms = now() + round(self._parts.stop_seconds * 1000)
        while now() < until_ms and self._asked < 2 and not self._done():
            if self._running_well() == 0 and self._stuck():
                break  # nobody is left who would return
            self._tick()
        if self._done():
            return
        self._parts.engine.hand_over()
        grace_until_ms = now() + round(LAST_GRACE_SECONDS * 1000)
        polls_until_ms = max(grace_until_ms, min(until_ms, now() + (limits.SQS_WAIT_SECONDS_MAX + 5) * 1000))
        # A hurried process still waits for its polls under way: what they bring would else be hidden from everyone.
        while (now() < grace_until_ms and not self._done()) or (now() < polls_until_ms and not self._polls_done()):
            self._parts.clock.sleep(TICK_SECONDS)

    def _polls_done(self) -> bool:
        return all(thread.join(0) for thread in self._receiver_threads)

    def _done(self) -> bool:
        return self._polls_done() and all(thread.join(0) for thread in self._runner_threads)
