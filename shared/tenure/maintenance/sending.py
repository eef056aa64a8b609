"""Sending the messages of rows that were replayed, in order where order matters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tenure.core.errors import ServiceError
from tenure.core.task import Row
from tenure.core.topology import Tier
from tenure.keys import Keys
from tenure.maintenance.parts import Parts, message_of
from tenure.ports import Sent


def send_replayed(parts: Parts, rows: Sequence[Row]) -> int:
    """Send a message for each row, each of a tier that there is; how many SQS did not take (reconcile sends those).

    Raises ServiceError if an ordered one was not taken: nothing of its key may pass it, so its batch is done again.
    """
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.queue, row.tier].append(row)
    unsent = 0
    for (queue, name), members in groups.items():
        tier = parts.topology.tier(queue, name)
        for wave in _waves(members) if tier.ordered else [members]:
            unsent += _send(parts, tier, wave)
    return unsent


def _send(parts: Parts, tier: Tier, rows: Sequence[Row]) -> int:
    keys = Keys.of(parts.topology, parts.store, parts.clock, parts.entropy)
    sends = [message_of(row, ordered=tier.ordered, lane=keys.lane(row)) for row in rows]
    unsent = 0
    for row, sent in zip(rows, parts.main(tier).send_many(sends), strict=True):
        if isinstance(sent, Sent):
            by = row.disposition.by if row.disposition else ""
            parts.telemetry.emit("task.replayed", task_id=row.id, task=row.task, queue=row.queue, by=by)
        elif tier.ordered:
            raise ServiceError(f"task {row.id} was not sent, {sent.code}: {sent.message}")
        else:
            unsent += 1
            parts.telemetry.emit("reconcile.unsent", task_id=row.id, queue=row.queue, code=sent.code)
    return unsent


def _waves(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows in rounds of at most one for each ordering key: a failed send then never lets its successor pass."""
    queues: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        queues[row.ordering_key].append(row)
    while queues:
        yield [members.pop(0) for members in queues.values()]
        queues = defaultdict(list, {key: members for key, members in queues.items() if members})
