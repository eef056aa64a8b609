"""Where async handlers run: one event loop for the life of the process, on a thread of its own.

One loop, because clients that a handler keeps (connection pools, sessions) are bound to the loop they first ran on: a
fresh loop per invocation breaks them on a warm Lambda.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Protocol

from tenure.ports import Threads


class EventLoops(Protocol):
    """Where loops come from, and how a thread waits for what runs on one."""

    def new(self) -> asyncio.AbstractEventLoop:
        """A loop that does not run yet."""
        ...

    def result(self, future: Future[Any]) -> Any:
        """The value of a future, once it is there. Raises what it raises."""
        ...


class SystemLoops:
    """asyncio's own."""

    def new(self) -> asyncio.AbstractEventLoop:
        """See EventLoops."""
        return asyncio.new_event_loop()

    def result(self, future: Future[Any]) -> Any:
        """See EventLoops."""
        return future.result()


class Coroutines:
    """Runs coroutines to their end from ordinary threads."""

    def __init__(self, threads: Threads, loops: EventLoops) -> None:
        self._threads = threads
        self._loops = loops
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threads.lock()

    def run(
        self, coroutine: Coroutine[Any, Any, Any], started: Callable[[Callable[[], None]], None]
    ) -> tuple[Any, int]:
        """A coroutine's value, and how many tasks it left behind. Raises what it raises.

        `started` is given the function that cancels it from another thread; one that does not heed that runs on, and
        this waits for it as for any handler that does not return. Tasks that it started and left running are
        cancelled and awaited before this returns, so that nothing of an attempt runs on under a fence that is no
        longer its own.
        """
        loop = self._running_loop()
        mine = _Family()
        future = asyncio.run_coroutine_threadsafe(_whole(coroutine, mine), loop)
        started(lambda: mine.cancel_on(loop))
        try:
            value, left = self._loops.result(future)
        except FutureCancelled:
            raise asyncio.CancelledError("the handler was told to stop") from None
        if isinstance(value, _Exit):
            raise value.error
        return value, left

    def close(self) -> None:
        """Stop the loop. For tests and for a worker that ends; a Lambda keeps it warm."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = self._loop = self._loops.new()
                self._threads.start("tenure-coroutines", lambda: _run(loop))
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _whole(coroutine: Coroutine[Any, Any, Any], mine: _Family) -> tuple[Any, int]:
    """Await a handler in a task of its own, then end what it started and left behind.

    What belongs to it is told by its context: a task inherits the context of the one that started it.
    """
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    if not isinstance(before, _Factory):
        loop.set_task_factory(_Factory())
    _family.set(mine)
    mine.head = loop.create_task(_shield_exits(coroutine))
    if mine.cancelled:
        mine.head.cancel()
    try:
        value = await mine.head
    except GeneratorExit:
        raise  # the loop is gone, so there is nobody left to wait for
    except BaseException:
        coroutine.close()  # if it was cancelled before it began
        await mine.end()
        raise
    return value, await mine.end()


class _Exit:
    """SystemExit or KeyboardInterrupt that a handler raised. asyncio would let either end the loop, and with it every
    other handler, so they cross it as a value."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def _shield_exits(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as error:
        return _Exit(error)


class _Family:
    """The tasks that one attempt started, itself included."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[Any]] = []
        self.head: asyncio.Task[Any] | None = None
        self.cancelled = False

    async def end(self) -> int:
        """End what is still running; how many that were."""
        left = [task for task in self.tasks if not task.done()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return len(left)

    def cancel_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the handler from another thread."""
        loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self.cancelled = True  # one that has not begun never does
        if self.head is not None:
            self.head.cancel()


class _Factory:
    """A task factory that notes each new task in its family."""

    def __call__(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
        family = _family.get()
        if family is not None:
            family.tasks.append(task)
        return task


_family: ContextVar[_Family | None] = ContextVar("tenure_family", default=None)
