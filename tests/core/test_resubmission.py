"""What a submit does that meets a row under its id (R7, R8)."""

from __future__ import annotations

import pytest

from tenure.core import limits, machine
from tenure.core.errors import IllegalTransition
from tenure.core.resubmission import Conflict, Found, Rely, Reopen, resubmit
from tenure.core.task import Row, State
from tests.core.building import blank, in_state, queued, stamp


@pytest.mark.parametrize("state", State)
def test_another_payload_under_the_same_key_is_a_conflict_in_every_state(state: State) -> None:
    assert isinstance(resubmit(in_state(state), blank(digest="other"), stamp()), Conflict)
    assert isinstance(resubmit(in_state(state), blank(task="other"), stamp()), Conflict)


@pytest.mark.parametrize("state", State)
def test_the_same_key_finds_the_same_task_in_every_state(state: State) -> None:
    found = resubmit(in_state(state), blank(birth="b2"), stamp(limits.RELY_SECONDS))
    assert isinstance(found, Found)
    assert found.row == in_state(state)
    assert found.send == (state is State.QUEUED), "R8: what looks unsent is sent, as the same message"


REFUSED = machine.refuse(queued(), stamp(), "AccessDenied")


@pytest.mark.parametrize("row", [queued(), machine.reopen(REFUSED, blank(), stamp())], ids=["new", "opened again"])
def test_a_row_that_its_writer_may_still_take_back_is_written_before_it_is_found(row: Row) -> None:
    """A submit that returned is not undone by the refusal of another's message (R8)."""
    found = resubmit(row, blank(birth="b2"), stamp(limits.RELY_SECONDS - 1))
    assert isinstance(found, Rely)
    assert (found.row.version, found.row.sends, found.send) == (row.version + 1, row.sends, True)
    assert found.row.deduplication_id == row.deduplication_id, "where FIFO has it, the second message is no other"
    with pytest.raises(IllegalTransition, match="somebody has it"):
        machine.refuse(found.row, stamp(), "AccessDenied")


def test_a_message_beside_one_that_is_being_sent_would_only_cost() -> None:
    found = resubmit(queued(), blank(), stamp(limits.RESUBMIT_GRACE_SECONDS - 1))
    assert isinstance(found, Rely)
    assert not found.send


@pytest.mark.parametrize(
    "row", [machine.rely(queued(), stamp()), machine.send(queued(), stamp())], ids=["found before", "sent again"]
)
def test_what_somebody_has_touched_costs_no_write_and_no_message(row: Row) -> None:
    assert resubmit(row, blank(), stamp(9)) == Found(row, False)


def test_a_refused_task_is_opened_again_and_one_cancelled_by_a_person_is_not() -> None:
    refused = machine.refuse(queued(), stamp(), "AccessDenied")
    again = resubmit(refused, blank(), stamp(1))
    assert isinstance(again, Reopen)
    assert again.row.state is State.QUEUED
    for reason in ("not needed", machine.REFUSED):
        cancelled = machine.cancel(queued(), stamp(), reason)
        assert resubmit(cancelled, blank(), stamp(1)) == Found(cancelled, False)
