"""Tasks by filter, as far as the indexes go: those not yet final, and the open dead letters.

The store keeps an index of rows that still need looking at and one of open dead letters, and none of the rest: an
index entry for every task ever run would cost two more writes for each. A completed, cancelled or expired task is
found by its id alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenure.core import limits
from tenure.core.errors import InvalidFilter
from tenure.core.filters import Filter, happened_at_ms
from tenure.core.task import FINAL, Row, State
from tenure.core.topology import Topology
from tenure.ports import Key, TaskStore
from tenure.rows import due_names, to_row

LISTED = (*(state for state in State if state not in FINAL), State.DEAD_LETTERED)
"""States whose tasks can be listed."""

LOOKED_AT_MAX = 1000
"""Entries read of each shard of an index: what a person can use, and a bounded bill."""

_FAR_MS = 2**52
"""Later than any due time."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What was found, latest first. `more`: there is more than was asked for, or than was looked at."""

    rows: tuple[Row, ...]
    more: bool


def list_tasks(store: TaskStore, topology: Topology, picked: Filter, now_ms: int, limit: int = 100) -> Listing:
    """At most `limit` tasks that the filter picks.

    Raises InvalidFilter if it asks for states that no index holds, and ServiceError.
    """
    refuse_unlisted(picked)
    found: list[Row] = []
    more = False
    for queue in topology.queues:
        if not picked.admits("queue", queue.name):
            continue
        keys, cut = _keys(store, queue.name, picked)
        more = more or cut
        found += [row for row in _rows(store, keys) if picked.matches(row, now_ms)]
    found.sort(key=lambda row: (-happened_at_ms(row), row.id))
    return Listing(tuple(found[:limit]), more or len(found) > limit)


def refuse_unlisted(picked: Filter) -> None:
    """Raise InvalidFilter if the filter's states are all among those that no index holds."""
    if not any(picked.admits("state", state.value) for state in LISTED):
        unlisted = ", ".join(state.value for state in State if state not in LISTED)
        raise InvalidFilter(
            f"filter: tasks that are {unlisted} are in no index, so they cannot be listed; ask for one by its id. "
            f"Listed are: {', '.join(state.value for state in LISTED)}."
        )


def _keys(store: TaskStore, queue: str, picked: Filter) -> tuple[list[Key], bool]:
    """Keys of one queue's candidates, each once, and whether some were left out."""
    keys: dict[Key, None] = {}
    cut = False
    if any(picked.admits("state", state.value) for state in LISTED if state is not State.DEAD_LETTERED):
        for name, shard in itertools.product(due_names(queue), range(limits.DUE_SHARDS)):
            entries = store.due(name, shard, _FAR_MS, LOOKED_AT_MAX)
            cut = cut or len(entries) >= LOOKED_AT_MAX
            keys |= dict.fromkeys(entries)
    if picked.admits("state", State.DEAD_LETTERED.value):
        letters = store.dead(queue, 0, LOOKED_AT_MAX)
        cut = cut or len(letters) >= LOOKED_AT_MAX
        keys |= dict.fromkeys(key for key, _ in letters)
    return list(keys), cut


def _rows(store: TaskStore, keys: Sequence[Key]) -> Iterator[Row]:
    """The rows under these keys: those that still are, since an index is read late."""
    for item in store.get_many(keys) if keys else ():
        if item is not None and item.key.sk == "R":
            yield to_row(item)
