"""Reconcile finds what nothing else moves, and floods nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from tenure.core import limits, machine
from tenure.core.envelope import decode
from tenure.core.errors import ServiceError
from tenure.core.outcome import named
from tenure.core.task import State
from tenure.maintenance.pause import Pause, pause_key, set_pause
from tenure.maintenance.reconcile import Reconcile
from tenure.maintenance.restore import mark_restored
from tenure.ports import Item, Key, Write, WriteOutcome
from tenure.rows import row_key
from tests.maintenance.kit import Kit


@pytest.fixture
def kit() -> Kit:
    return Kit()


def test_a_task_whose_message_was_never_sent_is_sent_after_its_grace(kit: Kit) -> None:
    """A producer that dies between row and send loses nothing (R7, R25)."""
    row = kit.submit(send=False)
    reconcile = Reconcile(kit.parts)
    assert reconcile.run_once().counts["resent"] == 0
    kit.advance(limits.RECONCILE_GRACE_SECONDS + 1)
    assert reconcile.run_once().counts["resent"] == 1
    assert reconcile.run_once().counts["looked"] == 0
    (body,) = kit.bodies()
    assert decode(body).id == row.id
    assert (decode(body).sends, kit.row(row.id).sends) == (2, 2)


def test_resends_double_their_grace_up_to_an_hour(kit: Kit) -> None:
    """Each further message is waited for twice as long as the one before (R25)."""
    row = kit.submit(send=False)
    at_ms = []
    for _ in range(600):
        kit.advance(60)
        if Reconcile(kit.parts).run_once().counts["resent"]:
            at_ms.append(kit.now_ms)
            kit.take_message(row)
    gaps = [round((b - a) / 60_000) for a, b in itertools.pairwise(at_ms)]
    assert [gap // 4 for gap in gaps[:4]] == [1, 2, 4, 8]
    assert all(gap in (60, 61) for gap in gaps[4:])


def test_a_lapsed_lease_whose_message_was_lost_is_sent_for_again(kit: Kit) -> None:
    """A worker that died with the only message is found by its lapsed lease (R26)."""
    row = kit.claim(kit.submit())
    kit.take_message(row)
    kit.advance(300)
    assert Reconcile(kit.parts).run_once().counts["resent"] == 1
    assert kit.row(row.id).state is State.LEASED
    assert len(kit.bodies()) == 1


def test_a_live_lease_is_left_alone(kit: Kit) -> None:
    """A task that runs for long is looked at and not sent for."""
    row = kit.claim(kit.submit(), seconds=3600)
    kit.take_message(row)
    kit.advance(300)
    report = Reconcile(kit.parts).run_once()
    assert (report.counts["resent"], report.counts["later"]) == (0, 1)


def test_a_schedule_is_sent_to_the_second(kit: Kit) -> None:
    """A task due in an hour is sent a quarter of an hour early, delayed by SQS to its second (R20)."""
    row = kit.submit(due_at_ms=kit.now_ms + 3_600_000)
    assert kit.row(row.id).state is State.SCHEDULED
    while not kit.bodies():
        Reconcile(kit.parts).run_once()
        kit.advance(60)
    while not kit.receive():
        kit.advance(1)
    assert 0 <= kit.now_ms - row.due_at_ms <= 1000


def test_a_missing_letter_is_sent_and_confirmed(kit: Kit) -> None:
    """A worker that dies between burial and letter leaves a dead letter that still rings (R21, R26)."""
    row = kit.bury(kit.submit(), letter=False)
    kit.advance(limits.RECONCILE_GRACE_SECONDS + 1)
    assert Reconcile(kit.parts).run_once().counts["letters"] == 1
    assert kit.row(row.id).letter_confirmed
    assert len(kit.letters()) == 1
    kit.advance(3600)
    assert Reconcile(kit.parts).run_once().counts["letters"] == 0


def test_a_paused_queue_gets_no_resends_but_its_schedules(kit: Kit) -> None:
    """A pause explains every wait except that of a row which holds its own wait."""
    kit.submit(send=False)
    kit.submit(due_at_ms=kit.now_ms + 1_000_000)
    set_pause(kit.world.store, kit.world.entropy, Pause("media", True, "ann", kit.now_ms, "deploy"))
    kit.advance(300)
    report = Reconcile(kit.parts).run_once()
    assert (report.counts["resent"], report.counts["later"]) == (1, 1)


def test_a_queue_of_which_is_not_known_whether_it_is_paused_gets_no_resends(kit: Kit) -> None:
    """To look again later costs little, to flood a paused queue much."""
    row = kit.submit(send=False)
    kit.advance(300)
    read = kit.world.store.get_many

    def throttled(keys: Sequence[Key]) -> list[Item | None]:
        if pause_key("media") in keys:
            raise ServiceError("throttled")
        return read(keys)

    kit.world.store.get_many = throttled  # type: ignore[method-assign] # the fault
    report = Reconcile(kit.parts).run_once()
    assert (report.counts["resent"], report.counts["later"]) == (0, 1)
    assert kit.row(row.id).sends == 1


def test_messages_past_their_retention_are_sent_again_even_while_paused_but_once(kit: Kit) -> None:
    """What SQS has dropped by retention is replaced, and its replacement's own age counts from then (R25)."""
    kit.submit()
    set_pause(kit.world.store, kit.world.entropy, Pause("media", True, "ann", kit.now_ms, "migration"))
    sent = 0
    for _ in range(5 * 24):
        kit.advance(3600)
        sent += Reconcile(kit.parts).run_once().counts["resent"]
    assert sent == 1
    assert len(kit.bodies()) == 1


def test_a_row_past_its_deadline_is_ended(kit: Kit) -> None:
    """A task that nobody fetched in time expires without a worker."""
    row = kit.submit(send=False, deadline_at_ms=kit.now_ms + 60_000)
    kit.advance(300)
    assert Reconcile(kit.parts).run_once().counts["ended"] == 1
    assert kit.row(row.id).state is State.EXPIRED


def test_lost_messages_beside_a_busy_queue_are_found_at_once(kit: Kit) -> None:
    """More rows wait than SQS holds messages: the oldest of them have lost theirs."""
    lost = [kit.submit(send=False) for _ in range(30)]
    for _ in range(10):
        kit.submit()
    kit.advance(300)
    assert Reconcile(kit.parts).run_once().counts["resent"] == 30
    sent = {decode(body).id for body in kit.bodies() if decode(body).sends == 2}
    assert sent == {row.id for row in lost}


def test_a_function_that_fails_at_import_for_an_hour_floods_nothing(kit: Kit) -> None:
    """All messages stay in flight, unrun; reconcile sends a few superfluous messages a minute, and buries none."""
    for _ in range(300):
        kit.submit()
    queue = kit.world.queues(kit.topology.tier("media"))
    resent = 0
    for _ in range(60):
        while queue.receive(10, 0, 310):
            pass
        kit.advance(60)
        resent += Reconcile(kit.parts).run_once().counts["resent"]
    assert resent <= 60 * 3
    assert not kit.letters()


def test_rows_of_a_restored_table_are_held_and_named(kit: Kit) -> None:
    """After the table was put back, a task that may have been done is not sent again until a person has decided."""
    row = kit.submit(send=False)
    kit.advance(3600)
    mark_restored(kit.world.store, kit.world.entropy, kit.now_ms - 1_800_000, kit.now_ms, "ann")
    report = Reconcile(kit.parts).run_once()
    assert (report.held, report.counts["resent"]) == ((row.id,), 0)
    mark_restored(kit.world.store, kit.world.entropy, 0, 0, "ann")
    kit.advance(3601)
    assert Reconcile(kit.parts).run_once().counts["resent"] == 1


def test_one_unreadable_row_hinders_no_other(kit: Kit) -> None:
    """A row that cannot be decoded is counted and passed over (I4)."""
    bad, good = kit.submit(send=False), kit.submit(send=False)
    key = next(item.key for item in kit.world.store.all() if bad.id in item.key.pk)
    item = kit.world.store._items[key]
    kit.world.store._items[key] = type(item)(**{f: getattr(item, f) for f in item.__slots__} | {"data": {"v": 1}})
    kit.advance(300)
    report = Reconcile(kit.parts).run_once()
    assert (report.counts["resent"], report.counts["failed"]) == (1, 1)
    assert decode(kit.bodies()[0]).id == good.id


def test_work_is_bounded_and_the_shards_share_it(kit: Kit) -> None:
    """A run looks at no more rows than it may, and a small queue is not starved by a large one."""
    for _ in range(400):
        kit.submit(send=False)
    small = kit.submit(send=False, queue="ledger")
    kit.advance(300)
    report = Reconcile(kit.parts, rows_max=64).run_once()
    assert report.counts["looked"] <= 64
    assert report.more
    assert kit.row(small.id).sends == 2


def test_schedules_pass_a_long_backlog(kit: Kit) -> None:
    """What nobody else will move is looked at before rows whose messages are merely late (R26)."""
    for _ in range(500):
        kit.submit()
    due = kit.submit(due_at_ms=kit.now_ms + 1_200_000)
    kit.advance(400)
    Reconcile(kit.parts, rows_max=64).run_once()
    assert kit.row(due.id).state is State.QUEUED


def test_a_refused_send_is_counted_and_tried_again(kit: Kit) -> None:
    """A message that SQS does not take leaves a row that is looked at again."""
    kit.submit(send=False)
    kit.advance(300)
    kit.world.faults = type(kit.world.faults)(send_unanswered=1.0)
    assert Reconcile(kit.parts).run_once().counts["unsent"] == 1
    kit.world.faults = type(kit.world.faults)()
    for message in kit.world.queues(kit.topology.tier("media")).all():
        del kit.world.queues(kit.topology.tier("media"))._messages[message.serial]
    kit.advance(600)
    assert Reconcile(kit.parts).run_once().counts["resent"] == 1


def test_a_worker_that_moves_the_row_first_wins(kit: Kit) -> None:
    """A row that moves between reading and writing is left to whoever moved it (R2)."""
    row = kit.submit(send=False)
    kit.advance(300)
    parts = kit.parts
    kit.claim(row)
    index = kit.world.store
    stale = machine.look_again(row, kit.stamp(), kit.now_ms)
    assert stale.version == 2
    assert Reconcile(parts).run_once().counts["resent"] == 0
    assert index is parts.store


def test_a_row_that_is_claimed_between_its_read_and_its_write_gets_no_message(kit: Kit) -> None:
    """The write is refused, and what it was to send is not sent (R2, R25)."""
    row = kit.submit(send=False)
    kit.advance(300)
    write = kit.world.store.write_many

    def overtaken(writes: Sequence[Write]) -> list[WriteOutcome]:
        if any(each.item.key == row_key(row.id) for each in writes):
            kit.world.store.write_many = write  # type: ignore[method-assign] # once
            kit.claim(row)
        return write(writes)

    kit.world.store.write_many = overtaken  # type: ignore[method-assign] # the worker that is quicker
    report = Reconcile(kit.parts).run_once()
    assert (report.counts["overtaken"], report.counts["resent"]) == (1, 0)
    assert kit.bodies() == []
    assert kit.row(row.id).state is State.LEASED


def test_an_error_is_named_in_the_letter_that_reconcile_sends(kit: Kit) -> None:
    """A letter sent late tells as much as one sent at once."""
    row = kit.claim(kit.submit())
    kit.write(row, machine.bury(row, kit.stamp(), named("BadImage", "no pixels"), "gave_up"))
    kit.advance(300)
    Reconcile(kit.parts).run_once()
    assert '"type":"BadImage"' in kit.letters()[0]
