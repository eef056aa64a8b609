"""From the receivers to the runners: what is put in by one thread is taken out by another, in order."""

from __future__ import annotations

from typing import Generic, TypeVar

from tenure.ports import Signal, Threads

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A queue between threads, made of the Threads port so that the simulator can step it."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._lock = threads.lock()
        self._items: list[T] = []
        self._takers: list[Signal] = []
        self._closed = False

    def put(self, item: T) -> bool:
        """Add an item. False, and it is not added, once the mailbox is closed."""
        with self._lock:
            if self._closed:
                return False
            self._items.append(item)
            if self._takers:
                self._takers.pop(0).set()
            return True

    def take(self) -> T | None:
        """The next item, as soon as there is one. None once the mailbox is closed."""
        while True:
            signal = self._threads.signal()
            with self._lock:
                if self._items:
                    return self._items.pop(0)
                if self._closed:
                    return None
                self._takers.append(signal)
            signal.wait()

    def close(self) -> list[T]:
        """Let nothing in any more; the items that nobody had taken, in order."""
        with self._lock:
            self._closed = True
            left, self._items = self._items, []
            for signal in self._takers:
                signal.set()
            self._takers.clear()
            return left
