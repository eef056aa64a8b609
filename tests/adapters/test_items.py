"""Items as DynamoDB holds them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.adapters import items
from tenure.core.record import CODES
from tenure.ports import Item, Key

ITEM = Item(Key("T#1", "R"), 3, "w3", {"st": "queued"}, "born", ("work", 7, 90), ("work", 80), 70)

TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def test_the_layout_of_an_item():
    """Keys, time to live and places in the indexes lie outside; the guard of every write lies in the one map."""
    assert items.to_attributes(ITEM) == {
        "pk": {"S": "T#1"},
        "sk": {"S": "R"},
        "ttl": {"N": "70"},
        "due_pk": {"S": "work#7"},
        "due_at_ms": {"N": "90"},
        "dead_pk": {"S": "work"},
        "dead_at_ms": {"N": "80"},
        "row": {"M": {"st": {"S": "queued"}, "v": {"N": "3"}, "b": {"S": "born"}, "w": {"S": "w3"}}},
    }


def test_a_place_in_the_due_index_survives_whatever_the_queue_is_called():
    """Queue and shard are one text in the index, parted at its last mark."""
    item = replace(ITEM, due=("a#b", 7, 90))
    assert items.from_attributes(items.to_attributes(item)).due == item.due


def test_what_an_item_has_not_is_left_out():
    """Sparse indexes and the time to live are told by absence."""
    bare = replace(ITEM, due=None, dead=None, expires_at_s=0)
    assert set(items.to_attributes(bare)) == {"pk", "sk", "row"}


def test_the_guard_is_called_as_rows_call_it():
    """One copy of version, birth and write id: the row's own names for them are the store's."""
    assert (CODES["version"], CODES["birth"], CODES["write_id"]) == (items.VERSION, items.BIRTH, items.WRITE_ID)


def test_the_items_own_guard_wins_over_the_datas():
    """A stale version in the data cannot let a stale write through."""
    written = items.to_attributes(replace(ITEM, data={"v": 1, "b": "other", "w": "other"}))
    assert items.from_attributes(written).data == {"v": 3, "b": "born", "w": "w3"}


@given(st.dictionaries(TEXTS, VALUES, max_size=5))
def test_any_json_like_data_survives(data: dict[str, Any]):
    """Equal values of equal types: True is not 1."""
    found = items.from_attributes(items.to_attributes(replace(ITEM, data=data)))
    expected = {**data, "v": 3, "b": "born", "w": "w3"}
    assert repr(found.data) == repr(expected)
    assert replace(found, data={}) == replace(ITEM, data={})


@pytest.mark.parametrize("value", [0.5, b"bytes", {1, 2}, object()])
def test_what_the_port_does_not_know_is_refused_by_name(value: object):
    """No silent conversion."""
    with pytest.raises(TypeError, match=type(value).__name__):
        items.to_value([value])


def test_a_lone_surrogate_is_refused():
    """DynamoDB takes UTF-8; it would refuse this far from where it came from."""
    with pytest.raises(ValueError, match="surrogate"):
        items.to_value("\ud800")


def test_a_foreign_kind_of_attribute_is_refused():
    """A set is none of tenure's."""
    with pytest.raises(TypeError, match="SS"):
        items.from_value({"SS": ["a"]})


def test_bytes_are_counted_as_dynamodb_counts_them():
    """Names and texts in UTF-8, 3 for a map and 1 for each of its members; a number no less than it is."""
    item = Item(Key("é", "R"), 1, "w", {"x": "😀😀"}, "b")
    keys = len("pk") + 2 + len("sk") + 1
    row = len("row") + 3 + (1 + 1 + 8) + (1 + 1 + 1) + (1 + 1 + 1)
    version_least, version_most = 1 + 1 + 1, 1 + 1 + 3
    assert keys + row + version_least <= items.item_bytes(item) <= keys + row + version_most


@pytest.mark.parametrize("value", [0, 7, -1, 10**37, -(2**63)])
def test_no_number_is_counted_too_low(value: int):
    """A byte per two digits and one more (CapacityUnitCalculations.html)."""
    size = items.attribute_bytes({"n": {"N": str(value)}}) - 1
    assert (len(str(abs(value))) + 1) // 2 + 1 <= size <= 21


def test_the_tables_shape():
    """What every deployment makes; the CDK's table is compared with this one."""
    definition = items.table_definition("tasks")
    assert definition["KeySchema"] == [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]
    indexes = {
        index["IndexName"]: [key["AttributeName"] for key in index["KeySchema"]]
        for index in definition["GlobalSecondaryIndexes"]
    }
    assert indexes == {"due": ["due_pk", "due_at_ms"], "dead": ["dead_pk", "dead_at_ms"]}
    assert {index["Projection"]["ProjectionType"] for index in definition["GlobalSecondaryIndexes"]} == {"KEYS_ONLY"}
    assert definition["BillingMode"] == "PAY_PER_REQUEST"
    assert items.time_to_live("tasks")["TimeToLiveSpecification"] == {"Enabled": True, "AttributeName": "ttl"}
