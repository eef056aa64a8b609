"""What moto gets wrong and the embedded stack leans on, put right."""

from itertools import count

import pytest
from moto.sqs import models

from tenure.adapters.clients import Clients

numbers = count(1)


@pytest.fixture
def url(clients: Clients) -> str:
    """A FIFO queue of its own."""
    attributes = {"FifoQueue": "true", "VisibilityTimeout": "100"}
    found: str = clients.sqs.create_queue(QueueName=f"atomic-{next(numbers)}.fifo", Attributes=attributes)["QueueUrl"]  # type: ignore[arg-type] # the stubs want literals
    return found


def send(clients: Clients, url: str, *bodies: str) -> None:
    for body in bodies:
        clients.sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g", MessageDeduplicationId=body)


def receive(clients: Clients, url: str) -> dict[str, str]:
    """Body -> receipt, in the order received."""
    found = clients.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", [])
    return {message["Body"]: message["ReceiptHandle"] for message in found}


def test_a_group_that_was_handed_back_comes_in_its_order(clients: Clients, url: str) -> None:
    """A worker returns the rest of a group with visibility 0; its head must come first again, not its tail."""
    send(clients, url, "a", "b", "c")
    first = receive(clients, url)
    assert list(first) == ["a", "b", "c"]
    for receipt in first.values():
        clients.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)
    assert list(receive(clients, url)) == ["a", "b", "c"]


def test_a_group_is_closed_while_its_head_is_in_flight(clients: Clients, url: str) -> None:
    """The tail handed back alone waits for the head."""
    send(clients, url, "a", "b")
    first = receive(clients, url)
    clients.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=first["b"], VisibilityTimeout=0)
    assert receive(clients, url) == {}
    clients.sqs.delete_message(QueueUrl=url, ReceiptHandle=first["a"])
    assert list(receive(clients, url)) == ["b"]


def test_a_group_whose_holder_died_comes_in_its_order(clients: Clients, url: str) -> None:
    """When the visibility of a whole group has lapsed, its head comes first; moto by itself brings the tail."""
    send(clients, url, "a", "b", "c")
    for receipt in receive(clients, url).values():
        clients.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=1)
    while not (found := receive(clients, url)):
        assert clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])  # until it has lapsed
    assert list(found) == ["a", "b", "c"]


@pytest.mark.parametrize("reads", range(1, 13))
def test_a_group_whose_visibility_lapses_during_a_look_comes_in_its_order(
    clients: Clients, url: str, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    """Wherever in a look the moment falls, the whole group comes or none of it: one receive sees one time."""
    send(clients, url, "a", "b", "c")
    assert list(receive(clients, url)) == ["a", "b", "c"]
    now_ms, readings = models.unix_time_millis, count(1)
    monkeypatch.setattr(models, "unix_time_millis", lambda: now_ms() + 200_000 * (next(readings) > reads))
    while not (found := receive(clients, url)):
        pass  # until the clock has been read so often
    assert list(found) == ["a", "b", "c"]
