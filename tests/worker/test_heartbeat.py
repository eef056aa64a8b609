"""The heartbeat thread serves all: nothing that is slow for one task may keep it from the leases of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

import tenure
from tenure.adapters.memory import World
from tenure.core.retry import Retry
from tenure.core.task import State, Stored
from tests.support.lab import Lab, topology

SLOW_SECONDS = 18
"""Longer than the lease of ten seconds; one of the adapter's calls may take as long, its tries counted."""


def _beside(it: Lab) -> None:
    """The app's tasks on two threads of one worker under virtual time, its heartbeat on a third."""
    for name in it.app.tasks:
        it.submit(name)

    def body() -> None:
        engine = it.engine(max_running=2, loops=it.world.loops)
        engine.holder.start()
        units = it.admit(engine)
        threads = [it.world.threads.start("runner", partial(engine.run, unit)) for unit in units]
        for thread in threads:
            thread.join()
        engine.holder.stop()

    it.world.spawn("worker", body)
    it.world.run(seconds=300)


@pytest.fixture
def it() -> Iterator[Lab]:
    """A lab with a healthy task of 25 seconds that stops when it is told to."""
    app = tenure.App("lab")

    @app.task(queue="work", name="healthy", lease="10s")
    def healthy() -> str:
        for _ in range(25):
            world.clock.sleep(1)
            if tenure.context().cancelled:
                return "told to stop"
        return "done"

    with World(topology=topology()) as world:
        yield Lab(app, world=world)


def test_a_slow_upload_of_a_checkpoint_costs_no_neighbour_its_lease(it: Lab) -> None:
    """The heartbeat does not wait for the text, only for the row's write."""

    @it.app.task(queue="work", name="saver", lease="10s")
    def saver() -> str:
        tenure.context().checkpoint("x" * 100_000)
        return "saved"

    put = it.world.payloads.put

    def slowly(place: Stored, text: str, expires_at_s: int) -> None:
        it.world.clock.sleep(SLOW_SECONDS)
        put(place, text, expires_at_s)

    it.world.payloads.put = slowly  # type: ignore[method-assign] # a slow wire
    _beside(it)
    assert it.events("lease.lost") == []
    assert len(it.events("task.succeeded")) == 2


def test_a_slow_burial_of_a_timed_out_task_costs_no_neighbour_its_lease(it: Lab) -> None:
    """It is settled on a thread of its own, once, and its late handler has no say."""

    @it.app.task(queue="work", name="late", lease="10s", timeout="2s", retry=Retry(deadline="1s"))
    def late() -> str:
        it.world.clock.sleep(5)
        return "late"

    sent: list[int] = []

    send = it.dead.send_many

    def slowly(sends: Sequence[Any]) -> Any:
        sent.append(len(sends))
        it.world.clock.sleep(SLOW_SECONDS)
        return send(sends)

    it.dead.send_many = slowly  # type: ignore[method-assign] # a slow wire
    _beside(it)
    assert it.events("lease.lost") == []
    [buried] = it.events("task.buried")
    assert (buried["task"], buried["error"], sent) == ("late", "TimedOut", [1])
    assert it.row(buried["task_id"]).state is State.DEAD_LETTERED
    assert it.row(buried["task_id"]).letter_confirmed
    assert [told["task"] for told in it.events("task.succeeded")] == ["healthy"]
