"""The task store on DynamoDB. The only file with a condition on a write.

Every write is one UpdateItem that states the whole item: what it has is set, what it has not is removed. An index
entry whose keys are set to what they were costs no index write, so a claim, which leaves the due time alone, pays for
the item only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from tenure.adapters import items
from tenure.core import limits
from tenure.core.errors import ServiceError
from tenure.ports import Clock, Item, Key, Refused, Unanswered, Write, WriteOutcome, Written

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

READ_TRIES = 8
"""Calls in a row that may leave keys unread before a read is given up; the pauses between add up to about 3 s."""

_READ_PAUSE_SECONDS = 0.025

_OPTIONAL = ("ttl", "due_pk", "due_at_ms", "dead_pk", "dead_at_ms")
_NAMES = {
    "#row": "row",
    "#v": items.VERSION,
    "#b": items.BIRTH,
    **{f"#{name}": name for name in _OPTIONAL},
}
_EXPIRED = "#ttl <= :now"
_ABSENT = f"attribute_not_exists(pk) OR {_EXPIRED}"
_AS_SEEN = "#row.#v = :v AND #row.#b = :b AND (attribute_not_exists(#ttl) OR #ttl > :now)"


class DynamoStore:
    """ports.TaskStore over one table (items.table_definition).

    workers: how many writes of one `write_many` are under way at once; the client's connection pool should hold as
    many. Threads are started with the first call that writes more than one item, and none before. A process that was
    forked from one with such threads gets its own: threads do not survive a fork, and work for them would lie for ever.
    """

    def __init__(self, client: DynamoDBClient, table_name: str, clock: Clock, workers: int = 8) -> None:
        self._client = client
        self._table = table_name
        self._clock = clock
        self._workers = workers
        self._pool = self._new_pool()

    def close(self) -> None:
        """End its threads, once what they write is answered."""
        self._pool[1].shutdown()

    # ---- reading ---------------------------------------------------------------------------------------------------
    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """See ports.TaskStore. Consistent; a hundred keys a call; keys left unread are asked again."""
        distinct = list(dict.fromkeys(keys))
        found: dict[Key, Item] = {}
        for start in range(0, len(distinct), limits.DYNAMODB_BATCH_GET_KEYS_MAX):
            found |= self._read(distinct[start : start + limits.DYNAMODB_BATCH_GET_KEYS_MAX])
        return [found.get(key) for key in keys]

    def _read(self, keys: Sequence[Key]) -> dict[Key, Item]:
        """The unexpired items under at most a hundred distinct keys."""
        found: dict[Key, Item] = {}
        request: Any = {self._table: {"Keys": [items.key_attributes(key) for key in keys], "ConsistentRead": True}}
        for tried in range(READ_TRIES):
            if tried:
                self._clock.sleep(_READ_PAUSE_SECONDS * 2 ** (tried - 1))
            answer = self._ask(self._client.batch_get_item, RequestItems=request)
            for attributes in answer["Responses"].get(self._table, ()):
                item = self._unless_expired(attributes)
                if item is not None:
                    found[item.key] = item
            request = answer.get("UnprocessedKeys")
            if not request:
                return found
        left = sum(len(each["Keys"]) for each in request.values())
        raise ServiceError(f"DynamoDB table {self._table}: {left} of {len(keys)} items stayed unread (throttled)")

    def _unless_expired(self, attributes: Mapping[str, Any]) -> Item | None:
        """The item, or None if its time to live has passed: DynamoDB deletes it up to days later."""
        item = items.from_attributes(attributes)
        return None if 0 < item.expires_at_s <= self._now_s() else item

    # ---- by index --------------------------------------------------------------------------------------------------
    def due(self, queue: str, shard: int, before_ms: int, limit: int) -> list[Key]:
        """See ports.TaskStore."""
        partition = items.due_partition(queue, shard)
        entries = self._query(items.DUE_INDEX, "due_pk = :pk AND due_at_ms < :at", partition, before_ms, limit)
        return [items.key_of(each) for each in entries]

    def dead(self, queue: str, after_ms: int, limit: int) -> list[tuple[Key, int]]:
        """See ports.TaskStore."""
        entries = self._query(items.DEAD_INDEX, "dead_pk = :pk AND dead_at_ms > :at", queue, after_ms, limit)
        return [(items.key_of(each), int(each["dead_at_ms"]["N"])) for each in entries]

    def _query(self, index: str, condition: str, partition: str, at_ms: int, limit: int) -> list[Mapping[str, Any]]:
        """Up to `limit` entries in ascending order. A page may be empty and yet not the last."""
        entries: list[Mapping[str, Any]] = []
        more: dict[str, Any] = {}
        while len(entries) < limit:
            answer = self._ask(
                self._client.query,
                TableName=self._table,
                IndexName=index,
                KeyConditionExpression=condition,
                ExpressionAttributeValues={":pk": {"S": partition}, ":at": {"N": str(at_ms)}},
                Limit=limit - len(entries),
                **more,
            )
            entries += answer["Items"]
            if not answer.get("LastEvaluatedKey"):
                break
            more = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
        return entries

    def _ask(self, call: Callable[..., Any], **arguments: Any) -> Any:
        try:
            return call(**arguments)
        except (BotoCoreError, ClientError) as error:
            raise ServiceError(f"DynamoDB table {self._table}: {error}") from error

    # ---- writing ---------------------------------------------------------------------------------------------------
    def write_many(self, writes: Sequence[Write]) -> list[WriteOutcome]:
        """See ports.TaskStore."""
        if len(writes) < 2:
            return [self._write(write) for write in writes]
        pid, pool = self._pool
        if pid != os.getpid():  # of two threads that see it at once each makes one; the loser's ends with its call
            self._pool = _, pool = self._new_pool()
        return list(pool.map(self._write, writes))

    def _new_pool(self) -> tuple[int, ThreadPoolExecutor]:
        """Threads, and the process that they are of."""
        return os.getpid(), ThreadPoolExecutor(self._workers, thread_name_prefix="tenure-store")

    def _write(self, write: Write) -> WriteOutcome:
        try:
            attributes = items.to_attributes(write.item)
        except (TypeError, ValueError) as error:
            return Unanswered(f"{_name(write)}: not written, {error}")
        size_bytes = items.attribute_bytes(attributes)
        if size_bytes > limits.DYNAMODB_ITEM_BYTES_MAX:
            most = limits.DYNAMODB_ITEM_BYTES_MAX
            return Unanswered(f"{_name(write)}: not written, {size_bytes:,} bytes exceed DynamoDB's {most:,}")
        try:
            self._client.update_item(**self._request(write, attributes))
        except ClientError as error:
            return self._refusal(write, error)
        except BotoCoreError as error:
            return Unanswered(f"{_name(write)}: {error}")
        return Written()

    def _request(self, write: Write, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The UpdateItem. Whatever it does not name would survive from the item it replaces."""
        present = ["row", *(name for name in _OPTIONAL if name in attributes)]
        missing = [f"#{name}" for name in _OPTIONAL if name not in attributes]
        update = "SET " + ", ".join(f"#{name} = :{name}" for name in present)
        if missing:
            update += " REMOVE " + ", ".join(missing)
        values = {f":{name}": attributes[name] for name in present} | {":now": {"N": str(self._now_s())}}
        names = dict(_NAMES)
        if write.expected is None:
            condition = _ABSENT
            del names["#v"], names["#b"]  # a name that no expression uses is refused
        else:
            condition = _AS_SEEN
            version, birth = write.expected
            values |= {":v": {"N": str(version)}, ":b": {"S": birth}}
        return {
            "TableName": self._table,
            "Key": items.key_attributes(write.item.key),
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def _refusal(self, write: Write, error: ClientError) -> WriteOutcome:
        """A failed condition, which bears the item as it is; everything else settles nothing.

        A request that can never succeed (no such table, no permission) settles nothing either: an earlier try of the
        same write may stand, and its caller must not conclude.
        """
        if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
            attributes: Mapping[str, Any] | None = error.response.get("Item")  # type: ignore[assignment] # the SDK adds it
            return Refused(self._unless_expired(attributes) if attributes else None)
        return Unanswered(f"{_name(write)}: {error}")

    def _now_s(self) -> int:
        return self._clock.now_ms() // 1000


def _name(write: Write) -> str:
    return f"item {write.item.key.pk} {write.item.key.sk}"
