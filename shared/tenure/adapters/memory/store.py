"""The table of a world: ports.TaskStore and ports.PayloadStore as DynamoDB and S3 keep them.

Rules, with their sources (docs.aws.amazon.com/amazondynamodb/latest/developerguide):
- a write is atomic for its item and judged on its newest state; Expressions.ConditionExpressions.html
- a refused condition can carry the item as it is; service model, ReturnValuesOnConditionCheckFailure
- an item past its time to live may still be read: adapters must treat it as absent; ttl-expired-items.html
- an index follows later; GSI.html
- concurrent writes have no order, and each can fail by itself; Programming.Errors.html
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from tenure.adapters.memory.faults import Faults
from tenure.adapters.memory.process import ms
from tenure.adapters.memory.scheduler import Scheduler
from tenure.core import limits
from tenure.core.errors import PayloadMissing, ServiceError, TooLarge
from tenure.core.task import Stored
from tenure.ports import Item, Key, Refused, Unanswered, Write, WriteOutcome, Written


def plain_copy(value: Any) -> Any:
    """A copy of JSON-like data. Raises TypeError for anything that DynamoDB's adapter does not store either."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain_copy(each) for each in value]
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise TypeError(f"item data has names that are not texts: {value!r}")
        return {name: plain_copy(each) for name, each in value.items()}
    raise TypeError(f"item data holds a {type(value).__name__}: {value!r}")


class MemoryStore:
    """ports.TaskStore in memory."""

    def __init__(self, scheduler: Scheduler, random: Random, faults: Faults) -> None:
        self._scheduler = scheduler
        self._random = random
        self.faults = faults
        self._items: dict[Key, Item] = {}
        self._indexed: dict[Key, Item] = {}
        self._on_its_way: list[tuple[int, Key]] = []
        self.watchers: list[Callable[[Item | None, Item], None]] = []
        """Called with (item before, item after) at each applied write: how a checker sees every transition."""

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """See ports.TaskStore."""
        self._scheduler.step("store.get")
        with self._scheduler.guard():
            if self._chance(self.faults.store_read_fails):
                raise ServiceError("ProvisionedThroughputExceededException: the read was throttled")
            found = [_copy(self._live(key)) for key in keys]
        self._scheduler.after("store.got")
        return found

    def write_many(self, writes: Sequence[Write]) -> list[WriteOutcome]:
        """See ports.TaskStore."""
        outcomes: dict[int, WriteOutcome] = {}
        order = list(range(len(writes)))
        if self._scheduler.current() is not None:
            self._random.shuffle(order)
        for i in order:
            self._scheduler.step_to(
                f"store.write {writes[i].item.key.pk}", partial(self._apply, writes[i]), self.faults.late_seconds
            )
            outcomes[i] = self._write_somehow(writes[i])
        self._scheduler.after("store.written")
        return [outcomes[i] for i in range(len(writes))]

    def due(self, queue: str, shard: int, before_ms: int, limit: int) -> list[Key]:
        """See ports.TaskStore."""
        rows = self._index(
            "store.due", lambda item: item.due[2] if item.due and item.due[:2] == (queue, shard) else None
        )
        return [key for at_ms, key in rows if at_ms < before_ms][:limit]

    def dead(self, queue: str, after_ms: int, limit: int) -> list[tuple[Key, int]]:
        """See ports.TaskStore."""
        rows = self._index("store.dead", lambda item: item.dead[1] if item.dead and item.dead[0] == queue else None)
        return [(key, at_ms) for at_ms, key in rows if at_ms > after_ms][:limit]

    # ---- for checkers ------------------------------------------------------------------------------------------
    def all(self) -> list[Item]:
        """Every item that is there, as it is now, without a yield point."""
        with self._scheduler.guard():
            return [replace(item, data=plain_copy(item.data)) for key, item in self._items.items() if self._live(key)]

    # ---- writes ------------------------------------------------------------------------------------------------
    def _write_somehow(self, write: Write) -> WriteOutcome:
        with self._scheduler.guard():
            if self._chance(self.faults.store_unanswered):
                if self._chance(0.5):
                    self._apply(write)
                elif self._chance(0.5):
                    self._scheduler.later(self.faults.late_seconds, partial(self._apply, write))
                return Unanswered("InternalServerError: no answer came")
            outcome = self._apply(write)
            if not isinstance(outcome, Written) or not self._chance(self.faults.store_reply_lost):
                return outcome
        self._scheduler.step("store.write again")
        with self._scheduler.guard():
            return self._apply(write)

    def _apply(self, write: Write) -> WriteOutcome:
        try:
            stored = replace(write.item, data=plain_copy(dict(write.item.data)))
        except TypeError as error:
            return Unanswered(f"item {write.item.key.pk}: not written, {error}")
        if len(json.dumps(stored.data, ensure_ascii=False).encode("utf-8", "surrogatepass")) > _ITEM_DATA_BYTES_MAX:
            return Unanswered(f"item {write.item.key.pk}: not written, it exceeds DynamoDB's limit of an item")
        current = self._live(write.item.key)
        seen = (current.version, current.birth) if current else None
        if seen != write.expected:
            return Refused(_copy(current))
        self._items[stored.key] = stored
        lag_ms = ms(self.faults.index_lag_seconds * self._random.random()) if self.faults.index_lag_seconds else 0
        if lag_ms:
            self._on_its_way.append((self._scheduler.now_ms + lag_ms, stored.key))
        else:
            self._show(stored.key)
        for watcher in self.watchers:
            watcher(current, stored)
        return Written()

    def _live(self, key: Key) -> Item | None:
        item = self._items.get(key)
        if item is None or (item.expires_at_s and item.expires_at_s * 1000 <= self._scheduler.now_ms):
            return None
        return item

    # ---- indexes -----------------------------------------------------------------------------------------------
    def _show(self, key: Key) -> None:
        item = self._items[key]
        if item.due or item.dead:
            self._indexed[key] = item
        else:
            self._indexed.pop(key, None)

    def _index(self, what: str, place: Callable[[Item], int | None]) -> list[tuple[int, Key]]:
        self._scheduler.step(what)
        with self._scheduler.guard():
            if self._chance(self.faults.store_read_fails):
                raise ServiceError("ProvisionedThroughputExceededException: the query was throttled")
            if self._on_its_way:
                arrived = [key for at_ms, key in self._on_its_way if at_ms <= self._scheduler.now_ms]
                self._on_its_way = [each for each in self._on_its_way if each[0] > self._scheduler.now_ms]
                for key in arrived:
                    self._show(key)
            rows = [
                (at_ms, key)
                for key, item in self._indexed.items()
                if (at_ms := place(item)) is not None and self._live(key)
            ]
        self._scheduler.after(f"{what} answered")
        return sorted(rows, key=lambda row: (row[0], row[1].pk, row[1].sk))

    def _chance(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance


def _copy(item: Item | None) -> Item | None:
    return None if item is None else replace(item, data=plain_copy(item.data))


class MemoryPayloads:
    """ports.PayloadStore in memory. `objects`: whether there is a bucket beside the table."""

    def __init__(self, scheduler: Scheduler, random: Random, faults: Faults, *, objects: bool = True) -> None:
        self._scheduler = scheduler
        self._random = random
        self.faults = faults
        self._objects = objects
        self._texts: dict[tuple[str, str], tuple[str, int]] = {}

    def put(self, place: Stored, text: str, expires_at_s: int) -> None:
        """See ports.PayloadStore. Raises ValueError for an inline place, which is no place of its own."""
        self._check(place)
        self._scheduler.step("payload.put")
        with self._scheduler.guard():
            fails = self._chance(self.faults.payload_fails)
            if not fails or self._chance(0.5):
                self._put(place, text, expires_at_s)
        if fails:
            raise ServiceError("InternalError: no answer came")
        self._scheduler.after("payload.stored")

    def get(self, place: Stored) -> str:
        """See ports.PayloadStore. Raises ValueError for an inline place, whose value is the text itself."""
        self._check(place)
        self._scheduler.step("payload.get")
        with self._scheduler.guard():
            if self._chance(self.faults.payload_fails):
                raise ServiceError("InternalError: no answer came")
            text, expires_at_s = self._texts.get((place.kind, place.value), ("", -1))
        if expires_at_s < 0 or (expires_at_s and expires_at_s * 1000 <= self._scheduler.now_ms):
            raise PayloadMissing(f"no text lies at {place.kind} {place.value}")
        return text

    def peek(self, place: Stored) -> str:
        """The text that was put there, for checkers: without a yield point, and expired or not. Empty if none was."""
        return self._texts.get((place.kind, place.value), ("", 0))[0]

    def kind_for(self, size_bytes: int) -> str:
        """See ports.PayloadStore."""
        if size_bytes <= limits.INLINE_BYTES_MAX:
            return "inline"
        if size_bytes <= (limits.SIBLING_BYTES_MAX if self._objects else _ITEM_TEXT_BYTES_MAX):
            return "item"
        if self._objects:
            return "object"
        raise TooLarge("the text", size_bytes, _ITEM_TEXT_BYTES_MAX, "Give the environment a bucket.")

    def _check(self, place: Stored) -> None:
        if place.kind == "inline":
            raise ValueError("an inline text lies in its row, not in a payload store")
        if place.kind == "object" and not self._objects:
            raise PayloadMissing(f"{place.value} lies in a bucket, and this world has none")

    def _put(self, place: Stored, text: str, expires_at_s: int) -> None:
        size = len(text.encode("utf-8"))
        if place.kind == "item" and size > _ITEM_TEXT_BYTES_MAX:
            raise TooLarge("the text", size, _ITEM_TEXT_BYTES_MAX, "Store it as an object.")
        at = (place.kind, place.value)
        lapses_at_s = self._texts.get(at, ("", 0))[1]
        if at not in self._texts or (lapses_at_s and lapses_at_s * 1000 <= self._scheduler.now_ms):
            self._texts[at] = (text, expires_at_s)

    def _chance(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance


_ITEM_TEXT_BYTES_MAX = limits.DYNAMODB_ITEM_BYTES_MAX - 4096
"""What an item takes of a text, besides its key (up to 3 KiB, DynamoDB's own limits) and its names."""
_ITEM_DATA_BYTES_MAX = limits.DYNAMODB_ITEM_BYTES_MAX - 3072
