"""Clock, threads and chance of a world: the ports over its scheduler."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import TracebackType

from tenure.adapters.memory.process import Process, StartedThread
from tenure.adapters.memory.scheduler import Scheduler

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


class MemoryClock:
    """ports.Clock: the world's virtual time, off by a process's skew."""

    def __init__(self, scheduler: Scheduler, process: Process | None = None) -> None:
        self._scheduler = scheduler
        self._process = process

    def now_ms(self) -> int:
        """See ports.Clock."""
        return self._scheduler.now_ms + (self._process.skew_ms if self._process else 0)

    def sleep(self, seconds: float) -> None:
        """See ports.Clock."""
        self._scheduler.sleep(seconds)


class MemorySignal:
    """ports.Signal under virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._raised = False

    def set(self) -> None:
        """See ports.Signal."""
        with self._scheduler.guard():
            self._raised = True
            self._scheduler.wake(self)

    def is_set(self) -> bool:
        """See ports.Signal."""
        return self._raised

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """See ports.Signal."""
        return self._scheduler.wait_until(self.is_set, self, timeout_seconds)


class MemoryLock:
    """A lock that virtual time sees: who waits for it counts as waiting. Not reentrant."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._held = False

    def __enter__(self) -> bool:
        with self._scheduler.guard():
            while self._held:
                self._scheduler.wait(self, None)
            self._held = True
        return True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with self._scheduler.guard():
            self._held = False
            self._scheduler.wake(self)


class MemoryThreads:
    """ports.Threads: free threads for free callers, simulated ones for simulated callers."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def start(self, name: str, target: Callable[[], None]) -> StartedThread:
        """See ports.Threads."""
        return self._scheduler.start(name, target)

    def signal(self) -> MemorySignal:
        """See ports.Threads."""
        return MemorySignal(self._scheduler)

    def lock(self) -> MemoryLock:
        """See ports.Threads."""
        return MemoryLock(self._scheduler)


class MemoryEntropy:
    """ports.Entropy from the world's seed."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self._scheduler = scheduler
        self._random = random

    def token(self) -> str:
        """See ports.Entropy."""
        with self._scheduler.guard():
            return "".join(self._random.choices(_ALPHABET, k=26))

    def fraction(self) -> float:
        """See ports.Entropy."""
        with self._scheduler.guard():
            return self._random.random()
