"""What ports.TaskQueue promises of order on a FIFO queue (R23), and does not of groups on a standard one."""

from __future__ import annotations

import pytest

from tenure.core import limits
from tenure.ports import Send, Sent
from tests.contract.messages import only, receive
from tests.support.backends import Backend

MANY = 25
"""More than two calls hold (ten entries each)."""


def ordered_send(group: str, n: int) -> Send:
    return Send(f"{group}{n}", group=group, deduplication_id=f"{group}-{n}")


def test_a_groups_messages_come_in_the_order_they_were_sent(backend: Backend):
    """Over many calls, and with two groups woven into each other."""
    queue = backend.queue(ordered=True)
    sends = [ordered_send(group, n) for n in range(MANY) for group in "ab"]
    assert all(isinstance(outcome, Sent) for outcome in queue.send_many(sends))
    bodies: list[str] = []
    while more := queue.receive(10, 0, 60):
        bodies += [delivery.body for delivery in more]
        queue.delete_many([delivery.receipt for delivery in more])
    for group in "ab":
        assert [body for body in bodies if body[0] == group] == [f"{group}{n}" for n in range(MANY)]


def test_a_group_is_locked_while_one_of_it_is_in_flight(backend: Backend):
    """Its next message waits for the head to be deleted; other groups flow."""
    queue = backend.queue(ordered=True)
    queue.send_many([ordered_send("a", 0), ordered_send("a", 1), ordered_send("b", 0)])
    (head,) = queue.receive(1, 0, 60)
    assert head.body == "a0"
    assert [delivery.body for delivery in queue.receive(10, 0, 60)] == ["b0"]
    assert queue.receive(10, 0, 60) == []
    queue.delete_many([head.receipt])
    assert [delivery.body for delivery in queue.receive(10, 0, 60)] == ["a1"]


def test_a_group_handed_back_comes_again_in_order(backend: Backend):
    """Several of a group in one receive are in order, and once all are visible again they come so again."""
    queue = backend.queue(ordered=True)
    queue.send_many([ordered_send("a", n) for n in range(4)])
    first = queue.receive(10, 0, 60)
    assert [delivery.body for delivery in first] == ["a0", "a1", "a2", "a3"]
    queue.set_visibility_many([(delivery.receipt, 0) for delivery in reversed(first)])
    assert [delivery.body for delivery in queue.receive(10, 0, 60)] == ["a0", "a1", "a2", "a3"]


def test_part_of_a_group_in_flight_holds_back_the_rest(backend: Backend):
    """A later message that is visible again still waits while its head is in flight."""
    queue = backend.queue(ordered=True)
    queue.send_many([ordered_send("a", n) for n in range(3)])
    first = queue.receive(2, 0, 60)
    queue.set_visibility_many([(first[1].receipt, 0)])
    assert queue.receive(10, 0, 60) == []


def test_the_same_send_twice_is_one_message(backend: Backend):
    """A send whose answer was lost is sent again under its id; both answers say yes."""
    queue = backend.queue(ordered=True)
    outcomes = queue.send_many([ordered_send("a", 0)]) + queue.send_many([ordered_send("a", 0)])
    assert [type(outcome) for outcome in outcomes] == [Sent, Sent]
    assert len(receive(queue, 2)) == 1


@pytest.mark.honest_on("memory", "ministack")
def test_an_id_is_remembered_after_its_message_was_deleted(backend: Backend):
    """So a task that was done within five minutes is not sent again by a late retry of its first send."""
    queue = backend.queue(ordered=True)
    queue.send_many([ordered_send("a", 0)])
    queue.delete_many([only(queue).receipt])
    assert isinstance(queue.send_many([ordered_send("a", 0)])[0], Sent)
    assert queue.receive(10, 0) == []


@pytest.mark.honest_on("memory")
def test_an_id_is_forgotten_after_five_minutes(backend: Backend):
    """Why every send of reconcile's has an id of its own, and why the table, not SQS, tells what was done."""
    queue = backend.queue(ordered=True)
    queue.send_many([ordered_send("a", 0)])
    queue.delete_many([only(queue).receipt])
    backend.pass_time(limits.SQS_DEDUPLICATION_SECONDS + 1)
    queue.send_many([ordered_send("a", 0)])
    assert only(queue).body == "a0"


def test_groups_of_tenants_lock_nothing_on_a_standard_queue(backend: Backend):
    """There a group means fairness, not order."""
    queue = backend.queue()
    queue.send_many([Send("one", group="acme"), Send("two", group="acme")])
    assert len(queue.receive(1, 0, 60)) == 1
    assert len(queue.receive(1, 0, 60)) == 1
