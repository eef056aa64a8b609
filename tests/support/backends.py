"""One face for every world that the ports' contracts are held against: memory, moto, ministack."""

from __future__ import annotations

import json
from typing import Any, Protocol

import boto3
from botocore.config import Config

from tenure.adapters.clock import SystemClock, SystemEntropy
from tenure.adapters.dynamodb import DynamoStore
from tenure.adapters.items import table_definition
from tenure.adapters.memory import World
from tenure.adapters.memory.store import MemoryPayloads
from tenure.adapters.payloads import Payloads
from tenure.adapters.sqs import SqsQueue
from tenure.core import limits
from tenure.ports import Clock, PayloadStore, TaskQueue, TaskStore

ONE_TRY = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30, max_pool_connections=32)
"""Emulators answer what they lack with a 500; the SDK would try it again and again."""


class Backend(Protocol):
    """Fresh parts of one world. `clock` is the one that this world goes by."""

    name: str
    clock: Clock

    def store(self) -> TaskStore:
        """An empty table."""
        ...

    def payloads(self, *, bucket: bool = True) -> PayloadStore:
        """Empty, with a bucket or without."""
        ...

    def queue(
        self, *, ordered: bool = False, bytes_max: int = limits.SQS_MESSAGE_BYTES_MAX, receives_max: int = 0
    ) -> TaskQueue:
        """An empty queue. receives_max: after so many receives a message moves to the queue's DLQ; 0: there is none."""
        ...

    def dead(self, queue: TaskQueue) -> TaskQueue:
        """The DLQ of a queue made with `receives_max`."""
        ...

    def pass_time(self, seconds: int) -> None:
        """Let time pass at once; for backends whose clock a test can move."""
        ...


class Memory:
    """The world in memory."""

    name = "memory"

    def __init__(self) -> None:
        self.world = World()
        self.clock: Clock = self.world.clock
        self._queues = 0

    def store(self) -> TaskStore:
        return self.world.store

    def payloads(self, *, bucket: bool = True) -> PayloadStore:
        if bucket:
            return self.world.payloads
        return MemoryPayloads(self.world.scheduler, self.world._random, self.world.faults, objects=False)

    def queue(
        self, *, ordered: bool = False, bytes_max: int = limits.SQS_MESSAGE_BYTES_MAX, receives_max: int = 0
    ) -> TaskQueue:
        assert bytes_max == limits.SQS_MESSAGE_BYTES_MAX, "queues in memory have no maximum of their own"
        self._queues += 1
        name = f"queue-{self._queues}"
        if not receives_max:
            return self.world.queue(name, ordered)
        return self.world.queue(name, ordered, receive_count_max=receives_max, dead=f"{name}-dead")

    def dead(self, queue: TaskQueue) -> TaskQueue:
        return self.world.queue(f"{queue.name}-dead")

    def pass_time(self, seconds: int) -> None:
        self.world.advance(seconds)


class Aws:
    """tenure's AWS adapters, against an emulator. `faults` of tests/support/faults.py may be put before its clients."""

    def __init__(self, name: str, endpoint_url: str | None = None, config: Config = ONE_TRY) -> None:
        self.name = name
        self.clock: Clock = SystemClock()
        session = boto3.session.Session(region_name="us-east-1")
        self.dynamodb = session.client("dynamodb", endpoint_url=endpoint_url, config=config)
        self.sqs: Any = session.client("sqs", endpoint_url=endpoint_url, config=config)
        self.s3 = session.client("s3", endpoint_url=endpoint_url, config=config)
        self._urls: dict[str, str] = {}

    def store(self) -> TaskStore:
        table = f"table-{_fresh()}"
        self.dynamodb.create_table(**table_definition(table))
        return DynamoStore(self.dynamodb, table, self.clock)

    def payloads(self, *, bucket: bool = True) -> PayloadStore:
        if not bucket:
            return Payloads(self.store())
        name = f"bucket-{_fresh()}"
        self.s3.create_bucket(Bucket=name)
        return Payloads(self.store(), self.s3, name)

    def queue(
        self, *, ordered: bool = False, bytes_max: int = limits.SQS_MESSAGE_BYTES_MAX, receives_max: int = 0
    ) -> TaskQueue:
        base, end = _fresh(), ".fifo" if ordered else ""
        attributes: dict[str, str] = {"FifoQueue": "true"} if ordered else {}
        if bytes_max != limits.SQS_MESSAGE_BYTES_MAX:
            attributes["MaximumMessageSize"] = str(bytes_max)
        if receives_max:
            dead = self._create(f"{base}-dead{end}", {"FifoQueue": "true"} if ordered else {})
            arn = self.sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
            attributes["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": receives_max})
        name = f"{base}{end}"
        return SqsQueue(self.sqs, self._create(name, attributes), name, ordered, self.clock)

    def dead(self, queue: TaskQueue) -> TaskQueue:
        base = queue.name.removesuffix(".fifo")
        name = f"{base}-dead{'.fifo' if queue.ordered else ''}"
        return SqsQueue(self.sqs, self._urls[name], name, queue.ordered, self.clock)

    def pass_time(self, seconds: int) -> None:
        raise AssertionError(f"{self.name} goes by real time: mark the test honest_on the backends whose clock moves")

    def _create(self, name: str, attributes: dict[str, str]) -> str:
        url: str = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        self._urls[name] = url
        return url


def _fresh() -> str:
    return SystemEntropy().token()
