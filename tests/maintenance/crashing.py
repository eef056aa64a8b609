"""Parts that die at their n-th call of a service: just before it takes effect, or just after.

Every single write is a call of its own, as it is for DynamoDB; a batch of sends, deletes or visibility changes is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from tenure.core.task import Stored
from tenure.core.topology import Tier
from tenure.maintenance.parts import Parts
from tenure.ports import Key, Write, WriteOutcome

T = TypeVar("T")


class Crash(BaseException):
    """The process ends here. No Exception: nothing may handle it."""


@dataclass
class Points:
    """Counts calls, and dies at one. `at` 0 is never."""

    at: int = 0
    after: bool = False
    count: int = 0

    def call(self, act: Callable[[], T]) -> T:
        """One call."""
        self.count += 1
        if self.count == self.at and not self.after:
            raise Crash
        result = act()
        if self.count == self.at:
            raise Crash
        return result


class _Store:
    def __init__(self, inner: Any, points: Points) -> None:
        self._inner, self._points = inner, points

    def get_many(self, keys: Sequence[Key]) -> Any:
        return self._points.call(lambda: self._inner.get_many(keys))

    def write_many(self, writes: Sequence[Write]) -> list[WriteOutcome]:
        return [self._points.call(partial(self._write, write)) for write in writes]

    def _write(self, write: Write) -> WriteOutcome:
        (outcome,) = self._inner.write_many([write])
        return cast(WriteOutcome, outcome)

    def due(self, *args: Any) -> Any:
        return self._points.call(lambda: self._inner.due(*args))

    def dead(self, *args: Any) -> Any:
        return self._points.call(lambda: self._inner.dead(*args))


class _Queue:
    def __init__(self, inner: Any, points: Points) -> None:
        self._inner, self._points = inner, points
        self.name, self.ordered = inner.name, inner.ordered

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self._points.call(lambda: getattr(self._inner, name)(*args))


class _Payloads:
    def __init__(self, inner: Any, points: Points) -> None:
        self._inner, self._points = inner, points

    def kind_for(self, size_bytes: int) -> str:
        return str(self._inner.kind_for(size_bytes))

    def get(self, place: Stored) -> str:
        return str(self._points.call(lambda: self._inner.get(place)))

    def put(self, place: Stored, text: str, expires_at_s: int) -> None:
        self._points.call(lambda: self._inner.put(place, text, expires_at_s))


def crashing(parts: Parts, points: Points) -> Parts:
    """The same parts, whose calls are counted."""

    def opening(opener: Callable[[Tier], Any]) -> Callable[[Tier], Any]:
        return lambda tier: _Queue(opener(tier), points)

    return replace(
        parts,
        store=_Store(parts.store, points),
        main=opening(parts.main),
        dead=opening(parts.dead),
        payloads=_Payloads(parts.payloads, points),
    )


def every_point(duty: Callable[[Points], None]) -> Iterator[Points]:
    """Each place where the duty can die: before and after each of its calls."""
    counting = Points()
    duty(counting)
    for at in range(1, counting.count + 1):
        for after in (False, True):
            yield Points(at, after)
