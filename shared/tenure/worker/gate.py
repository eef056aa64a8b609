"""Who may run beside whom in one process: tasks in company share the gate, a suspect has it alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tenure.ports import Signal, Threads


class Gate:
    """A shared/exclusive lock made of the Threads port, so that the simulator can step it. First come, first served:
    a suspect that waits is not overtaken by company that came later."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._lock = threads.lock()
        self._inside = 0
        self._alone = False
        self._waiting: list[tuple[bool, Signal]] = []

    @contextmanager
    def passing(self, *, alone: bool) -> Iterator[None]:
        """Wait for one's turn, then be inside."""
        self._enter(alone)
        try:
            yield
        finally:
            self._leave(alone)

    def _enter(self, alone: bool) -> None:
        signal = self._threads.signal()
        with self._lock:
            self._waiting.append((alone, signal))
            self._admit()
        signal.wait()

    def _leave(self, alone: bool) -> None:
        with self._lock:
            self._inside -= 1
            if alone:
                self._alone = False
            self._admit()

    def _admit(self) -> None:
        while self._waiting:
            alone, signal = self._waiting[0]
            if self._alone or (alone and self._inside):
                return
            self._waiting.pop(0)
            self._inside += 1
            self._alone = alone
            signal.set()
