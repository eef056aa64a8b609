"""Whatever SQS answers: a delivery for each message, an outcome for each entry, and an error only of the port's own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.adapters.clock import SystemClock
from tenure.adapters.sqs import SqsQueue
from tenure.core.errors import ServiceError
from tenure.ports import Delivery, Done, NotDone, NotSent, Send, Sent
from tests.fuzz.junk import ANY, mutated

MESSAGE: dict[str, Any] = {
    "MessageId": "m",
    "ReceiptHandle": "r",
    "Body": "{}",
    "Attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "7", "MessageGroupId": "g", "SequenceNumber": "1"},
    "MessageAttributes": {
        "s": {"DataType": "String", "StringValue": "x"},
        "b": {"DataType": "Binary", "BinaryValue": b"x"},
    },
}
ENTRIES: dict[str, Any] = {
    "Successful": [{"Id": "0", "MessageId": "m0"}],
    "Failed": [{"Id": "1", "SenderFault": True, "Code": "InvalidMessageContents", "Message": "no"}],
}


class StillClock(SystemClock):
    def sleep(self, seconds: float) -> None:
        """Not here."""


class Answering:
    """A client whose every call is answered with the same."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __getattr__(self, call: str) -> Any:
        return lambda **_: self._answer


def queue(answer: Any) -> SqsQueue:
    client: Any = Answering(answer)
    return SqsQueue(client, "https://sqs.test/1/work", "work", False, StillClock())


@given(mutated(MESSAGE))
def test_an_odd_message_is_a_delivery_and_takes_no_other_with_it(message: Any) -> None:
    """A receive that raised would leave the whole batch hidden, and a poller would meet the same one again."""
    deliveries = queue({"Messages": [MESSAGE, message]}).receive(10, 0)
    assert len(deliveries) == 2
    assert deliveries[0].message_id == "m"
    odd = deliveries[1]
    texts = (odd.message_id, odd.receipt, odd.body, odd.group, odd.deduplication_id, odd.sequence, odd.moved_from)
    assert all(isinstance(text, str) for text in (*texts, *odd.attributes, *odd.attributes.values()))
    assert all(isinstance(number, int) for number in (odd.receive_count, odd.sent_at_ms, odd.received_at_ms))
    assert odd.receive_count >= 1


ANSWERS = mutated(ENTRIES) | st.dictionaries(st.sampled_from(["Successful", "Failed"]), ANY)


@given(ANSWERS)
def test_odd_outcomes_are_unknown_and_each_entry_has_one(answer: Any) -> None:
    """What cannot be read says nothing of any entry: neither that it was sent, nor that it was not."""
    sent = queue(answer).send_many([Send("a"), Send("b"), Send("c")])
    assert [type(each) in (Sent, NotSent) for each in sent] == [True] * 3
    done = queue(answer).delete_many(["a", "b", "c"])
    assert [type(each) in (Done, NotDone) for each in done] == [True] * 3


@given(
    ANY | mutated({"Attributes": {"ApproximateNumberOfMessages": "1", "ApproximateNumberOfMessagesNotVisible": "2"}})
)
def test_a_depth_that_cannot_be_read_is_a_service_error(answer: Any) -> None:
    with pytest.raises(ServiceError, match="queue work: depth unknown"):
        queue(answer).depth()


@pytest.mark.parametrize("odd", [{"Id": "-1"}, {"Id": "3"}, {"Id": "x"}, {}, {"Id": None}, 5], ids=repr)
def test_an_outcome_of_an_entry_that_was_not_asked_about_is_passed_over(odd: Any) -> None:
    """Least of all is it another entry's: "-1" is not the last one."""
    answering = queue({"Successful": [odd, {"Id": "1", "MessageId": "m"}]})
    unanswered, sent = answering.send_many([Send("a"), Send("b")])
    assert sent == Sent("m")
    assert isinstance(unanswered, NotSent)
    assert not unanswered.definite
    assert [type(each) for each in answering.delete_many(["a", "b", "c"])] == [NotDone, Done, NotDone]


def test_an_odd_message_reads_as_the_least_it_can_mean() -> None:
    message = {
        "Attributes": ["x"],
        "MessageAttributes": {"a": 5, "b": {"DataType": "Binary", "BinaryValue": 7}},
        "Body": 5,
    }
    odd: Delivery = queue({"Messages": [message]}).receive(10, 0)[0]
    assert (odd.message_id, odd.receive_count, odd.attributes) == ("", 1, {"b": ""})
