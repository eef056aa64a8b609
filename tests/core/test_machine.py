"""The table of transitions is all there is: no pair beside it, whatever the life of a task."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tenure.core import limits, machine
from tenure.core.errors import IllegalTransition
from tenure.core.machine import TRANSITIONS, Event, next_state
from tenure.core.task import FINAL, Row, State
from tests.core.building import (
    ERROR,
    T0,
    blank,
    in_state,
    lease_of,
    queued,
    stamp,
)

PAIRS = list(product([None, *State], Event))


def refused() -> Any:
    """The history of a task that SQS refused."""
    return machine.refuse(queued(), stamp(), "AccessDenied").history


def apply(event: Event, row: Row) -> Row:
    """The constructor of each event, called at its plainest."""
    now = stamp(10)
    made: dict[Event, Any] = {
        Event.CLAIM: lambda: machine.claim(row, now, lease_of()),
        Event.BEAT: lambda: machine.beat(row, now, 60),
        Event.SUCCEED: lambda: machine.succeed(row, now, None),
        Event.RETRY: lambda: machine.retry(row, now, ERROR, now.now_ms + 1000, message_held=True),
        Event.SNOOZE: lambda: machine.snooze(row, now, now.now_ms + 1000, "later", message_held=True),
        Event.BURY: lambda: machine.bury(row, now, ERROR, "gave_up"),
        Event.RELEASE: lambda: machine.release(row, now, None),
        Event.UNCLAIM: lambda: machine.unclaim(row, now),
        Event.SEND: lambda: machine.send(row, now),
        Event.PARK: lambda: machine.park(row, now, "halted"),
        Event.REQUEST_CANCEL: lambda: machine.request_cancel(row, now, "not needed"),
        Event.CANCEL: lambda: machine.cancel(row, now, "not needed"),
        Event.EXPIRE: lambda: machine.expire(row, now),
        Event.REFUSE: lambda: machine.refuse(replace(row, history=queued().history), now, "no such queue"),
        Event.CONFIRM_LETTER: lambda: machine.confirm_letter(row, now),
        Event.REPLAY: lambda: machine.replay(row, now, "mended"),
        Event.DISCARD: lambda: machine.discard(row, now, "not worth it"),
        Event.SUBMIT: lambda: machine.reopen(replace(row, history=refused()), blank(), now),
        Event.SCHEDULE: lambda: machine.reopen(
            replace(row, history=refused()), blank(due_at_ms=now.now_ms + 3_600_000), now
        ),
    }
    result: Row = made[event]()
    return result


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=lambda each: str(each and each.value))
def test_the_table_alone_says_what_is_legal(state: State | None, event: Event) -> None:
    if (state, event) in TRANSITIONS:
        assert next_state(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransition, match=f"from {state.value if state else 'no row'} by {event.value}"):
            next_state(state, event)


@pytest.mark.parametrize(
    ("state", "event"), [pair for pair in PAIRS if pair[0] is not None], ids=lambda each: each.value
)
def test_each_constructor_obeys_the_table_and_stamps_its_write(state: State, event: Event) -> None:
    """Whatever pair is tried: the state that the table names, one version more, the new write id; or a refusal."""
    row = in_state(state)
    if (state, event) not in TRANSITIONS:
        with pytest.raises(IllegalTransition):
            apply(event, row)
        return
    before = replace(row)
    new = apply(event, row)
    assert row == before, "the row as last seen is never edited"
    assert new.state is TRANSITIONS[state, event]
    assert new.write_id == "w-new"
    assert (new.id, new.birth) == (row.id, row.birth)
    assert new.fence >= row.fence
    if event is not Event.REFUSE:
        assert new.version == row.version + 1
    if event is not Event.BEAT:
        assert new.history[-1].at_ms == T0 + 10_000
        assert new.history[-1].event == event.value


@pytest.mark.parametrize("state", State)
def test_final_states_end_everything_but_what_a_person_may_open(state: State) -> None:
    """Nothing that a worker or reconcile does leads out of a final state."""
    leaves = {event for (source, event), target in TRANSITIONS.items() if source is state and target is not state}
    if state is State.DEAD_LETTERED:
        assert leaves == {Event.REPLAY}
    elif state is State.CANCELLED:
        assert leaves == {Event.SUBMIT, Event.SCHEDULE}
    else:
        assert bool(leaves) == (state not in FINAL)


def test_every_state_can_be_reached_and_left() -> None:
    assert {target for target in TRANSITIONS.values()} == set(State)
    assert {source for source, _ in TRANSITIONS if source} >= set(State) - {State.COMPLETED, State.EXPIRED}
    assert {event for _, event in TRANSITIONS} == set(Event)


# ---- any life --------------------------------------------------------------------------------------------------
class Life(RuleBasedStateMachine):
    """Any sequence of events that the table allows."""

    def __init__(self) -> None:
        super().__init__()
        self.row = queued()
        self.versions = [1]
        self.fences = [0]
        self.now = 0.0

    @rule(data=st.data(), seconds=st.floats(0, 100_000))
    def happen(self, data: st.DataObject, seconds: float) -> None:
        legal = [e for s, e in TRANSITIONS if s is self.row.state and e not in (Event.SUBMIT, Event.SCHEDULE)]
        legal = [e for e in legal if e is not Event.REFUSE]
        if not legal:
            self.row = queued(birth=f"b{len(self.versions)}")
            self.versions, self.fences = [1], [0]
            return
        event = data.draw(st.sampled_from(legal))
        old = self.row
        self.now += seconds
        self.row = apply(event, old)
        self.versions.append(self.row.version)
        self.fences.append(self.row.fence)
        assert (self.row.fence == old.fence + 1) == (event is Event.CLAIM)

    @precondition(lambda self: self.row.state is State.LEASED)
    @rule()
    def look_again(self) -> None:
        self.row = machine.look_again(self.row, stamp(1), T0)
        self.versions.append(self.row.version)

    @invariant()
    def versions_rise_by_one_and_fences_never_fall(self) -> None:
        assert self.versions == list(range(1, len(self.versions) + 1))
        assert self.fences == sorted(self.fences)

    @invariant()
    def a_lease_is_held_while_leased_and_only_then(self) -> None:
        assert bool(self.row.lease_token) == (self.row.state is State.LEASED)

    @invariant()
    def the_row_stays_small(self) -> None:
        assert len(self.row.history) <= limits.HISTORY_EVENTS_MAX

    @invariant()
    def what_is_not_final_is_looked_at(self) -> None:
        """R25: nothing that still has to run is forgotten; a parked row waits for its key."""
        if self.row.state not in FINAL | {State.WAITING}:
            assert self.row.check_at_ms > 0


TestLife = Life.TestCase


def test_a_row_has_no_field_that_changes_without_the_machine() -> None:
    """Rows are frozen, so that only machine.py's `replace` makes another."""
    with pytest.raises((AttributeError, TypeError)):
        queued().version = 2  # type: ignore[misc] # the assignment that must fail
    assert {f.name for f in fields(Row)} >= {"version", "write_id", "birth"}
