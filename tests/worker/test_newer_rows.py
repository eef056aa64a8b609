"""While a deployment is under way, a worker meets rows that a newer tenure wrote: it decides nothing about them, lets
their messages come back to the new workers, and serves everybody else's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.core.errors import UnsupportedVersion
from tenure.core.task import State
from tenure.rows import Unknown, row_key
from tests.support.lab import Lab, lab


def make_newer(made: Lab, task_id: str) -> None:
    """A newer tenure moves this row into a state of its own."""
    key = row_key(task_id)
    item = made.item(task_id)
    made.world.store._items[key] = replace(
        item, version=item.version + 1, write_id="newer", data={**item.data, "st": "halted", "v": item.version + 1}
    )


def test_a_row_of_a_newer_tenure_is_handed_back_and_no_neighbour_waits_for_it() -> None:
    """First deliveries are claimed without a read, so the refusal is what brings the row."""
    made = lab()
    ids = [made.submit(args={"key": str(n)}) for n in range(3)]
    make_newer(made, ids[1])
    made.work()
    assert sorted(made.effects) == [("0", 1), ("2", 1)]
    assert made.answers.deleted == [ids[0], ids[2]]
    assert made.answers.kept == [(ids[1], 30)]
    assert made.item(ids[1]).write_id == "newer", "nothing was written over it"


def test_read_in_a_batch_it_is_handed_back_alone() -> None:
    """Second deliveries are read together, and one that cannot be read is no reason to leave the others."""
    made = lab()
    ids = [made.submit(args={"key": str(n)}) for n in range(3)]
    made.receive()
    made.world.advance(61)
    make_newer(made, ids[1])
    made.work()
    assert sorted(made.effects) == [("0", 1), ("2", 1)]
    assert made.answers.kept == [(ids[1], 60)]
    assert "newer tenure" in made.events("task.handed_back")[0]["why"]
    assert made.events("engine.failed") == []


@pytest.mark.parametrize("max_running", [1, 4])
def test_on_an_ordered_queue_its_successors_wait_with_it(max_running: int) -> None:
    """R23: its head is not seen final, so nothing of the group runs; another group does."""
    made = lab(queue="ledger")
    ids = [made.submit(args={"key": key}, ordering_key=key) for key in ("a", "a", "b")]
    made.receive()
    made.world.advance(61)
    make_newer(made, ids[0])
    made.work(made.engine(max_running=max_running))
    assert made.effects == [("b", 1)]
    assert made.answers.deleted == [ids[2]]


def test_a_row_that_a_newer_tenure_moved_under_a_running_attempt_is_not_settled_over() -> None:
    """Neither judged lost nor won: the message stays, and whoever can read the row goes on."""
    made = lab(lambda: make_newer(made, task_id))
    task_id = made.submit()
    made.work()
    assert made.item(task_id).write_id == "newer"
    assert made.answers.deleted == []
    assert [each["task_id"] for each in made.events("settle.unknown")] == [task_id]


def test_a_refused_write_that_bears_such_a_row_concludes_nothing() -> None:
    made = lab()
    task_id = made.submit(send=False)
    seen = made.row(task_id)
    make_newer(made, task_id)
    outcome = made.rows.replace(seen, replace(seen, version=2, state=State.CANCELLED))
    assert isinstance(outcome, Unknown)
    assert "newer tenure" in outcome.error
    with pytest.raises(UnsupportedVersion):
        made.rows.get(task_id)
