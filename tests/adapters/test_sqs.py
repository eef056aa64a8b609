"""What the queue asks of SQS: calls, order, and the tries that no emulator makes necessary."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from tenure.adapters.clock import SystemClock
from tenure.adapters.sqs import HELD_BACK, SqsQueue, delivery_of
from tenure.core.errors import ServiceError
from tenure.ports import Delivery, Depth, Done, NotDone, NotSent, Send, Sent
from tests.support.backends import Aws
from tests.support.faults import Fault, Faults


class StillClock(SystemClock):
    def sleep(self, seconds: float) -> None:
        """Not here."""


def queue_on(client: Any, *, ordered: bool = False, polls: Any = None) -> SqsQueue:
    name = "work.fifo" if ordered else "work"
    return SqsQueue(client, f"https://sqs.test/1/{name}", name, ordered, StillClock(), polls=polls)


def a_send(n: int, group: str = "") -> Send:
    return Send(f"{group}{n}", group, f"{group}-{n}") if group else Send(f"m{n}")


def entries(faults: Faults) -> list[list[str]]:
    """The bodies of each send call."""
    return [[each["MessageBody"] for each in params["Entries"]] for _, params in faults.requests]


# ---- sending -------------------------------------------------------------------------------------------------------
def test_calls_are_as_full_as_they_can_be(aws: Aws):
    """Ten entries a call on a standard queue; on FIFO the same as long as there are groups enough."""
    for ordered in (False, True):
        queue = aws.queue(ordered=ordered)
        faults = Faults(aws.sqs)
        queue.send_many([a_send(n, f"g{n}" if ordered else "") for n in range(25)])
        assert [len(bodies) for bodies in entries(faults)] == [10, 10, 5]


def test_a_call_holds_one_mebibyte_at_most(aws: Aws):
    """Of body and attributes, over all its entries."""
    queue = aws.queue()
    faults = Faults(aws.sqs)
    queue.send_many([Send("x" * 300_000, attributes={"a": "y" * 100_000})] * 5)
    assert [len(bodies) for bodies in entries(faults)] == [2, 2, 1]


def test_a_fifo_call_holds_one_entry_of_a_group(aws: Aws):
    """Else a failed entry would be overtaken by its successor in the same call. Groups take turns."""
    queue = aws.queue(ordered=True)
    faults = Faults(aws.sqs)
    queue.send_many([a_send(0, "a"), a_send(1, "a"), a_send(2, "a"), a_send(0, "b"), a_send(1, "b"), a_send(0, "c")])
    assert entries(faults) == [["a0", "b0", "c0"], ["a1", "b1"], ["a2"]]


@pytest.mark.parametrize("fault", [Fault.UNREACHED, Fault.REPLY_LOST, Fault.BROKEN, Fault.THROTTLED])
def test_a_message_that_may_not_have_been_sent_is_not_overtaken(aws: Aws, fault: Fault):
    """R23: the rest of its group is held back, unknown as well, so that reconcile sends it in order; others flow."""
    queue = aws.queue(ordered=True)
    faults = Faults(aws.sqs)
    faults.next("SendMessageBatch", None, fault, fault, fault)
    sends = [a_send(n, group) for n in range(4) for group in "ab"] + [a_send(n, "c") for n in range(3, 4)]
    outcomes = queue.send_many(sends)
    by_body = {send.body: outcome for send, outcome in zip(sends, outcomes, strict=True)}
    assert [type(by_body[name]) for name in ("a0", "b0", "c3")] == [Sent, Sent, Sent]
    for name in ("a1", "b1"):
        outcome = by_body[name]
        assert isinstance(outcome, NotSent)
        assert not outcome.definite
        assert outcome != HELD_BACK
    assert [by_body[f"{group}{n}"] for n in (2, 3) for group in "ab"] == [HELD_BACK] * 4
    assert not HELD_BACK.definite


def test_a_refused_message_holds_nobody_back(aws: Aws):
    """It will never come, so there is nothing to overtake, whether tenure saw it or SQS did."""
    queue = aws.queue(ordered=True, bytes_max=1024)
    for body in ("\x00", "x" * 1025):
        outcomes = queue.send_many([a_send(0, "a"), Send(body, "a", "a-1"), a_send(2, "a")])
        assert [type(outcome) for outcome in outcomes] == [Sent, NotSent, Sent]


@pytest.mark.parametrize("seed", range(5))
def test_in_any_weather_a_groups_messages_are_a_beginning_of_it(aws: Aws, seed: int):
    """Whatever calls fail, what SQS holds of a group are its first messages in order: nothing is left out between."""
    queue = aws.queue(ordered=True)
    faults = Faults(aws.sqs, seed)
    faults.sometimes("SendMessageBatch", Fault.UNREACHED, chance=0.5)
    sends = [a_send(n, group) for n in range(6) for group in "abc"]
    outcomes = queue.send_many(sends)
    faults.sometimes("SendMessageBatch", Fault.UNREACHED, chance=0)
    held = [delivery.body for delivery in _all(queue)]
    for group in "abc":
        mine = [body for body in held if body[0] == group]
        assert mine == [f"{group}{n}" for n in range(len(mine))]
    sent = {send.body for send, outcome in zip(sends, outcomes, strict=True) if isinstance(outcome, Sent)}
    assert sent == set(held)


def _all(queue: Any) -> list[Delivery]:
    found: list[Delivery] = []
    while more := queue.receive(10, 0, 60):
        found += more
        queue.delete_many([delivery.receipt for delivery in more])
    return found


def test_entries_that_sqs_failed_are_sent_once_more(aws: Aws):
    """The SDK tries calls again, not entries; those that were sent are not sent twice."""
    queue = aws.queue()
    queue._clock = StillClock()
    faults = Faults(aws.sqs)
    faults.next("SendMessageBatch", Fault.HALF)
    outcomes = queue.send_many([a_send(n) for n in range(10)])
    assert [type(outcome) for outcome in outcomes] == [Sent] * 10
    assert [len(bodies) for bodies in entries(faults)] == [10, 5]
    assert len(_all(queue)) == 10


def test_an_entry_that_fails_again_is_unknown(aws: Aws):
    """The first answer stands; the second try cannot make it definite."""
    queue = aws.queue()
    queue._clock = StillClock()
    faults = Faults(aws.sqs)
    faults.next("SendMessageBatch", Fault.HALF, Fault.HALF)
    outcomes = queue.send_many([a_send(n) for n in range(4)])
    assert [type(outcome) for outcome in outcomes] == [Sent, Sent, Sent, NotSent]
    assert outcomes[3] == NotSent(False, "InternalError", "half")


def test_a_second_try_cannot_make_an_unknown_send_definite(session: boto3.session.Session):
    """Denied now says nothing of what became of the first try: a definite refusal would cancel a task that may run."""
    client = session.client("sqs")
    with Stubber(client) as stub:
        failed = {"Id": "0", "SenderFault": False, "Code": "InternalError", "Message": "ours"}
        stub.add_response("send_message_batch", {"Successful": [], "Failed": [failed]})
        stub.add_client_error("send_message_batch", "AccessDenied", "no", 403)
        assert queue_on(client).send_many([a_send(0)]) == [NotSent(False, "InternalError", "ours")]


def test_an_entry_that_the_answer_passes_over_is_unknown(session: boto3.session.Session):
    """Nothing is concluded from silence."""
    client = session.client("sqs")
    done = {"Id": "0", "MessageId": "m", "MD5OfMessageBody": "x"}
    with Stubber(client) as stub:
        stub.add_response("send_message_batch", {"Successful": [done], "Failed": []})
        stub.add_response("send_message_batch", {"Successful": [], "Failed": []})
        sent, unknown = queue_on(client).send_many([a_send(0), a_send(1)])
    assert sent == Sent("m")
    assert isinstance(unknown, NotSent)
    assert not unknown.definite


def test_a_call_refused_for_one_entry_is_taken_apart(session: boto3.session.Session):
    """The queue's own maximum may be lower than SQS's: the others are sent one by one."""
    client = session.client("sqs")
    with Stubber(client) as stub:
        stub.add_client_error("send_message_batch", "InvalidParameterValue", "too long", 400)
        stub.add_client_error("send_message_batch", "InvalidParameterValue", "too long", 400)
        sent = {"Successful": [{"Id": "0", "MessageId": "m1", "MD5OfMessageBody": "x"}], "Failed": []}
        stub.add_response("send_message_batch", sent)
        first, second = queue_on(client).send_many([a_send(0), a_send(1)])
        stub.assert_no_pending_responses()
    assert first == NotSent(True, "InvalidParameterValue", "too long")
    assert second == Sent("m1")


def test_a_queue_that_is_not_there_refuses_all_in_one_call(session: boto3.session.Session):
    """It says nothing of the entries, so there is no sense in taking the call apart."""
    client = session.client("sqs")
    with Stubber(client) as stub:
        stub.add_client_error("send_message_batch", "AWS.SimpleQueueService.NonExistentQueue", "no such queue", 400)
        outcomes = queue_on(client).send_many([a_send(0), a_send(1)])
        stub.assert_no_pending_responses()
    assert outcomes == [NotSent(True, "NonExistentQueue", "no such queue")] * 2


# ---- receiving -----------------------------------------------------------------------------------------------------
def test_a_receive_asks_for_every_attribute(session: boto3.session.Session):
    """A message tells of its group, its receives and where it was moved from only if it is asked."""
    client, polls = session.client("sqs"), session.client("sqs")
    asked = {
        "QueueUrl": "https://sqs.test/1/work",
        "MaxNumberOfMessages": 7,
        "WaitTimeSeconds": 20,
        "MessageSystemAttributeNames": ["All"],
        "MessageAttributeNames": ["All"],
    }
    with Stubber(client), Stubber(polls) as stub:
        stub.add_response("receive_message", {}, asked)
        stub.add_response("receive_message", {}, {**asked, "VisibilityTimeout": 0})
        queue = queue_on(client, polls=polls)
        assert queue.receive(7, 20) == []
        assert queue.receive(7, 20, 0) == []
        stub.assert_no_pending_responses()


def test_a_receive_that_fails_raises(session: boto3.session.Session):
    """The poller decides how long to rest; the error names the queue."""
    client = session.client("sqs")
    with Stubber(client) as stub:
        stub.add_client_error("receive_message", "OverLimit", "120000 in flight", 403)
        with pytest.raises(ServiceError, match=r"work.*OverLimit.*120000"):
            queue_on(client).receive(1, 0)
        stub.add_client_error("get_queue_attributes", "AccessDenied", "not allowed", 403)
        with pytest.raises(ServiceError, match=r"work.*AccessDenied"):
            queue_on(client).depth()


BARE = Delivery("", "", "", receive_count=1, sent_at_ms=5, received_at_ms=5)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"Attributes": {}},
        {"Attributes": None, "MessageAttributes": None},
        {"Attributes": {"ApproximateReceiveCount": "abc", "SentTimestamp": ""}},
        {"Attributes": {"ApproximateReceiveCount": "0"}},
        {"Attributes": {"ApproximateReceiveCount": "-3"}},
    ],
)
def test_what_is_missing_or_odd_becomes_the_least_it_can_mean(message: dict[str, Any]):
    """A delivery with odd attributes must not end a poller."""
    assert delivery_of(message, received_at_ms=5) == BARE


def test_every_system_attribute_has_its_place():
    """As on a FIFO DLQ, with a foreign message."""
    message = {
        "MessageId": "m",
        "ReceiptHandle": "r",
        "Body": "b",
        "Attributes": {
            "ApproximateReceiveCount": "1001",
            "SentTimestamp": "7",
            "MessageGroupId": "g",
            "MessageDeduplicationId": "d",
            "SequenceNumber": "18849496460467696128",
            "DeadLetterQueueSourceArn": "arn:aws:sqs:us-east-1:1:work",
            "SenderId": "AIDA",
        },
        "MessageAttributes": {
            "s": {"DataType": "String", "StringValue": "x"},
            "n": {"DataType": "Number", "StringValue": "1.0"},
            "b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
            "odd": {"DataType": "String"},
        },
    }
    assert delivery_of(message, 9) == Delivery(
        message_id="m",
        receipt="r",
        body="b",
        receive_count=1001,
        sent_at_ms=7,
        received_at_ms=9,
        group="g",
        deduplication_id="d",
        sequence="18849496460467696128",
        attributes={"s": "x", "n": "1.0", "b": "AP8=", "odd": ""},
        attribute_types={"n": "Number", "b": "Binary"},
        moved_from="arn:aws:sqs:us-east-1:1:work",
    )


# ---- receipts ------------------------------------------------------------------------------------------------------
def test_ten_receipts_to_a_call(aws: Aws):
    """And an answer for each, in order."""
    queue = aws.queue()
    queue.send_many([a_send(n) for n in range(10)])
    receipts = [delivery.receipt for delivery in queue.receive(10, 0)]
    faults = Faults(aws.sqs)
    assert [type(o) for o in queue.delete_many([*receipts, "nonsense"])] == [Done] * 10 + [NotDone]
    assert [len(params["Entries"]) for _, params in faults.requests] == [10, 1]


def test_a_call_refused_for_one_receipt_is_taken_apart(session: boto3.session.Session):
    """The neighbours keep their visibility."""
    client = session.client("sqs")
    with Stubber(client) as stub:
        stub.add_client_error("change_message_visibility_batch", "ReceiptHandleIsInvalid", "odd", 400)
        stub.add_client_error("change_message_visibility_batch", "ReceiptHandleIsInvalid", "odd", 400)
        stub.add_response("change_message_visibility_batch", {"Successful": [{"Id": "0"}], "Failed": []})
        outcomes = queue_on(client).set_visibility_many([("bad", 1), ("good", 1)])
        stub.assert_no_pending_responses()
    assert outcomes == [NotDone(True, "ReceiptHandleIsInvalid", "odd"), Done()]


def test_a_throttled_call_is_not_taken_apart(session: boto3.session.Session):
    """Ten calls more are no remedy; nobody's receipt is gone."""
    client = session.client("sqs")
    with Stubber(client) as stub:
        stub.add_client_error("delete_message_batch", "RequestThrottled", "slow", 400)
        outcomes = queue_on(client).delete_many(["a", "b"])
        stub.assert_no_pending_responses()
    assert outcomes == [NotDone(False, "RequestThrottled", "slow")] * 2


def test_a_receipt_that_the_answer_passes_over_is_not_done(session: boto3.session.Session):
    """Nor gone: it may be asked again."""
    client = session.client("sqs")
    with Stubber(client) as stub:
        stub.add_response("delete_message_batch", {"Successful": [], "Failed": []})
        (outcome,) = queue_on(client).delete_many(["a"])
    assert isinstance(outcome, NotDone)
    assert not outcome.gone


def test_a_queue_that_is_not_there(aws: Aws):
    """Sends are refused for certain, receipts are gone, and what must answer with more than that raises."""
    url = aws.sqs.create_queue(QueueName="gone")["QueueUrl"]
    aws.sqs.delete_queue(QueueUrl=url)
    queue = SqsQueue(aws.sqs, url, "gone", False, StillClock())
    (sent,) = queue.send_many([a_send(0)])
    assert isinstance(sent, NotSent)
    assert sent.definite
    (deleted,) = queue.delete_many(["r"])
    assert isinstance(deleted, NotDone)
    assert deleted.gone
    with pytest.raises(ServiceError, match="gone"):
        queue.receive(1, 0)
    with pytest.raises(ServiceError, match="gone"):
        queue.depth()


def test_depth_reads_sqs_own_three_counts(aws: Aws):
    """Each in its place."""
    queue = aws.queue()
    queue.send_many([a_send(0), a_send(1), a_send(2), Send("later", delay_seconds=600)])
    queue.receive(1, 0, 60)
    assert queue.depth() == Depth(visible=2, in_flight=1, delayed=1)
