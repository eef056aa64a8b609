"""Ordering keys in the store, for queues that halt: what workers ask before they claim, and write before they bury."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from typing import Any

from tenure.core import halting, limits
from tenure.core.errors import ServiceError
from tenure.core.halting import KeyPhase, KeyState, Waiting
from tenure.core.task import Row
from tenure.core.topology import Topology, group_id
from tenure.durable import Things
from tenure.ports import Clock, Entropy, Item, Key, Refused, TaskStore
from tenure.rows import Rows

INDEX = "!keys"
"""Place in the due index, beside those of queues: keys that are not open."""
LISTED_MAX = 1000
"""Keys listed or looked at in one run. Where there are more, the sweep takes them in turn."""


class Keys:
    """Halted keys. `queues`: names of the queues that halt; all others are let through without a read."""

    def __init__(self, store: TaskStore, clock: Clock, entropy: Entropy, queues: Collection[str]) -> None:
        self._store = store
        self._rows = Rows(store)
        self._clock = clock
        self._things = Things(store, entropy)
        self._queues = frozenset(queues)

    @classmethod
    def of(cls, topology: Topology, store: TaskStore, clock: Clock, entropy: Entropy) -> Keys:
        """The keys of a topology's queues."""
        return cls(store, clock, entropy, [queue.name for queue in topology.queues if queue.on_bury == "halt"])

    def halts(self, queue: str) -> bool:
        """Whether the queue halts a key whose head is buried."""
        return queue in self._queues

    def may_run(self, queue: str, key: str, task_id: str) -> bool:
        """Whether a task may be claimed now: a consistent read of its key. Raises ServiceError."""
        if not self.halts(queue):
            return True
        state = self.get(queue, key)
        before = state.before(task_id) if state else ()
        rows = dict(zip(before, self._rows.get_many(before), strict=True))
        return halting.may_run(state, task_id, rows)

    def halt(self, row: Row) -> None:
        """The row is about to be buried: halt its key first. Nothing on a queue that does not halt, or without a key.

        Raises ServiceError; then the row must not be buried yet.
        """
        if self.halts(row.queue) and row.ordering_key:
            now = self._clock.now_ms()
            self.change(row.queue, row.ordering_key, lambda state: halting.halt(state, row.id, now))

    def lane(self, row: Row) -> str:
        """The group of SQS in which a task is sent whose key is not open: past those that arrived since. Empty for any
        other task, which goes to its key's own group. Raises ServiceError."""
        state = self.get(row.queue, row.ordering_key) if self.halts(row.queue) and row.ordering_key else None
        return halting.lane(state, row.id) if state is not None else ""

    def park(self, row: Row, sequence: str) -> bool:
        """Note that a task waits; its row is parked after this. False if the key has no room. Raises ServiceError."""
        full: list[bool] = []

        def change(state: KeyState) -> KeyState:
            full[:] = [not halting.has_room(state, row.id)]
            return state if full[0] else halting.park(state, row.id, sequence)

        self.change(row.queue, row.ordering_key, change)
        return not full[0]

    # ---- items -----------------------------------------------------------------------------------------------------
    def get(self, queue: str, key: str) -> KeyState | None:
        """A key's state; None if it never was halted, or long ago. Raises ServiceError."""
        item = self._things.get(_place(queue, key))
        return to_state(item) if item else None

    def listed(self) -> list[KeyState]:
        """Keys that are not open, at most LISTED_MAX: those longest not looked at, of these the longest halted first.

        Raises ServiceError.
        """
        keys = self._store.due(INDEX, 0, 2**52, LISTED_MAX)
        items = self._store.get_many(keys) if keys else []
        states = [to_state(item) for item in items if item is not None]
        return sorted(
            (state for state in states if state.phase is not KeyPhase.OPEN),
            key=lambda state: (state.since_ms, state.queue, state.key),
        )

    def take_turns(self, state: KeyState, listed: int) -> None:
        """Move a key that is about to be looked at behind those that are not, if there may be more than were listed: by
        age alone a decided key behind LISTED_MAX older ones would never be reached.

        From half the bound on, since the index may list keys that have opened. Raises ServiceError.
        """
        if listed * 2 > LISTED_MAX:
            now = self._clock.now_ms()
            self.change(state.queue, state.key, lambda seen: replace(seen, looked_at_ms=now))

    def change(self, queue: str, key: str, make: Callable[[KeyState], KeyState]) -> KeyState:
        """Replace a key's state by what `make` says of it, again on what is there when somebody else was faster.

        Nothing is written where nothing changes. Raises ServiceError if a write was not answered.
        """
        while True:
            seen = self._things.get(_place(queue, key))
            state = to_state(seen) if seen else KeyState(queue=queue, key=key)
            new = make(state)
            if new == state:
                return state
            item = _to_item(new, self._clock.now_ms())
            written = (
                self._things.change(seen, item.data, due=item.due, expires_at_s=item.expires_at_s)
                if seen
                else self._things.create(item)
            )
            if isinstance(written, Item):
                return new
            if not isinstance(written, Refused):
                raise ServiceError(f"key {key!r} of queue {queue!r} was not written: {written.error}")


def _place(queue: str, key: str) -> Key:
    return Key(f"K#{queue}#{group_id(key)}", "K")


def to_state(item: Item) -> KeyState:
    """The key in an item."""
    data = item.data
    return KeyState(
        queue=data["queue"],
        key=data["key"],
        phase=KeyPhase(data["phase"]),
        heads=tuple(data["heads"]),
        waiting=tuple(Waiting(*each) for each in data["waiting"]),
        released=tuple(Waiting(*each) for each in data["released"]),
        since_ms=data["since_ms"],
        looked_at_ms=data.get("looked_at_ms", 0),
    )


def _to_item(state: KeyState, now_ms: int) -> Item:
    data: dict[str, Any] = asdict(state)
    data["phase"] = state.phase.value
    data["heads"] = list(state.heads)
    for name in ("waiting", "released"):
        data[name] = [[each.sequence, each.id] for each in getattr(state, name)]
    is_open = state.phase is KeyPhase.OPEN
    return Item(
        key=_place(state.queue, state.key),
        version=1,
        write_id="",
        data=data,
        due=None if is_open else (INDEX, 0, max(state.since_ms, state.looked_at_ms)),
        expires_at_s=now_ms // 1000 + limits.ROW_LIFE_SECONDS_MIN if is_open else 0,
    )
