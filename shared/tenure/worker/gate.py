"""Who may run beside whom in one process: tasks in company share the gate, a suspect has it alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tenure.ports import Signal, Threads


@dataclass(eq=False, slots=True)
class _Waiting:
    alone: bool
    signal: Signal
    inside: bool = False


class Gate:
    """A shared/exclusive lock made of the Threads port, so that the simulator can step it. First come, first served:
    a suspect that waits is not overtaken by company that came later. Once closed it lets nobody in."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._lock = threads.lock()
        self._inside = 0
        self._alone = False
        self._closed = False
        self._waiting: list[_Waiting] = []

    @contextmanager
    def passing(self, *, alone: bool) -> Iterator[bool]:
        """Wait for one's turn, then be inside. False: the gate was closed before one's turn came."""
        inside = self._enter(alone)
        try:
            yield inside
        finally:
            if inside:
                self._leave(alone)

    def close(self) -> None:
        """Send away whoever waits, now and later. Those inside stay until they leave."""
        with self._lock:
            self._closed = True
            for waiting in self._waiting:
                waiting.signal.set()
            self._waiting.clear()

    def _enter(self, alone: bool) -> bool:
        mine = _Waiting(alone, self._threads.signal())
        with self._lock:
            if self._closed:
                return False
            self._waiting.append(mine)
            self._admit()
        mine.signal.wait()
        return mine.inside

    def _leave(self, alone: bool) -> None:
        with self._lock:
            self._inside -= 1
            if alone:
                self._alone = False
            self._admit()

    def _admit(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            if self._alone or (first.alone and self._inside):
                return
            self._waiting.pop(0)
            self._inside += 1
            self._alone = first.alone
            first.inside = True
            first.signal.set()
