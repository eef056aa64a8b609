"""Rows whose tier is not in the environment any more (or never was: a foreign message named it) hinder no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.core import machine
from tenure.core.errors import UsageError
from tenure.core.filters import parse
from tenure.core.task import Row, State
from tenure.durable import Things
from tenure.maintenance.plan import plan
from tenure.maintenance.reconcile import Reconcile
from tenure.maintenance.replay import NothingMatched, Replays
from tenure.maintenance.replay_record import Phase, ReplaySpec
from tests.maintenance.kit import Kit
from tests.maintenance.test_keys import Ledger

WHY = "its tier media/nonsense is not in this environment: nowhere to send it"


def stray(kit: Kit, row: Row) -> Row:
    """The row, of a tier that nobody declares."""
    new = replace(row, version=row.version + 1, write_id=kit.world.entropy.token(), tier="nonsense")
    kit.parts.rows.replace(row, new)
    return new


def asked(text: str = "") -> ReplaySpec:
    return ReplaySpec(filter=text, reason="mended", by="ann", rate_per_second=100.0)


def test_a_replay_skips_what_it_could_not_send_and_says_so() -> None:
    """The row stays a dead letter and is counted with its reason; all others are replayed, and sent."""
    kit = Kit()
    buried = [kit.bury(kit.submit()) for _ in range(4)]
    lost = stray(kit, buried[1])
    kit.advance(1)
    assert plan(kit.parts, parse(""), kit.world.clock.now_ms(), 3).skipped == {WHY: 1}
    replays = Replays(kit.parts)
    made = replays.create(asked())
    (ended,) = replays.run_all()
    assert (ended.phase, made.matched, ended.replayed, ended.counts["skipped"]) == (Phase.DONE, 3, 3, 1)
    assert (ended.counts["unsent"], len(kit.bodies())) == (0, 3)
    assert kit.row(lost.id).state is State.DEAD_LETTERED
    with pytest.raises(NothingMatched, match="nowhere to send it"):
        replays.create(asked(f"id:{lost.id}"))


def test_a_batch_whose_tier_went_while_it_was_under_way_is_ended() -> None:
    """The runner died with the batch written down, then a tier was taken out: its row stays, the rest is replayed."""
    kit = Kit()
    rows = [kit.bury(kit.submit()) for _ in range(3)]
    kit.advance(1)
    replays = Replays(kit.parts)
    made = replays.create(asked())
    item = replays.item(made.id)
    data = {**item.data, "batch": [[row.id, row.replays] for row in rows]}
    Things(kit.parts.store, kit.parts.entropy).change(item, data, due=item.due)
    lost = stray(kit, rows[0])
    (ended,) = replays.run_all()
    assert (ended.phase, ended.replayed, len(kit.bodies())) == (Phase.DONE, 2, 2)
    assert kit.row(lost.id).state is State.DEAD_LETTERED


def test_reconcile_tells_of_them_and_goes_on() -> None:
    """An open row of such a tier is looked at again in an hour and counted; the others are sent now."""
    kit = Kit()
    lost, found = stray(kit, kit.submit()), kit.submit()
    kit.advance(3600)
    report = Reconcile(kit.parts).run_once()
    assert (report.counts["failed"], report.counts["resent"]) == (1, 1)
    assert kit.row(lost.id).check_at_ms > kit.world.clock.now_ms()
    assert kit.row(found.id).sends == 2
    assert Reconcile(kit.parts).run_once().counts["failed"] == 0


def test_a_key_whose_waiting_task_cannot_be_sent_fails_no_other() -> None:
    """What it would release stays as it is; the key behind it drains and opens."""
    ledger = Ledger(broken={"a1", "b1"})
    ledger.submit("a1", "a2")
    ledger.submit("b1", "b2", key="other")
    ledger.work()
    ledger.lab.change("a2", tier="nonsense")
    for key in ("k", "other"):
        head = ledger.lab.row("a1" if key == "k" else "b1")
        ledger.lab.rows.replace(head, machine.discard(head, ledger.lab.stamp(), "not needed"))
    report = ledger.halted.run_once()
    assert (report.counts["failed"], report.counts["released"]) == (1, 1)
    assert ledger.state("a2") is State.WAITING
    ledger.sweep()
    assert (ledger.ran.count("b2"), ledger.lab.row("a2").sends) == (1, 1)


def test_a_head_that_could_not_be_sent_is_not_opened() -> None:
    """A person is told, and the head stays a dead letter."""
    ledger = Ledger(broken={"a1"})
    ledger.submit("a1", "a2")
    ledger.work()
    ledger.lab.change("a1", tier="nonsense")
    with pytest.raises(UsageError, match="nowhere to send it"):
        ledger.halted.retry_heads("ledger", "k", "ann", "mended")
    assert (ledger.state("a1"), ledger.state("a2")) == (State.DEAD_LETTERED, State.WAITING)
