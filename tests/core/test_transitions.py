"""Every step that a task's life may take, told a second time: what the table in core/machine.py says is compared with
this, and not with itself. A row that is taken out of the table, or leads elsewhere, is missed here by name."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tenure.core import machine
from tenure.core.errors import IllegalTransition
from tenure.core.machine import Event
from tenure.core.task import Row, State
from tests.core.building import T0, blank, queued, stamp
from tests.core.test_machine import apply

LIVES = """
    nothing        submit          queued
    nothing        schedule        scheduled

    queued         claim           leased
    retrying       claim           leased
    scheduled      claim           leased
    leased         claim           leased
    leased         beat            leased
    leased         succeed         completed
    leased         retry           retrying
    leased         snooze          retrying
    leased         release         retrying
    leased         unclaim         queued

    leased         bury            dead_lettered
    queued         bury            dead_lettered
    retrying       bury            dead_lettered
    scheduled      bury            dead_lettered
    dead_lettered  confirm_letter  dead_lettered
    dead_lettered  replay          queued
    dead_lettered  discard         dead_lettered

    queued         expire          expired
    scheduled      expire          expired
    waiting        expire          expired
    retrying       expire          expired
    leased         expire          expired

    scheduled      send            queued
    waiting        send            queued
    retrying       send            queued
    queued         send            queued
    leased         send            leased

    queued         park            waiting
    retrying       park            waiting

    queued         cancel          cancelled
    scheduled      cancel          cancelled
    waiting        cancel          cancelled
    retrying       cancel          cancelled
    leased         request_cancel  leased
    leased         cancel          cancelled

    queued         refuse          cancelled
    cancelled      submit          queued
    cancelled      schedule        scheduled
"""
STEPS = {(state, event): after for state, event, after in map(str.split, filter(str.strip, LIVES.splitlines()))}
"""(state, event) -> the state after it, as words. "nothing": there is no row."""


def happen(state: str, event: str) -> Row:
    """The event, to a task in that state that came there by nobody knows which way."""
    if state != "nothing":
        return apply(Event(event), replace(queued(), state=State(state)))
    due_at_ms = T0 + 3_600_000 if event == "schedule" else 0
    return machine.submitted(blank(due_at_ms=due_at_ms), stamp(10))


@pytest.mark.parametrize(("state", "event"), STEPS, ids=str)
def test_a_task_may_take_this_step_and_ends_up_there(state: str, event: str) -> None:
    assert happen(state, event).state.value == STEPS[state, event]


@pytest.mark.parametrize(
    ("state", "event"),
    [pair for pair in product([s.value for s in State], [e.value for e in Event]) if pair not in STEPS],
    ids=str,
)
def test_it_may_take_no_other(state: str, event: str) -> None:
    with pytest.raises(IllegalTransition):
        happen(state, event)
