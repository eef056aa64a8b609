"""Where async handlers run: one event loop for the life of the process, on a thread of its own.

One loop, because clients that a handler keeps (connection pools, sessions) are bound to the loop they first ran on: a
fresh loop per invocation breaks them on a warm Lambda. One handler's doing must not end the others, so what would end
the loop is caught in the task that raises it, and a loop that is stopped all the same is replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Protocol

from tenure.ports import Threads

LEFTOVER_SECONDS = 5.0
"""How long a handler that has returned waits for the tasks it left behind, once they are cancelled: as long as a
library needs that closes its connections. One that swallows its cancel is told and left."""


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
        self._running: dict[Future[Any], _Family] = {}
        """What runs on that loop."""
        self._lock = threads.lock()

    def run(
        self,
        coroutine: Coroutine[Any, Any, Any],
        started: Callable[[Callable[[], None]], None],
        returned: Callable[[], None] = lambda: None,
    ) -> tuple[Any, int]:
        """A coroutine's value, and how many tasks it left behind. Raises what it raises, or what a task of its own
        raised that would have ended the loop, or RuntimeError if the loop was stopped.

        `started` is given the function that cancels it from another thread; one that does not heed that runs on, and
        this waits for it as for any handler that does not return. `returned` is called once it has. Tasks that it
        started and left running are then cancelled and awaited, so that nothing of an attempt runs on under a fence
        that is no longer its own; for so long as LEFTOVER_SECONDS.
        """
        with self._lock:
            loop = self._running_loop()
            mine = _Family(loop, returned)
            future = asyncio.run_coroutine_threadsafe(_whole(coroutine, mine), loop)
            self._running[future] = mine
        try:
            started(mine.cancel_soon)
            value, left = self._loops.result(future)
        except FutureCancelled:
            raise mine.fatal or asyncio.CancelledError("the handler was told to stop") from None
        except Exception:
            if mine.fatal is not None:
                raise mine.fatal from None
            raise
        finally:
            with self._lock:
                self._running.pop(future, None)
        if mine.fatal is not None:
            raise mine.fatal
        return value, left

    def close(self) -> None:
        """Stop the loop. For tests and for a worker that ends; a Lambda keeps it warm."""
        with self._lock:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._loop.is_closed():
            loop = self._loop = self._loops.new()
            loop.set_task_factory(_Factory())
            self._threads.start("tenure-coroutines", lambda: self._serve(loop))
        return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            why = _forever(loop)
            with self._lock:
                if self._loop is loop:  # or the one that comes next is in its place already
                    self._loop = None
                ended = {future: family for future, family in self._running.items() if family.loop is loop}
            for family in ended.values():
                family.end_with(RuntimeError(why))
            _unwind(loop, [family.whole for family in ended.values() if family.whole is not None])
            for future, family in ended.items():
                if not future.done():
                    family.answer(future, why)
        finally:
            loop.close()


def _forever(loop: asyncio.AbstractEventLoop) -> str:
    """Run a loop until it is stopped; why it was."""
    try:
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt) as error:  # raised by a callback, which belongs to no task
        return f"the event loop that it ran on was ended by {error!r} in a callback"
    return "the event loop that it ran on was stopped; a handler must not stop it"


def _unwind(loop: asyncio.AbstractEventLoop, wholes: list[asyncio.Task[Any]]) -> None:
    """Let the handlers of a stopped loop end, which are cancelled, for so long as leftovers have."""
    try:
        if wholes:
            loop.run_until_complete(asyncio.wait(wholes, timeout=LEFTOVER_SECONDS))
    except (SystemExit, KeyboardInterrupt, RuntimeError):
        return  # stopped once more: their futures are failed without them


async def _whole(coroutine: Coroutine[Any, Any, Any], mine: _Family) -> tuple[Any, int]:
    """Await a handler in a task of its own, then end what it started and left behind.

    What belongs to it is told by its context: a task inherits the context of the one that started it.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop.get_task_factory(), _Factory):
        loop.set_task_factory(_Factory())  # a handler has put its own in the place
    _family.set(mine)
    mine.whole = asyncio.current_task()
    mine.head = loop.create_task(coroutine)
    if mine.cancelled:
        mine.head.cancel()
    try:
        value = await mine.head
    except GeneratorExit:
        raise  # the loop is gone, so there is nobody left to wait for
    except BaseException:
        mine.returned()
        await mine.end()
        raise
    mine.returned()
    return value, await mine.end()


class _Family:
    """The tasks that one attempt started and that run, itself included."""

    def __init__(self, loop: asyncio.AbstractEventLoop, returned: Callable[[], None]) -> None:
        self.loop = loop
        self.tasks: set[asyncio.Task[Any]] = set()
        self.head: asyncio.Task[Any] | None = None
        self.whole: asyncio.Task[Any] | None = None
        self.returned = returned
        self.cancelled = False
        self.abandoned = False
        self.fatal: BaseException | None = None
        """What ends this handler, whatever it makes of it: the loop stopped, or a task of its own exited."""

    async def end(self) -> int:
        """End what is still running, and what that starts in its place; how many there were."""
        until = self.loop.time() + LEFTOVER_SECONDS
        count = 0
        while self.tasks and self.loop.time() < until:
            left = set(self.tasks)
            count += len(left)
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=until - self.loop.time())
        self.abandoned = True
        return count

    def end_with(self, error: BaseException) -> None:
        """End the handler with an error that is not its own to catch. One that has returned has returned."""
        if self.fatal is None and not (self.head and self.head.done()):
            self.fatal = error
            self._cancel()

    def answer(self, future: Future[Any], why: str) -> None:
        """Answer for a loop that is gone."""
        head = self.head
        if self.fatal is None and head and head.done() and not head.cancelled() and not head.exception():
            future.set_result((head.result(), len(self.tasks)))
        else:
            future.set_exception(self.fatal or RuntimeError(why))

    def cancel_soon(self) -> None:
        """Cancel the handler from another thread."""
        try:
            self.loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:
            self.cancelled = True  # the loop is closed, and the handler has ended with it

    def _cancel(self) -> None:
        self.cancelled = True  # one that has not begun never does
        if self.head is not None:
            self.head.cancel()


class _Factory:
    """A task factory that notes each new task in its family, and keeps what it raises from ending the loop."""

    def __call__(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        family = _family.get()
        task: asyncio.Task[Any] = asyncio.Task(_shielded(coroutine, family), loop=loop, **options)
        task.add_done_callback(lambda _: coroutine.close())  # if it was cancelled before it began
        if family is not None:
            family.tasks.add(task)
            task.add_done_callback(family.tasks.discard)
            if family.abandoned:
                task.cancel()
        return task


async def _shielded(coroutine: Coroutine[Any, Any, Any], family: _Family | None) -> Any:
    """asyncio lets SystemExit and KeyboardInterrupt of any task end the loop, and with it every other handler."""
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as error:
        if family is not None:
            family.end_with(error)
        raise asyncio.CancelledError(f"the task raised {error!r}") from None


_family: ContextVar[_Family | None] = ContextVar("tenure_family", default=None)
