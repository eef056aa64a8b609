"""What a maintenance duty works with, and the messages it sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tenure.core.envelope import encode, envelope_of
from tenure.core.errors import InvalidTopology, UnsupportedVersion
from tenure.core.letter import letter_of
from tenure.core.machine import Stamp
from tenure.core.task import Row
from tenure.core.topology import Tier, Topology, group_id
from tenure.ports import Clock, Entropy, Key, PayloadStore, Send, TaskQueue, TaskStore, Telemetry
from tenure.rows import Rows, to_row


@dataclass(frozen=True, slots=True)
class Parts:
    """What every duty is made of. `main` and `dead` open a tier's queue and its DLQ."""

    store: TaskStore
    main: Callable[[Tier], TaskQueue]
    dead: Callable[[Tier], TaskQueue]
    payloads: PayloadStore
    clock: Clock
    entropy: Entropy
    telemetry: Telemetry
    topology: Topology

    @property
    def rows(self) -> Rows:
        """Rows over the store."""
        return Rows(self.store)

    def readable(self, keys: Sequence[Key]) -> list[Row | None]:
        """The rows under these keys, in order; None where there is none, or where a newer tenure wrote what this one
        cannot read: nothing is decided about it here. Raises ServiceError."""
        rows: list[Row | None] = []
        for key, item in zip(keys, self.store.get_many(keys) if keys else (), strict=True):
            try:
                rows.append(to_row(item) if item else None)
            except UnsupportedVersion as error:
                self.telemetry.emit("reconcile.failed", what=f"row {key.pk}", error=str(error))
                rows.append(None)
        return rows

    def has_tier(self, row: Row) -> bool:
        """Whether the row's tier is in the topology. One that was taken out, or that a foreign message made up, has no
        queue: a row of it must not be opened, since its message could not be sent."""
        try:
            self.topology.tier(row.queue, row.tier)
        except InvalidTopology:
            return False
        return True

    def stamp(self, by: str) -> Stamp:
        """Now, with a fresh write id."""
        return Stamp(self.clock.now_ms(), self.entropy.token(), by)


def message_of(row: Row, *, ordered: bool, delay_seconds: int = 0, lane: str = "") -> Send:
    """The message for a row as it stands. A payload beside the row travels as a reference, so nothing is read.

    lane: the group of an ordered task whose key is not open, see Keys.lane.
    """
    payload = row.payload.value if row.payload is not None and row.payload.kind == "inline" else None
    group = (lane or row.ordering_key) if ordered else row.tenant
    return Send(
        body=encode(envelope_of(row, payload)),
        group=group_id(group) if group else "",
        deduplication_id=group_id(row.deduplication_id) if ordered else "",
        delay_seconds=0 if ordered else delay_seconds,
    )


def letter_send(row: Row, *, ordered: bool) -> Send:
    """The letter of a buried row, ready for its DLQ. A standard DLQ has no use for a group or deduplication."""
    letter = letter_of(row, None)
    if not ordered:
        return Send(letter.body, attributes=letter.attributes)
    return Send(letter.body, letter.group, letter.deduplication_id, attributes=letter.attributes)
