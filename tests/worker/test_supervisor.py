"""The supervisor's patience, in virtual time. What it does with real processes is in tests/e2e."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tenure.adapters.memory import World
from tenure.worker.supervisor import Supervisor, SupervisorParts


def test_what_cannot_live_is_started_ever_more_slowly_up_to_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a container would spend its day starting a process that dies at its import."""
    monkeypatch.setattr(Supervisor, "_reap", lambda self: None)  # this process's own children are not its to reap
    world = World()
    began_ms = world.clock.now_ms()
    tried: list[float] = []

    def command(index: int) -> list[str]:
        tried.append((world.clock.now_ms() - began_ms) / 1000)
        return ["/nowhere/at/all"]

    class Clock:
        now_ms = staticmethod(world.clock.now_ms)

        def sleep(self, seconds: float) -> None:
            world.clock.sleep(seconds)
            if world.clock.now_ms() - began_ms > 120_000:
                supervisor.stop()

    supervisor = Supervisor(SupervisorParts(command, 1, Clock(), world.telemetry))
    assert supervisor.run() == 0
    assert [round(later - at) for at, later in pairwise(tried)] == [1, 2, 4, 8, 16, 30, 30]
    assert world.telemetry.count("worker.crashed") == len(tried) == 8
