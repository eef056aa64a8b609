"""Who lives in a world: simulated processes, threads of both kinds, and those among them that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.adapters.memory.scheduler import Scheduler


class Killed(BaseException):
    """Ends the threads of a killed process, at whatever call they are in. Not an Exception, so that nobody who
    handles errors can take it for one; a dead process meets it at every call, so that nothing it does has effect."""


def ms(seconds: float) -> int:
    """Whole milliseconds, rounded up."""
    return -int(-seconds * 1000 // 1)


class Process:
    """A simulated process: threads that live, stall and die together, with one clock that may be off."""

    def __init__(self, scheduler: Scheduler, name: str, skew_ms: int = 0) -> None:
        self.name = name
        self.skew_ms = skew_ms
        self.dead = False
        self.stalled_until_ms = 0
        self.steps = 0
        self._scheduler = scheduler
        self._acts: dict[int, Callable[[], None]] = {}

    def start(self, target: Callable[[], None], name: str = "main") -> SimulatedThread:
        """Add a simulated thread; it first runs within `World.run`."""
        return self._scheduler.start_simulated(self, name, target)

    def at_step(self, number: int, act: Callable[[], None]) -> None:
        """Call `act` (kill, say) at its step of this number, 1 for its first: just before that call takes effect."""
        self._acts[number] = act

    def count_step(self) -> None:
        """One of its threads is at a call."""
        self.steps += 1
        act = self._acts.pop(self.steps, None)
        if act is not None:
            act()

    def kill(self) -> None:
        """Every thread of it ends at the call it is in; nothing it does after this has any effect."""
        self.dead = True

    def stall(self, seconds: float) -> None:
        """None of its threads runs for so long, as in a garbage collector's long pause or on a frozen machine."""
        self.stalled_until_ms = self._scheduler.now_ms + ms(seconds)


class StartedThread:
    """A started thread of either kind; see ports.Thread."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.name = name
        self.ended = False
        self._scheduler = scheduler

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for its end; whether it has ended."""
        return self._scheduler.wait_until(lambda: self.ended, self, timeout_seconds)


class FreeThread(StartedThread):
    """A real thread that the operating system schedules."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        super().__init__(scheduler, name)
        self.elsewhere = False
        """It has not been seen for a while, so it waits for something that is not of this world (an event loop's
        selector, say), and time does not wait for it."""


class SimulatedThread(StartedThread):
    """A real thread that runs only while it has the baton."""

    def __init__(self, scheduler: Scheduler, name: str, process: Process) -> None:
        super().__init__(scheduler, name)
        self.process = process
        self.baton = threading.Lock()
        self.baton.acquire()
        self.waiter: Waiter | None = None
        self.call = ""
        """The call it stands before; empty if it has not begun or waits for something else."""
        self.answered = False
        """That call has taken effect, and it stands before the answer."""

    def can_run(self, now_ms: int) -> bool:
        """Whether it may be given the baton: its process is dead (then it ends), or nothing holds it back."""
        if self.process.dead:
            return True
        return self.process.stalled_until_ms <= now_ms and (self.waiter is None or self.waiter.is_over(now_ms))

    def next_moment_ms(self) -> int | None:
        """When it can run if nobody wakes it before; None for never."""
        waiter = self.waiter
        if waiter is None or waiter.woken is not None:
            return self.process.stalled_until_ms
        return None if waiter.deadline_ms is None else max(waiter.deadline_ms, self.process.stalled_until_ms)


class Waiter:
    """Somebody who waits, for `key` to be woken or for a moment."""

    __slots__ = ("deadline_ms", "key", "thread", "woken")

    def __init__(self, key: object, deadline_ms: int | None, thread: StartedThread | None) -> None:
        self.key = key
        self.deadline_ms = deadline_ms
        self.thread = thread
        self.woken: bool | None = None
        """None: still waiting. True: by its key. False: its time came."""

    def is_over(self, now_ms: int) -> bool:
        """Whether it need not wait any longer."""
        return self.woken is not None or (self.deadline_ms is not None and self.deadline_ms <= now_ms)
