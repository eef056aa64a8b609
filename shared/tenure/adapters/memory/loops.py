"""Event loops of a world: coroutines under virtual time, in a simulated thread that never waits for real time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from tenure.adapters.memory.scheduler import Scheduler


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without sockets: it waits for virtual moments and for calls from other threads, nothing else.

    Its thread must be a simulated one: each wait of it is one of the world's, so that others run meanwhile.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._clock_resolution = 0.0005  # half a virtual millisecond; asyncio adds it, so that what is due is run
        self._selector = self  # what asyncio's base loop asks for events; this one has none but its own waking
        self._woken = False

    def time(self) -> float:
        """Virtual seconds."""
        return self._scheduler.now_ms / 1000

    def select(self, timeout: float | None) -> Sequence[Any]:
        """Wait so long, or until another thread has a call to make. No events: there are no files to watch."""
        self._scheduler.wait_until(lambda: self._woken, self, timeout)
        self._woken = False
        return ()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Nothing: what a killed process leaves unfinished is no error of anybody's."""

    def _process_events(self, event_list: Sequence[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        self._woken = True
        self._scheduler.wake(self)


class VirtualLoops:
    """See worker.coroutines.EventLoops."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def new(self) -> VirtualLoop:
        """A loop, not running yet."""
        return VirtualLoop(self._scheduler)

    def result(self, future: Future[Any]) -> Any:
        """The future's value, waited for in virtual time. Raises what it raises."""
        future.add_done_callback(lambda _: self._scheduler.wake(future))
        self._scheduler.wait_until(future.done, future, None)
        return future.result()
