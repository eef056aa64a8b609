"""Rows in the store: the one place where a row is read, written under its guard, and recognised as one's own write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure.core.errors import UnsupportedVersion
from tenure.core.machine import own_write
from tenure.core.record import from_data, to_data
from tenure.core.task import Row, State
from tenure.core.topology import shard_of
from tenure.ports import Item, Key, Refused, TaskStore, Unanswered, Write, Written

WRITE_TRIES = 3
"""How often an unanswered write is tried again under the same write id, before its outcome is called unknown."""


@dataclass(frozen=True, slots=True)
class Stands:
    """The row is in the table as decided."""

    row: Row


@dataclass(frozen=True, slots=True)
class Overtaken:
    """The row had moved on; `row` is how it is now (None: there is none). Decide again on it."""

    row: Row | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The store gave no answer: the write may stand or not. Nothing may be concluded."""

    error: str


RowOutcome = Stands | Overtaken | Unknown


def row_key(task_id: str) -> Key:
    """Where a task's row lies."""
    return Key(f"T#{task_id}", "R")


def due_names(queue: str) -> tuple[str, str]:
    """Under which names a queue's rows lie in the due index: what nobody but reconcile will move, and the rest.

    Two, so that a long backlog of messages that are merely late cannot stand before schedules, long retries and
    missing letters. The first is no queue's name.
    """
    return (f"{queue}!", queue)


def to_item(row: Row) -> Item:
    """A row as a versioned item, with its places in the sparse indexes."""
    pressing, patient = due_names(row.queue)
    name = pressing if row.message_gone or row.state is State.DEAD_LETTERED else patient
    due = (name, shard_of(row.id), row.check_at_ms) if row.check_at_ms else None
    open_letter = row.state is State.DEAD_LETTERED and row.disposition is not None and row.disposition.kind == "open"
    return Item(
        key=row_key(row.id),
        version=row.version,
        write_id=row.write_id,
        birth=row.birth,
        data=to_data(row),
        due=due,
        dead=(row.queue, row.ended_at_ms) if open_letter else None,
        expires_at_s=row.expires_at_s,
    )


def to_row(item: Item) -> Row:
    """The row in an item. Raises UnsupportedVersion if a newer tenure wrote it so that this one cannot read it."""
    return from_data(dict(item.data))


class Rows:
    """Rows over a TaskStore."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store

    def get_many(self, task_ids: Sequence[str]) -> list[Row | None]:
        """The rows as they are now, in the order asked. Raises ServiceError, and UnsupportedVersion (see to_row)."""
        if not task_ids:
            return []
        return [to_row(item) if item else None for item in self._store.get_many([row_key(t) for t in task_ids])]

    def get(self, task_id: str) -> Row | None:
        """One row as it is now. Raises as `get_many`."""
        return self.get_many([task_id])[0]

    def replace_many(self, changes: Sequence[tuple[Row | None, Row]]) -> list[RowOutcome]:
        """Write each (row as last seen or None for none, row as it shall be), each by itself.

        Unanswered writes are tried again under the same write id; a refusal that bears it is one's own earlier try.
        """
        writes = [Write(to_item(new), (seen.version, seen.birth) if seen else None) for seen, new in changes]
        outcomes: list[RowOutcome] = [Unknown("not tried")] * len(writes)
        open_writes = list(range(len(writes)))
        for _ in range(WRITE_TRIES):
            if not open_writes:
                break
            answers = self._store.write_many([writes[i] for i in open_writes])
            still_open = []
            for i, answer in zip(open_writes, answers, strict=True):
                outcomes[i] = _read(answer, changes[i][1])
                if isinstance(answer, Unanswered):
                    still_open.append(i)
            open_writes = still_open
        return outcomes

    def replace(self, seen: Row | None, new: Row) -> RowOutcome:
        """One write; see replace_many."""
        return self.replace_many([(seen, new)])[0]


def _read(answer: Written | Refused | Unanswered, new: Row) -> RowOutcome:
    if isinstance(answer, Written):
        return Stands(new)
    if isinstance(answer, Unanswered):
        return Unknown(answer.error)
    try:
        current = to_row(answer.item) if answer.item else None
    except UnsupportedVersion as error:  # the write did not stand, and what does stand tells this version nothing
        return Unknown(str(error))
    return Stands(new) if own_write(current, new) else Overtaken(current)
