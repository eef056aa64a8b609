"""A FIFO queue of the world follows SQS's rules; each is named in adapters/memory/queue.py with its source."""

import pytest

from tenure.ports import Done, NotDone, NotSent, Send, Sent
from tenure.testing import Faults, World


@pytest.fixture
def world():
    return World()


@pytest.fixture
def queue(world):
    return world.queue("q.fifo", ordered=True, visibility_seconds=30, dead="q-dead.fifo", receive_count_max=2)


def send(queue, *names):
    return queue.send_many([Send(name, group=name[0], deduplication_id=name) for name in names])


def bodies(deliveries):
    return [delivery.body for delivery in deliveries]


def test_one_receive_may_hold_several_of_a_group_in_order(queue):
    send(queue, "a1", "b1", "a2", "a3")
    assert bodies(queue.receive(10, 0)) == ["a1", "b1", "a2", "a3"]


def test_a_group_is_locked_while_one_of_it_is_in_flight_and_others_flow(queue):
    send(queue, "a1", "a2", "b1")
    held = queue.receive(1, 0)[0]
    assert bodies(queue.receive(10, 0)) == ["b1"]
    queue.delete_many([held.receipt])
    assert bodies(queue.receive(10, 0)) == ["a2"]


def test_a_later_message_made_visible_waits_for_the_earlier_one_in_flight(world, queue):
    send(queue, "a1", "a2")
    first, second = queue.receive(10, 0)
    queue.set_visibility_many([(second.receipt, 0)])
    assert queue.receive(10, 0) == []
    queue.set_visibility_many([(first.receipt, 0)])
    assert bodies(queue.receive(10, 0)) == ["a1", "a2"]


def test_the_first_deleted_and_the_second_in_flight_still_locks(queue):
    send(queue, "a1", "a2", "a3")
    first, second = queue.receive(2, 0)
    queue.delete_many([first.receipt])
    assert queue.receive(10, 0) == []
    queue.delete_many([second.receipt])
    assert bodies(queue.receive(10, 0)) == ["a3"]


def test_a_duplicate_is_accepted_and_not_delivered_even_after_the_first_was_deleted(world, queue):
    sent = send(queue, "a1")
    queue.delete_many([queue.receive(1, 0)[0].receipt])
    world.advance(299)
    assert send(queue, "a1") == sent
    assert queue.receive(10, 0) == []
    world.advance(1)
    assert send(queue, "a1") != sent
    assert bodies(queue.receive(10, 0)) == ["a1"]


def test_deduplication_is_by_group(queue):
    queue.send_many([Send("x", "g1", "same"), Send("y", "g2", "same")])
    assert bodies(queue.receive(10, 0)) == ["x", "y"]


def test_a_lapsed_receipt_neither_deletes_nor_hides(world, queue):
    send(queue, "a1")
    receipt = queue.receive(1, 0)[0].receipt
    world.advance(30)
    for outcome in queue.delete_many([receipt]) + queue.set_visibility_many([(receipt, 10)]):
        assert isinstance(outcome, NotDone)
        assert outcome.gone
        assert "expired" in outcome.message
    assert bodies(queue.receive(1, 0)) == ["a1"]


def test_an_extended_receipt_deletes_after_the_first_timeout(world, queue):
    send(queue, "a1")
    receipt = queue.receive(1, 0)[0].receipt
    queue.set_visibility_many([(receipt, 100)])
    world.advance(60)
    assert queue.delete_many([receipt]) == [Done()]


def test_a_letter_starts_anew_and_its_group_goes_on(world, queue):
    """FIFO: time of send and deduplication id are new, id and count stay; the successor flows."""
    send(queue, "a1", "a2")
    for _ in range(2):
        first = queue.receive(1, 0)[0]
        world.advance(30)
    assert bodies(queue.receive(10, 0)) == ["a2"]
    letter = world.queue("q-dead.fifo").receive(1, 0)[0]
    assert (letter.message_id, letter.deduplication_id) == (first.message_id, first.message_id)
    assert letter.sent_at_ms == world.clock.now_ms() > first.sent_at_ms
    assert letter.group == "a"


def test_sequence_numbers_rise_with_the_order_of_sending(queue):
    send(queue, "a1", "b1", "a2")
    sequences = [delivery.sequence for delivery in queue.receive(10, 0)]
    assert sequences == sorted(set(sequences))


@pytest.mark.parametrize(
    "bad",
    [
        Send("x", deduplication_id="d"),
        Send("x", group="g"),
        Send("x", group="has blank", deduplication_id="d"),
    ],
)
def test_what_fifo_does_not_take_is_refused_for_certain(queue, bad):
    refused, sent = queue.send_many([bad, Send("y", "other", "d2")])
    assert isinstance(refused, NotSent)
    assert refused.definite
    assert isinstance(sent, Sent)


def test_what_follows_an_unknown_send_of_its_group_is_not_sent():
    """It must not overtake: reconcile sends both in order later."""
    world = World(1, Faults(send_unanswered=1))
    queue = world.queue("q.fifo", ordered=True)
    send(queue, "a1")
    outcomes = send(queue, "a2", "a3", "b1")
    assert [o.code for o in outcomes] == ["ServiceUnavailable", "HeldBack", "ServiceUnavailable"]
    assert not any(o.definite for o in outcomes)


def test_a_lost_reply_of_a_send_leaves_one_message():
    """The SDK sends again; FIFO knows the deduplication id."""
    world = World(1, Faults(send_reply_lost=1))
    queue = world.queue("q.fifo", ordered=True)
    send(queue, "a1")
    assert len(queue.all()) == 1
    standard = world.queue("q")
    standard.send_many([Send("a")])
    assert len(standard.all()) == 2
