"""Halted ordering keys (R24): what a key's item says, who may run meanwhile, and when the key opens again. Pure.

When a head is buried on a queue with `on_bury = "halt"`, its key waits for a person. Tasks of the key that arrive are
taken off SQS into `waiting` rows, in the order of SQS's own sequence numbers, since in SQS they would die by retention.
Once every head is decided about, what waits is released in that order, and the key opens when nothing waits any more.

    open --halt--> halted --heads decided--> draining --nothing waits, all released are final--> open

A key is halted *before* its head's row is buried, so that a death in between leaves a key halted too early (its head,
which is among `heads`, may still run) and never one open too long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tenure.core.task import Row, State

WAITING_MAX = 1000
"""Tasks that one key keeps waiting: its item lists them, and is written anew for each. Later ones are handed back and
stay in SQS until there is room."""
RELEASED_MAX = 50
"""Tasks released at a time: whoever meets one reads those before it."""


class KeyPhase(StrEnum):
    """How a key stands."""

    OPEN = "open"
    HALTED = "halted"
    DRAINING = "draining"
    """Its heads are decided about; what waited is being released. Arrivals still wait, behind it."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A task off SQS. `sequence` is its message's, twenty digits, kept when it is released and waits again."""

    sequence: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """A key as its item holds it. Lists of waiting and released tasks are in order."""

    queue: str
    key: str
    phase: KeyPhase = KeyPhase.OPEN
    heads: tuple[str, ...] = ()
    """Ids of tasks that were buried and are not decided about, the retried ones among them."""
    waiting: tuple[Waiting, ...] = ()
    released: tuple[Waiting, ...] = ()
    """Sent again and not yet seen final."""
    since_ms: int = 0
    looked_at_ms: int = 0
    """When the sweep last looked at it, where there are so many that it cannot look at all of them in one run."""

    def place(self, task_id: str) -> Waiting | None:
        """Its place among those that wait or are released."""
        return next((each for each in (*self.waiting, *self.released) if each.id == task_id), None)

    def before(self, task_id: str) -> tuple[str, ...]:
        """Released tasks that come before this one."""
        place = self.place(task_id)
        return () if place is None else tuple(each.id for each in self.released if _rank(each) < _rank(place))


def halt(state: KeyState, head: str, now_ms: int) -> KeyState:
    """A head is about to be buried: its key waits. What was released waits again, at its old place."""
    if head in state.heads and state.phase is KeyPhase.HALTED:
        return state
    again = tuple(each for each in state.released if each.id != head)
    return replace(
        state,
        phase=KeyPhase.HALTED,
        heads=tuple(dict.fromkeys((*state.heads, head))),
        waiting=_in_order((*state.waiting, *again)),
        released=(),
        since_ms=state.since_ms if state.phase is not KeyPhase.OPEN else now_ms,
    )


def may_run(state: KeyState | None, task_id: str, rows: Mapping[str, Row | None]) -> bool:
    """Whether a task of the key may be claimed. `rows`: of the tasks in `state.before(task_id)`."""
    if state is None or state.phase is KeyPhase.OPEN or task_id in state.heads:
        return True
    place = next((each for each in state.released if each.id == task_id), None)
    if place is None or any(_rank(each) < _rank(place) for each in state.waiting):
        return False  # one ahead of it may have been released, met out of its turn, and so wait again
    return all(is_decided(rows.get(each)) for each in state.before(task_id))


def park(state: KeyState, task_id: str, sequence: str) -> KeyState:
    """A task of the key arrived that may not run: it waits, at its old place if it had one.

    The key may have opened since that was seen: then it drains again, or nobody would ever release the task.
    """
    place = state.place(task_id) or Waiting(sequence, task_id)
    return replace(
        state,
        phase=KeyPhase.DRAINING if state.phase is KeyPhase.OPEN else state.phase,
        waiting=_in_order({each.id: each for each in (*state.waiting, place)}.values()),
        released=tuple(each for each in state.released if each.id != task_id),
    )


def lane(state: KeyState, task_id: str) -> str:
    """The group in which a retried head or a released task is sent; empty for any other task.

    Not the key's own: there, arrivals that the item has no room for are handed back and lock the group, and nothing
    behind them would ever be received. The item decides about order, not the group: the key is open again only after
    all that were sent in its lane have ended.
    """
    sent = task_id in state.heads or any(each.id == task_id for each in state.released)
    return f"{state.key} (released)" if sent and state.phase is not KeyPhase.OPEN else ""


def has_room(state: KeyState, task_id: str) -> bool:
    """Whether the task may wait in the item."""
    return state.place(task_id) is not None or len(state.waiting) + len(state.released) < WAITING_MAX


def advance(state: KeyState, rows: Mapping[str, Row | None]) -> KeyState:
    """The key after a look at the rows of its heads, its released and its waiting tasks.

    Heads that are decided about go; without any the key drains: up to RELEASED_MAX tasks are released, and it opens
    once nothing waits and all released ones are final. Waiting tasks that ended (cancelled, expired) go too.
    """
    heads = tuple(each for each in state.heads if not is_decided(rows.get(each)))
    waiting = tuple(each for each in state.waiting if not is_decided(rows.get(each.id)))
    if heads:
        return replace(state, heads=heads, waiting=waiting)
    released = tuple(each for each in state.released if not is_decided(rows.get(each.id)))
    room = RELEASED_MAX - len(released)
    released, waiting = _in_order((*released, *waiting[:room])), waiting[room:]
    phase = KeyPhase.DRAINING if released or waiting else KeyPhase.OPEN
    return replace(state, phase=phase, heads=(), waiting=waiting, released=released)


def is_decided(row: Row | None) -> bool:
    """Whether a task no longer holds its key: it ended, and if it was buried, somebody has closed its letter."""
    if row is None:
        return True
    if row.state is State.DEAD_LETTERED:
        return row.disposition is not None and row.disposition.kind == "discarded"
    return row.final


def _in_order(places: Iterable[Waiting]) -> tuple[Waiting, ...]:
    return tuple(sorted(places, key=_rank))


def _rank(place: Waiting) -> tuple[int, str, str]:
    return (len(place.sequence), place.sequence, place.id)
