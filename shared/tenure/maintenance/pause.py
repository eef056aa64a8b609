"""Pauses: a durable item per queue, written by a person and read by every worker."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from tenure.core.errors import ServiceError
from tenure.durable import Things
from tenure.ports import Clock, Entropy, Item, Key, TaskStore, Unanswered

CACHE_SECONDS = 10
"""How long a worker relies on what it read: a pause takes hold within this, at one read per queue and process."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Whether a queue is paused, and who said so, when and why."""

    queue: str
    paused: bool
    by: str = ""
    at_ms: int = 0
    reason: str = ""


def pause_key(queue: str) -> Key:
    """Where a queue's pause lies."""
    return Key(f"Q#{queue}", "PAUSE")


def read_pause(store: TaskStore, queue: str) -> Pause:
    """A queue's pause as it is now. Raises ServiceError."""
    item = store.get_many([pause_key(queue)])[0]
    if item is None:
        return Pause(queue, False)
    data = item.data
    return Pause(queue, data["paused"], data["by"], data["at_ms"], data["reason"])


class Pauses:
    """What workers ask before they run anything of a queue."""

    def __init__(self, store: TaskStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, tuple[int, bool]] = {}

    def paused(self, queue: str) -> bool:
        """Whether the queue is paused, as of at most CACHE_SECONDS ago.

        If the table cannot be read, what was last known holds: a pause must not end because of a throttled read, and
        a queue must not stop for one.
        """
        now = self._clock.now_ms()
        read_at, paused = self._known.get(queue, (0, False))
        if read_at and now < read_at + CACHE_SECONDS * 1000:
            return paused
        with contextlib.suppress(ServiceError):  # the claim that follows meets the same table, and tells of it
            paused = read_pause(self._store, queue).paused
        self._known[queue] = (now, paused)
        return paused


def set_pause(store: TaskStore, entropy: Entropy, wanted: Pause) -> Pause:
    """Pause or resume a queue. The pause as it was before. Raises ServiceError if no write was answered."""
    things = Things(store, entropy)
    data = {"paused": wanted.paused, "by": wanted.by, "at_ms": wanted.at_ms, "reason": wanted.reason}
    while True:
        seen = things.get(pause_key(wanted.queue))
        answer = things.change(seen, data) if seen else things.create(Item(pause_key(wanted.queue), 1, "", data))
        if isinstance(answer, Unanswered):
            raise ServiceError(f"queue {wanted.queue}: the pause was not written, {answer.error}")
        if isinstance(answer, Item):
            if seen is None:
                return Pause(wanted.queue, False)
            return Pause(wanted.queue, seen.data["paused"], seen.data["by"], seen.data["at_ms"], seen.data["reason"])
