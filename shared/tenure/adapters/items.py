"""Items as DynamoDB holds them: the shape of the table, values back and forth, and the size that is billed.

An item's attributes: the keys `pk` and `sk`; `ttl` (epoch seconds) if it passes away; `due_pk` and `due_at_ms` while
it is in the index `due`; `dead_pk` and `dead_at_ms` while it is in the index `dead`; all else in one map, `row`. That
map bears the guard of every write: `v` version, `b` birth, `w` write id (core/record.py calls them so too).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.ports import Item, Key

VERSION, BIRTH, WRITE_ID = "v", "b", "w"
"""Names in an item's data that are the store's: its version, birth and write id stand there, whatever the data says."""

DUE_INDEX, DEAD_INDEX = "due", "dead"

_NUMBER_BYTES = 21
"""What a number counts at most: a byte per two digits and one more, 38 digits, and a sign."""


def table_definition(name: str) -> dict[str, Any]:
    """The arguments of CreateTable: two text keys, paid per request, two sparse indexes of keys alone.

    Time to live is not among them (`time_to_live`).
    """
    texts, numbers = ("pk", "sk", "due_pk", "dead_pk"), ("due_at_ms", "dead_at_ms")
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            *({"AttributeName": each, "AttributeType": "S"} for each in texts),
            *({"AttributeName": each, "AttributeType": "N"} for each in numbers),
        ],
        "KeySchema": _keys("pk", "sk"),
        "GlobalSecondaryIndexes": [
            {"IndexName": DUE_INDEX, "KeySchema": _keys("due_pk", "due_at_ms"), "Projection": _KEYS_ONLY},
            {"IndexName": DEAD_INDEX, "KeySchema": _keys("dead_pk", "dead_at_ms"), "Projection": _KEYS_ONLY},
        ],
    }


def time_to_live(name: str) -> dict[str, Any]:
    """The arguments of UpdateTimeToLive."""
    return {"TableName": name, "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "ttl"}}


_KEYS_ONLY = {"ProjectionType": "KEYS_ONLY"}


def _keys(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


def key_attributes(key: Key) -> dict[str, Any]:
    """The key as DynamoDB names it in a request."""
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def key_of(attributes: Mapping[str, Any]) -> Key:
    """The key in an item or an index's entry."""
    return Key(attributes["pk"]["S"], attributes["sk"]["S"])


def due_partition(queue: str, shard: int) -> str:
    """The partition of the due index in which a queue's shard lies."""
    return f"{queue}#{shard}"


def to_attributes(item: Item) -> dict[str, Any]:
    """The item as DynamoDB holds it, keys included.

    Raises TypeError for a value that the port does not know (a float, bytes), ValueError for a text that is not
    Unicode (a lone surrogate).
    """
    attributes = key_attributes(item.key)
    own = {VERSION: item.version, BIRTH: item.birth, WRITE_ID: item.write_id}
    attributes["row"] = to_value({**item.data, **own})
    if item.expires_at_s:
        attributes["ttl"] = _number(item.expires_at_s)
    if item.due is not None:
        queue, shard, at_ms = item.due
        attributes |= {"due_pk": {"S": due_partition(queue, shard)}, "due_at_ms": _number(at_ms)}
    if item.dead is not None:
        queue, at_ms = item.dead
        attributes |= {"dead_pk": {"S": queue}, "dead_at_ms": _number(at_ms)}
    return attributes


def from_attributes(attributes: Mapping[str, Any]) -> Item:
    """The item that DynamoDB holds. Its data has the store's own names too."""
    data = from_value(attributes["row"])
    due = dead = None
    if "due_pk" in attributes:
        queue, _, shard = attributes["due_pk"]["S"].rpartition("#")
        due = (queue, int(shard), int(attributes["due_at_ms"]["N"]))
    if "dead_pk" in attributes:
        dead = (attributes["dead_pk"]["S"], int(attributes["dead_at_ms"]["N"]))
    return Item(
        key=key_of(attributes),
        version=data[VERSION],
        write_id=data[WRITE_ID],
        birth=data[BIRTH],
        data=data,
        due=due,
        dead=dead,
        expires_at_s=int(attributes["ttl"]["N"]) if "ttl" in attributes else 0,
    )


def to_value(value: Any) -> dict[str, Any]:
    """A JSON-like value as DynamoDB writes it. Raises TypeError and ValueError as `to_attributes`."""
    if isinstance(value, str):
        value.encode("utf-8")  # a lone surrogate would be refused far from here, and without its name
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return _number(value)
    if value is None:
        return {"NULL": True}
    if isinstance(value, Mapping):
        return {"M": {name: to_value(each) for name, each in value.items()}}
    if isinstance(value, list | tuple):
        return {"L": [to_value(each) for each in value]}
    raise TypeError(
        f"a {type(value).__name__} cannot be stored: texts, whole numbers, booleans, None, lists and maps can"
    )


def from_value(value: Mapping[str, Any]) -> Any:
    """The JSON-like value in what DynamoDB answers. Raises TypeError for a kind that `to_value` never writes."""
    ((kind, inner),) = value.items()
    if kind in ("S", "BOOL"):
        return inner
    if kind == "N":
        return int(inner)
    if kind == "M":
        return {name: from_value(each) for name, each in inner.items()}
    if kind == "L":
        return [from_value(each) for each in inner]
    if kind == "NULL":
        return None
    raise TypeError(f"an attribute of kind {kind} was not written by tenure")


def attribute_bytes(attributes: Mapping[str, Any]) -> int:
    """The size that DynamoDB counts against its limit and bills: names and values in UTF-8 bytes.

    Lists and maps count 3 bytes and 1 for each member; numbers are counted as their most, so that the sum may be some
    bytes too high and never too low (amazondynamodb/latest/developerguide/CapacityUnitCalculations.html).
    """
    return sum(len(name.encode()) + _value_bytes(value) for name, value in attributes.items())


def item_bytes(item: Item) -> int:
    """The size of an item as DynamoDB counts it; see `attribute_bytes`. Raises as `to_attributes`."""
    return attribute_bytes(to_attributes(item))


def _number(value: int) -> dict[str, str]:
    return {"N": str(value)}


def _value_bytes(value: Mapping[str, Any]) -> int:
    ((kind, inner),) = value.items()
    if kind == "S":
        return len(inner.encode())
    if kind == "N":
        return min(_NUMBER_BYTES, len(inner) // 2 + 2)
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + _value_bytes(each) for name, each in inner.items())
    if kind == "L":
        return 3 + sum(1 + _value_bytes(each) for each in inner)
    return 1
