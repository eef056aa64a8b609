"""S07: a FIFO batch that holds several groups, one of which fails: its rest goes back unrun, the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.application import App
from tenure.core.task import State
from tenure.ports import Send
from tests.support.lab import Lab
from tests.support.runtimes import Function


class Ledger:
    """An ordered queue of one task, whose handler fails for the names in `failing`."""

    def __init__(self) -> None:
        app = App("lab")
        self.lab = Lab(app, "ledger")
        self.failing: set[str] = set()
        self.effects: list[str] = []
        self.ids: dict[str, str] = {}

        def work(name: str, key: str) -> str:
            self.effects.append(name)
            if name in self.failing:
                raise ValueError(name)
            return name

        app.task(queue="ledger", name="work", ordered_by="key")(work)

    def submit(self, *names: str) -> None:
        """Tasks called by a letter, their key, and a number."""
        for name in names:
            self.ids[name] = self.lab.submit(args={"name": name, "key": name[0]}, ordering_key=name[0])

    def names_of(self, event: dict[str, Any], listed: list[str]) -> list[str]:
        by_message = {r["messageId"]: r["body"] for r in event["Records"]}
        by_task = {task_id: name for name, task_id in self.ids.items()}
        return [next((n for t, n in by_task.items() if t in by_message[m]), by_message[m]) for m in listed]


@pytest.mark.parametrize("threads", [1, 3])
def test_the_rest_of_a_failed_group_goes_back_unrun_and_other_groups_flow(threads):
    """First A1 and C1 fail; what follows A1 is neither run nor claimed. Then all succeed, in order; B ran once."""
    it = Ledger()
    function = Function(it.lab, threads=threads)
    it.submit("A1", "A2", "B1", "A3", "B2", "C1")
    it.failing = {"A1", "C1"}
    event = function.event()
    assert len(event["Records"]) == 6
    listed = it.names_of(event, function.invoke(event))
    assert sorted(listed) == ["A1", "A2", "A3", "C1"]
    assert sorted(it.effects) == ["A1", "B1", "B2", "C1"]
    assert it.effects.index("B1") < it.effects.index("B2")
    for name in ("A2", "A3"):
        row = it.lab.row(it.ids[name])
        assert (row.state, row.attempt, row.fence, row.lease_token) == (State.QUEUED, 1, 0, ""), name

    it.effects.clear()
    it.failing.clear()
    it.lab.world.advance(30)
    event = function.event()
    assert function.invoke(event) == []
    assert sorted(it.effects) == ["A1", "A2", "A3", "C1"]
    assert [name for name in it.effects if name[0] == "A"] == ["A1", "A2", "A3"]
    assert all(it.lab.row(task_id).state is State.COMPLETED for task_id in it.ids.values())
    assert it.lab.messages() == 0


def test_a_head_that_is_no_task_is_set_aside_and_what_follows_goes_back_unread():
    """The group is SQS's attribute, not the body's: A's foreign head goes to the DLQ, its rest is not run beside it."""
    it = Ledger()
    function = Function(it.lab)
    it.lab.queue.send_many([Send("hello", "A", "foreign-1")])
    it.submit("A2", "B1")
    event = function.event()
    assert it.names_of(event, function.invoke(event)) == ["A2"]
    assert it.effects == ["B1"]
    assert [letter.body for letter in it.lab.letters()] == ["hello"]
    it.lab.world.advance(1)
    assert function.invoke(function.event()) == []
    assert it.effects == ["B1", "A2"]


def test_a_record_without_a_group_on_a_fifo_queue_is_listed_and_nothing_crashes():
    """It cannot happen on AWS; if it does, its neighbours are served and it is not deleted."""
    it = Ledger()
    function = Function(it.lab)
    it.submit("A1", "B1")
    event = function.event()
    del event["Records"][0]["attributes"]["MessageGroupId"]
    assert it.names_of(event, function.invoke(event)) == ["A1"]
    assert it.effects == ["B1"]
