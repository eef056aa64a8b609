"""S29: async handlers on a process that stays warm, generators, coroutines that nobody awaited."""

from __future__ import annotations

import asyncio
import functools
import warnings
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from tenure.application import App
from tenure.core.errors import InvalidTask
from tenure.core.retry import Retry
from tenure.core.task import State
from tenure.worker.context import context
from tests.support.lab import Lab


async def returns() -> str:
    await asyncio.sleep(0)  # noqa: TID251 - one turn of the loop, no waiting
    return "awaited"


def gives_a_coroutine() -> Any:
    return returns()


class Callable_:
    """An object whose call is async."""

    async def __call__(self) -> str:
        return "awaited"


@pytest.mark.parametrize(
    "handler",
    [returns, gives_a_coroutine, functools.partial(returns), Callable_()],
    ids=["async def", "returns a coroutine", "partial", "async __call__"],
)
def test_three_invocations_of_one_process_all_await_their_handler(handler: Any) -> None:
    """No closed loop, no coroutine that was never awaited (which would be an error here)."""
    app = App("lab")
    app.task(queue="work", name="work")(handler)
    it = Lab(app)
    engine = it.engine()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                task_id = it.submit()
                it.work(engine)
                row = it.row(task_id)
                assert row.state is State.COMPLETED
                assert row.result is not None
                assert row.result.value == '"awaited"'
    finally:
        engine.close()


def test_a_client_bound_to_the_first_loop_serves_every_invocation() -> None:
    """One loop for the life of the process: what is bound to it stays good."""
    app, seen = App("lab"), []

    async def work() -> None:
        seen.append(asyncio.get_running_loop())

    app.task(queue="work", name="work")(work)
    it = Lab(app)
    engine = it.engine()
    try:
        for _ in range(3):
            it.submit()
            it.work(engine)
        assert len({id(loop) for loop in seen}) == 1
        assert not seen[0].is_closed()
    finally:
        engine.close()


def test_an_async_handler_that_raises_fails_like_any_other() -> None:
    app = App("lab")

    async def work() -> None:
        raise ValueError("no")

    app.task(queue="work", name="work", retry=Retry(max_attempts=1))(work)
    it = Lab(app)
    engine = it.engine()
    try:
        task_id = it.submit()
        it.work(engine)
        error = it.row(task_id).error
        assert error is not None
        assert (it.row(task_id).state, error.type, error.message) == (State.DEAD_LETTERED, "ValueError", "no")
    finally:
        engine.close()


def test_tasks_left_behind_are_cancelled_and_told() -> None:
    """They cannot go on under a fence that is no longer theirs."""
    app, ended = App("lab"), []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def work() -> str:
        left = asyncio.create_task(forever())
        await asyncio.sleep(0)  # noqa: TID251 - let it start
        return "done" if not left.done() else "?"

    app.task(queue="work", name="work")(work)
    it = Lab(app)
    engine = it.engine()
    try:
        task_id = it.submit()
        it.work(engine)
        assert it.row(task_id).state is State.COMPLETED
        assert ended == ["cancelled"]
        assert it.events("task.leftovers") == [{"task_id": task_id, "count": 1}]
    finally:
        engine.close()


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("handler", [generator, async_generator])
def test_generators_are_refused_where_they_are_declared(handler: Any) -> None:
    with pytest.raises(InvalidTask, match="generator"):
        App("lab").task(queue="work")(handler)


@pytest.mark.parametrize("make", [generator, async_generator, Future], ids=["generator", "async generator", "future"])
def test_what_is_no_result_is_never_taken_for_one(make: Any) -> None:
    """A generator has not run, so it is a failure; a future is a value that cannot be stored."""
    app = App("lab")
    app.task(queue="work", name="work")(lambda: make())
    it = Lab(app)
    task_id = it.submit()
    it.work()
    row = it.row(task_id)
    assert row.result is None
    assert row.error is not None
    assert row.error.type.endswith("InvalidPayload")


def test_two_async_records_of_one_batch_keep_their_own_context() -> None:
    app, seen = App("lab"), []

    async def work(n: int) -> None:
        before = context().task_id
        for _ in range(3):
            await asyncio.sleep(0)  # noqa: TID251 - let the other one in
        seen.append((n, before, context().task_id))

    app.task(queue="work", name="work")(work)
    it = Lab(app)
    ids = [it.submit(args={"n": n}) for n in range(2)]
    engine = it.engine(max_running=2)
    try:
        units = it.admit(engine)
        threads = [
            it.world.threads.start(f"runner-{n}", lambda unit=unit: engine.run(unit)) for n, unit in enumerate(units)
        ]
        assert all(thread.join(10) for thread in threads)
        assert sorted(seen) == [(n, ids[n], ids[n]) for n in range(2)]
    finally:
        engine.close()
