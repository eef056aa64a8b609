"""Virtual time, and who runs next.

A thread is either *free* (a real thread, scheduled by the operating system; the test's own thread is one of them) or
*simulated*: a real thread too, but exactly one of those runs at any time, and the seed decides which. All wait in one
list, for a key to be woken or for a virtual moment, and nobody ever waits for real time to pass.

Time moves by itself when nobody can run: for free threads once the test's own thread waits and all started ones do
too, for simulated ones within `run`, where each call also takes some milliseconds.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Any

from tenure.adapters.memory.process import FreeThread, Killed, Process, SimulatedThread, StartedThread, Waiter, ms

__all__ = ["LATE", "STEPS_MAX", "Killed", "Process", "Scheduler", "SimulatedThread"]

STEPS_MAX = 5_000_000
"""Steps after which a run is taken for endless."""

AFTER_CHANCE = 0.25
LATE = "late:"
"""Before a process's name: what acts in its name after it gave up or died."""
ELSEWHERE_SECONDS = 0.5
"""Real seconds after which a free thread that neither waits here nor was seen here counts as waiting elsewhere. Only an
event loop's thread ever comes to this; all else runs without real time."""


Chooser = Callable[[Sequence[SimulatedThread]], SimulatedThread | None]
"""Given all who could run now, at least one: who does. None: something was changed (time, say), so look again."""


class Scheduler:
    """The one holder of virtual time; see the module."""

    def __init__(self, random: Random, start_ms: int, slow_call: float = 0.0, slow_call_seconds: float = 0.0) -> None:
        self.now_ms = start_ms
        self.random = random
        self.steps = 0
        self.trace = 0
        """A checksum of every step so far: two runs are the same run if theirs are equal."""
        self.failures: list[tuple[str, BaseException]] = []
        """What escaped from simulated threads, Killed apart."""
        self.chooser: Chooser | None = None
        """Decides who runs next, in the seed's place. While there is one, a call takes one millisecond and holds nobody
        back, and each answer is a yield point too: so every order of calls can be had."""
        self._slow_call = slow_call
        self._slow_call_seconds = slow_call_seconds
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)
        self._here = threading.local()
        self._waiters: list[Waiter] = []
        self._free: list[FreeThread] = []
        self._simulated: list[SimulatedThread] = []
        self._main_baton = threading.Lock()
        self._main_baton.acquire()
        self._over: Callable[[], bool] = lambda: True
        self._run_until_ms: int | None = None
        self._last_step = 0
        self._ending = False

    def slow_down(self, chance: float, seconds: float) -> None:
        """From now on, a simulated call takes up to so many seconds with this chance."""
        self._slow_call, self._slow_call_seconds = chance, seconds

    # ---- used by every port ------------------------------------------------------------------------------------
    def current(self) -> SimulatedThread | None:
        """The simulated thread that calls, or None for a free one."""
        thread = getattr(self._here, "thread", None)
        return thread if isinstance(thread, SimulatedThread) else None

    def guard(self) -> AbstractContextManager[Any]:
        """Held while shared state is read or changed. Simulated threads need none: they run one at a time."""
        thread = getattr(self._here, "thread", None)
        if isinstance(thread, SimulatedThread):
            return nullcontext()
        if thread is not None:
            thread.elsewhere = False
        return self._mutex

    def step(self, what: str) -> None:
        """A yield point. In a simulated thread some virtual time passes and others may run; Killed is raised if its
        process is dead by then. Nothing in a free thread."""
        thread = self.current()
        if thread is not None:
            self._step(thread, what, answered=False)

    def _step(self, thread: SimulatedThread, what: str, *, answered: bool) -> None:
        process = thread.process
        process.count_step()
        self.trace = zlib.crc32(f"{process.name}/{thread.name} {what} {self.now_ms}".encode(), self.trace)
        thread.call, thread.answered = what, answered
        if self.chooser is None:
            self._wait_simulated(thread, None, self.now_ms + self._latency_ms())
        else:
            self.now_ms += 1
            self._wait_simulated(thread, None, self.now_ms)
        thread.call = ""

    def step_to(self, what: str, act: Callable[[], Any], late_seconds: float) -> None:
        """The yield point before a call that does `act`. If its process dies here the request may be on the wire: where
        `late_seconds` is set, half of such requests are carried out up to so much later, when nobody waits for them."""
        try:
            self.step(what)
        except Killed:
            if self.random.random() < 0.5:
                self.later(late_seconds, act)
            raise

    def later(self, seconds: float, act: Callable[[], Any]) -> None:
        """Carry a simulated caller's request out within so many seconds, whatever became of the caller."""
        thread = self.current()
        if thread is None or not seconds or self._ending:
            return
        delay_seconds = self.random.random() * seconds

        def carry_out() -> None:
            self.sleep(delay_seconds)
            act()

        self.start_simulated(Process(self, f"{LATE}{thread.process.name}"), "request", carry_out)

    def after(self, what: str) -> None:
        """A call has taken effect and its answer is on the way: now and then others run before it arrives.

        Not each time: but for what the caller does before its next call, that is the same as a step before that one.
        """
        thread = self.current()
        if thread is not None and (self.chooser is not None or self.random.random() < AFTER_CHANCE):
            self._step(thread, what, answered=True)

    def wait(self, key: object, deadline_ms: int | None) -> bool:
        """Until `wake(key)` (True) or until the virtual moment (False). Call it with the guard held."""
        thread: StartedThread | None = getattr(self._here, "thread", None)
        if isinstance(thread, SimulatedThread):
            return self._wait_simulated(thread, key, deadline_ms)
        me = Waiter(key, deadline_ms, thread)
        self._waiters.append(me)
        if thread is None and self._simulated:
            self._run(lambda: me.woken is not None, deadline_ms)
            if me.woken is None:
                self._waiters.remove(me)
            return me.woken is True
        while me.woken is None:
            if not self._jump() and not self._changed.wait(ELSEWHERE_SECONDS if thread is None else None):
                self._leave_behind()
        return me.woken

    def wait_until(self, done: Callable[[], bool], key: object, timeout_seconds: float | None) -> bool:
        """Until `done()` holds, looked at whenever `key` is woken, or the time is over; whether it holds."""
        with self.guard():
            deadline = None if timeout_seconds is None else self.now_ms + ms(timeout_seconds)
            while not done():
                if deadline is not None and self.now_ms >= deadline:
                    return False
                if not self.wait(key, deadline) and deadline is None:
                    return done()
            return True

    def wake(self, key: object) -> None:
        """Wake all who wait for `key`. Call it with the guard held."""
        still = []
        for waiter in self._waiters:
            if waiter.key is key:
                waiter.woken = True
            else:
                still.append(waiter)
        if len(still) < len(self._waiters):
            self._waiters = still
            self._notify_free()

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass for the caller."""
        with self.guard():
            self.wait(None, self.now_ms + ms(seconds))

    def start(self, name: str, target: Callable[[], None]) -> StartedThread:
        """A thread beside the caller: simulated and of its process where the caller is, else free."""
        current = self.current()
        if current is not None:
            return self.start_simulated(current.process, name, target)
        thread = FreeThread(self, name)
        with self._mutex:
            self._free.append(thread)
        self._start_real(name, lambda: self._free_body(thread, target))
        return thread

    # ---- free threads ------------------------------------------------------------------------------------------
    def _start_real(self, name: str, body: Callable[[], None]) -> None:
        threading.Thread(target=body, name=name, daemon=True).start()  # noqa: TID251 - what the Threads port stands on

    def _free_body(self, thread: FreeThread, target: Callable[[], None]) -> None:
        self._here.thread = thread
        try:
            target()
        finally:
            with self._mutex:
                thread.ended = True
                self._free.remove(thread)
                self.wake(thread)
                self._jump()

    def _jump(self) -> bool:
        """If the test's own thread waits and every started free one does, move time to the next moment that one of
        them waits for. Whether it moved."""
        waiters = [w for w in self._waiters if not isinstance(w.thread, SimulatedThread)]
        moments = [w.deadline_ms for w in waiters if w.deadline_ms is not None]
        if not moments or self._busy() or all(w.thread is not None for w in waiters):
            return False
        self.now_ms = max(self.now_ms, min(moments))
        for waiter in waiters:
            if waiter.is_over(self.now_ms):
                waiter.woken = False
                self._waiters.remove(waiter)
        self._notify_free()
        return True

    def _busy(self) -> list[FreeThread]:
        """The started free threads that do not wait here."""
        waiting = {id(w.thread) for w in self._waiters}
        return [thread for thread in self._free if id(thread) not in waiting and not thread.elsewhere]

    def _leave_behind(self) -> None:
        for thread in self._busy():
            thread.elsewhere = True

    def _notify_free(self) -> None:
        if self.current() is None:
            self._changed.notify_all()

    # ---- simulated threads -------------------------------------------------------------------------------------
    def start_simulated(self, process: Process, name: str, target: Callable[[], None]) -> SimulatedThread:
        """Add a thread to a process; it first runs when it is given the baton."""
        thread = SimulatedThread(self, name, process)
        self._simulated.append(thread)
        self._start_real(f"{process.name}/{name}", lambda: self._simulated_body(thread, target))
        return thread

    def run(
        self, until: Callable[[], bool] | None = None, seconds: float | None = None, steps_max: int = STEPS_MAX
    ) -> None:
        """Run the simulated threads until `until()` holds, so much virtual time has passed, or none can ever run
        again. Raises what escaped from one of them, and RuntimeError after `steps_max` steps."""
        if self.current() is not None:
            raise RuntimeError("run() is called by the test's own thread, not from within a simulation")
        deadline = None if seconds is None else self.now_ms + ms(seconds)
        self._run(until or (lambda: False), deadline, steps_max)

    def end_all(self) -> None:
        """Kill every simulated process and let its threads end."""
        self._ending = True
        for thread in self._simulated:
            thread.process.kill()
        self._run(lambda: not self._simulated, None)
        self._ending = False

    def _run(self, over: Callable[[], bool], deadline_ms: int | None, steps_max: int = STEPS_MAX) -> None:
        self._over, self._run_until_ms, self._last_step = over, deadline_ms, self.steps + steps_max
        first = self._pick()
        if first is not None:
            first.baton.release()
            self._main_baton.acquire()
        if self.failures:
            name, error = self.failures[0]
            raise RuntimeError(f"simulated thread {name} failed: {error!r}") from error
        if self.steps >= self._last_step:
            raise RuntimeError(f"no end after {steps_max} steps; at {self.now_ms} ms")

    def _simulated_body(self, thread: SimulatedThread, target: Callable[[], None]) -> None:
        thread.baton.acquire()
        self._here.thread = thread
        try:
            if not thread.process.dead:
                target()
        except Killed:
            pass  # how a dead process's threads end
        except BaseException as error:
            self.failures.append((f"{thread.process.name}/{thread.name}", error))
        thread.ended = True
        self._simulated.remove(thread)
        self.wake(thread)
        following = self._pick()
        (self._main_baton if following is None else following.baton).release()

    def _wait_simulated(self, thread: SimulatedThread, key: object, deadline_ms: int | None) -> bool:
        if thread.process.dead:
            raise Killed(thread.process.name)
        me = thread.waiter = Waiter(key, deadline_ms, thread)
        if key is not None:
            self._waiters.append(me)
        following = self._pick()
        if following is not thread:
            (self._main_baton if following is None else following.baton).release()
            thread.baton.acquire()
        thread.waiter = None
        if key is not None and me.woken is None:
            self._waiters.remove(me)
        if thread.process.dead:
            raise Killed(thread.process.name)
        return me.woken is True

    def _pick(self) -> SimulatedThread | None:
        """Who gets the baton next; None: the test's own thread, since the run is over."""
        self.steps += 1
        while not (self.failures or self.steps >= self._last_step or self._over()):
            able = [t for t in self._simulated if t.can_run(self.now_ms)]
            if able and self.chooser is not None:
                chosen = self.chooser(able)
                if chosen is None:
                    continue
                return chosen
            if able:
                return able[0] if len(able) == 1 else able[int(self.random.random() * len(able))]
            moments = [m for t in self._simulated if (m := t.next_moment_ms()) is not None]
            if self._run_until_ms is not None and min(moments, default=self._run_until_ms) >= self._run_until_ms:
                self.now_ms = max(self.now_ms, self._run_until_ms)
                return None
            if not moments:
                return None
            self.now_ms = max(self.now_ms, min(moments))
        return None

    def _latency_ms(self) -> int:
        if self._slow_call and self.random.random() < self._slow_call:
            return 1 + int(self.random.random() * self._slow_call_seconds * 1000)
        return 1 + int(self.random.random() * 12)
