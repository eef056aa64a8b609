"""ports.TaskQueue, held against every adapter, on standard and on FIFO queues."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tenure.core import limits
from tenure.ports import Depth, Done, NotDone, Send, Sent, TaskQueue
from tests.contract.messages import a_send, only, receive, refused
from tests.support.backends import Backend

MANY = 25
"""More than two calls hold (ten entries each)."""


# ---- what is sent is what is received ------------------------------------------------------------------------------
def test_a_message_is_received_as_it_was_sent(backend: Backend, queue: TaskQueue):
    """Body, attributes, group and deduplication id, whatever script they are in; with the facts of its delivery."""
    body = '{"dish": "Käsespätzle 🧀", "tab": "\\t"}\n'
    send = a_send(queue, body, name="g1", attributes={"tenure-reason": "zu groß", "x": "1"})
    (sent,) = queue.send_many([send])
    assert isinstance(sent, Sent)
    delivery = only(queue)
    assert (delivery.body, delivery.attributes, delivery.attribute_types) == (body, send.attributes, {})
    assert (delivery.group, delivery.deduplication_id) == (send.group, send.deduplication_id)
    assert (delivery.message_id, delivery.receive_count, delivery.moved_from) == (sent.message_id, 1, "")
    assert delivery.receipt
    assert bool(delivery.sequence) == queue.ordered
    assert abs(backend.clock.now_ms() - delivery.sent_at_ms) < 60_000
    assert abs(backend.clock.now_ms() - delivery.received_at_ms) < 60_000


def test_a_foreign_message_keeps_what_it_takes_to_send_it_on(backend: Backend, queue: TaskQueue):
    """Numbers and bytes among the attributes come as text with their type, and go out again as they were."""
    foreign = a_send(
        queue,
        "<order/>",
        name="g1",
        attributes={"count": "007", "logo": "iVBORw==", "kind": "xml"},
        attribute_types={"count": "Number.int", "logo": "Binary.png"},
    )
    queue.send_many([foreign])
    first = only(queue)
    assert (first.attributes, first.attribute_types) == (foreign.attributes, foreign.attribute_types)
    other = backend.queue(ordered=queue.ordered)
    again = Send(
        first.body,
        first.group,
        first.deduplication_id,
        0,
        attributes=first.attributes,
        attribute_types=first.attribute_types,
    )
    assert isinstance(other.send_many([again])[0], Sent)
    second = only(other)
    assert (second.body, second.attributes, second.attribute_types) == (
        foreign.body,
        foreign.attributes,
        foreign.attribute_types,
    )


def test_any_number_is_sent_and_received_once(queue: TaskQueue):
    """More than one call's entries, outcomes in the order of the sends, no message twice and none missing."""
    outcomes = queue.send_many([a_send(queue, f"m{n}") for n in range(MANY)])
    deliveries = receive(queue, MANY + 1)
    by_body = {delivery.body: delivery.message_id for delivery in deliveries}
    assert len(deliveries) == MANY
    assert [Sent(by_body[f"m{n}"]) for n in range(MANY)] == outcomes


def test_sends_are_cut_into_calls_by_bytes_too(queue: TaskQueue):
    """Ten entries of 150,000 bytes are more than the one MiB that a call takes."""
    outcomes = queue.send_many([a_send(queue, f"{n}" + "x" * 150_000, name=f"m{n}") for n in range(10)])
    assert [type(outcome) for outcome in outcomes] == [Sent] * 10
    assert sorted(delivery.body[0] for delivery in receive(queue, 10)) == list("0123456789")


def test_empty_batches_are_no_error(queue: TaskQueue):
    """Nothing asked is nothing answered."""
    assert queue.send_many([]) == []
    assert queue.set_visibility_many([]) == []
    assert queue.delete_many([]) == []
    assert queue.receive(10, 0) == []


# ---- what SQS refuses ----------------------------------------------------------------------------------------------
BAD = {
    "over-a-mebibyte": ({"body": "😀" * 300_000}, "InvalidParameterValue"),
    "empty-body": ({"body": ""}, "MissingParameter"),
    "character": ({"body": "a\u0001b"}, "InvalidMessageContents"),
    "noncharacter": ({"body": "a\ufffeb"}, "InvalidMessageContents"),
    "empty-attribute": ({"attributes": {"x": ""}}, "InvalidParameterValue"),
    "reserved-attribute": ({"attributes": {"AWS.x": "1"}}, "InvalidParameterValue"),
    "eleven-attributes": ({"attributes": {f"a{n}": "1" for n in range(11)}}, "InvalidParameterValue"),
    "group-with-a-blank": ({"group": "a b"}, "InvalidParameterValue"),
}


@pytest.mark.parametrize("why", BAD)
def test_a_refused_entry_hinders_no_neighbour(queue: TaskQueue, why: str):
    """It is refused for certain, alone, and nothing of it is stored."""
    changes, code = BAD[why]
    good, bad = [a_send(queue, f"m{n}") for n in range(11)], replace(a_send(queue, "bad"), **changes)
    outcomes = queue.send_many([*good[:5], bad, *good[5:]])
    assert refused(outcomes.pop(5)) == code
    assert [type(outcome) for outcome in outcomes] == [Sent] * 11
    assert sorted(delivery.body for delivery in receive(queue, 12)) == sorted(send.body for send in good)


@pytest.mark.honest_on("moto", "ministack")
def test_a_queues_own_maximum_is_met_by_the_entry_alone(backend: Backend):
    """S03 d: a queue that takes 1,024 bytes refuses one of 1,100 for certain; its neighbours in the call are sent."""
    for ordered in (False, True):
        queue = backend.queue(ordered=ordered, bytes_max=1024)
        sends = [a_send(queue, "a" * 1000, "m1"), a_send(queue, "b" * 1100, "m2"), a_send(queue, "c", "m3")]
        first, second, third = queue.send_many(sends)
        refused(second)
        assert [type(first), type(third)] == [Sent, Sent]
        assert sorted(delivery.body[0] for delivery in receive(queue, 3)) == ["a", "c"]


@pytest.mark.honest_on("memory", "moto")
@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_the_limit_counts_utf8_bytes_of_body_and_attributes(queue: TaskQueue, letter: str):
    """S03 a, b: exactly the limit less the attribute's name, type and value is taken; one byte more is refused.

    moto would take the longer one too (it counts characters): what is seen to refuse there is tenure.
    """
    attributes = {"name": "wért"}
    room = limits.SQS_MESSAGE_BYTES_MAX - len("nameStringwért".encode())
    body = letter * (room // len(letter.encode()))
    body += "x" * (room - len(body.encode()))
    fits = a_send(queue, body, "m1", attributes=attributes)
    over = a_send(queue, body + "x", "m2", attributes=attributes)
    taken, refusal = queue.send_many([fits, over])
    assert isinstance(taken, Sent)
    assert refused(refusal) == "InvalidParameterValue"
    assert only(queue).body == body


def test_a_delay_is_for_standard_queues(backend: Backend):
    """SQS knows none of a FIFO message's own, so it is refused and not forgotten."""
    queue = backend.queue(ordered=True)
    assert refused(queue.send_many([a_send(queue, delay_seconds=5)])[0]) == "InvalidParameterValue"


@pytest.mark.parametrize("missing", ["group", "deduplication_id"])
def test_a_fifo_message_has_a_group_and_an_id(backend: Backend, missing: str):
    """Without either SQS would refuse it, or take its content for its id."""
    queue = backend.queue(ordered=True)
    outcome = queue.send_many([a_send(queue, **{missing: ""})])[0]
    assert refused(outcome) in ("MissingParameter", "InvalidParameterValue")


@pytest.mark.parametrize("seconds", [-1, 901])
def test_a_delay_has_bounds(backend: Backend, seconds: int):
    """0 to 900 s."""
    queue = backend.queue()
    assert refused(queue.send_many([a_send(queue, delay_seconds=seconds)])[0]) == "InvalidParameterValue"


# ---- time ----------------------------------------------------------------------------------------------------------
def test_a_delayed_message_comes_when_it_is_due(backend: Backend):
    """Not before, and then to a receive that waits for it; meanwhile it counts as delayed."""
    queue = backend.queue()
    queue.send_many([a_send(queue, delay_seconds=1)])
    assert queue.receive(10, 0) == []
    assert queue.depth() == Depth(visible=0, in_flight=0, delayed=1)
    assert [delivery.body for delivery in queue.receive(10, 5)] == ["hello"]


def test_a_received_message_is_hidden_and_comes_back(queue: TaskQueue):
    """The same message, one receive later, under another receipt."""
    queue.send_many([a_send(queue)])
    first = only(queue, visibility_seconds=1)
    assert queue.receive(10, 0) == []
    second = only(queue, wait_seconds=5)
    assert (second.message_id, second.receive_count) == (first.message_id, 2)
    assert second.receipt != first.receipt
    assert second.sent_at_ms == first.sent_at_ms


def test_visibility_zero_brings_a_message_back_at_once(queue: TaskQueue):
    """How a task is handed back to be run again now."""
    queue.send_many([a_send(queue)])
    assert queue.set_visibility_many([(only(queue).receipt, 0)]) == [Done()]
    assert only(queue).receive_count == 2


@pytest.mark.honest_on("memory")
def test_visibility_counts_from_the_change(backend: Backend, queue: TaskQueue):
    """An extension holds for as long as it says from when it was asked, not from the receive."""
    queue.send_many([a_send(queue)])
    receipt = only(queue, visibility_seconds=30).receipt
    backend.pass_time(20)
    assert queue.set_visibility_many([(receipt, 30)]) == [Done()]
    backend.pass_time(29)
    assert queue.receive(10, 0) == []
    backend.pass_time(2)
    assert only(queue).receive_count == 2


@pytest.mark.honest_on("memory", "moto")
def test_visibility_beyond_twelve_hours_is_refused_and_the_receipt_lives(queue: TaskQueue):
    """SQS does not clamp; the receipt is not gone, and the neighbours are changed."""
    queue.send_many([a_send(queue, "a"), a_send(queue, "b")])
    one, two = receive(queue, 2)
    outcome, done = queue.set_visibility_many([(one.receipt, 43_201), (two.receipt, 0)])
    assert isinstance(outcome, NotDone)
    assert not outcome.gone
    assert done == Done()
    assert queue.set_visibility_many([(one.receipt, 0)]) == [Done()]
    assert len(receive(queue, 2)) == 2


# ---- receipts ------------------------------------------------------------------------------------------------------
def test_a_deleted_message_is_gone(queue: TaskQueue):
    """It neither comes back nor counts."""
    queue.send_many([a_send(queue, f"m{n}") for n in range(12)])
    deliveries = receive(queue, 12)
    assert queue.delete_many([delivery.receipt for delivery in deliveries]) == [Done()] * 12
    assert queue.depth() == Depth(0, 0, 0)


@pytest.mark.honest_on("memory", "moto")
def test_deleting_twice_is_no_error(queue: TaskQueue):
    """A delete whose answer was lost is simply asked again."""
    queue.send_many([a_send(queue)])
    receipt = only(queue).receipt
    assert queue.delete_many([receipt]) == [Done()]
    assert queue.delete_many([receipt]) == [Done()]


@pytest.mark.parametrize("act", ["delete", "hide"])
def test_a_receipt_that_never_was_one_is_gone(queue: TaskQueue, act: str):
    """It is told as such for its entry; all the others, a call's worth and more, are done."""
    queue.send_many([a_send(queue, f"m{n}") for n in range(12)])
    receipts = [delivery.receipt for delivery in receive(queue, 12)]
    receipts.insert(4, "nonsense")
    if act == "delete":
        outcomes = queue.delete_many(receipts)
    else:
        outcomes = queue.set_visibility_many([(receipt, 0) for receipt in receipts])
    odd = outcomes.pop(4)
    assert isinstance(odd, NotDone)
    assert odd.gone
    assert outcomes == [Done()] * 12
    assert len(receive(queue, 13)) == (0 if act == "delete" else 12)


def test_the_visibility_of_a_deleted_message_cannot_be_changed(queue: TaskQueue):
    """The receipt is gone: the heartbeat of a settled task learns that there is nothing to hold."""
    queue.send_many([a_send(queue)])
    receipt = only(queue).receipt
    queue.delete_many([receipt])
    (outcome,) = queue.set_visibility_many([(receipt, 30)])
    assert isinstance(outcome, NotDone)
    assert outcome.gone


@pytest.mark.honest_on("memory", "ministack")
def test_a_stale_receipt_does_not_touch_the_next_holders_message(queue: TaskQueue):
    """Whatever SQS answers to it (a standard queue may say yes): who owns a task, the table tells, never a receipt."""
    queue.send_many([a_send(queue)])
    stale = only(queue).receipt
    queue.set_visibility_many([(stale, 0)])
    holder = only(queue)
    outcomes = [*queue.set_visibility_many([(stale, 0)]), *queue.delete_many([stale])]
    assert all(outcome == Done() or (isinstance(outcome, NotDone) and outcome.gone) for outcome in outcomes)
    assert queue.depth().in_flight == 1
    assert queue.set_visibility_many([(holder.receipt, 0)]) == [Done()]
    assert only(queue).receive_count == 3


def test_depth_tells_the_visible_from_those_in_flight(queue: TaskQueue):
    """Approximately, on AWS; exactly here."""
    queue.send_many([a_send(queue, f"m{n}") for n in range(3)])
    assert queue.depth() == Depth(visible=3, in_flight=0, delayed=0)
    assert len(queue.receive(1, 0, 60)) == 1
    assert queue.depth() == Depth(visible=2, in_flight=1, delayed=0)


# ---- the backstop (R22) --------------------------------------------------------------------------------------------
def test_sqs_moves_a_message_that_was_received_too_often(backend: Backend, queue: TaskQueue):
    """With all it had: body, attributes, group, and its id as a message."""
    source = backend.queue(ordered=queue.ordered, receives_max=2)
    source.send_many([a_send(source, "poison", name="g1", attributes={"a": "1"})])
    first = only(source, visibility_seconds=0)
    only(source, visibility_seconds=0)
    assert source.receive(10, 0) == []
    moved = only(backend.dead(source))
    assert (moved.message_id, moved.body, moved.attributes) == (first.message_id, "poison", {"a": "1"})
    assert moved.group == first.group
    assert moved.receive_count == 3


@pytest.mark.honest_on("memory")
def test_a_moved_message_tells_where_it_came_from(backend: Backend, queue: TaskQueue):
    """What ingest tells tenure's own letters from: they were sent to the DLQ and not moved."""
    source = backend.queue(ordered=queue.ordered, receives_max=1)
    source.send_many([a_send(source)])
    only(source, visibility_seconds=0)
    assert source.receive(10, 0) == []
    assert only(backend.dead(source)).moved_from.endswith(f":{source.name}")


# ---- many consumers ------------------------------------------------------------------------------------------------
def test_consumers_at_once_get_each_message_once(queue: TaskQueue):
    """Eight threads that receive and delete share sixty messages without loss and without a double."""
    queue.send_many([a_send(queue, f"m{n}") for n in range(60)])

    def consume(_: int) -> list[str]:
        bodies = []
        while more := queue.receive(3, 0, 60):
            bodies += [delivery.body for delivery in more]
            assert queue.delete_many([delivery.receipt for delivery in more]) == [Done()] * len(more)
        return bodies

    with ThreadPoolExecutor(8) as pool:
        got = [body for bodies in pool.map(consume, range(8)) for body in bodies]
    assert sorted(got) == sorted(f"m{n}" for n in range(60))
    assert queue.depth() == Depth(0, 0, 0)
