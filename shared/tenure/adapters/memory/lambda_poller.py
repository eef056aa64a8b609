"""Lambda as a queue sees it: an event source mapping, and execution environments that live and die.

Rules, with their sources (docs.aws.amazon.com/lambda/latest/dg):
- a batch is received, handed to one environment, and what the answer does not call failed is deleted; the answer is
  read by core/batch_answer.py; services-sqs-errorhandling.html
- an error or a timeout changes nothing in the queue: the messages come back as their visibility lapses; same page
- without ReportBatchItemFailures the answer is ignored and everything is deleted unless the function failed; same page
- pollers receive more than the function's concurrency lets through, hold it, and drop their copy when its visibility
  lapses: a receive is spent though nothing ran; same page, "throttled"
- an environment serves one invocation at a time and is used again; at the function's timeout it is killed, with no
  word to it; lambda-runtime-environment.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.adapters.memory.process import Process
from tenure.adapters.memory.queue import ARN, MemoryQueue
from tenure.adapters.memory.world import World
from tenure.core.batch_answer import interpret
from tenure.core.errors import ServiceError
from tenure.ports import Delivery

Handler = Callable[[dict[str, Any], "InvocationContext"], Any]


@dataclass(frozen=True)
class InvocationContext:
    """What Lambda hands to a handler besides the event: the part that tenure reads."""

    world: World
    ends_at_ms: int
    aws_request_id: str
    function_name: str = "function"

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the environment is killed."""
        return max(0, self.ends_at_ms - self.world.clock.now_ms())


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """A function and the queue that invokes it.

    build:       makes the handler of a new environment (what runs at import); gets its simulated process, or None
                 where there is no simulation.
    concurrency: environments at the most. pollers: batches received at once, as a rule more than can be run.
    """

    queue: MemoryQueue
    build: Callable[[Process | None], Handler]
    timeout_seconds: float
    batch_size: int = 10
    concurrency: int = 2
    pollers: int = 3
    report_batch_item_failures: bool = True
    name: str = "function"


@dataclass(eq=False)
class _Environment:
    """One execution environment: a simulated process with its handler, busy or warm."""

    process: Process
    handler: Handler | None = None
    busy: bool = False


@dataclass(eq=False)
class _Invocation:
    answer: Any = None
    succeeded: bool = False
    ended: bool = False
    log: list[str] = field(default_factory=list)


class LambdaPoller:
    """Carries a Mapping out in a world."""

    def __init__(self, world: World, mapping: Mapping) -> None:
        self._world = world
        self._mapping = mapping
        self._environments: list[_Environment] = []
        self._count = 0
        self._handler: Handler | None = None
        self.errors: list[str] = []
        """How invocations failed: what the function raised, "timed out", or "environment died"."""

    @property
    def processes(self) -> list[Process]:
        """The environments' living processes: what a test may kill or stall."""
        return [each.process for each in self._environments if not each.process.dead]

    # ---- without a simulation ----------------------------------------------------------------------------------
    def poll_once(self, wait_seconds: int = 0) -> set[str] | None:
        """Receive one batch and run the function on it in the calling thread. The ids of the messages that failed,
        or None if there was no message. The timeout is told to the function, and cannot be enforced here."""
        deliveries = self._mapping.queue.receive(self._mapping.batch_size, wait_seconds)
        if not deliveries:
            return None
        if self._handler is None:
            self._handler = self._mapping.build(None)
        invocation = _Invocation()
        self._invoke(self._handler, invocation, deliveries)
        return self._conclude(invocation, deliveries)

    # ---- within a simulation -----------------------------------------------------------------------------------
    def start(self) -> None:
        """Poll in simulated threads from the next `World.run` on, until the world is closed."""
        service = self._world.process(f"lambda-service-{self._mapping.name}")
        for number in range(self._mapping.pollers):
            service.start(self._poll_for_ever, f"poller-{number}")

    def _poll_for_ever(self) -> None:
        mapping, clock = self._mapping, self._world.clock
        while True:
            try:
                deliveries = mapping.queue.receive(mapping.batch_size, 20)
            except ServiceError:
                clock.sleep(1)
                continue
            if not deliveries:
                continue
            drop_at_ms = clock.now_ms() + mapping.queue.visibility_seconds * 1000
            environment = self._free_environment()
            while environment is None and clock.now_ms() < drop_at_ms:
                clock.sleep(1)
                environment = self._free_environment()
            if environment is not None:
                self._serve(environment, deliveries)

    def _free_environment(self) -> _Environment | None:
        self._environments = [each for each in self._environments if not each.process.dead]
        found = next((each for each in self._environments if not each.busy), None)
        if found is None and len(self._environments) < self._mapping.concurrency:
            self._count += 1
            process = self._world.process(f"{self._mapping.name}-{self._count}")
            found = _Environment(process)
            self._environments.append(found)
        if found is not None:
            found.busy = True
        return found

    def _serve(self, environment: _Environment, deliveries: Sequence[Delivery]) -> None:
        invocation = _Invocation()

        def body() -> None:
            if environment.handler is None:
                environment.handler = self._mapping.build(environment.process)
            self._invoke(environment.handler, invocation, deliveries)

        thread = environment.process.start(body, f"invocation-{self._world.entropy.token()[:6]}")
        thread.join(self._mapping.timeout_seconds)
        if not invocation.ended:
            invocation.log.append("environment died" if environment.process.dead else "timed out")
            environment.process.kill()
        environment.busy = False
        self._conclude(invocation, deliveries)

    # ---- both --------------------------------------------------------------------------------------------------
    def _invoke(self, handler: Handler, invocation: _Invocation, deliveries: Sequence[Delivery]) -> None:
        ends_at_ms = self._world.clock.now_ms() + round(self._mapping.timeout_seconds * 1000)
        context = InvocationContext(self._world, ends_at_ms, self._world.entropy.token(), self._mapping.name)
        try:
            invocation.answer = handler(event_of(deliveries, self._mapping.queue.name), context)
            invocation.succeeded = True
        except Exception as error:  # an unhandled error is the function's answer: the whole batch failed
            invocation.log.append(repr(error))
        invocation.ended = True

    def _conclude(self, invocation: _Invocation, deliveries: Sequence[Delivery]) -> set[str]:
        """Delete what did not fail; the failed ids. Nothing is told to SQS of those: they come back by themselves."""
        ids = [delivery.message_id for delivery in deliveries]
        self.errors += invocation.log
        if not invocation.succeeded:
            return set(ids)
        failed = interpret(invocation.answer, ids) if self._mapping.report_batch_item_failures else set()
        done = [delivery.receipt for delivery in deliveries if delivery.message_id not in failed]
        if done:
            self._mapping.queue.delete_many(done)
        return failed


def event_of(deliveries: Sequence[Delivery], queue_name: str) -> dict[str, Any]:
    """The event that Lambda makes of a batch. services-sqs (with-sqs.html), "Example ... queue message event"."""
    return {"Records": [_record(delivery, queue_name) for delivery in deliveries]}


def _record(delivery: Delivery, queue_name: str) -> dict[str, Any]:
    attributes = {
        "ApproximateReceiveCount": str(delivery.receive_count),
        "SentTimestamp": str(delivery.sent_at_ms),
        "SenderId": "AIDAIENQZJOLO23YVJ4VO",
        "ApproximateFirstReceiveTimestamp": str(delivery.received_at_ms),
        "MessageGroupId": delivery.group,
        "MessageDeduplicationId": delivery.deduplication_id,
        "SequenceNumber": delivery.sequence,
        "DeadLetterQueueSourceArn": delivery.moved_from,
    }
    return {
        "messageId": delivery.message_id,
        "receiptHandle": delivery.receipt,
        "body": delivery.body,
        "attributes": {name: value for name, value in attributes.items() if value},
        "messageAttributes": {
            name: _attribute(delivery.attribute_types.get(name, "String"), value)
            for name, value in delivery.attributes.items()
        },
        "md5OfBody": hashlib.md5(delivery.body.encode("utf-8"), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": ARN + queue_name,
        "awsRegion": "us-east-1",
    }


def _attribute(kind: str, value: str) -> dict[str, Any]:
    place = "binaryValue" if kind.startswith("Binary") else "stringValue"
    return {place: value, "stringListValues": [], "binaryListValues": [], "dataType": kind}
