"""What a submit does that meets a row under its id (R7, R8)."""

from __future__ import annotations

import pytest

from tenure.core import machine
from tenure.core.resubmission import Conflict, Found, Reopen, resubmit
from tenure.core.task import Row, State
from tests.core.building import blank, in_state, queued, stamp


@pytest.mark.parametrize("state", State)
def test_another_payload_under_the_same_key_is_a_conflict_in_every_state(state: State) -> None:
    assert isinstance(resubmit(in_state(state), blank(digest="other"), stamp()), Conflict)
    assert isinstance(resubmit(in_state(state), blank(task="other"), stamp()), Conflict)


@pytest.mark.parametrize("state", State)
def test_the_same_key_finds_the_same_task_in_every_state(state: State) -> None:
    found = resubmit(in_state(state), blank(birth="b2"), stamp())
    assert isinstance(found, Found)
    assert found.row == in_state(state)
    assert found.send == (state is State.QUEUED), "R8: what looks unsent is sent, as the same message"


@pytest.mark.parametrize("row", [queued(version=2), queued(sends=2)], ids=["touched", "sent again"])
def test_what_somebody_has_touched_is_not_sent_again(row: Row) -> None:
    assert resubmit(row, blank(), stamp()) == Found(row, False)


def test_a_refused_task_is_opened_again_and_one_cancelled_by_a_person_is_not() -> None:
    refused = machine.refuse(queued(), stamp(), "AccessDenied")
    again = resubmit(refused, blank(), stamp(1))
    assert isinstance(again, Reopen)
    assert again.row.state is State.QUEUED
    for reason in ("not needed", machine.REFUSED):
        cancelled = machine.cancel(queued(), stamp(), reason)
        assert resubmit(cancelled, blank(), stamp(1)) == Found(cancelled, False)
