"""A table that was put back to an earlier time (point-in-time recovery), while queues and the world went on.

What was done in the lost time is done, but its rows say otherwise and its messages are gone. Reconcile would miss the
messages and send again; so it holds such rows and names them, and a person decides.
"""

from __future__ import annotations

from tenure.core.errors import ServiceError
from tenure.maintenance.durable import Things
from tenure.ports import Entropy, Item, Key, TaskStore, Unanswered

RESTORED = Key("M#table", "RESTORED")


def read_restored(store: TaskStore) -> tuple[int, int] | None:
    """(from, to): writes between these moments are lost, in epoch milliseconds. None: the table is as it was left.

    Raises ServiceError.
    """
    item = store.get_many([RESTORED])[0]
    if item is None or not item.data["to_ms"]:
        return None
    return item.data["from_ms"], item.data["to_ms"]


def mark_restored(store: TaskStore, entropy: Entropy, from_ms: int, to_ms: int, by: str) -> None:
    """Tell that the table was put back to what it was at `from_ms`, and came back into use at `to_ms`; 0 and 0 tell
    that its held rows have been decided about. Raises ServiceError if no write was answered."""
    things = Things(store, entropy)
    data = {"from_ms": from_ms, "to_ms": to_ms, "by": by}
    while True:
        seen = things.get(RESTORED)
        answer = things.change(seen, data) if seen else things.create(Item(RESTORED, 1, "", data))
        if isinstance(answer, Unanswered):
            raise ServiceError(f"the mark of a restore was not written, {answer.error}")
        if isinstance(answer, Item):
            return
