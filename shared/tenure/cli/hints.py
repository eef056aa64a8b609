"""Why a filter found nothing, as far as can be seen: names that nothing bears, and where tasks are that it names."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator, Sequence

from tenure.cli.session import Reach
from tenure.core.filters import Filter
from tenure.core.task import FINAL, Row, State

IDS_MAX = 20
"""Ids of a filter that are looked up: what a person types."""


def why_nothing(reach: Reach, picked: Filter, *, of_letters: bool) -> list[str]:
    """A sentence for each name that nothing bears, and for each id. of_letters: only open dead letters were looked for.

    Raises ServiceError.
    """
    return [*_slips(reach, picked), *_where(reach, picked, of_letters)]


def _slips(reach: Reach, picked: Filter) -> Iterator[str]:
    known = {
        "queue": ("there is no queue {!r}", [queue.name for queue in reach.topology.queues]),
        "pool": ("there is no pool {!r}", [pool.name for pool in reach.topology.pools]),
        "task": ("no task is published as {!r}", sorted(reach.client.tasks)),
    }
    for term in picked.terms:
        text, names = known.get(term.field, ("", []))
        if names and not term.excluding:
            for value in term.values:
                if not fnmatch.filter(names, value):
                    yield _sentence(text.format(value), value, names)


def _sentence(told: str, value: str, names: Sequence[str]) -> str:
    begun = [name for name in names if name.startswith(value)]
    near = begun or difflib.get_close_matches(value, names, n=1)
    return f"{told[0].upper()}{told[1:]}. " + (f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names)}.")


def _where(reach: Reach, picked: Filter, of_letters: bool) -> Iterator[str]:
    ids = [
        value
        for term in picked.terms
        if term.field == "id" and not term.excluding
        for value in term.values
        if not set(value) & set("*?[")
    ][:IDS_MAX]
    for task_id, row in zip(ids, reach.rows.get_many(ids), strict=True):
        yield f"Task {task_id} is not known here." if row is None else _standing(row, of_letters)


def _standing(row: Row, of_letters: bool) -> str:
    told = f"Task {row.id} is {row.state.value}"
    if row.state is State.DEAD_LETTERED and row.disposition is not None and row.disposition.kind != "open":
        told += f", and its dead letter was {row.disposition.kind}"
    elif row.state is State.DEAD_LETTERED or (row.state not in FINAL and not of_letters):
        told += ": another term leaves it out"
    elif of_letters:
        told += ", so it is no open dead letter"
    else:
        told += ", and such tasks are not listed"
    return f"{told}. See: tenure show {row.id}"
