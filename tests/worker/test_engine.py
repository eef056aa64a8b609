"""The engine on the world in memory: from a delivery to a disposition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import tenure.core.machine as machine
from tenure.application import App
from tenure.core.outcome import GiveUp, LeaseLost, RetryAfter, Snooze
from tenure.core.retry import Retry
from tenure.core.task import State
from tenure.ports import Send
from tenure.worker.context import context
from tests.support.lab import Lab


def lab(handler: Callable[..., Any] | None = None, queue: str = "work", **task: Any) -> Lab:
    """A lab with one task, "work", that does as told and appends to `effects`."""
    app = App("lab")
    made = Lab(app, queue)

    def work(key: str = "") -> Any:
        made.effects.append((key, context().fence))
        return handler() if handler else "done"

    options = {"ordered_by": "key"} if queue == "ledger" else {}
    app.task(queue=queue, name="work", **options, **task)(work)
    return made


def raising(error: BaseException) -> Callable[[], Any]:
    def handler() -> Any:
        raise error

    return handler


class TestSuccess:
    def test_a_task_that_returns_is_completed_with_its_result_and_its_message_is_gone(self) -> None:
        it = lab()
        task_id = it.submit()
        it.work()
        row = it.row(task_id)
        assert (row.state, row.attempt, row.fence) == (State.COMPLETED, 1, 1)
        assert row.result is not None
        assert row.result.value == '"done"'
        assert it.messages() == 0

    def test_a_first_delivery_is_claimed_with_one_write_and_no_read(self) -> None:
        """R9: of three calls to the table, the submit's included, none is a read."""
        it = lab()
        it.submit()
        reads: list[int] = []
        original = it.world.store.get_many
        it.world.store.get_many = lambda keys: reads.append(len(keys)) or original(keys)  # type: ignore[method-assign]
        it.work()
        assert reads == []
        assert it.effects == [("", 1)]

    def test_a_redelivery_of_finished_work_is_deleted_and_runs_nothing(self) -> None:
        """R10: a final state."""
        it = lab()
        task_id = it.submit()
        it.work()
        it.send(it.row(task_id))
        it.work()
        assert it.effects == [("", 1)]
        assert it.messages() == 0

    def test_work_whose_result_cannot_be_stored_is_done_and_not_done_again(self) -> None:
        it = lab(lambda: float("nan"))
        task_id = it.submit()
        it.work_until_quiet()
        row = it.row(task_id)
        assert (row.state, row.reason, len(it.effects)) == (State.COMPLETED, "result_not_storable", 1)
        assert row.error is not None


class TestFailure:
    def test_a_failure_is_retried_by_visibility_and_counts_one_attempt(self) -> None:
        it = lab(raising(ValueError("no")), retry=Retry(max_attempts=3))
        task_id = it.submit()
        it.work()
        row = it.row(task_id)
        assert (row.state, row.failures, row.attempt) == (State.RETRYING, 1, 2)
        assert it.answers.deleted == []
        assert it.messages() == 1

    def test_attempts_used_up_end_as_a_dead_letter_that_tells_everything(self) -> None:
        """R21: row, letter, delete; error, fingerprint, attempts, first and last failure."""
        it = lab(raising(ValueError("no")), retry=Retry(max_attempts=3))
        task_id = it.submit()
        it.work_until_quiet()
        row = it.row(task_id)
        assert (row.state, row.reason, row.attempt, len(it.effects)) == (
            State.DEAD_LETTERED,
            "attempts_used_up",
            3,
            3,
        )
        assert row.error is not None
        assert (row.error.type, row.error.message) == ("ValueError", "no")
        assert len(row.error.fingerprint) == 10
        assert row.first_failed_at_ms < row.last_failed_at_ms
        assert row.letter_confirmed
        letters = it.letters()
        assert [letter.attributes["tenure-reason"] for letter in letters] == ["attempts_used_up"]

    def test_give_up_ends_at_once(self) -> None:
        it = lab(raising(GiveUp("bad iban")))
        task_id = it.submit()
        it.work()
        row = it.row(task_id)
        assert (row.state, row.reason, row.attempt) == (State.DEAD_LETTERED, "gave_up", 1)

    def test_give_up_on_is_not_retried(self) -> None:
        it = lab(raising(KeyError("x")), retry=Retry(give_up_on=(KeyError,)))
        task_id = it.submit()
        it.work()
        assert it.row(task_id).reason == "gave_up"

    def test_retry_after_waits_as_long_as_the_handler_said(self) -> None:
        it = lab(raising(RetryAfter("5m")))
        task_id = it.submit()
        before = it.world.clock.now_ms()
        it.work()
        row = it.row(task_id)
        assert row.due_at_ms - before == 300_000
        assert it.answers.kept == [(task_id, 300)]

    def test_a_snooze_costs_no_attempt(self) -> None:
        it = lab(raising(Snooze("1m")))
        task_id = it.submit()
        it.work()
        row = it.row(task_id)
        assert (row.state, row.failures, row.attempt) == (State.RETRYING, 0, 1)

    def test_a_long_wait_leaves_sqs_and_is_the_rows(self) -> None:
        """R20: the message is deleted, and the row says that reconcile sends another in time."""
        it = lab(raising(RetryAfter("2h")))
        task_id = it.submit()
        it.work()
        row = it.row(task_id)
        assert it.messages() == 0
        assert (row.state, row.message_gone) == (State.RETRYING, True)
        assert row.check_at_ms == row.due_at_ms - 900_000

    def test_no_attempt_is_planned_past_the_deadline(self) -> None:
        it = lab(raising(RetryAfter("5m")))
        task_id = it.submit(deadline_at_ms=it.world.clock.now_ms() + 60_000)
        it.work()
        assert (it.row(task_id).state, it.row(task_id).reason) == (State.DEAD_LETTERED, "deadline")


class TestEveryEndingHasOneOutcome:
    @pytest.mark.parametrize(
        "error",
        [
            SystemExit(0),
            SystemExit("bye"),
            KeyboardInterrupt(),
            GeneratorExit(),
            MemoryError(),
            StopIteration(),
            RecursionError(),
            BaseException("odd"),
        ],
        ids=repr,
    )
    def test_whatever_a_handler_raises_is_its_own_failure(self, error: BaseException) -> None:
        it = lab(raising(error))
        task_id = it.submit()
        it.work()
        row = it.row(task_id)
        assert row.state is State.RETRYING
        assert row.error is not None
        assert row.error.type == type(error).__name__

    def test_an_error_whose_text_explodes_is_still_told(self) -> None:
        class Broken(Exception):
            def __str__(self) -> str:
                raise RuntimeError("even this")

        it = lab(raising(Broken()))
        task_id = it.submit()
        it.work()
        error = it.row(task_id).error
        assert error is not None
        assert "could not be read: RuntimeError" in error.message

    def test_a_huge_message_is_bounded(self) -> None:
        it = lab(raising(ValueError("x" * 50_000_000)))
        task_id = it.submit()
        it.work()
        error = it.row(task_id).error
        assert error is not None
        assert len(error.message.encode()) <= 512
        assert len(error.traceback.encode()) <= 2048

    def test_a_generator_is_a_named_failure_and_never_a_result(self) -> None:
        it = lab(lambda: (n for n in range(3)))
        task_id = it.submit()
        it.work()
        row = it.row(task_id)
        assert row.state is State.DEAD_LETTERED
        assert row.error is not None
        assert "generator" in row.error.message


class TestLeases:
    def test_a_live_lease_is_never_taken_over(self) -> None:
        """R10: handed back for the rest of it, and nothing counted."""
        it = lab()
        task_id = it.submit()
        TestLeases.claim_and_die(it, "w1")
        it.world.advance(31)  # the queue gives the message again: its visibility is shorter than the lease
        it.send(it.row(task_id))
        it.work(it.engine("w2"))
        assert it.effects == []
        row = it.row(task_id)
        assert (row.fence, row.losses, row.worker) == (1, 0, "w1")

    def test_a_lease_that_lapsed_alone_is_a_loss_and_is_taken_over(self) -> None:
        """R10, R11."""
        it = lab(lease="30s")
        task_id = it.submit()
        self.claim_and_die(it, "w1")
        it.world.advance(70)
        it.work(it.engine("w2"))
        row = it.row(task_id)
        assert (row.state, row.losses, row.attempt, row.fence) == (State.COMPLETED, 1, 2, 2)

    def test_neighbours_in_a_batch_are_not_blamed_for_a_death(self) -> None:
        """R11: five claimed in company and lost count nothing; the next claim of each is alone."""
        it = lab(lease="30s", retry=Retry(max_attempts=2))
        tasks = [it.submit() for _ in range(5)]
        dying = it.engine("w1", max_running=2)
        units = it.admit(dying)
        assert all(unit.members[0].row is not None for unit in units), "claimed together"
        it.world.advance(70)  # its process is gone
        survivor = it.engine("w2", max_running=2)
        units = it.admit(survivor)
        assert [unit.exclusive for unit in units] == [True] * 5
        for unit in units:
            survivor.run(unit)
        assert [(it.row(t).state, it.row(t).losses) for t in tasks] == [(State.COMPLETED, 0)] * 5

    def test_a_task_that_kills_its_worker_is_buried_as_worker_lost(self) -> None:
        """R11: budgets compare failures and losses, so two deaths alone use two attempts up."""
        it = lab(lease="30s", retry=Retry(max_attempts=2))
        task_id = it.submit()
        for worker in ("w1", "w2"):
            self.claim_and_die(it, worker)
            it.world.advance(70)
        it.work(it.engine("w3"))
        row = it.row(task_id)
        assert (row.state, row.reason, row.attempt) == (State.DEAD_LETTERED, "worker_lost", 2)
        assert it.effects == []
        assert len(it.letters()) == 1

    def test_a_lease_that_ended_before_the_handler_was_called_runs_nothing(self) -> None:
        """R13."""
        it = lab(lease="30s")
        it.submit()
        it.submit()
        engine = it.engine(max_running=2)
        units = it.admit(engine)
        it.world.advance(31)
        for unit in units:
            engine.run(unit)
        assert it.effects == []
        assert len(it.events("lease.lost")) == 2

    @staticmethod
    def claim_and_die(it: Lab, worker: str) -> None:
        """Claim as a worker does just before it runs a task, and be gone."""
        engine = it.engine(worker)
        [unit] = it.admit(engine)
        held = unit.members[0]
        assert engine._claim(held, alone=True) == "claimed"


class TestHeartbeat:
    def test_a_beat_renews_the_lease_and_hides_the_message_row_first(self) -> None:
        """R14."""
        it = lab(lease="30s")
        calls: list[str] = []
        it.submit()
        it.submit()
        engine = it.engine(max_running=2)
        it.admit(engine)
        write, hide = it.world.store.write_many, it.queue.set_visibility_many
        it.world.store.write_many = lambda w: calls.append("row") or write(w)  # type: ignore[method-assign]
        it.queue.set_visibility_many = lambda c: calls.append("hide") or hide(c)  # type: ignore[method-assign]
        it.world.advance(9)
        engine.holder.tick()
        assert calls == [], "a task that ends within a third of its lease never pays"
        it.world.advance(2)
        engine.holder.tick()
        assert calls == ["row", "hide", "row", "hide"]

    def test_a_beaten_lease_outlives_its_first_term(self) -> None:
        it = lab(lease="30s")
        one, _ = it.submit(), it.submit()
        engine = it.engine(max_running=2)
        units = it.admit(engine)
        for _ in range(10):
            it.world.advance(11)
            engine.holder.tick()
        for unit in units:
            engine.run(unit)
        assert (it.row(one).state, it.row(one).fence) == (State.COMPLETED, 1)

    def test_a_handler_past_its_timeout_is_settled_as_failed_while_it_runs(self) -> None:
        seen: list[str] = []

        def slow() -> None:
            it.world.advance(21)
            engine.holder.tick()
            seen.append(it.row(task_id).state)
            context().progress(0.5)

        it = lab(slow, timeout="20s", lease="60s")
        task_id = it.submit()
        engine = it.engine()
        it.work(engine)
        row = it.row(task_id)
        assert seen == [State.RETRYING]
        assert row.error is not None
        assert (row.state, row.failures, row.error.type) == (State.RETRYING, 1, "TimedOut")
        assert it.messages() == 1


class TestCancelAndDeadline:
    def test_a_cancelled_task_does_not_run(self) -> None:
        it = lab()
        task_id = it.submit()
        it.rows.replace(it.row(task_id), machine.cancel(it.row(task_id), it.stamp(), "not wanted"))
        it.work()
        assert it.effects == []
        assert it.messages() == 0

    def test_a_cancel_request_turns_a_failure_into_cancelled(self) -> None:
        """R19: retry, snooze, release and takeover; only success stays success."""

        def handler() -> None:
            it.rows.replace(it.row(task_id), machine.request_cancel(it.row(task_id), it.stamp(), "enough"))
            raise ValueError("stopped")

        it = lab(handler)
        task_id = it.submit()
        it.work()
        row = it.row(task_id)
        assert (row.state, row.reason) == (State.CANCELLED, "enough")
        assert it.messages() == 0

    def test_a_success_stays_a_success_after_a_cancel_request(self) -> None:

        def handler() -> str:
            it.rows.replace(it.row(task_id), machine.request_cancel(it.row(task_id), it.stamp(), "too late"))
            return "done"

        it = lab(handler)
        task_id = it.submit()
        it.work()
        assert it.row(task_id).state is State.COMPLETED

    def test_a_task_past_its_deadline_expires_unrun(self) -> None:
        it = lab()
        task_id = it.submit(deadline_at_ms=it.world.clock.now_ms() + 10_000)
        it.world.advance(11)
        it.work()
        assert (it.row(task_id).state, it.effects) == (State.EXPIRED, [])
        assert it.messages() == 0


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
        assert len(it.events("task.handed_back")) == 9

    def test_a_paused_queue_hands_back_and_counts_nothing(self) -> None:
        it = lab()
        task_id = it.submit()
        it.work(it.engine(paused=lambda queue: True))
        row = it.row(task_id)
        assert (row.state, row.version, it.effects) == (State.QUEUED, 1, [])


class TestRelease:
    def test_unstarted_tasks_go_back_at_once_and_cost_nothing(self) -> None:
        """R17."""
        it = lab()
        tasks = [it.submit(), it.submit()]
        engine = it.engine(max_running=2)
        for unit in it.admit(engine):
            engine.release(unit)
        assert [(it.row(t).state, it.row(t).attempt, it.row(t).lease_token) for t in tasks] == [
            (State.QUEUED, 1, "")
        ] * 2
        assert len(it.receive()) == 2, "visible again at once"

    def test_a_started_task_handed_over_without_a_checkpoint_counts_a_failure(self) -> None:

        def handler() -> None:
            engine.hand_over()
            assert context().cancelled
            raise RuntimeError("stopping")

        it = lab(handler)
        task_id = it.submit()
        engine = it.engine()
        it.work(engine)
        row = it.row(task_id)
        assert (row.state, row.failures) == (State.RETRYING, 1)

    def test_a_started_task_handed_over_with_a_newer_checkpoint_costs_nothing(self) -> None:

        def handler() -> None:
            context().checkpoint({"page": 3})
            engine.hand_over()
            raise RuntimeError("stopping")

        it = lab(handler)
        task_id = it.submit()
        engine = it.engine()
        it.work(engine)
        row = it.row(task_id)
        assert (row.state, row.failures, row.history[-1].event) == (State.RETRYING, 0, "release")

    def test_units_past_the_stop_time_are_released_unstarted(self) -> None:
        it = lab()
        task_id = it.submit()
        engine = it.engine()
        [unit] = it.admit(engine)
        engine.run(unit, stop_at_ms=it.world.clock.now_ms())
        assert it.effects == []
        assert it.row(task_id).state is State.QUEUED


class TestContext:
    def test_a_later_attempt_goes_on_from_the_checkpoint(self) -> None:
        seen: list[Any] = []

        def handler() -> str:
            ctx = context()
            seen.append(ctx.last_checkpoint)
            if ctx.attempt == 1:
                ctx.checkpoint({"page": 7})
                raise ValueError("in the middle")
            return "done"

        it = lab(handler)
        it.submit()
        it.work_until_quiet()
        assert seen == [None, {"page": 7}]

    def test_a_large_checkpoint_lies_beside_the_row(self) -> None:
        seen: list[Any] = []

        def handler() -> str:
            ctx = context()
            if ctx.attempt == 1:
                ctx.checkpoint("x" * 5000)
                raise ValueError("in the middle")
            seen.append(len(ctx.last_checkpoint))
            return "done"

        it = lab(handler)
        it.submit()
        it.work_until_quiet()
        assert seen == [5000]

    def test_a_recorded_step_is_not_run_again(self) -> None:
        charges: list[str] = []

        def handler() -> str:
            result = context().step("charge", lambda: charges.append("charged") or "receipt-1")
            if context().attempt == 1:
                raise ValueError("after the charge")
            return str(result)

        it = lab(handler)
        task_id = it.submit()
        it.work_until_quiet()
        row = it.row(task_id)
        assert charges == ["charged"]
        assert row.result is not None
        assert row.result.value == '"receipt-1"'

    def test_a_handler_that_lost_its_lease_is_told_past_its_own_except(self) -> None:
        """R15: LeaseLost is a BaseException, and nothing of the attempt is recorded."""
        told: list[str] = []

        def handler() -> str:
            it.change(task_id, lease_token="another's")
            try:
                context().checkpoint(1)
            except Exception:
                told.append("swallowed")
            except LeaseLost:
                told.append("lost")
                raise
            return "late"

        it = lab(handler)
        task_id = it.submit()
        it.work()
        row = it.row(task_id)
        assert told == ["lost"]
        assert (row.state, row.lease_token) == (State.LEASED, "another's")
        assert it.answers.deleted == []
        assert it.answers.kept == []


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


class TestUnsure:
    def test_without_an_answer_from_the_table_nothing_is_run_and_nothing_deleted(self) -> None:
        it = lab()
        task_id = it.submit()
        it.world.faults = replace(it.world.faults, store_unanswered=1.0)
        it.work()
        assert it.effects == []
        assert it.answers.deleted == []
        it.world.faults = replace(it.world.faults, store_unanswered=0.0)
        it.work_until_quiet()
        assert it.row(task_id).state is State.COMPLETED
