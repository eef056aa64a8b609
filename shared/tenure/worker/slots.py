"""Who may take the next free place in this process: a message is received only where there is one to run it.

Receivers of several queues and tiers compete for the same places. They take turns by weight ("stride scheduling",
Waldspurger and Weihl 1995): each has passed so much of the line, a grant moves it on by 1/weight, and the one that is
least far goes next. So a higher tier goes first and more often, and the lowest still gets its share of every round:
none can starve, however busy the others are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure.ports import Signal, Threads

WEIGHTS = {"high": 16, "normal": 4, "low": 1}
"""Turns that a tier gets while all are busy: of 21, high has 16 and low 1. Queues of the same tier share equally."""


@dataclass(eq=False, slots=True)
class _Waiting:
    flow: int
    wanted: int
    signal: Signal
    granted: int = 0


class Slots:
    """A process's places for running tasks, dealt out to `len(weights)` flows (one for each SQS queue served)."""

    def __init__(self, count: int, weights: Sequence[int], threads: Threads) -> None:
        self.count = count
        self._free = count
        self._weights = list(weights)
        self._passed = [0.0] * len(weights)
        self._line = 0.0
        self._waiting: list[_Waiting] = []
        self._closed = False
        self._threads = threads
        self._lock = threads.lock()

    @property
    def free(self) -> int:
        """Places that nobody has now."""
        with self._lock:
            return self._free

    def take(self, flow: int, wanted: int, timeout_seconds: float | None = None) -> int:
        """Wait for one's turn; how many places were granted, 1 to `wanted`. 0 when the time is over or it is closed."""
        waiting = _Waiting(flow, wanted, self._threads.signal())
        with self._lock:
            if self._closed:
                return 0
            # Whoever had nothing to do meanwhile starts from where the others are: turns cannot be saved up.
            self._passed[flow] = max(self._passed[flow], self._line)
            self._waiting.append(waiting)
            self._deal()
        waiting.signal.wait(timeout_seconds)
        with self._lock:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            return waiting.granted

    def give(self, count: int, *, unused_by: int | None = None) -> None:
        """Hand places back. `unused_by`: the flow that was granted them and had no use for them: refund its turn."""
        with self._lock:
            self._free += count
            if unused_by is not None:
                self._passed[unused_by] -= count / self._weights[unused_by]
            self._deal()

    def close(self) -> None:
        """Grant nothing any more, and let those who wait go on with nothing."""
        with self._lock:
            self._closed = True
            for waiting in self._waiting:
                waiting.signal.set()
            self._waiting.clear()

    def _deal(self) -> None:
        while self._free > 0 and self._waiting and not self._closed:
            # On a tie the flow that was named first, which is the higher tier.
            first = min(self._waiting, key=lambda w: (self._passed[w.flow], w.flow))
            first.granted = min(first.wanted, self._free)
            self._free -= first.granted
            self._line = max(self._line, self._passed[first.flow])
            self._passed[first.flow] += first.granted / self._weights[first.flow]
            self._waiting.remove(first)
            first.signal.set()
