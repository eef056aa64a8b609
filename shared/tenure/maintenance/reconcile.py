"""Reconcile: looks at every row that nothing has moved in time, and does what is due about it (R25, R26).

Bounded in work per run, fair between queues and shards, and safe beside workers, another reconcile and its own death:
a row is written before its message is sent, so that what dies in between is looked at again, and every write is
guarded by the row's version.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.core import decide, limits, machine
from tenure.core.decide import End, LookAgain, Reconciled, Resend, SendLetter, Surroundings
from tenure.core.errors import InvalidTopology, ServiceError, UnsupportedVersion
from tenure.core.task import Row
from tenure.core.topology import Tier
from tenure.keys import Keys
from tenure.maintenance.keys import HaltedKeys
from tenure.maintenance.parts import Parts, letter_send, message_of
from tenure.maintenance.restore import watch_table
from tenure.maintenance.surroundings import Around
from tenure.ports import Key, Send, Sent
from tenure.rows import Stands, Unknown, due_names, to_row

ROWS_MAX = 2000
"""Rows looked at in one run: about 6,000 write units at most, and seconds of a small function's time."""
CHUNK = 100
"""Rows read, written and sent together: what a death in the middle leaves to the next run is at most these."""
BY = "reconcile"


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """What a run did: counts by kind. `more`: it stopped at its bound, and rows were left for the next run.

    looked: rows read. resent: messages sent. later: rows that something explains. held: rows held after a restore.
    ended: cancelled or past their deadline. letters: letters sent. left: the row had moved on. overtaken: it moved
    while we wrote. unknown: a write without an answer. unsent: written, but SQS did not take the message (the row is
    looked at again). keys, opened, released: halted keys looked at and opened, and tasks of theirs sent. failed: reads
    that failed, and rows that could not be read.
    """

    counts: Counter[str] = field(default_factory=Counter)
    held: tuple[str, ...] = ()
    """Ids of the rows held after a restore."""
    more: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For logs and programs."""
        return {name: self.counts[name] for name in COUNTED} | {"held_ids": list(self.held), "more": self.more}


COUNTED = (
    "looked",
    "resent",
    "later",
    "held",
    "ended",
    "letters",
    "left",
    "overtaken",
    "unknown",
    "unsent",
    "keys",
    "opened",
    "released",
    "failed",
)


class Reconcile:
    """One run looks at up to `rows_max` rows, oldest first, the same share of each queue's shards before any more."""

    def __init__(self, parts: Parts, rows_max: int = ROWS_MAX, by: str = BY) -> None:
        self._parts = parts
        self._rows_max = rows_max
        self._by = by

    def run_once(self, stop_at_ms: int | None = None) -> ReconcileReport:
        """Do what is due now; stop early at `stop_at_ms`. One row's or queue's trouble is counted and hinders no other.

        Raises ServiceError where it cannot be read whether the table was put back: then nothing may be concluded.
        """
        return _Run(self._parts, self._by, stop_at_ms).run(self._rows_max)


class _Run:
    def __init__(self, parts: Parts, by: str, stop_at_ms: int | None) -> None:
        self._parts = parts
        self._rows = parts.rows
        self._keys = Keys.of(parts.topology, parts.store, parts.clock, parts.entropy)
        self._by = by
        self._stop_at_ms = stop_at_ms
        self._counts: Counter[str] = Counter()
        self._held: list[str] = []
        self._more = False

    def run(self, rows_max: int) -> ReconcileReport:
        watch_table(self._parts)
        around = Around(self._parts)
        rows = list(self._read(self._pick(rows_max)))
        for tier, members in self._by_tier(rows):
            members.sort(key=lambda row: (row.submitted_at_ms, row.id))
            for seen in _chunks(list(around.of(tier, members)), CHUNK):
                if self._stop_at_ms is not None and self._parts.clock.now_ms() >= self._stop_at_ms:
                    self._more = True
                    break
                self._settle(tier, seen)
        self._sweep_keys()
        report = ReconcileReport(self._counts, tuple(self._held), self._more)
        self._parts.telemetry.emit("reconcile.done", **report.as_dict())
        return report

    def _sweep_keys(self) -> None:
        if any(queue.on_bury == "halt" for queue in self._parts.topology.queues):
            try:
                self._counts.update(HaltedKeys(self._parts).run_once().counts)
            except ServiceError as error:
                self._failed("halted keys", error)

    # ---- which rows ------------------------------------------------------------------------------------------------
    def _pick(self, rows_max: int) -> list[Key]:
        """Keys of rows whose time has come. Every shard gets an equal share; what some leave, the others may use."""
        names = [name for queue in self._parts.topology.queues for name in due_names(queue.name)]
        places = list(itertools.product(names, range(limits.DUE_SHARDS)))
        share = max(1, rows_max // max(1, len(places)))
        found = {place: self._due(place, share) for place in places}
        full = [place for place in places if len(found[place]) >= share]
        left = rows_max - sum(len(keys) for keys in found.values())
        if full and left > 0:
            more = share + max(1, left // len(full))
            for place in full:
                found[place] = self._due(place, more)
                self._more = self._more or len(found[place]) >= more
        else:
            self._more = bool(full)
        return list(dict.fromkeys(key for keys in found.values() for key in keys if key.sk == "R"))

    def _due(self, place: tuple[str, int], limit: int) -> list[Key]:
        name, shard = place
        try:
            return self._parts.store.due(name, shard, self._parts.clock.now_ms() + 1, limit)
        except ServiceError as error:
            self._failed(f"due index of {name}#{shard}", error)
            return []

    def _read(self, keys: Sequence[Key]) -> Iterator[Row]:
        for chunk in _chunks(keys, CHUNK):
            try:
                items = self._parts.store.get_many(chunk)
            except ServiceError as error:
                self._failed(f"{len(chunk)} rows", error)
                continue
            for key, item in zip(chunk, items, strict=True):
                self._counts["looked"] += 1
                if item is None:
                    self._counts["left"] += 1
                    continue
                try:
                    row = to_row(item)
                except UnsupportedVersion as error:
                    self._failed(f"row {key.pk}", error)
                    continue
                yield row

    def _by_tier(self, rows: Iterable[Row]) -> Iterator[tuple[Tier, list[Row]]]:
        groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in rows:
            groups[row.queue, row.tier].append(row)
        for (queue, tier), members in groups.items():
            try:
                yield self._parts.topology.tier(queue, tier), members
            except InvalidTopology as error:
                # The tier was taken out of the environment: its rows wait until it is back, out of the others' way.
                self._failed(f"{len(members)} rows of tier {queue}/{tier}", error)
                for row in members:
                    at_ms = self._parts.clock.now_ms() + limits.RECONCILE_BACKOFF_SECONDS_MAX * 1000
                    self._rows.replace(row, machine.look_again(row, self._parts.stamp(self._by), at_ms))

    # ---- what is done about them -----------------------------------------------------------------------------------
    def _settle(self, tier: Tier, seen: Sequence[tuple[Row, Surroundings]]) -> None:
        """Decide about some rows of a tier, write them all, then send what the standing writes call for."""
        stamp = self._parts.stamp
        decisions = [(row, decide.reconcile(row, around, stamp(self._by))) for row, around in seen]
        changes = [(row, made) for row, made in decisions if isinstance(made, Resend | LookAgain | End)]
        answers = self._rows.replace_many([(row, made.row) for row, made in changes])
        stand: list[Resend] = []
        for (_, made), answer in zip(changes, answers, strict=True):
            if not isinstance(answer, Stands):
                self._counts["unknown" if isinstance(answer, Unknown) else "overtaken"] += 1
            elif isinstance(made, Resend):
                stand.append(made)
            else:
                self._count(made)
        self._send(tier, stand)
        self._send_letters(tier, [row for row, made in decisions if isinstance(made, SendLetter)])
        self._counts["left"] += sum(1 for _, made in decisions if not isinstance(made, _ACTS))

    def _count(self, made: Reconciled) -> None:
        if isinstance(made, End):
            self._counts["ended"] += 1
            self._tell(f"task.{made.row.state.value}", made.row)
        elif isinstance(made, LookAgain) and made.why == decide.HELD:
            self._counts["held"] += 1
            self._held.append(made.row.id)
            self._tell("reconcile.held", made.row, why=made.why)
        else:
            self._counts["later"] += 1

    def _send(self, tier: Tier, stand: Sequence[Resend]) -> None:
        if not stand:
            return
        queue = self._parts.main(tier)
        sends = [
            message_of(made.row, ordered=tier.ordered, delay_seconds=made.delay_seconds, lane=self._lane(made.row))
            for made in stand
        ]
        for made, sent in zip(stand, queue.send_many(sends), strict=True):
            if isinstance(sent, Sent):
                self._counts["resent"] += 1
                self._tell("reconcile.resent", made.row, sends=made.row.sends, delay_seconds=made.delay_seconds)
            else:
                self._counts["unsent"] += 1
                self._tell("reconcile.unsent", made.row, code=sent.code, error=sent.message)

    def _lane(self, row: Row) -> str:
        try:
            return self._keys.lane(row)
        except ServiceError as error:  # in its key's own group it is late at the worst
            self._failed(f"key {row.queue}/{row.ordering_key}", error)
            return ""

    def _send_letters(self, tier: Tier, rows: Sequence[Row]) -> None:
        if not rows:
            return
        letters: list[Send] = [letter_send(row, ordered=tier.ordered) for row in rows]
        answers = self._parts.dead(tier).send_many(letters)
        changes: list[tuple[Row | None, Row]] = []
        for row, sent in zip(rows, answers, strict=True):
            stamp = self._parts.stamp(self._by)
            if isinstance(sent, Sent):
                self._counts["letters"] += 1
                self._tell("letter.sent", row)
                changes.append((row, machine.confirm_letter(row, stamp)))
            else:
                self._counts["unsent"] += 1
                self._tell("reconcile.unsent", row, code=sent.code, error=sent.message)
                at_ms = stamp.now_ms + limits.RECONCILE_GRACE_SECONDS * 1000
                changes.append((row, machine.look_again(row, stamp, at_ms)))
        for answer in self._rows.replace_many(changes):
            if isinstance(answer, Unknown):
                self._counts["unknown"] += 1

    def _tell(self, event: str, row: Row, **more: Any) -> None:
        self._parts.telemetry.emit(event, task_id=row.id, task=row.task, queue=row.queue, by=self._by, **more)

    def _failed(self, what: str, error: Exception) -> None:
        self._counts["failed"] += 1
        self._parts.telemetry.emit("reconcile.failed", what=what, error=f"{type(error).__name__}: {error}")


_ACTS = (Resend, LookAgain, End, SendLetter)


def _chunks(keys: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (keys[start : start + size] for start in range(0, len(keys), size))
