"""What the checks work on: queues, a table and a bucket under names that nobody else has; all of it is removed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tenure.adapters import items
from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock
from tenure.adapters.dynamodb import DynamoStore
from tenure.adapters.sqs import SqsQueue
from tenure.ports import Clock, Entropy

PREFIX = "tenure-conformance-"
"""Begins every name, so that what a killed run left behind can be found."""

PATIENCE_SECONDS = 15
"""How long something is waited for that is to come: far more than the 1 or 2 s that the checks let things wait."""
TABLE_TRIES = 90
"""A second apart: a table is there in ten to thirty seconds."""

Message = dict[str, Any]


class Unseen(Exception):
    """What a check needs to see first did not come about."""


class Line:
    """One queue, as SQS's own API has it: the checks are of SQS, not of tenure's adapter."""

    def __init__(self, client: Any, url: str, *, fifo: bool, quiet_seconds: int) -> None:
        self._client, self.url, self.fifo, self._quiet_seconds = client, url, fifo, quiet_seconds

    @property
    def arn(self) -> str:
        """Its ARN."""
        told = self._client.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])
        return str(told["Attributes"]["QueueArn"])

    def send(self, body: str, **arguments: Any) -> str:
        """Send one; its message id. On FIFO the group is "g" and the id is the body, unless told otherwise."""
        if self.fifo:
            arguments = {"MessageGroupId": "g", "MessageDeduplicationId": body, **arguments}
        return str(self._client.send_message(QueueUrl=self.url, MessageBody=body, **arguments)["MessageId"])

    def refusal_of_send(self, body: str, **arguments: Any) -> str:
        """The code of the refusal; "" if it was taken."""
        return refusal(lambda: self.send(body, **arguments))

    def receive(self, *, visibility: int = 60, wait: int = 0, limit: int = 10) -> list[Message]:
        """One receive."""
        answer = self._client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=limit,
            WaitTimeSeconds=wait,
            VisibilityTimeout=visibility,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        found: list[Message] = answer.get("Messages") or []
        return found

    def quiet(self) -> bool:
        """Whether nothing comes. AWS is given time to answer: a short poll asks some of its servers only."""
        return not self.receive(wait=self._quiet_seconds)

    def some(self, limit: int, *, visibility: int = 60) -> list[Message]:
        """What the next receive brings, waited for. Raises Unseen."""
        found = self.receive(visibility=visibility, wait=PATIENCE_SECONDS, limit=limit)
        if not found:
            raise Unseen(f"no message came within {PATIENCE_SECONDS} s")
        return found

    def one(self, *, visibility: int = 60) -> Message:
        """The next message, waited for. Raises Unseen."""
        return self.some(1, visibility=visibility)[0]

    def many(self, count: int) -> list[Message]:
        """So many, in as many receives as it takes. Raises Unseen."""
        found: list[Message] = []
        while len(found) < count:
            more = self.receive(wait=PATIENCE_SECONDS)
            if not more:
                raise Unseen(f"{len(found)} of {count} messages came")
            found += more
        return found

    def delete(self, message: Message) -> str:
        """The code of the refusal; "" if it was taken."""
        handle = message["ReceiptHandle"]
        return refusal(lambda: self._client.delete_message(QueueUrl=self.url, ReceiptHandle=handle))

    def hide(self, message: Message, seconds: int) -> str:
        """Change its visibility. The code of the refusal; "" if it was taken."""
        handle = message["ReceiptHandle"]
        return refusal(
            lambda: self._client.change_message_visibility(
                QueueUrl=self.url, ReceiptHandle=handle, VisibilityTimeout=seconds
            )
        )

    def batch(self, action: str, entries: Sequence[dict[str, Any]]) -> dict[str, str]:
        """One batch call, such as "send_message_batch": entry id -> code of its refusal, "" if it was taken.

        Raises ClientError if the call is refused whole.
        """
        call = getattr(self._client, action)
        answer = call(QueueUrl=self.url, Entries=[{"Id": str(i), **entry} for i, entry in enumerate(entries)])
        taken = {each["Id"]: "" for each in answer.get("Successful") or ()}
        return taken | {each["Id"]: str(each["Code"]) for each in answer.get("Failed") or ()}


class Sandbox:
    """Makes what a check asks for, and remembers it until `remove`.

    clock: the machine's own, uncorrected: the checks measure by it how long something took.
    real: whether this is AWS itself and not an emulator. AWS is eventually consistent, so it is given time.
    """

    def __init__(self, clients: Clients, clock: Clock, entropy: Entropy, *, real: bool) -> None:
        self.clients, self.clock, self.entropy, self.real = clients, clock, entropy, real
        self.prefix = f"{PREFIX}{entropy.token()[:10]}"
        self._queues: dict[str, str] = {}
        """Name -> URL; "" until it is known."""
        self._table_name = ""
        self._bucket_name = ""

    # ---- making ----------------------------------------------------------------------------------------------------
    def queue(self, *, fifo: bool = False, **attributes: str) -> Line:
        """An empty queue with these attributes."""
        name = f"{self.prefix}-{len(self._queues)}{'.fifo' if fifo else ''}"
        self._queues[name] = ""  # before it is made: whatever happens next, it is looked for
        kind = {"FifoQueue": "true"} if fifo else {}
        url = self.clients.sqs.create_queue(QueueName=name, Attributes={**kind, **attributes})["QueueUrl"]  # type: ignore[dict-item] # its names are literals
        self._queues[name] = url
        if self.real:
            self.clock.sleep(1)  # SQS asks for it (API_CreateQueue)
        return Line(self.clients.sqs_polls, url, fifo=fifo, quiet_seconds=2 if self.real else 0)

    def queue_with_dead(self, receives: int, *, fifo: bool = False) -> tuple[Line, Line]:
        """A queue and its DLQ, to which a message moves after so many receives."""
        dead = self.queue(fifo=fifo)
        policy = json.dumps({"deadLetterTargetArn": dead.arn, "maxReceiveCount": receives})
        return self.queue(fifo=fifo, RedrivePolicy=policy), dead

    def adapted(self, line: Line) -> SqsQueue:
        """tenure's adapter over a queue made here."""
        name = line.url.rpartition("/")[2]
        return SqsQueue(self.clients.sqs, line.url, name, line.fifo, self.clock, polls=self.clients.sqs_polls)

    @cached_property
    def table_name(self) -> str:
        """The table, as a deployment makes it; ready."""
        self._table_name = self.prefix
        with suppress(self.clients.dynamodb.exceptions.ResourceInUseException):  # a first try, whose answer was lost
            self.clients.dynamodb.create_table(**items.table_definition(self._table_name))
        waiter = self.clients.dynamodb.get_waiter("table_exists")
        waiter.wait(TableName=self._table_name, WaiterConfig={"Delay": 1, "MaxAttempts": TABLE_TRIES})
        self.clients.dynamodb.update_time_to_live(**items.time_to_live(self._table_name))
        return self._table_name

    @cached_property
    def store(self) -> DynamoStore:
        """tenure's adapter over the table."""
        return DynamoStore(self.clients.dynamodb, self.table_name, SystemClock(self.clients.server_time.offset_ms))

    @cached_property
    def bucket_name(self) -> str:
        """An empty bucket."""
        self._bucket_name = self.prefix
        region = self.clients.s3.meta.region_name
        where: Any = {}
        if self.real and region != "us-east-1":
            where = {"CreateBucketConfiguration": {"LocationConstraint": region}}
        with suppress(self.clients.s3.exceptions.BucketAlreadyOwnedByYou):
            self.clients.s3.create_bucket(Bucket=self._bucket_name, **where)
        return self._bucket_name

    def until(self, holds: Callable[[], bool]) -> bool:
        """Whether it comes to hold, within what an index of AWS may lag behind."""
        for _ in range(PATIENCE_SECONDS * 2 if self.real else 2):
            if holds():
                return True
            self.clock.sleep(0.5)
        return False

    # ---- removing --------------------------------------------------------------------------------------------------
    def remove(self) -> list[str]:
        """Remove everything that was made; what could not be removed, with the reason."""
        left = [self._attempt(f"queue {name}", partial(self._remove_queue, name)) for name in self._queues]
        if self._table_name:
            left.append(self._attempt(f"table {self._table_name}", self._remove_table))
        if self._bucket_name:
            left.append(self._attempt(f"bucket {self._bucket_name}", self._remove_bucket))
        return [each for each in left if each]

    def _attempt(self, what: str, remove: Callable[[], object]) -> str:
        try:
            remove()
        except ClientError as error:
            if _code(error) not in _ABSENT:
                return f"{what}: {error}"
        except BotoCoreError as error:
            return f"{what}: {error}"
        return ""

    def _remove_queue(self, name: str) -> None:
        url = self._queues[name] or self.clients.sqs.get_queue_url(QueueName=name)["QueueUrl"]
        self.clients.sqs.delete_queue(QueueUrl=url)

    def _remove_table(self) -> None:
        for tried in range(TABLE_TRIES):
            try:
                self.clients.dynamodb.delete_table(TableName=self._table_name)
                return
            except self.clients.dynamodb.exceptions.ResourceInUseException:  # it is still being made
                if tried == TABLE_TRIES - 1:
                    raise
                self.clock.sleep(1)

    def _remove_bucket(self) -> None:
        s3, bucket = self.clients.s3, self._bucket_name
        for each in s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
            s3.delete_object(Bucket=bucket, Key=each["Key"])
        s3.delete_bucket(Bucket=bucket)


_ABSENT = {
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
    "ResourceNotFoundException",
    "NoSuchBucket",
}


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code"))


def refusal(call: Callable[[], object]) -> str:
    """The code with which the service refuses a call; "" if it takes it. Raises BotoCoreError, as the call does."""
    try:
        call()
    except ClientError as error:
        return _code(error) or "refused"
    return ""
