"""Letters that SQS moved by itself go back to work; letters that are decided about go away; nothing else is touched."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tenure.core import limits, machine
from tenure.core.envelope import REASON_ATTRIBUTE, decode
from tenure.core.letter import letter_of, quarantine_of, read_letter
from tenure.core.task import Row, State
from tenure.maintenance.ingest import Ingest, IngestReport
from tenure.maintenance.reconcile import Reconcile
from tenure.ports import Send, Write, WriteOutcome
from tenure.rows import row_key
from tenure.testing import Faults
from tests.maintenance.kit import Kit


@pytest.fixture
def kit() -> Kit:
    return Kit()


def ingest(kit: Kit) -> IngestReport:
    """A run that reads every DLQ."""
    return Ingest(kit.parts).run_once(force=True)


def move(kit: Kit, row: Row) -> None:
    """What SQS does after too many receives: the message goes to the DLQ as it is."""
    queue = kit.world.queues(kit.topology.tier(row.queue, row.tier))
    dead = kit.world.dead(kit.topology.tier(row.queue, row.tier))
    for message in [m for m in queue.all() if f'"id":"{row.id}"' in m.body]:
        queue._move(message, dead)


def test_a_task_that_never_started_is_sent_back(kit: Kit) -> None:
    """Too many receives are no failure: a task that no worker ever started keeps its whole budget (R22)."""
    row = kit.submit()
    move(kit, row)
    report = ingest(kit)
    assert report.counts["sent_back"] == 1
    assert (len(kit.letters()), len(kit.bodies())) == (0, 1)
    now = kit.row(row.id)
    assert (now.state, now.attempt, now.sends) == (State.QUEUED, 1, 2)
    assert [event["why"] for event in kit.world.telemetry.named("letter.ingested")] == ["it never started"]


def test_a_letter_whose_message_is_not_taken_stays(kit: Kit) -> None:
    """What SQS does not confirm may not be there, so the letter goes only once its row has been heard of again."""
    row = kit.submit()
    move(kit, row)
    kit.world.faults = Faults(send_unanswered=1)
    report = ingest(kit)
    assert (report.counts["sent_back"], report.counts["unsent"]) == (0, 1)
    assert len(kit.letters()) == 1


def test_a_letter_whose_row_moves_while_it_is_written_is_kept(kit: Kit) -> None:
    """A worker is quicker: what was decided on the row as it was is not done."""
    row = kit.submit()
    move(kit, row)
    write = kit.world.store.write_many

    def overtaken(writes: Sequence[Write]) -> list[WriteOutcome]:
        if any(each.item.key == row_key(row.id) for each in writes):
            kit.world.store.write_many = write  # type: ignore[method-assign] # once
            kit.claim(row)
        return write(writes)

    kit.world.store.write_many = overtaken  # type: ignore[method-assign] # the worker that is quicker
    report = ingest(kit)
    assert (report.counts["moved_on"], report.counts["sent_back"]) == (1, 0)
    assert (len(kit.letters()), len(kit.bodies())) == (1, 0)


def test_a_live_lease_is_left_alone(kit: Kit) -> None:
    """A letter whose task runs now stays until the run has ended."""
    row = kit.submit()
    move(kit, row)
    kit.claim(row, seconds=3600)
    assert ingest(kit).counts["leased"] == 1
    assert len(kit.letters()) == 1
    assert kit.world.dead(kit.topology.tier("media")).depth().visible == 1


def test_a_spent_budget_is_buried_with_a_reason(kit: Kit) -> None:
    """A task that lost its worker in every attempt becomes a dead letter with one letter that says so."""
    row = kit.submit(max_attempts=1)
    move(kit, row)
    kit.claim(row, alone=True, seconds=10)
    kit.advance(60)
    assert ingest(kit).counts["buried"] == 1
    now = kit.row(row.id)
    assert (now.state, now.reason, now.letter_confirmed) == (State.DEAD_LETTERED, machine.WORKER_LOST, True)
    (body,) = kit.letters()
    assert '"type":"WorkerLost"' in body


def test_a_message_that_was_sent_again_since_is_drained(kit: Kit) -> None:
    """A moved message whose task reconcile has sent for meanwhile brings no second one."""
    row = kit.submit()
    move(kit, row)
    kit.advance(300)
    assert Reconcile(kit.parts).run_once().counts["resent"] == 1
    assert ingest(kit).counts["drained"] == 1
    assert len(kit.bodies()) == 1


def test_a_final_tasks_letter_is_drained(kit: Kit) -> None:
    """A completed task's stray message is deleted and never runs again."""
    row = kit.submit()
    move(kit, row)
    kit.complete(row)
    assert ingest(kit).counts["drained"] == 1
    assert not kit.letters()
    assert not kit.bodies()


def test_the_letter_of_an_open_dead_letter_stays(kit: Kit) -> None:
    """A scan leaves body, attributes and disposition of open letters alone."""
    kit.bury(kit.submit())
    before = [(m.body, m.attributes) for m in kit.world.dead(kit.topology.tier("media")).all()]
    assert ingest(kit).counts["open"] == 1
    dead = kit.world.dead(kit.topology.tier("media"))
    assert [(m.body, m.attributes) for m in dead.all()] == before
    assert dead.depth().visible == 1


def test_a_letter_confirms_its_row(kit: Kit) -> None:
    """A worker that died after its letter was sent leaves nothing for reconcile to send again."""
    row = kit.bury(kit.submit(), letter=False)
    letter = letter_of(row, None)
    kit.world.dead(kit.topology.tier("media")).send_many([Send(letter.body, attributes=letter.attributes)])
    assert ingest(kit).counts["confirmed"] == 1
    assert kit.row(row.id).letter_confirmed


def test_a_second_letter_of_one_burial_is_drained(kit: Kit) -> None:
    """A letter sent twice, after a lost answer, ends as one letter."""
    row = kit.bury(kit.submit())
    letter = letter_of(row, None)
    kit.world.dead(kit.topology.tier("media")).send_many([Send(letter.body, attributes=letter.attributes)])
    assert ingest(kit).counts["drained"] == 1
    assert len(kit.letters()) == 1


@pytest.mark.parametrize("decided", ["replayed", "discarded"])
def test_decided_letters_are_drained(kit: Kit, decided: str) -> None:
    """A letter goes when its dead letter has been replayed or discarded (R27)."""
    row = kit.bury(kit.submit())
    change = machine.replay if decided == "replayed" else machine.discard
    kit.write(row, change(row, kit.stamp("ann"), "fixed"))
    assert ingest(kit).counts["drained"] == 1
    assert not kit.letters()


def test_foreign_messages_stay_and_are_counted(kit: Kit) -> None:
    """What tenure did not write stays in the DLQ with its body, and no row is made up for it."""
    letter = quarantine_of('{"Records":[]}', {"a": "b"}, "", "m1", "json")
    kit.world.dead(kit.topology.tier("media")).send_many([Send(letter.body, attributes=letter.attributes)])
    assert ingest(kit).counts["foreign"] == 1
    assert kit.letters() == ['{"Records":[]}']
    assert not [item for item in kit.world.store.all() if item.key.sk == "R"]


def test_a_message_that_begins_its_task_and_was_moved_before_anybody_took_it_is_sent_back(kit: Kit) -> None:
    """Another language's producer writes no row. Its queue was paused, say, until SQS moved the message: the row is
    made here, so that the task is not lost among what is foreign, and a second look sends nothing again."""
    body = '{"tenure":1,"id":"f1","task":"resize","payload":{"n":1}}'
    kit.world.dead(kit.topology.tier("media")).send_many([Send(body)])
    assert ingest(kit).counts["sent_back"] == 1
    row = kit.row("f1")
    assert (row.state, row.queue, row.attempt, row.failures, row.losses) == (State.QUEUED, "media", 1, 0, 0)
    assert row.payload is not None
    assert row.payload.value == '{"n":1}'
    assert (len(kit.letters()), len(kit.bodies())) == (0, 1)
    assert ingest(kit).counts["sent_back"] == 0
    kit.work()
    assert kit.row("f1").state is State.COMPLETED


@pytest.mark.parametrize(
    "letter",
    [
        Send('{"tenure":1,"id":"f1","task":"resize","row_version":1,"birth":"b","payload":{"n":1}}'),
        Send('{"tenure":1,"id":"f1","task":"resize","payload":{"n":1}}', attributes={REASON_ATTRIBUTE: "unknown"}),
    ],
    ids=["a row was written first", "a worker set it aside"],
)
def test_no_row_is_made_for_what_began_elsewhere_or_was_set_aside(kit: Kit, letter: Send) -> None:
    """Its row is gone or never was, or nothing here could run it: it stays for a person to look at."""
    kit.world.dead(kit.topology.tier("media")).send_many([letter])
    assert ingest(kit).counts["foreign"] == 1
    assert len(kit.letters()) == 1
    assert not [item for item in kit.world.store.all() if item.key.sk == "R"]


def test_a_letter_that_knows_more_than_its_row_is_kept_and_named(kit: Kit) -> None:
    """After the table was put back, a letter may be the only record of a burial: it is not drained."""
    row = kit.submit()
    snapshot = dict(kit.world.store._items)
    kit.bury(row)
    kit.world.store._items.clear()
    kit.world.store._items.update(snapshot)
    report = ingest(kit)
    assert (report.ahead, report.counts["drained"]) == ((row.id,), 0)
    assert len(kit.letters()) == 1


def test_a_dlq_is_read_only_when_it_differs_from_the_table(kit: Kit) -> None:
    """A scan hides letters, so there is none while depth and table agree, nor while the same difference is known."""
    kit.bury(kit.submit())
    ingester = Ingest(kit.parts)
    assert [ingester.run_once().counts["scanned"] for _ in range(3)] == [0, 0, 0]
    letter = quarantine_of("hello", {}, "", "m1", "text")
    kit.world.dead(kit.topology.tier("media")).send_many([Send(letter.body, attributes=letter.attributes)])
    assert [ingester.run_once().counts["scanned"] for _ in range(4)] == [0, 2, 0, 0]


def test_letters_about_to_be_lost_are_reported(kit: Kit) -> None:
    """A foreign letter has no row to outlive it: it is reported two days before retention takes it."""
    letter = quarantine_of("hello", {}, "", "m1", "text")
    kit.world.dead(kit.topology.tier("media")).send_many([Send(letter.body, attributes=letter.attributes)])
    ingester = Ingest(kit.parts)
    reported = []
    for day in range(14):
        for _ in range(2):
            if ingester.run_once().counts["expiring"]:
                reported.append(day)
        kit.advance(86_400)
    assert reported
    assert min(reported) == 13 or min(reported) == 12


def test_an_ordered_queue_gets_its_tasks_back_in_order(kit: Kit) -> None:
    """Moved tasks of one ordering key are sent back in the order in which they lie there."""
    rows = [kit.submit(queue="ledger") for _ in range(5)]
    for row in rows:
        move(kit, row)
    kit.advance(limits.SQS_DEDUPLICATION_SECONDS + 1)
    assert ingest(kit).counts["sent_back"] == 5
    assert [decode(body).id for body in kit.bodies("ledger")] == [row.id for row in rows]


def test_letters_can_be_read_whatever_they_hold() -> None:
    """Reading a letter never raises."""
    for body in ("", "hello", "[]", "{}", '{"tenure":2}', '{"tenure":1,"id":"a","task":"t","payload":1,"letter":7}'):
        assert read_letter(body, {"tenure-letter": "x", "tenure-reason": "y"}).kind in ("buried", "quarantined")
