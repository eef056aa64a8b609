"""Whatever others give as a text comes to lie in the row as a text that any table takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure.core import decide, limits, machine
from tenure.core.decide import Ending
from tenure.core.outcome import GiveUp, RetryAfter, Snooze, of_exception
from tenure.core.record import to_data
from tenure.core.retry import Retry
from tenure.core.task import Row, State
from tests.core.building import dead, in_state, lease_of, leased, queued, stamp

GIVEN = {"an exception": ValueError("not yet"), "half a character": "file \udcff", "much": "x" * 450_000, "none": None}
ROW_BYTES_MAX = 2000


def settled(signal: Exception) -> Row:
    """The row after a handler raised this."""
    outcome = of_exception(signal, Retry())
    settlement = decide.settle(leased(), outcome, Ending(Retry(), ordered=False, jitter=0.0), stamp(1))
    assert settlement is not None
    return settlement.row


WRITES: dict[str, Callable[[Any], Row]] = {
    "snooze": lambda text: settled(Snooze("5s", text)),
    "retry after": lambda text: settled(RetryAfter("5s", text)),
    "give up": lambda text: settled(GiveUp(text)),
    "cancel": lambda text: machine.cancel(queued(), stamp(1), text),
    "cancel asked": lambda text: machine.request_cancel(leased(), stamp(1), text),
    "refuse": lambda text: machine.refuse(queued(), stamp(1), text),
    "replay": lambda text: machine.replay(dead(), stamp(1, by=text), text),
    "discard": lambda text: machine.discard(dead(), stamp(1, by=text), text),
    "park": lambda text: machine.park(queued(), stamp(1), text),
    "worker": lambda text: machine.claim(queued(), stamp(1), lease_of(worker=text, pool=text)),
}


def texts(value: Any) -> list[Any]:
    """Every leaf of plain data."""
    if isinstance(value, (list, dict)):
        return [leaf for each in (value.values() if isinstance(value, dict) else value) for leaf in texts(each)]
    return [value]


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN.keys())
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_whatever_is_given_the_row_can_be_written(write: Callable[[Any], Row], given: Any) -> None:
    """Else no ending would stand, and the task would be buried as one that kills its workers."""
    leaves = texts(to_data(write(given)))
    assert {type(leaf) for leaf in leaves} <= {str, int, bool}
    assert sum(len(leaf.encode()) for leaf in leaves if isinstance(leaf, str)) <= ROW_BYTES_MAX


def test_a_reason_that_fits_is_kept_as_it_is() -> None:
    """In whole in the row, and its head in the history."""
    row = machine.cancel(queued(), stamp(1), "é" * 250)
    assert row.reason == "é" * 250
    assert len(row.history[-1].detail.encode()) <= limits.DETAIL_BYTES_MAX


def test_an_error_class_with_an_endless_name_is_recorded() -> None:
    """A class made at run time may be named anything."""
    row = settled(type("E" + "x" * 10_000, (Exception,), {})("no"))
    assert row.error is not None
    assert len(row.error.type.encode()) <= limits.NAME_BYTES_MAX


def test_only_what_sqs_refused_is_refused_whatever_people_say() -> None:
    """A cancel whose reason is the word itself stays a cancel."""
    cancelled = machine.cancel(queued(), stamp(1), machine.REFUSED)
    assert (cancelled.state, cancelled.refused) == (State.CANCELLED, False)
    assert machine.refuse(queued(), stamp(1), "AccessDenied").refused
    assert not in_state(State.QUEUED).refused
