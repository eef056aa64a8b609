"""A table that was put back to an earlier time (point-in-time recovery), while queues and the world went on.

What was done in the lost time is done, but its rows say otherwise and its messages are gone. Reconcile would miss the
messages and send again; so it holds such rows and names them, and a person decides.
"""

from __future__ import annotations

from tenure.core import limits
from tenure.core.errors import PayloadMissing, ServiceError, TooLarge
from tenure.core.task import Stored
from tenure.durable import Things
from tenure.maintenance.parts import Parts
from tenure.ports import Entropy, Item, Key, TaskStore, Unanswered

RESTORED = Key("M#table", "RESTORED")
HEARTBEAT = Key("M#table", "RECONCILE")
GAP_SECONDS = 600
"""A reconcile that has not run for so long was either stopped, or the table has forgotten that it ran."""
SLOT_SECONDS = 300
"""How often reconcile leaves a witness outside the table."""
SLOTS_MAX = 2000
"""Witnesses looked for at most: those of a week."""
WITNESS_LIFE_SECONDS = 30 * 86_400
"""How long a witness is kept; point-in-time recovery reaches 35 days back, but nobody goes on from there unasked."""


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


def watch_table(parts: Parts) -> None:
    """Notice that the table was put back: it says that reconcile last ran at some time, and a witness outside it, in
    the payload bucket, that it ran later. Then mark it. Without a bucket there is no witness, and an operator marks it
    (`tenure reconcile --restored-from`).

    Raises ServiceError if the table cannot be read.
    """
    things = Things(parts.store, parts.entropy)
    now = parts.clock.now_ms()
    seen = things.get(HEARTBEAT)
    last_ms = seen.data["at_ms"] if seen else now
    witnessed = _has_bucket(parts)
    if now - last_ms > GAP_SECONDS * 1000:
        if witnessed and _ran_later(parts, last_ms, now):
            mark_restored(parts.store, parts.entropy, last_ms, now, "reconcile")
            parts.telemetry.emit("reconcile.restored", from_ms=last_ms, to_ms=now)
        else:
            parts.telemetry.emit("reconcile.gap", last_ms=last_ms, witnessed=witnessed)
    if witnessed and (seen is None or last_ms // (SLOT_SECONDS * 1000) != now // (SLOT_SECONDS * 1000)):
        _bear_witness(parts, now)
    data = {"at_ms": now}
    if seen is None:
        things.create(Item(HEARTBEAT, 1, "", data))
    else:
        things.change(seen, data)  # refused: another reconcile ran just now, which is as good


def _has_bucket(parts: Parts) -> bool:
    try:
        return parts.payloads.kind_for(limits.SIBLING_BYTES_MAX + 1) == "object"
    except TooLarge:
        return False


def _place(slot: int) -> Stored:
    return Stored("object", f"witness/R/{slot}", 1)


def _bear_witness(parts: Parts, now_ms: int) -> None:
    try:
        parts.payloads.put(_place(now_ms // (SLOT_SECONDS * 1000)), "1", now_ms // 1000 + WITNESS_LIFE_SECONDS)
    except ServiceError as error:
        parts.telemetry.emit("reconcile.failed", what="witness", error=str(error))


def _ran_later(parts: Parts, last_ms: int, now_ms: int) -> bool:
    first, latest = last_ms // (SLOT_SECONDS * 1000) + 1, now_ms // (SLOT_SECONDS * 1000)
    for slot in range(latest, max(first, latest - SLOTS_MAX) - 1, -1):
        try:
            parts.payloads.get(_place(slot))
        except PayloadMissing:
            continue
        except ServiceError as error:
            parts.telemetry.emit("reconcile.failed", what="witness", error=str(error))
            continue
        return True
    return False
