"""Several worker processes in one container, under a parent that is fit to be its first process (PID 1).

Processes, because handlers in Python threads share one core; a parent of our own, because a container's first process
must pass signals on and reap whatever is orphaned under it, and because a task that kills its process must cost that
process only. Children are started anew (no fork of a process with threads and open connections).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tenure.ports import Clock, Telemetry

TICK_SECONDS = 0.1
"""How often it looks for signals and for children that ended."""
RESTART_SECONDS_BASE = 1.0
RESTART_SECONDS_MAX = 30.0
"""Before a child that crashed is started again: doubling from the base to this. A quarter of the time after which a
missing sign of life replaces the whole container (worker/liveness.py)."""
STEADY_SECONDS = 60.0
"""A child that lived so long has started well: its next crash counts as its first."""
WINDOW_SECONDS = 117.0
"""From SIGTERM until what still runs is killed: the poller's 110 + 5 and a little, within Fargate's 120."""


@dataclass
class _Child:
    index: int
    process: subprocess.Popen[bytes] | None = None
    started_at_ms: int = 0
    starts_at_ms: int = 0
    crashes: int = 0


@dataclass(frozen=True)
class SupervisorParts:
    """What a supervisor is made of. `command(index)`: the command line of the index-th child."""

    command: Callable[[int], Sequence[str]]
    count: int
    clock: Clock
    telemetry: Telemetry
    window_seconds: float = WINDOW_SECONDS
    restart_seconds: float = RESTART_SECONDS_BASE
    children_changed: Callable[[dict[int, int]], None] = field(default=lambda pids: None)
    """Told the children's process ids, by index, after each change."""


class Supervisor:
    """Keeps `count` children running until it is told to stop, then lets them drain.

    `stop()` may be called from a signal handler, as often as signals come; each is passed on as one SIGTERM.
    """

    def __init__(self, parts: SupervisorParts) -> None:
        self._parts = parts
        self._children = [_Child(index) for index in range(parts.count)]
        self._asked = 0
        self._passed_on = 0
        self._stops_until_ms = 0
        self._killed = False

    def stop(self) -> None:
        """Ask all children to drain; asked again, to hurry."""
        self._asked += 1

    def install(self) -> None:
        """Take SIGTERM and SIGINT for `stop`. In the main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())

    def run(self) -> int:
        """Until all children have ended after a stop. 0 if each ended by itself, 1 if some had to be killed."""
        while True:
            self._reap()
            if self._asked:
                self._pass_on()
                if not self._living():
                    return 1 if self._killed else 0
            else:
                self._start_due()
            self._parts.clock.sleep(TICK_SECONDS)

    def _living(self) -> list[_Child]:
        return [child for child in self._children if child.process is not None]

    # ---- starting ----------------------------------------------------------------------------------------------
    def _start_due(self) -> None:
        now = self._parts.clock.now_ms()
        for child in self._children:
            if child.process is None and now >= child.starts_at_ms:
                self._start(child, now)

    def _start(self, child: _Child, now: int) -> None:
        child.started_at_ms = now
        try:
            # A session of its own: a terminal's Ctrl-C then comes by way of the supervisor, once, like SIGTERM.
            child.process = subprocess.Popen(
                list(self._parts.command(child.index)), stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            self._ended(child, f"it could not be started: {error}")
        else:
            self._tell()

    def _ended(self, child: _Child, how: str) -> None:
        now = self._parts.clock.now_ms()
        child.process = None
        if self._asked:
            return
        child.crashes = 1 if now - child.started_at_ms > STEADY_SECONDS * 1000 else child.crashes + 1
        pause = min(RESTART_SECONDS_MAX, self._parts.restart_seconds * 2.0 ** min(child.crashes - 1, 16))
        child.starts_at_ms = now + round(pause * 1000)
        self._parts.telemetry.emit(
            "worker.crashed", index=child.index, why=how, crashes=child.crashes, restart_seconds=pause
        )
        self._tell()

    def _tell(self) -> None:
        self._parts.children_changed({c.index: c.process.pid for c in self._children if c.process is not None})

    # ---- reaping -----------------------------------------------------------------------------------------------
    def _reap(self) -> None:
        """Take note of every process that ended: our children, and orphans that became ours because we are PID 1."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            for child in self._children:
                if child.process is not None and child.process.pid == pid:
                    child.process.returncode = code  # reaped here, so that Popen need not wait for it
                    self._ended(child, f"killed by signal {-code}" if code < 0 else f"exit code {code}")

    # ---- stopping ----------------------------------------------------------------------------------------------
    def _pass_on(self) -> None:
        now = self._parts.clock.now_ms()
        if not self._stops_until_ms:
            self._stops_until_ms = now + round(self._parts.window_seconds * 1000)
        while self._passed_on < self._asked:
            self._passed_on += 1
            self._signal(signal.SIGTERM)
        if now >= self._stops_until_ms and not self._killed and self._living():
            self._killed = True
            self._parts.telemetry.emit("worker.killed", count=len(self._living()), why="the stop window is over")
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for child in self._living():
            if child.process is not None:
                try:
                    os.kill(child.process.pid, number)
                except ProcessLookupError:
                    continue  # it has just ended; the next look reaps it
