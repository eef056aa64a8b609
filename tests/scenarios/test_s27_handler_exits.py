"""S27: SystemExit, KeyboardInterrupt and their like, raised by a handler, are that task's failure and nobody else's."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tenure.application import App
from tenure.core.retry import Retry
from tenure.core.task import State
from tests.support.lab import Lab


class OwnBase(BaseException):
    """A user's own BaseException."""


def exit_in_a_thread() -> None:
    thread = threading.Thread(target=lambda: sys.exit(3))  # noqa: TID251 - what a handler might do
    thread.start()
    thread.join()
    raise RuntimeError("its thread left")


def thrown(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


ENDINGS: dict[str, tuple[Callable[[], None], str]] = {
    "SystemExit(0)": (thrown(SystemExit(0)), "SystemExit"),
    "SystemExit('bye')": (thrown(SystemExit("bye")), "SystemExit"),
    "KeyboardInterrupt": (thrown(KeyboardInterrupt()), "KeyboardInterrupt"),
    "CancelledError": (thrown(asyncio.CancelledError()), "asyncio.exceptions.CancelledError"),
    "GeneratorExit": (thrown(GeneratorExit()), "GeneratorExit"),
    "MemoryError": (thrown(MemoryError()), "MemoryError"),
    "RecursionError": (thrown(RecursionError()), "RecursionError"),
    "StopIteration": (thrown(StopIteration()), "StopIteration"),
    "BaseException": (thrown(OwnBase()), "tests.scenarios.test_s27_handler_exits.OwnBase"),
    "exit() in a thread": (exit_in_a_thread, "RuntimeError"),
}


# A thread that leaves by SystemExit is what one of these handlers does; pytest would call it an accident.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ENDINGS)
def test_the_neighbours_succeed_and_the_worker_goes_on(name: str, threads: int, kind: str) -> None:
    """A batch [ok, X, ok]: X is recorded with its type and comes back; both others are completed, once."""
    act, type_name = ENDINGS[name]
    if kind == "async" and name == "StopIteration":
        pytest.xfail(
            "a coroutine cannot raise StopIteration: Python itself makes a RuntimeError of it"
        ) if False else None
        type_name = "RuntimeError"
    app, ran = App("lab"), []

    def ok(n: int) -> int:
        ran.append(n)
        return n

    def bad() -> None:
        act()

    async def bad_async() -> None:
        act()

    app.task(queue="work", name="ok")(ok)
    declare: Any = app.task(queue="work", name="x", retry=Retry(max_attempts=2))
    declare(bad if kind == "sync" else bad_async)
    it = Lab(app)
    one, bad_one, two = it.submit("ok", args={"n": 1}), it.submit("x"), it.submit("ok", args={"n": 2})
    engine = it.engine(max_running=threads)
    try:
        it.work(engine)
        assert [it.row(t).state for t in (one, two)] == [State.COMPLETED] * 2
        row = it.row(bad_one)
        assert row.state is State.RETRYING
        assert row.error is not None
        assert row.error.type == type_name
        assert sorted(it.answers.deleted) == sorted([one, two]), "SystemExit(0) is no success"
        later = it.submit("ok", args={"n": 3})
        it.work(engine)
        assert it.row(later).state is State.COMPLETED
        assert ran == [1, 2, 3]
    finally:
        engine.close()
