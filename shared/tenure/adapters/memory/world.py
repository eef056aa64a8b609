"""A world in memory: queues, table, payloads, time, threads and chance, all behind the same ports as AWS's."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import TracebackType

from tenure.adapters.memory.faults import Faults
from tenure.adapters.memory.loops import VirtualLoops
from tenure.adapters.memory.process import Process, SimulatedThread
from tenure.adapters.memory.queue import MemoryQueue
from tenure.adapters.memory.scheduler import STEPS_MAX, Scheduler
from tenure.adapters.memory.store import MemoryPayloads, MemoryStore
from tenure.adapters.memory.telemetry import MemoryTelemetry
from tenure.adapters.memory.threads import MemoryClock, MemoryEntropy, MemoryThreads
from tenure.core import limits
from tenure.core.topology import Tier, Topology

START_MS = 1_800_000_000_000
"""Where time begins unless told otherwise: 15 January 2027. Any moment would do; this one is far from zero."""


class World:
    """Everything that tenure needs of the world, in memory, under virtual time and from one seed.

    Used from a test's own threads, calls act at once; `clock.sleep` and waits let virtual time pass, never real time.
    Used as a simulation, `process(name).start(target)` adds threads of which `run` lets exactly one go at a time:
    every call on a port is a point at which another may go on, and the seed decides which. The same seed with the same
    code is the same run, step by step (`scheduler.trace` is equal).

    seed:     all chance comes from it.
    faults:   what goes wrong, see Faults. `world.faults = ...` changes it for all parts at once.
    start_ms: where virtual time begins, epoch milliseconds.
    topology: gives queues their visibility, retention and redrive; without it they are SQS's defaults.
    """

    def __init__(
        self,
        seed: int = 0,
        faults: Faults | None = None,
        start_ms: int = START_MS,
        topology: Topology | None = None,
    ) -> None:
        self.seed = seed
        self.topology = topology
        self._faults = faults or Faults.none()
        self._random = Random(seed)
        self.scheduler = Scheduler(Random(seed + 1), start_ms, self._faults.slow_call, self._faults.slow_call_seconds)
        self.clock = MemoryClock(self.scheduler)
        self.threads = MemoryThreads(self.scheduler)
        self.loops = VirtualLoops(self.scheduler)
        """For async handlers of simulated workers."""
        self.entropy = MemoryEntropy(self.scheduler, Random(seed + 2))
        self.telemetry = MemoryTelemetry(self.scheduler)
        self.store = MemoryStore(self.scheduler, self._random, self._faults)
        self.payloads = MemoryPayloads(self.scheduler, self._random, self._faults)
        self._queues: dict[str, MemoryQueue] = {}
        self._processes: dict[str, Process] = {}

    # ---- queues ------------------------------------------------------------------------------------------------
    def queue(
        self,
        name: str,
        ordered: bool = False,
        visibility_seconds: int = 30,
        retention_seconds: int = limits.SQS_RETENTION_SECONDS_DEFAULT,
        receive_count_max: int = limits.SQS_RECEIVE_COUNT_MAX,
        dead: str | None = None,
    ) -> MemoryQueue:
        """The queue of this name; created with these attributes if there is none yet, with its DLQ if one is named."""
        if name not in self._queues:
            letters = None
            if dead is not None:
                letters = self.queue(dead, ordered, retention_seconds=limits.SQS_RETENTION_SECONDS_MAX)
            self._queues[name] = MemoryQueue(
                name,
                self.scheduler,
                self._random,
                self._faults,
                ordered=ordered,
                visibility_seconds=visibility_seconds,
                retention_seconds=retention_seconds,
                receive_count_max=receive_count_max,
                dead=letters,
            )
        return self._queues[name]

    def queues(self, tier: Tier) -> MemoryQueue:
        """The queue of a tier, created on demand together with its DLQ."""
        if self.topology is None:
            return self.queue(tier.name, tier.ordered, dead=tier.dead_name)
        declared = self.topology.queue(tier.queue)
        return self.queue(
            tier.name,
            tier.ordered,
            visibility_seconds=self.topology.visibility_seconds(tier.queue),
            retention_seconds=declared.retention_seconds,
            receive_count_max=declared.receive_count_max,
            dead=tier.dead_name,
        )

    def dead(self, tier: Tier) -> MemoryQueue:
        """The DLQ of a tier."""
        self.queues(tier)
        return self._queues[tier.dead_name]

    @property
    def all_queues(self) -> list[MemoryQueue]:
        """Every queue that was asked for so far."""
        return list(self._queues.values())

    # ---- faults and time ---------------------------------------------------------------------------------------
    @property
    def faults(self) -> Faults:
        """What goes wrong from now on."""
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._faults = self.store.faults = self.payloads.faults = faults
        for queue in self._queues.values():
            queue.faults = faults
        self.scheduler.slow_down(faults.slow_call, faults.slow_call_seconds)

    def next_moment_ms(self) -> int | None:
        """When something next becomes due by itself: a message that is hidden now, or a row that reconcile looks at.
        None if nothing will."""
        now = self.clock.now_ms()
        moments = [at_ms for queue in self.all_queues for at_ms in queue.hidden_until_ms()]
        moments += [item.due[2] for item in self.store.all() if item.due]
        return min((max(at_ms, now + 1) for at_ms in moments), default=None)

    def advance(self, seconds: float) -> None:
        """Let so much virtual time pass; simulated threads, and started free ones that wait, go on meanwhile."""
        self.clock.sleep(seconds)

    # ---- simulation --------------------------------------------------------------------------------------------
    def process(self, name: str, skew_ms: int = 0) -> Process:
        """The living simulated process of this name; a new one, with its clock off by `skew_ms`, if there is none."""
        found = self._processes.get(name)
        if found is None or found.dead:
            found = self._processes[name] = Process(self.scheduler, name, skew_ms)
        return found

    def spawn(self, process: str, target: Callable[[], None], name: str = "main") -> SimulatedThread:
        """Start `target` as a simulated thread of a process."""
        return self.process(process).start(target, name)

    def clock_for(self, process: str) -> MemoryClock:
        """The clock that a process reads, off by its skew."""
        return MemoryClock(self.scheduler, self.process(process))

    def kill(self, process: str) -> None:
        """End a process at the calls that its threads are in: before or after those took effect."""
        self.process(process).kill()

    def stall(self, process: str, seconds: float) -> None:
        """Let no thread of a process run for so long."""
        self.process(process).stall(seconds)

    def run(
        self, until: Callable[[], bool] | None = None, seconds: float | None = None, steps_max: int = STEPS_MAX
    ) -> None:
        """Run the simulation until `until()` holds, so much virtual time has passed, or no thread can ever go on.

        Raises RuntimeError with what escaped from a simulated thread, and after `steps_max` steps.
        """
        self.scheduler.run(until, seconds, steps_max)

    def close(self) -> None:
        """End every simulated process, so that none of its threads is left behind."""
        self.scheduler.end_all()

    def __enter__(self) -> World:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
