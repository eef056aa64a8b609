"""Async handlers end before their attempt does, whatever they do about being cancelled."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from tenure.adapters.memory import World
from tenure.worker.coroutines import LEFTOVER_SECONDS, Coroutines


def test_a_handler_that_does_not_heed_its_cancel_is_waited_for() -> None:
    """It would go on beside the next task of its process, which may have to run alone."""
    assert _cancelled_after_a_second(_stubborn) == ("its value", 60)


def test_a_handler_that_heeds_its_cancel_ends_at_once() -> None:
    """And its attempt with it."""
    assert _cancelled_after_a_second(_patient) == ("cancelled", 1)


def test_a_handler_that_is_cancelled_before_it_begins_never_does() -> None:
    """The lease was lost between the call and its first step."""
    begun: list[str] = []

    async def handler() -> None:
        begun.append("begun")

    assert _run(handler, lambda cancel, world: cancel()) == ("cancelled", 0)
    assert not begun


async def _stubborn() -> str:
    loop = asyncio.get_running_loop()
    until = loop.time() + 60
    while loop.time() < until:
        try:
            await _until(until)
        except asyncio.CancelledError:
            continue
    return "its value"


async def _patient() -> None:
    await _until(asyncio.get_running_loop().time() + 60)


async def _until(moment: float) -> None:
    loop = asyncio.get_running_loop()
    there = loop.create_future()
    loop.call_at(moment, lambda: there.done() or there.set_result(None))
    await there


def _cancelled_after_a_second(handler: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[str, int]:
    def cancel_later(cancel: Callable[[], None], world: World) -> None:
        def body() -> None:
            world.clock.sleep(1)
            cancel()

        world.threads.start("canceller", body)

    return _run(handler, cancel_later)


def _run(
    handler: Callable[[], Coroutine[Any, Any, Any]], started: Callable[[Callable[[], None], World], None]
) -> tuple[str, int]:
    """What came of it, and after how many virtual seconds."""
    told: list[tuple[str, int]] = []
    with World() as world:
        coroutines = Coroutines(world.threads, world.loops)

        def body() -> None:
            begun_ms = world.clock.now_ms()
            try:
                value, _ = coroutines.run(handler(), lambda cancel: started(cancel, world))
            except asyncio.CancelledError:
                value = "cancelled"
            told.append((value, round((world.clock.now_ms() - begun_ms) / 1000)))

        world.spawn("worker", body)
        world.run(seconds=120)
    return told[0]


def test_a_child_task_that_exits_fails_its_handler_and_no_other() -> None:
    """SystemExit in any task of a loop ends the loop, and with it whatever else runs on it and will."""

    async def child() -> None:
        sys.exit(2)

    async def culprit() -> None:
        await asyncio.gather(child(), _patient())

    async def forgets_its_child() -> None:
        child_task = asyncio.create_task(child())
        await _patient()
        child_task.cancel()

    assert _beside_each_other(culprit, forgets_its_child, _short, _short) == [
        "SystemExit",
        "SystemExit",
        "ok",
        "ok",
        "ok",
    ]


def test_a_stopped_loop_fails_what_runs_on_it_and_is_replaced() -> None:
    """Promptly: nobody waits for a timeout; and the next handlers have a loop that runs."""

    async def stops() -> None:
        await _soon()
        asyncio.get_running_loop().stop()
        await _patient()

    async def exits_in_a_callback() -> None:
        await _soon()
        asyncio.get_running_loop().call_soon(sys.exit, 2)
        await _patient()

    for culprit in (stops, exits_in_a_callback):
        assert _beside_each_other(culprit, _short) == ["RuntimeError", "RuntimeError", "ok"]


def test_a_leftover_that_swallows_its_cancel_does_not_keep_a_handler_from_returning() -> None:
    """Its value stands, and what was left behind is counted: it, and whatever it started in its place."""
    ran_on: list[float] = []

    async def again() -> None:
        while True:
            ran_on.append(asyncio.get_running_loop().time())
            await _until(asyncio.get_running_loop().time() + 1)

    async def restarts() -> None:
        try:
            await _patient()
        finally:
            _ = asyncio.create_task(again())  # noqa: RUF006 - a supervisor that restarts its worker

    async def handler(child: Callable[[], Coroutine[Any, Any, Any]]) -> str:
        task = asyncio.create_task(child())
        await _soon()
        assert not task.done()
        return "its value"

    assert _run(lambda: handler(_stubborn), lambda cancel, world: None) == ("its value", LEFTOVER_SECONDS)
    assert _run(lambda: handler(restarts), lambda cancel, world: None) == ("its value", 0)
    assert len(ran_on) <= 1, "it is ended as well"


def test_finished_tasks_of_a_handler_are_forgotten() -> None:
    """A handler that starts tasks for hours does not keep each of them, and its result, until it ends."""
    alive: list[int] = []

    async def handler() -> None:
        for _ in range(5):
            values = weakref.WeakSet[Any]()

            async def child(values: weakref.WeakSet[Any] = values) -> object:
                value = type("Value", (), {})()
                values.add(value)
                return value

            await asyncio.create_task(child())
            await _soon()
            gc.collect()
            alive.append(len(values))

    _run(handler, lambda cancel, world: None)
    assert alive == [0] * 5


async def _soon() -> None:
    await _until(asyncio.get_running_loop().time() + 0.1)


async def _short() -> str:
    await _until(asyncio.get_running_loop().time() + 1)
    return "ok"


def _beside_each_other(*handlers: Callable[[], Coroutine[Any, Any, Any]]) -> list[str]:
    """How each ended on one loop, and after those a short one. Raises if one of them waited for long."""
    with World() as world:
        coroutines = Coroutines(world.threads, world.loops)
        told = [""] * len(handlers)

        def run(handler: Callable[[], Coroutine[Any, Any, Any]]) -> str:
            try:
                value, _ = coroutines.run(handler(), lambda cancel: None)
            except (SystemExit, RuntimeError, asyncio.CancelledError) as error:
                return type(error).__name__
            return str(value)

        def body() -> None:
            def member(index: int) -> None:
                told[index] = run(handlers[index])

            threads = [world.threads.start("runner", partial(member, index)) for index in range(len(handlers))]
            assert all(thread.join(30) for thread in threads), "one of them hangs"
            told.append(run(_short))

        world.spawn("worker", body)
        world.run(seconds=120)
    return told
