"""The engine on the world in memory: from a delivery to a disposition."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tenure.core.machine as machine
from tenure.core.outcome import GiveUp, RetryAfter, Snooze
from tenure.core.retry import Retry
from tenure.core.task import State
from tests.support.lab import lab, raising


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
        it.world.store.get_many = lambda keys: reads.append(len(keys)) or original(keys)  # type: ignore[method-assign] # seen
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

    def test_the_elapsed_time_of_a_task_leaves_out_its_wait_for_neighbours(self) -> None:
        """Two claimed together run one after the other, ten seconds each; a heartbeat keeps the second."""
        it = lab(lambda: it.world.advance(10))
        it.submit(), it.submit()
        it.work()
        assert [e["elapsed_ms"] for e in it.events("task.succeeded")] == [10_000, 10_000]

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
