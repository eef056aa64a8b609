"""The restore drill: the table put back to a point an hour ago while queues and the world went on."""

from __future__ import annotations

from tenure.core.task import State
from tenure.maintenance.ingest import Ingest
from tenure.maintenance.reconcile import Reconcile
from tenure.maintenance.restore import mark_restored
from tests.maintenance.kit import Kit


def reconcile_for(kit: Kit, minutes: int) -> list[str]:
    """Reconcile each minute; the ids that it held."""
    held: set[str] = set()
    for _ in range(minutes):
        kit.advance(60)
        held |= set(Reconcile(kit.parts).run_once().held)
    return sorted(held)


def drill(kit: Kit) -> dict[str, str]:
    """Three tasks before the snapshot; an hour in which one is done, one is buried and one stays in its queue; then
    the table is put back. Kind -> task id."""
    reconcile_for(kit, 3)
    done, buried, queued = kit.submit(), kit.submit(), kit.submit()
    snapshot = dict(kit.world.store._items), dict(kit.world.store._indexed)
    kit.complete(done)
    kit.bury(buried)
    reconcile_for(kit, 60)
    new = kit.submit()
    kit.complete(new)
    for mine, before in zip((kit.world.store._items, kit.world.store._indexed), snapshot, strict=True):
        mine.clear()
        mine.update(before)
    kit.runs.clear()
    return {"done": done.id, "buried": buried.id, "queued": queued.id, "new": new.id}


def test_finished_work_whose_rows_are_lost_is_held_and_named() -> None:
    """Reconcile notices by itself that the table was put back, sends nothing of that time again, and names it."""
    kit = Kit()
    ids = drill(kit)
    held = reconcile_for(kit, 120)
    kit.work()
    assert kit.runs[ids["done"]] == 0
    assert ids["done"] in held
    assert kit.world.telemetry.count("reconcile.restored") == 1
    assert {event["task_id"] for event in kit.world.telemetry.named("reconcile.held")} >= {ids["done"], ids["buried"]}


def test_what_still_has_its_message_runs() -> None:
    """A message that still comes proves that its task was not done: it runs once, held or not."""
    kit = Kit()
    ids = drill(kit)
    reconcile_for(kit, 5)
    kit.work()
    assert (kit.runs[ids["queued"]], kit.row(ids["queued"]).state) == (1, State.COMPLETED)


def test_a_burial_that_the_table_forgot_is_named_by_its_letter() -> None:
    """The letter of a burial in the lost time knows more than its row: it is kept and named."""
    kit = Kit()
    ids = drill(kit)
    assert Ingest(kit.parts).run_once(force=True).ahead == (ids["buried"],)
    assert len(kit.letters()) == 1


def test_an_operator_lets_held_tasks_go() -> None:
    """Once a person has decided, held tasks are sent as ever."""
    kit = Kit()
    ids = drill(kit)
    reconcile_for(kit, 5)
    mark_restored(kit.world.store, kit.world.entropy, 0, 0, "ann")
    reconcile_for(kit, 65)
    kit.work()
    assert kit.runs[ids["done"]] == 1


def test_a_reconcile_that_was_merely_stopped_holds_nothing() -> None:
    """An hour without reconcile is no restore: there is no witness of a later run."""
    kit = Kit()
    reconcile_for(kit, 3)
    lost = kit.submit(send=False)
    kit.advance(7200)
    report = Reconcile(kit.parts).run_once()
    assert (report.held, report.counts["resent"]) == ((), 1)
    assert kit.world.telemetry.count("reconcile.gap") == 1
    kit.work()
    assert kit.runs[lost.id] == 1


def test_tasks_submitted_after_the_restore_are_not_held() -> None:
    """Only what the lost time can have touched is held."""
    kit = Kit()
    drill(kit)
    reconcile_for(kit, 2)
    lost = kit.submit(send=False)
    assert lost.id not in reconcile_for(kit, 10)
    kit.work()
    assert kit.runs[lost.id] == 1
