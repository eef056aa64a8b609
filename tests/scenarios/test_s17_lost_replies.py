"""S17: one's own write was applied, its reply was lost, and the retry is refused by it; and an index that is late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.application import App
from tenure.core.outcome import Succeeded
from tenure.core.task import State
from tenure.maintenance.parts import Parts
from tenure.maintenance.reconcile import Reconcile
from tests.support.lab import Lab
from tests.support.shop import Shop


def lossy(it: Any) -> None:
    """From now on every applied write loses its reply, and the SDK's second try is refused by the first."""
    it.world.faults = replace(it.world.faults, store_reply_lost=1.0)


def test_a_submit_is_no_duplicate_of_itself() -> None:
    shop = Shop()
    lossy(shop)
    task = shop.app.task(queue="media", name="work")(lambda: None)
    handle = task.options(idempotency_key="p-42").submit()
    assert shop.row(handle.id).state is State.QUEUED
    assert len(shop.messages()) == 1


def test_a_claim_runs_its_handler_once_and_its_end_is_answered() -> None:
    """Claim, heartbeat, checkpoint and completion, each with its reply lost."""
    app, ran = App("lab"), []
    app.task(queue="work", name="work", lease="30s")(lambda: ran.append(1))
    it = Lab(app)
    task_id, other = it.submit(), it.submit()
    lossy(it)
    engine = it.engine(max_running=2)
    units = it.admit(engine)
    it.world.advance(11)
    engine.holder.tick()
    for unit in units:
        engine.run(unit)
    row = it.row(task_id)
    assert (row.state, row.fence, len(ran)) == (State.COMPLETED, 1, 2)
    assert row.last_heartbeat_at_ms > row.last_started_at_ms
    assert sorted(it.answers.deleted) == sorted([task_id, other])
    assert it.events("lease.lost") == []


def test_a_true_conflict_is_still_a_conflict() -> None:
    """Another worker's row with equal values is not one's own: only the write id tells."""
    app = App("lab")
    app.task(queue="work", name="work", lease="30s")(lambda: None)
    it = Lab(app)
    task_id = it.submit()
    engine = it.engine()
    [unit] = it.admit(engine)
    held = unit.members[0]
    assert engine._claim(held, alone=True) == "claimed"
    it.change(task_id, lease_token="another's")
    lossy(it)
    engine._settler.settle(held, Succeeded(None))
    assert it.row(task_id).state is State.LEASED
    assert it.answers.deleted == []
    assert len(it.events("lease.lost")) == 1


@pytest.mark.parametrize("shown", [State.QUEUED, State.LEASED], ids=str)
def test_a_late_index_makes_reconcile_send_and_change_nothing(shown: State) -> None:
    """The index still shows the task as queued, or as leased and lapsed, when the table says completed."""
    app = App("lab")
    app.task(queue="work", name="work", lease="30s")(lambda: None)
    it = Lab(app)
    task_id = it.submit()
    it.world.advance(500)
    if shown is State.LEASED:
        engine = it.engine("w0")
        [unit] = it.admit(engine)
        assert engine._claim(unit.members[0], alone=True) == "claimed"
        it.world.advance(300)
    it.world.faults = replace(it.world.faults, index_lag_seconds=3600.0)
    it.work()
    assert it.row(task_id).state is State.COMPLETED
    before = it.item(task_id)
    report = Reconcile(parts(it)).run_once()
    assert report.counts["resent"] == 0
    assert it.item(task_id) == before
    assert it.messages() == 0


def parts(it: Lab) -> Parts:
    """Maintenance over a lab's world."""
    world = it.world
    return Parts(
        store=world.store,
        main=world.queues,
        dead=world.dead,
        payloads=world.payloads,
        clock=world.clock,
        entropy=world.entropy,
        telemetry=world.telemetry,
        topology=it.topology,
    )
