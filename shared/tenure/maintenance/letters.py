"""Open dead letters, by their rows: streamed oldest first, so that memory stays flat whatever their number."""

from __future__ import annotations

from collections.abc import Iterator

from tenure.core.filters import Filter
from tenure.core.task import Row, State
from tenure.maintenance.parts import Parts
from tenure.ports import Key, TaskStore

PAGE = 500
"""Letters read together."""


def open_keys(store: TaskStore, queue: str, after_ms: int = 0, page: int = PAGE) -> Iterator[tuple[Key, int]]:
    """(key, buried at) of a queue's open dead letters, oldest first, each once. Raises ServiceError.

    The index is asked by time, and several letters may bear the same millisecond: each page begins at the last one's
    own, and grows where a whole page has one.
    """
    seen: set[Key] = set()
    at_ms, size = after_ms, page
    while True:
        found = store.dead(queue, at_ms, size)
        yield from ((key, each) for key, each in found if key not in seen)
        if len(found) < size:
            return
        last_ms = found[-1][1]
        if last_ms - 1 > at_ms:
            seen, at_ms, size = {key for key, each in found if each == last_ms}, last_ms - 1, page
        else:  # nothing but this one millisecond, and there is more of it
            seen, size = {key for key, _ in found}, size * 2


def is_open(row: Row) -> bool:
    """Whether this row is a dead letter that nobody has decided about."""
    return row.state is State.DEAD_LETTERED and row.disposition is not None and row.disposition.kind == "open"


def queues_of(parts: Parts, picked: Filter) -> list[str]:
    """Names of the queues that a filter can pick from."""
    return [queue.name for queue in parts.topology.queues if picked.admits("queue", queue.name)]


def open_pages(parts: Parts, queue: str, after_ms: int = 0, page: int = PAGE) -> Iterator[list[Row]]:
    """A queue's open dead letters, in pages, oldest first; those that the index still shows but are open no more are
    left out. Raises ServiceError."""
    batch: list[Key] = []
    for key, _ in open_keys(parts.store, queue, after_ms, page):
        batch.append(key)
        if len(batch) == page:
            yield _rows(parts, batch)
            batch = []
    if batch:
        yield _rows(parts, batch)


def _rows(parts: Parts, keys: list[Key]) -> list[Row]:
    rows = [row for row in parts.readable(keys) if row is not None and is_open(row)]
    return sorted(rows, key=lambda row: (row.ended_at_ms, row.submitted_at_ms, row.id))


def count_open(store: TaskStore, queue: str, most: int) -> int:
    """How many open dead letters a queue has, counted up to `most`. Raises ServiceError."""
    return len(store.dead(queue, 0, most))
