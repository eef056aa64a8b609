"""The running attempt as its handler sees it."""

from __future__ import annotations

from typing import Any

from tenure.core.outcome import LeaseLost
from tenure.core.task import State
from tenure.worker.context import context
from tests.support.lab import lab


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
