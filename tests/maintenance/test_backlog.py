"""A long backlog is explained, not sent again; and costs what it may."""

from __future__ import annotations

import sys

import pytest

from tenure.adapters.memory.world import World
from tenure.core.task import State
from tenure.maintenance.reconcile import CHUNK, ROWS_MAX, Reconcile
from tests.maintenance.kit import TOPOLOGY, Kit

WAITING = 4_000
"""In the suite. `python -m tests.maintenance.test_backlog 50000` runs the whole."""


@pytest.mark.slow
def test_thousands_of_waiting_tasks_for_an_hour() -> None:
    """A reconcile each minute for an hour: at most a hundredth of what it looks at is sent again, some 1,200 messages
    of 50,000; a schedule and a lapsed lease among them are not late; nothing is buried."""
    an_hour_of(WAITING)


def an_hour_of(waiting: int) -> None:
    topology = TOPOLOGY.model_copy(update={"queues": TOPOLOGY.queues[:1]})
    kit = Kit(World(topology=topology), topology)
    for _ in range(waiting):
        kit.submit()
    kit.world.advance(30)
    due = kit.submit(due_at_ms=kit.now_ms + 1_800_000)
    lost = kit.claim(kit.submit(tier="high"))
    kit.take_message(lost)
    resent = looked = 0
    sent_at_ms = 0
    for _ in range(60):
        kit.advance(60)
        report = Reconcile(kit.parts).run_once()
        resent += report.counts["resent"]
        looked += report.counts["looked"]
        assert report.counts["looked"] <= ROWS_MAX + CHUNK
        if not sent_at_ms and kit.row(due.id).state is State.QUEUED:
            sent_at_ms = kit.now_ms
    assert resent <= 60 * ROWS_MAX // 100 + 2
    assert resent - 2 <= looked // 100 + 60
    assert due.due_at_ms - 900_000 <= sent_at_ms <= due.due_at_ms
    assert kit.row(lost.id).sends >= 2
    assert not kit.letters()
    print(f"{resent} re-sends of {looked} rows looked at")


if __name__ == "__main__":
    an_hour_of(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
