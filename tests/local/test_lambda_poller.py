"""The stand-in for Lambda's poller deletes what Lambda would delete, and leaves everything else as it was."""

import json
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock, SystemThreads
from tenure.core.topology import Tier
from tenure.local.lambda_function import Answered, FunctionError, Invoked
from tenure.local.lambda_poller import Mapping, MappingSpec, record

numbers = count(1)


class Function:
    """A function whose answers a test chooses; remembers its events."""

    def __init__(self, answer: Callable[[dict[str, Any]], Invoked]) -> None:
        self.answer = answer
        self.events: list[dict[str, Any]] = []
        self.running = self.most = 0
        self.lock = threading.Lock()
        self.name = "quick"
        self.spec = self

    def invoke(self, event: dict[str, Any]) -> Invoked:
        with self.lock:
            self.events.append(event)
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            return self.answer(event)
        finally:
            with self.lock:
                self.running -= 1


@pytest.fixture
def tier(clients: Clients) -> Tier:
    name = f"mapped-{next(numbers)}"
    url = clients.sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "100"})["QueueUrl"]
    return Tier(queue="media", tier="normal", ordered=False, name=name, dead_name=name, url=url)


def send(clients: Clients, tier: Tier, *bodies: str) -> None:
    entries: Any = [{"Id": str(i), "MessageBody": body} for i, body in enumerate(bodies)]
    clients.sqs.send_message_batch(QueueUrl=tier.url, Entries=entries)


def left(clients: Clients, tier: Tier) -> tuple[int, int]:
    """(visible, in flight)."""
    names: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = clients.sqs.get_queue_attributes(QueueUrl=tier.url, AttributeNames=names)["Attributes"]
    return int(found[names[0]]), int(found[names[1]])


def mapping(clients: Clients, tier: Tier, function: Function, concurrency: int = 2) -> Mapping:
    spec = MappingSpec(tier, batch_size=10, concurrency_max=concurrency)
    found: Any = function
    return Mapping(spec, found, clients.sqs_polls, SystemClock(), SystemThreads(), lambda what, detail: None)


def serve(clients: Clients, tier: Tier, function: Function, batches: int = 1, concurrency: int = 2) -> Mapping:
    """Poll until so many batches were taken, then stop and let them end."""
    taken = threading.Semaphore(0)
    answer = function.answer

    def counted(event: dict[str, Any]) -> Invoked:
        taken.release()
        return answer(event)

    function.answer = counted
    made = mapping(clients, tier, function, concurrency)
    made.start()
    for _ in range(batches):
        assert taken.acquire(timeout=20)
    assert made.stop(wait_seconds=20)
    return made


def failing(bodies: set[str]) -> Callable[[dict[str, Any]], Invoked]:
    def answer(event: dict[str, Any]) -> Invoked:
        failed = [r["messageId"] for r in event["Records"] if r["body"] in bodies]
        return Answered(json.dumps({"batchItemFailures": [{"itemIdentifier": each} for each in failed]}))

    return answer


def test_a_partial_answer_deletes_the_rest_of_the_batch(clients: Clients, tier: Tier) -> None:
    """Only what the answer lists stays, hidden for the queue's own visibility timeout."""
    send(clients, tier, "a", "b", "c")
    serve(clients, tier, Function(failing({"b"})))
    assert left(clients, tier) == (0, 1)


@pytest.mark.parametrize("text", ["null", "{}", '""', '{"batchItemFailures": []}', '{"batchItemFailures": null}'])
def test_an_empty_answer_deletes_everything(clients: Clients, tier: Tier, text: str) -> None:
    """As on AWS, a handler that returns nothing has said that all is done."""
    send(clients, tier, "a", "b")
    serve(clients, tier, Function(lambda event: Answered(text)))
    assert left(clients, tier) == (0, 0)


@pytest.mark.parametrize(
    "invoked",
    [
        FunctionError("Sandbox.Timedout", "Task timed out"),
        FunctionError("ValueError", "no"),
        Answered('"done"'),
        Answered('{"batchItemFailures": [{"itemIdentifier": ""}]}'),
        Answered('{"batchItemFailures": [{"itemIdentifier": "of another batch"}]}'),
    ],
)
def test_an_error_or_an_odd_answer_keeps_everything_hidden(clients: Clients, tier: Tier, invoked: Invoked) -> None:
    """Nothing is deleted and nobody's visibility is touched: the batch comes back when that lapses, not before."""
    send(clients, tier, "a", "b")
    serve(clients, tier, Function(lambda event: invoked))
    assert left(clients, tier) == (0, 2)


def test_a_mapping_never_runs_more_than_its_maximum_concurrency(clients: Clients, tier: Tier) -> None:
    """Twelve batches with room for two: both places are used, and never a third."""
    meet = threading.Barrier(2)

    def answer(event: dict[str, Any]) -> Invoked:
        meet.wait(timeout=20)  # returns only while another invocation runs beside this one
        return Answered("null")

    function = Function(answer)
    made = MappingSpec(tier, batch_size=1, concurrency_max=2)
    for start in range(0, 12, 6):
        send(clients, tier, *(str(start + i) for i in range(6)))
    found: Any = function
    running = Mapping(made, found, clients.sqs_polls, SystemClock(), SystemThreads(), lambda what, detail: None)
    running.start()
    deadline_ms = SystemClock().now_ms() + 30_000
    while left(clients, tier) != (0, 0) and SystemClock().now_ms() < deadline_ms:
        SystemClock().sleep(0.05)
    assert running.stop(wait_seconds=20)
    assert function.most == 2
    assert len(function.events) == 12


def test_a_record_is_what_lambda_would_hand_over(clients: Clients, tier: Tier) -> None:
    """Names and types of the event, as the worker's runtime reads them."""
    clients.sqs.send_message(
        QueueUrl=tier.url,
        MessageBody="hello",
        MessageAttributes={
            "tenure-reason": {"DataType": "String", "StringValue": "why"},
            "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        },
    )
    function = Function(lambda event: Answered("null"))
    serve(clients, tier, function)
    (told,) = function.events[0]["Records"]
    assert told["body"] == "hello"
    assert told["eventSource"] == "aws:sqs"
    assert told["eventSourceARN"].endswith(f":{tier.name}")
    assert told["attributes"]["ApproximateReceiveCount"] == "1"
    assert told["attributes"]["SentTimestamp"].isdigit()
    assert told["messageAttributes"]["tenure-reason"] == {
        "dataType": "String",
        "stringValue": "why",
        "stringListValues": [],
        "binaryListValues": [],
    }
    assert told["messageAttributes"]["bytes"]["binaryValue"] == "AP8="


def test_a_record_holds_no_attribute_that_the_message_has_not(tier: Tier) -> None:
    """A bare message gives empty maps, not missing members."""
    bare = record(tier, {"MessageId": "m", "ReceiptHandle": "r", "Body": "b"})
    assert (bare["attributes"], bare["messageAttributes"]) == ({}, {})
