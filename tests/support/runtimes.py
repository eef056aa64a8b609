"""The two runtimes around a lab's engine: a poller as a simulated process, and a Lambda with AWS's own events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.core.topology import Pool
from tenure.ports import Delivery, TaskQueue
from tenure.worker.acks import DirectAck
from tenure.worker.held import Inbox
from tenure.worker.lambda_runtime import LambdaParts, LambdaRuntime, Source
from tenure.worker.poller import Poller, PollerParts
from tests.support.lab import Lab

ARN = "arn:aws:sqs:us-east-1:123456789012:"


@dataclass
class Served:
    """A poller in a simulated process, and the exit code that it ended with."""

    poller: Poller
    codes: list[int] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return bool(self.codes)


def serve(lab: Lab, worker: str = "w1", queue: TaskQueue | None = None, **parts: Any) -> Served:
    """Start a poller for the lab's queue in a simulated process; it runs within `lab.world.run`."""
    source = queue or lab.queue
    telemetry = lab.world.telemetry

    def connect() -> Inbox:
        return Inbox(lab.tier, source, lab.dead, DirectAck(source, telemetry))

    return serve_all(lab, worker, [connect], **parts)


def serve_all(lab: Lab, worker: str, connects: Sequence[Callable[[], Inbox]], **parts: Any) -> Served:
    """The same for several queues."""
    world = lab.world
    threads_count = parts.get("threads_count", 1)
    poller = Poller(
        PollerParts(
            engine=lab.engine(worker, max_running=threads_count),
            connects=connects,
            clock=world.clock,
            entropy=world.entropy,
            threads=world.threads,
            telemetry=world.telemetry,
            worker_id=worker,
            **parts,
        )
    )
    served = Served(poller)

    def main() -> None:
        served.codes.append(poller.run())
        world.kill(worker)  # a process that ends takes its threads with it

    world.spawn(worker, main)
    return served


class Context:
    """Lambda's context object, as far as a handler may rely on it: the time that is left."""

    def __init__(self, lab: Lab, seconds: float = 300.0) -> None:
        self._clock = lab.world.clock
        self._ends_at_ms = self._clock.now_ms() + round(seconds * 1000)

    def get_remaining_time_in_millis(self) -> int:
        return self._ends_at_ms - self._clock.now_ms()


def record_of(delivery: Delivery, queue_name: str) -> dict[str, Any]:
    """A delivery as Lambda's poller passes it on."""
    system = {
        "ApproximateReceiveCount": str(delivery.receive_count),
        "SentTimestamp": str(delivery.sent_at_ms),
        "SenderId": "AIDAEXAMPLE",
        "ApproximateFirstReceiveTimestamp": str(delivery.received_at_ms),
    }
    if delivery.group:
        system["MessageGroupId"] = delivery.group
    if delivery.sequence:
        system |= {"SequenceNumber": delivery.sequence, "MessageDeduplicationId": delivery.deduplication_id}
    if delivery.moved_from:
        system["DeadLetterQueueSourceArn"] = delivery.moved_from
    types = delivery.attribute_types
    return {
        "messageId": delivery.message_id,
        "receiptHandle": delivery.receipt,
        "body": delivery.body,
        "attributes": system,
        "messageAttributes": {
            name: {
                "dataType": types.get(name, "String"),
                "binaryValue" if types.get(name, "").startswith("Binary") else "stringValue": value,
                "stringListValues": [],
                "binaryListValues": [],
            }
            for name, value in delivery.attributes.items()
        },
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": ARN + queue_name,
        "awsRegion": "us-east-1",
    }


class Function:
    """A Lambda function on the lab's queue: one process, invoked as often as a test likes, with its mapping's part
    (deleting what the answer does not list) done after each answer."""

    def __init__(self, lab: Lab, worker: str = "f1", threads: int = 1, **parts: Any) -> None:
        self.lab = lab
        self.replaced = 0
        self.pool = Pool(name="many", longest_runtime_seconds=300, threads=threads)
        self.engine = lab.engine(worker, max_running=threads, **parts)
        self.runtime = LambdaRuntime(
            LambdaParts(
                engine=self.engine,
                sources={lab.tier.name: Source(lab.tier, lab.queue, lab.dead)},
                pool=self.pool,
                clock=lab.world.clock,
                threads=lab.world.threads,
                telemetry=lab.world.telemetry,
                replace=self._replace,
            )
        )

    def _replace(self) -> None:
        self.replaced += 1

    def event(self, limit: int = 10) -> dict[str, Any]:
        """What the mapping would send now."""
        return {"Records": [record_of(d, self.lab.tier.name) for d in self.lab.receive(limit)]}

    def invoke(self, event: dict[str, Any], seconds: float = 300.0) -> list[str]:
        """One invocation; the ids that its answer lists. The others are deleted, as AWS does."""
        answer = self.runtime.handle(event, Context(self.lab, seconds))
        assert list(answer) == ["batchItemFailures"]
        listed = [each["itemIdentifier"] for each in answer["batchItemFailures"]]
        receipts = [r["receiptHandle"] for r in event["Records"] if r["messageId"] not in listed]
        if receipts:
            self.lab.queue.delete_many(receipts)
        return listed
