"""One attempt: what it saves, what its ending counts as, and what it leaves to the next one on its thread."""

from __future__ import annotations

import decimal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

from tenure.core.errors import PayloadMissing
from tenure.core.outcome import GiveUp
from tenure.core.retry import Retry
from tenure.core.task import State, Stored
from tenure.worker.context import context
from tests.support.lab import lab, raising


class TestSaved:
    def test_two_steps_at_once_are_both_recorded(self) -> None:
        """Neither thread writes from what it read before the other wrote."""
        both, ran = threading.Barrier(2), []

        def charge(name: str) -> str:
            ran.append(name)
            both.wait(10)
            return name

        def handler() -> list[str]:
            ctx = context()
            with ThreadPoolExecutor(2) as pool:
                told = list(pool.map(lambda name: ctx.step(name, lambda: charge(name)), ["card", "mail"]))
            if ctx.attempt == 1:
                raise ValueError("later")
            return told

        it = lab(handler)
        task_id = it.submit()
        it.work_until_quiet()
        assert sorted(ran) == ["card", "mail"]
        assert it.row(task_id).state is State.COMPLETED

    def test_a_checkpoint_inside_a_step_outlives_the_steps_own_record(self) -> None:
        """The step's record is added to what stands by then."""
        seen: list[Any] = []

        def handler() -> None:
            ctx = context()
            seen.append(ctx.last_checkpoint)
            if ctx.attempt == 1:
                ctx.step("import", lambda: ctx.checkpoint(5))
                raise ValueError("later")

        it = lab(handler)
        it.submit()
        it.work_until_quiet()
        assert seen == [None, 5]

    def test_what_is_handed_out_is_a_copy(self) -> None:
        """A handler that changes what it was given has recorded nothing."""
        seen: list[Any] = []

        def handler() -> None:
            ctx = context()
            seen.append((ctx.last_checkpoint, ctx.step("list", lambda: ["a"])))
            if ctx.attempt == 1:
                ctx.checkpoint(["a"])
                ctx.last_checkpoint.append("never done")
                ctx.step("list", lambda: ["b"]).append("never done")
                ctx.step("another", lambda: 1)
                raise ValueError("later")

        it = lab(handler)
        it.submit()
        it.work_until_quiet()
        assert seen == [(None, ["a"]), (["a"], ["a"])]


class TestEndings:
    def test_a_payload_that_is_gone_ends_its_task_with_the_reason(self) -> None:
        """No wait brings it back, so it is not asked for again and again: it is a dead letter to be replayed."""
        it = lab()
        task_id = it.submit()
        it.change(task_id, payload=Stored("object", f"{task_id}/P/w", 9), digest="another")

        def gone(place: Stored) -> str:
            raise PayloadMissing(f"no text lies at {place.value}")

        it.world.payloads.get = gone  # type: ignore[method-assign] # its bucket lost it
        it.work_until_quiet()
        row = it.row(task_id)
        assert (row.state, row.failures, it.effects) == (State.DEAD_LETTERED, 1, [])
        assert row.error is not None
        assert row.error.type == "tenure.PayloadMissing"
        assert len(it.letters()) == 1

    def test_giving_up_while_handing_over_is_no_release(self) -> None:
        """The handler has said that it never succeeds."""

        def handler() -> None:
            engine.hand_over()
            raise GiveUp("closed")

        it = lab(handler)
        task_id = it.submit()
        engine = it.engine()
        it.work(engine)
        assert it.row(task_id).state is State.DEAD_LETTERED

    @pytest.mark.parametrize("made", [lambda: Lazy(), lambda: Future[int](), lambda: map(str, [1])])
    def test_a_return_value_that_is_still_to_be_worked_off_is_a_failure(self, made: Callable[[], Any]) -> None:
        """Nobody will: "completed" would be a lie."""
        it = lab(made)
        task_id = it.submit()
        it.work()
        row = it.row(task_id)
        assert row.error is not None
        assert (row.state, row.error.type) == (State.DEAD_LETTERED, "tenure.InvalidPayload")
        assert "Await or consume it" in row.error.message

    @pytest.mark.parametrize("nested", [False, True])
    def test_a_task_groups_only_error_counts_as_itself(self, nested: bool) -> None:
        """GiveUp within a TaskGroup gives up."""
        error = ExceptionGroup("unhandled", [GiveUp("closed")])
        it = lab(raising(ExceptionGroup("outer", [error]) if nested else error), retry=Retry(max_attempts=5))
        task_id = it.submit()
        it.work()
        row = it.row(task_id)
        assert (row.state, row.attempt) == (State.DEAD_LETTERED, 1)


def test_what_a_handler_sets_in_its_context_is_not_the_next_ones() -> None:
    """Context variables and the precision of decimals belong to one attempt, whatever thread runs it."""
    seen: list[tuple[str, int]] = []

    def handler() -> None:
        seen.append((TENANT.get(), decimal.getcontext().prec))
        TENANT.set("the one before")
        decimal.getcontext().prec = 2
        assert context().attempt == 1

    it = lab(handler)
    engine = it.engine()
    for _ in range(2):
        it.submit()
        it.work(engine)
    assert seen == [("nobody", decimal.DefaultContext.prec)] * 2


TENANT = ContextVar("tenant", default="nobody")


class Lazy:
    """An awaitable of somebody's own."""

    def __await__(self) -> Iterator[None]:
        yield
