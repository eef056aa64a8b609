"""A stand-in for Lambda's SQS poller (an event source mapping), with AWS's semantics and real processes.

One mapping for each SQS queue of a Lambda pool. What matters of the real one:

- the message stays hidden by the queue's own visibility timeout, and nothing that goes wrong changes that: an error, a
  timeout or a killed process just leaves the batch to come back when it lapses;
- with ReportBatchItemFailures the answer decides message by message, and an odd answer fails the whole batch
  (core/batch_answer.py);
- MaximumConcurrency bounds the invocations of one mapping, and a mapping invokes one batch per environment at a time.

Sources: lambda/latest/dg/services-sqs-errorhandling.html, …/services-sqs-scaling.html.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tenure.core.batch_answer import interpret
from tenure.core.topology import Tier
from tenure.local.emulator import ACCOUNT, REGION
from tenure.local.lambda_function import Answered, Function, FunctionError
from tenure.ports import Clock, Thread, Threads

POLL_SECONDS = 1
"""Long poll of the stand-in: short, so that stopping never waits for long. Lambda's own is 20 s."""
BACKOFF_SECONDS = 1.0
"""After a receive that failed. Lambda's poller goes on for ever, and so does this one."""

Note = Callable[[str, str], None]
"""Tells of something: (what, detail)."""


@dataclass(frozen=True, slots=True)
class MappingSpec:
    """An event source mapping. Units: messages, and invocations at once."""

    tier: Tier
    batch_size: int
    concurrency_max: int


class Mapping:
    """Polls one SQS queue and invokes the function with what it gets."""

    def __init__(
        self, spec: MappingSpec, function: Function, sqs: Any, clock: Clock, threads: Threads, note: Note
    ) -> None:
        self.spec = spec
        self._function = function
        self._sqs = sqs
        self._clock = clock
        self._threads = threads
        self._note = note
        self._slots = threading.Semaphore(spec.concurrency_max)
        self._stopping = threads.signal()
        self._running: list[Thread] = []
        self._loop: Thread | None = None

    def start(self) -> None:
        """Poll from now on."""
        self._loop = self._threads.start(f"esm-{self.spec.tier.name}", self._poll)

    def drain(self) -> None:
        """Receive no more; invocations that run go on. Returns at once; see `idle`."""
        self._stopping.set()

    @property
    def idle(self) -> bool:
        """Whether, after `drain`, nothing is under way any more."""
        return all(thread.join(0) for thread in [*([self._loop] if self._loop else []), *self._running])

    def stop(self, wait_seconds: float) -> bool:
        """Receive no more, and wait for the invocations that run; whether all have ended."""
        self.drain()
        until = self._clock.now_ms() + round(wait_seconds * 1000)
        while not self.idle and self._clock.now_ms() < until:
            self._clock.sleep(0.02)
        return self.idle

    def _poll(self) -> None:
        while not self._stopping.is_set():
            if not self._slots.acquire(timeout=POLL_SECONDS):
                continue
            messages = self._receive()
            if not messages:
                self._slots.release()
                continue
            self._running = [thread for thread in self._running if not thread.join(0)]
            self._running.append(self._threads.start(f"invoke-{self.spec.tier.name}", partial(self._one, messages)))

    def _receive(self) -> list[dict[str, Any]]:
        try:
            answer = self._sqs.receive_message(
                QueueUrl=self.spec.tier.url,
                MaxNumberOfMessages=self.spec.batch_size,
                WaitTimeSeconds=POLL_SECONDS,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
        except (BotoCoreError, ClientError) as error:
            if not self._stopping.is_set():
                self._note("poll failed", f"{self.spec.tier.name}: {error}")
                self._stopping.wait(BACKOFF_SECONDS)
            return []
        found: list[dict[str, Any]] = answer.get("Messages", [])
        return found

    def _one(self, messages: list[dict[str, Any]]) -> None:
        try:
            self._delete(self.done(messages))
        finally:
            self._slots.release()

    def done(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Invoke the function with a batch; those of it that may be deleted."""
        invoked = self._function.invoke({"Records": [record(self.spec.tier, message) for message in messages]})
        if isinstance(invoked, FunctionError):
            self._note("function error", f"{self._function.spec.name}: {invoked.kind}: {invoked.message}")
            return []
        return self._succeeded(invoked, messages)

    def _succeeded(self, answered: Answered, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        failed = interpret(json.loads(answered.text), [message["MessageId"] for message in messages])
        return [message for message in messages if message["MessageId"] not in failed]

    def _delete(self, messages: Sequence[dict[str, Any]]) -> None:
        if not messages:
            return
        entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
        try:
            self._sqs.delete_message_batch(QueueUrl=self.spec.tier.url, Entries=entries)
        except (BotoCoreError, ClientError) as error:
            self._note("delete failed", f"{self.spec.tier.name}: {error}")


def record(tier: Tier, message: dict[str, Any]) -> dict[str, Any]:
    """A received message as Lambda puts it into the event."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message.get("Attributes", {})),
        "messageAttributes": {name: _attribute(value) for name, value in message.get("MessageAttributes", {}).items()},
        "md5OfBody": message.get("MD5OfBody", ""),
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{tier.name}",
        "awsRegion": REGION,
    }


def _attribute(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"stringListValues": [], "binaryListValues": [], "dataType": value["DataType"]}
    if "StringValue" in value:
        found["stringValue"] = value["StringValue"]
    if "BinaryValue" in value:
        found["binaryValue"] = base64.b64encode(value["BinaryValue"]).decode()
    return found
