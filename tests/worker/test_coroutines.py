"""Async handlers end before their attempt does, whatever they do about being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tenure.adapters.memory import World
from tenure.worker.coroutines import Coroutines


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
