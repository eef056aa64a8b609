"""Durable things that are no tasks (pauses, replays, marks): versioned items, changed under their guard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tenure.ports import Entropy, Item, Key, Refused, TaskStore, Unanswered, Write, Written
from tenure.rows import WRITE_TRIES


class Things:
    """Items read and replaced one at a time, each write recognised by its id after a lost reply."""

    def __init__(self, store: TaskStore, entropy: Entropy) -> None:
        self._store = store
        self._entropy = entropy

    def get(self, key: Key) -> Item | None:
        """The item as it is now. Raises ServiceError."""
        return self._store.get_many([key])[0]

    def create(self, item: Item) -> Item | Refused | Unanswered:
        """Put a new item where there is none. The item as written; or what stands there; or no answer."""
        return self._write(replace(item, version=1, write_id=self._entropy.token()), None)

    def change(self, seen: Item, data: Mapping[str, Any], **places: Any) -> Item | Refused | Unanswered:
        """Replace an item as last seen. `places` may set due, dead and expires_at_s."""
        new = replace(seen, data=data, version=seen.version + 1, write_id=self._entropy.token(), **places)
        return self._write(new, (seen.version, seen.birth))

    def _write(self, item: Item, expected: tuple[int, str] | None) -> Item | Refused | Unanswered:
        answer: Written | Refused | Unanswered = Unanswered("not tried")
        for _ in range(WRITE_TRIES):
            answer = self._store.write_many([Write(item, expected)])[0]
            if not isinstance(answer, Unanswered):
                break
        if isinstance(answer, Written):
            return item
        if isinstance(answer, Refused) and answer.item is not None and answer.item.write_id == item.write_id:
            return item
        return answer
