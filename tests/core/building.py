"""Rows, stamps and arrivals for the tests of the core: everything at its plainest, changed by keyword."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.core import machine
from tenure.core.decide import Arrival
from tenure.core.envelope import Envelope, canonical, digest_of, envelope_of
from tenure.core.machine import Lease, Stamp
from tenure.core.outcome import named
from tenure.core.task import Disposition, Row, State, Stored

T0 = 1_700_000_000_000
PAYLOAD = canonical({"n": 1})
ERROR = named("ValueError", "no good")


def stamp(after_seconds: float = 0, write_id: str = "w-new", by: str = "") -> Stamp:
    """A write so many seconds after T0."""
    return Stamp(T0 + round(after_seconds * 1000), write_id, by)


def blank(**changes: Any) -> Row:
    """What a producer hands to `submitted`."""
    row = Row(
        id="t1",
        birth="b1",
        task="work",
        queue="media",
        state=State.QUEUED,
        digest=digest_of(PAYLOAD),
        payload=Stored("inline", PAYLOAD, len(PAYLOAD)),
    )
    return replace(row, **changes)


def queued(**changes: Any) -> Row:
    """A row as its submit left it."""
    return replace(machine.submitted(blank(), stamp(0, "w-0")), **changes)


def lease_of(*, alone: bool = True, seconds: float = 60, max_attempts: int = 5, **changes: Any) -> Lease:
    lease = Lease(seconds=seconds, token="tok", worker="w1", alone=alone, max_attempts=max_attempts, pool="p")
    return replace(lease, **changes)


def leased(*, alone: bool = True, seconds: float = 60, max_attempts: int = 5, **changes: Any) -> Row:
    """A row that was claimed at T0."""
    new = lease_of(alone=alone, seconds=seconds, max_attempts=max_attempts)
    return replace(machine.claim(queued(), stamp(0, "w-1"), new), **changes)


def in_state(state: State, **changes: Any) -> Row:
    """A row in any state, as the machine itself brings it there."""
    held = leased()
    made = {
        State.SCHEDULED: machine.submitted(blank(due_at_ms=T0 + 3_600_000), stamp(0, "w-0")),
        State.WAITING: machine.park(queued(), stamp(0, "w-1"), "halted"),
        State.QUEUED: queued(),
        State.LEASED: held,
        State.RETRYING: machine.retry(held, stamp(1, "w-2"), ERROR, T0 + 5000, message_held=True),
        State.COMPLETED: machine.succeed(held, stamp(1, "w-2"), None),
        State.DEAD_LETTERED: machine.bury(held, stamp(1, "w-2"), ERROR, "gave_up"),
        State.CANCELLED: machine.cancel(queued(), stamp(1, "w-1"), "not needed"),
        State.EXPIRED: machine.expire(queued(), stamp(1, "w-1")),
    }[state]
    assert made.state is state
    return replace(made, **changes)


def dead(**changes: Any) -> Row:
    """An open dead letter whose letter was sent."""
    return replace(machine.confirm_letter(in_state(State.DEAD_LETTERED), stamp(2, "w-3")), **changes)


def envelope(row: Row | None = None, **changes: Any) -> Envelope:
    """The message of a row."""
    return replace(envelope_of(row or queued(), PAYLOAD), **changes)


def arrival(row: Row | None = None, *, receive_count: int = 1, **changes: Any) -> Arrival:
    """A delivery of a row's message."""
    return Arrival(envelope(row), receive_count, **changes)


OPEN = Disposition("open")
