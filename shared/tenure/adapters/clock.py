"""Real time, real chance and real threads: the only reader of clocks and the only starter of threads."""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tenure.ports import Signal, Thread

TOKEN_BYTES = 15
"""120 bits, 24 characters of base32: within the port's 20 to 32, and no two draws ever meet."""

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


class SystemClock:
    """The machine's clock, corrected by what the service's answers say of it.

    offset_ms: milliseconds to add, asked anew at each reading, since it changes as answers come in (their Date
    header, true to the second). Without it the machine's clock is taken as it is.
    """

    def __init__(self, offset_ms: Callable[[], int] = lambda: 0) -> None:
        self._offset_ms = offset_ms

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return time.time_ns() // 1_000_000 + self._offset_ms()

    def sleep(self, seconds: float) -> None:
        """Let so much time pass for the calling thread; a negative time is none."""
        time.sleep(max(0.0, seconds))


class SystemEntropy:
    """The operating system's random numbers."""

    def token(self) -> str:
        """24 letters and digits, 120 bits: an identifier that nobody else has."""
        bits = secrets.randbits(TOKEN_BYTES * 8)
        return "".join(_ALPHABET[bits >> shift & 31] for shift in range(0, TOKEN_BYTES * 8, 5))

    def fraction(self) -> float:
        """Evenly from [0, 1), in steps of 2**-53, the finest a float in that range has throughout."""
        return secrets.randbits(53) / (1 << 53)


class SystemThreads:
    """Daemon threads with names: a handler that never returns must not keep its process from ending."""

    def start(self, name: str, target: Callable[[], None]) -> Thread:
        """Run `target` beside the caller."""
        thread = threading.Thread(name=name, target=target, daemon=True)
        thread.start()
        return _Started(thread)

    def signal(self) -> Signal:
        """A new flag."""
        return _Flag()

    def lock(self) -> AbstractContextManager[Any]:
        """A new lock, for `with`. Not reentrant. Free in a process that is forked while another thread holds it."""
        return _Lock()


class _Lock:
    """A child of a fork has one thread, the one that forked; whoever else held a lock is not there to give it back."""

    def __init__(self) -> None:
        self.inner = threading.Lock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self.inner.acquire()

    def __exit__(self, *_: object) -> None:
        self.inner.release()


_LOCKS: weakref.WeakSet[_Lock] = weakref.WeakSet()


def _free_all() -> None:
    """In a child of a fork, before anything else of it runs. No lock is held by the thread that forks: user code is
    what forks, and it runs under none of ours."""
    for lock in list(_LOCKS):
        lock.inner = threading.Lock()


os.register_at_fork(after_in_child=_free_all)


class _Started:
    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread

    def join(self, timeout_seconds: float | None = None) -> bool:
        self._thread.join(None if timeout_seconds is None else max(0.0, timeout_seconds))
        return not self._thread.is_alive()


class _Flag:
    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        return self._event.wait(None if timeout_seconds is None else max(0.0, timeout_seconds))
