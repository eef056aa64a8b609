"""The workers of the soak: real poller processes, killed, drained and started again."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tenure.core.topology import Topology
from tenure.local import wired
from tenure.local.processes import ProcessSpec, WorkerProcess
from tools.soak import app

ROOT = Path(__file__).resolve().parents[2]
YOUNG_SECONDS = 5.0
"""A worker is not killed before it had the time to begin; else a slow machine would never get anything done."""
DRAIN_SECONDS = 90.0
"""What a worker gets to end after SIGTERM: ECS gives up to 120 s."""
SIGTERM_SHARE = 0.2


class Fleet:
    """Some workers that are killed now and then, and some that are spared.

    variables: what every worker needs to find the queues.
    """

    def __init__(self, topology: Topology, variables: Mapping[str, str], folder: Path, sizes: tuple[int, int]) -> None:
        killed, spared = sizes
        self.spared = [self._worker(topology, variables, folder, f"spared-{n}", n) for n in range(spared)]
        self.killed = [self._worker(topology, variables, folder, f"killed-{n}", spared + n) for n in range(killed)]
        self.ends: Counter[str] = Counter()
        """How workers ended: killed, drained, by their own task's hand, or otherwise."""
        self._sent: dict[int, str] = {}
        self._drained_at: dict[int, float] = {}
        self._started_at: dict[int, float] = {}

    def _worker(
        self, topology: Topology, variables: Mapping[str, str], folder: Path, name: str, index: int
    ) -> WorkerProcess:
        own = wired.worker_variables(topology, topology.pools[0], "tools.soak.app:app", folder)
        spared = {app.SPARED: "1"} if name.startswith("spared") else {}
        return WorkerProcess(
            ProcessSpec(
                name=name,
                command=[sys.executable, "-m", wired.POLLER_MODULE, str(index)],
                environment={**variables, **own, **spared, "TENURE_LOG_LEVEL": "WARNING"},
                directory=str(ROOT),
                log_path=str(folder / f"worker-{name}.log"),
            )
        )

    @property
    def all(self) -> Sequence[WorkerProcess]:
        """Both kinds."""
        return [*self.spared, *self.killed]

    @property
    def starts(self) -> int:
        """Processes begun so far."""
        return sum(worker.starts for worker in self.all)

    def age_seconds(self, worker: WorkerProcess) -> float:
        """How long its present process has run."""
        return time.monotonic() - self._started_at.get(worker.pid, time.monotonic())

    def tend(self) -> None:
        """Start who does not run; kill who was asked to end and does not."""
        for worker in self.all:
            since = self._drained_at.get(worker.pid)
            if worker.alive and since is not None and time.monotonic() - since > DRAIN_SECONDS:
                worker.kill()
            if not worker.alive:
                self._count(worker)
                worker.start()
                self._started_at[worker.pid] = time.monotonic()

    def strike(self, rng: random.Random) -> str:
        """Kill one at random, or ask it to end; what was done, "" if there is nobody old enough."""
        ripe = [
            worker
            for worker in self.killed
            if worker.alive and worker.pid not in self._sent and self.age_seconds(worker) >= YOUNG_SECONDS
        ]
        if not ripe:
            return ""
        victim = rng.choice(ripe)
        if rng.random() < SIGTERM_SHARE:
            self._sent[victim.pid] = "SIGTERM"
            self._drained_at[victim.pid] = time.monotonic()
            victim.drain()
        else:
            self._sent[victim.pid] = "SIGKILL"
            victim.kill()
        return self._sent[victim.pid]

    def stop(self, seconds: float) -> Counter[str]:
        """Ask all to end and wait; how each did, in words."""
        for worker in self.all:
            worker.drain()
        until = time.monotonic() + seconds
        for worker in self.all:
            worker.wait(until - time.monotonic())
        ended = Counter(worker.ending for worker in self.all)
        for worker in self.all:
            worker.kill()
        return ended

    def _count(self, worker: WorkerProcess) -> None:
        if not worker.pid:
            return
        sent = self._sent.get(worker.pid, "")
        if not sent and worker.ending == "killed by signal 9":
            self.ends["killed by its own task"] += 1
        elif sent == "SIGTERM":
            self.ends[f"SIGTERM: {worker.ending}"] += 1
        else:
            self.ends[sent or f"unasked: {worker.ending}"] += 1
