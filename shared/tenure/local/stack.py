"""The embedded stack: emulator, provisioning, and everything that AWS would run, on this machine.

Lambda pools get stand-ins for Lambda's poller with real execution environments, Fargate pools get worker processes
that are started again when they die, and the maintenance duties run more often than AWS's scheduler would call them,
since a person is waiting.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock, SystemEntropy, SystemThreads
from tenure.core.submission import TaskFacts
from tenure.core.topology import Pool, Topology
from tenure.local import wired
from tenure.local.emulator import Emulator
from tenure.local.lambda_function import Function, FunctionSpec
from tenure.local.lambda_poller import Mapping as EventSourceMapping
from tenure.local.lambda_poller import MappingSpec
from tenure.local.processes import ProcessSpec, WorkerProcess
from tenure.local.provision import provision
from tenure.local.snapshot import Snapshot, take
from tenure.ports import Clock, Thread, Threads
from tenure.telemetry import LogTelemetry, json_lines

KEEP_SECONDS = 0.2
"""How often dead worker processes are looked for."""
STOP_SECONDS = 20.0
"""What running tasks get when the stack stops, before they are killed."""
NOTES_KEPT = 200


@dataclass(frozen=True, slots=True)
class StackOptions:
    """How the stack runs.

    directory:          the project's root: workers run there, so that they can import the app.
    log_directory:      a file for each pool; made if it is missing.
    keeps_logs:         False begins the files anew.
    port:               of the emulator; 0 takes a free one.
    maintenance_seconds: between two runs of reconcile, ingest and replays; 0 runs none. AWS runs them each minute or
                        seldomer.
    environments_max:   execution environments of one Lambda pool at once, whatever its concurrency on AWS may be:
                        a laptop has few cores. None: two for each core.
    workers:            False starts the emulator only.
    variables:          environment variables for the workers, besides those that lead them to the stack.
    """

    directory: Path = field(default_factory=Path.cwd)
    log_directory: Path = Path(".tenure/logs")
    keeps_logs: bool = True
    port: int = 0
    maintenance_seconds: float = 5.0
    environments_max: int | None = None
    workers: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)


class EmbeddedStack:
    """A context manager: everything runs inside of it, and nothing is left after it.

    app:   module:attribute of the App, importable from `options.directory`.
    tasks: what is published of its tasks, for producers that submit by name.
    """

    def __init__(
        self,
        topology: Topology,
        app: str,
        options: StackOptions | None = None,
        *,
        tasks: Iterable[TaskFacts] = (),
        clock: Clock | None = None,
        threads: Threads | None = None,
    ) -> None:
        self._declared = topology
        self._app = app
        self._tasks = list(tasks)
        self._options = options or StackOptions()
        self._clock = clock or SystemClock()
        self._entropy = SystemEntropy()
        self._threads = threads or SystemThreads()
        self.emulator = Emulator(port=self._options.port, threads=self._threads)
        self.functions: dict[str, Function] = {}
        """By pool."""
        self.processes: dict[str, list[WorkerProcess]] = {}
        """By pool."""
        self.notes: deque[tuple[int, str, str]] = deque(maxlen=NOTES_KEPT)
        """(at_ms, what, detail), latest last: what a person running the stack should know."""
        self._mappings: list[EventSourceMapping] = []
        self._loops: list[Thread] = []
        self._stopping = self._threads.signal()
        self._deployed: Topology | None = None
        self._clients: Clients | None = None

    # ---- what others need to know ----------------------------------------------------------------------------------
    @property
    def topology(self) -> Topology:
        """As deployed, with its URLs. Only after `start`."""
        if self._deployed is None:
            raise RuntimeError("the stack is not running: call start() first")
        return self._deployed

    @property
    def clients(self) -> Clients:
        """The SDK's clients, of the emulator. Only after `start`."""
        if self._clients is None:
            raise RuntimeError("the stack is not running: call start() first")
        return self._clients

    def variables(self) -> Mapping[str, str]:
        """All environment variables of a process that belongs to the stack."""
        # Handed on whole, not read: a worker's handlers may need any of them.
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}  # noqa: TID251 - see above
        return {**inherited, **self.emulator.environment(), **self._options.variables}

    def snapshot(self) -> Snapshot:
        """All tasks as they are now."""
        return take(self.topology.table)

    def workers(self) -> Mapping[str, str]:
        """Pool -> what runs for it, in words."""
        told = {pool: _count(len(f.pids()), "environment") for pool, f in self.functions.items()}
        for pool, processes in self.processes.items():
            alive = [process for process in processes if process.alive]
            restarts = sum(process.starts - 1 for process in processes)
            told[pool] = _count(len(alive), "process", "processes") + (f", {restarts} restarted" if restarts else "")
        return told

    # ---- start -----------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Bring everything up; returns when the queues can be sent to. What was started is stopped if a part fails."""
        try:
            self._start()
        except BaseException:
            self.stop(0.0)
            raise

    def _start(self) -> None:
        self._options.log_directory.mkdir(parents=True, exist_ok=True)
        if not self._options.keeps_logs:
            for old in self._options.log_directory.glob("*.log"):
                old.unlink()
        self.emulator.start()
        self._clients = self.emulator.clients(self._clock.now_ms)
        self._deployed = provision(self._declared, self._clients, self._tasks)
        if not self._options.workers:
            return
        for pool in self._deployed.pools:
            (self._start_function if pool.kind == "lambda" else self._start_processes)(pool)
        self._loops.append(self._threads.start("keeper", self._keep))
        if self._options.maintenance_seconds:
            self._loops.append(self._threads.start("maintenance", self._maintain))

    def _start_function(self, pool: Pool) -> None:
        most = self._options.environments_max or 2 * (os.cpu_count() or 1)
        spec = FunctionSpec(
            name=f"{self.topology.app}-{self.topology.environment}-{pool.name}",
            handler=wired.LAMBDA_HANDLER,
            timeout_seconds=pool.longest_runtime_seconds,
            memory_mb=pool.memory_mb,
            environment=self._worker_variables(pool),
            directory=str(self._options.directory),
            log_path=self._log_path(pool.name),
        )
        function = Function(spec, min(pool.concurrency, most), self._clock, self._entropy)
        self.functions[pool.name] = function
        for tier in self.topology.tiers(pool.name):
            mapping = EventSourceMapping(
                MappingSpec(tier, pool.batch_size, min(pool.concurrency, most)),
                function,
                self.clients.sqs_polls,
                self._clock,
                self._threads,
                self.note,
            )
            self._mappings.append(mapping)
            mapping.start()

    def _start_processes(self, pool: Pool) -> None:
        self.processes[pool.name] = [
            WorkerProcess(
                ProcessSpec(
                    name=pool.name,
                    command=[sys.executable, "-m", wired.POLLER_MODULE, str(index)],
                    environment=self._worker_variables(pool),
                    directory=str(self._options.directory),
                    log_path=self._log_path(pool.name),
                )
            )
            for index in range(pool.processes)
        ]
        for process in self.processes[pool.name]:
            process.start()

    def _worker_variables(self, pool: Pool) -> Mapping[str, str]:
        folder = self._options.log_directory.resolve()
        return {**self.variables(), **wired.worker_variables(self.topology, pool, self._app, folder)}

    def _log_path(self, name: str) -> str:
        return str((self._options.log_directory / f"{name}.log").resolve())

    # ---- while it runs ---------------------------------------------------------------------------------------------
    def note(self, what: str, detail: str) -> None:
        """Keep something for the person who runs the stack to see."""
        self.notes.append((self._clock.now_ms(), what, detail))

    def _keep(self) -> None:
        while not self._stopping.wait(KEEP_SECONDS):
            for process in self._all_processes():
                if not process.alive and not self._stopping.is_set():
                    self.note("worker died", f"{process.spec.name}: pid {process.pid}, {process.ending}; started again")
                    process.start()

    def _maintain(self) -> None:
        log = logging.Logger("tenure.local.maintenance", logging.INFO)  # not the process's: its lines go to its file
        log.addHandler(logging.FileHandler(self._log_path("maintenance")))
        telemetry = LogTelemetry(json_lines(log))
        duties = wired.duties(self.topology, self.clients, self._clock, telemetry, self._app)
        while not self._stopping.wait(self._options.maintenance_seconds):
            for name, run in duties:
                try:
                    run()
                except Exception as error:  # told, and tried again next time, as the scheduler would
                    self.note(f"{name} failed", repr(error))
        log.handlers.pop().close()

    # ---- stop ------------------------------------------------------------------------------------------------------
    def drain(self) -> None:
        """Take no more tasks; those that run may end. Returns at once; see `drained`. Asked again, it does nothing."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        for process in self._all_processes():
            process.drain()
        for mapping in self._mappings:
            mapping.drain()
        self.emulator.hurry()

    @property
    def drained(self) -> bool:
        """Whether, after `drain`, nothing runs any more."""
        return all(mapping.idle for mapping in self._mappings) and not any(p.alive for p in self._all_processes())

    def stop(self, drain_seconds: float = STOP_SECONDS) -> None:
        """Let running tasks end within `drain_seconds`, kill what is left then, and forget everything."""
        self.drain()
        until = self._clock.now_ms() + round(drain_seconds * 1000)
        while not self.drained and self._clock.now_ms() < until:
            self._clock.sleep(0.05)
        for function in self.functions.values():
            function.close()
        for loop in self._loops:
            loop.join()
        for process in self._all_processes():
            process.kill()
        self.emulator.stop()

    def _all_processes(self) -> list[WorkerProcess]:
        return [process for group in self.processes.values() for process in group]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop(STOP_SECONDS if kind is None else 0.0)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
