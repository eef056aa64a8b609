"""Deliveries that may not run: other lives, no row, unknown tasks, pauses; and the order of a key."""

from __future__ import annotations

from tenure.core.outcome import GiveUp, RetryAfter
from tenure.core.task import State
from tenure.ports import Send
from tests.support.lab import lab, raising


class TestAside:
    def test_a_message_of_another_life_is_deleted(self) -> None:
        """R5."""
        it = lab()
        task_id = it.submit()
        it.change(task_id, birth="another")
        it.work()
        assert it.effects == []
        assert it.messages() == 0

    def test_a_message_without_a_row_is_quarantined(self) -> None:
        it = lab()
        task_id = it.submit()
        it.send(it.row(task_id))
        del it.world.store._items[next(iter(it.world.store._items))]
        it.work()
        assert it.effects == []
        assert all("no row" in letter.attributes["tenure-reason"] for letter in it.letters())

    def test_a_quarantined_message_keeps_its_attributes_and_their_types(self) -> None:
        it = lab()
        it.queue.send_many([Send("hello", attributes={"n": "12"}, attribute_types={"n": "Number"})])
        it.work()
        [letter] = it.letters()
        assert (letter.body, letter.attributes["n"], letter.attribute_types["n"]) == ("hello", "12", "Number")

    def test_an_unknown_task_is_handed_back_through_a_deployment_and_then_buried(self) -> None:
        it = lab()
        task_id = it.submit("nobody_knows")
        it.work_until_quiet(step_seconds=61)
        row = it.row(task_id)
        assert (row.state, row.reason, row.failures) == (State.DEAD_LETTERED, "unrunnable", 0)
        assert row.error is not None
        assert "it knows: work" in row.error.message
        assert len(it.events("task.handed_back")) == 10

    def test_receives_that_retries_used_up_do_not_shorten_a_deployments_time(self) -> None:
        """A task received often for other reasons is not buried by the first worker that does not know it."""
        it = lab()
        task_id = it.submit("nobody_knows")
        for _ in range(12):
            it.receive()
            it.world.advance(61)
        it.change(task_id, due_at_ms=it.world.clock.now_ms())
        it.work()
        assert it.row(task_id).state is State.QUEUED
        assert it.events("task.handed_back")[-1]["seconds"] == 60

    def test_a_paused_queue_hands_back_and_counts_nothing(self) -> None:
        it = lab()
        task_id = it.submit()
        it.work(it.engine(paused=lambda queue: True))
        row = it.row(task_id)
        assert (row.state, row.version, it.effects) == (State.QUEUED, 1, [])


class TestOrder:
    def test_a_successor_waits_until_its_head_is_seen_final(self) -> None:
        """R23: after a failed head the rest of the group goes back unclaimed, with visibility 0."""
        fails = [True]

        def handler() -> str:
            if fails.pop() if fails else False:
                raise ValueError("first time")
            return "done"

        it = lab(handler, queue="ledger")
        ids = [it.submit(id=n, args={"key": "a"}, ordering_key="a") for n in ("a1", "a2", "a3")]
        it.work()
        assert it.row("a1").state is State.RETRYING
        assert [(it.row(n).state, it.row(n).version) for n in ids[1:]] == [(State.QUEUED, 1)] * 2
        assert it.answers.kept[1:] == [("a2", 0), ("a3", 0)]
        it.work_until_quiet()
        starts = [it.row(n).last_started_at_ms for n in ids]
        assert [it.row(n).state for n in ids] == [State.COMPLETED] * 3
        assert starts == sorted(starts)

    def test_groups_do_not_wait_for_each_other(self) -> None:
        it = lab(queue="ledger")
        for n in ("a1", "b1", "a2", "b2"):
            it.submit(id=n, args={"key": n[0]}, ordering_key=n[0])
        units = it.admit(it.engine())
        assert [[held.envelope.id for held in unit.members] for unit in units] == [["a1", "a2"], ["b1", "b2"]]
        assert all(held.row is None for unit in units for held in unit.members), "never claimed together"

    def test_a_buried_head_lets_the_next_one_flow(self) -> None:
        """R24, skip."""
        first = [True]

        def handler() -> str:
            if first:
                first.clear()
                raise GiveUp("bad head")
            return "done"

        it = lab(handler, queue="ledger")
        for n in ("a1", "a2"):
            it.submit(id=n, args={"key": "a"}, ordering_key="a")
        it.work()
        assert (it.row("a1").state, it.row("a2").state) == (State.DEAD_LETTERED, State.COMPLETED)

    def test_an_ordered_task_never_leaves_its_queue_to_wait(self) -> None:
        """R20: even a wait of two hours is done by visibility, which keeps the group locked."""
        it = lab(raising(RetryAfter("2h")), queue="ledger")
        it.submit(id="a1", args={"key": "a"}, ordering_key="a")
        it.work()
        assert (it.messages(), it.row("a1").message_gone) == (1, False)
        assert it.answers.kept == [("a1", 7200)]
