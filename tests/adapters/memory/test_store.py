"""The table of the world follows DynamoDB's rules, faults included."""

import pytest

from tenure.core.errors import PayloadMissing, ServiceError, TooLarge
from tenure.core.task import Stored
from tenure.ports import Item, Key, Refused, Unanswered, Write, Written
from tenure.testing import Faults, World

KEY = Key("T#1", "R")


def item(version=1, write_id="w", birth="b", key=KEY, **fields):
    return Item(
        key=key, version=version, write_id=write_id, data=fields.pop("data", {"v": version}), birth=birth, **fields
    )


def test_a_write_stands_only_on_what_it_was_decided_on():
    store = World().store
    assert store.write_many([Write(item(), None)]) == [Written()]
    assert store.write_many([Write(item(2), (1, "b"))]) == [Written()]
    for expected in (None, (1, "b"), (2, "other")):
        refused = store.write_many([Write(item(3), expected)])[0]
        assert isinstance(refused, Refused)
        assert refused.item is not None
        assert refused.item.version == 2
    assert store.write_many([Write(item(key=Key("T#2", "R")), (1, "b"))]) == [Refused(None)]


def test_an_expired_item_counts_as_absent_before_it_is_deleted():
    world = World()
    soon = world.clock.now_ms() // 1000 + 10
    world.store.write_many([Write(item(expires_at_s=soon), None)])
    assert world.store.get_many([KEY])[0] is not None
    world.advance(10)
    assert world.store.get_many([KEY]) == [None]
    assert world.store.write_many([Write(item(2), (1, "b"))]) == [Refused(None)]
    assert world.store.write_many([Write(item(), None)]) == [Written()]


def test_indexes_are_sparse_and_sorted():
    store = World().store
    for n, due in enumerate([30, 10, 20]):
        store.write_many([Write(item(key=Key(f"T#{n}", "R"), due=("q", 1, due)), None)])
    store.write_many([Write(item(key=Key("T#9", "R"), dead=("q", 50)), None)])
    assert store.due("q", 1, 30, 10) == [Key("T#1", "R"), Key("T#2", "R")]
    assert store.due("q", 1, 99, 1) == [Key("T#1", "R")]
    assert store.due("q", 2, 99, 10) == []
    assert store.dead("q", 49, 10) == [(Key("T#9", "R"), 50)]
    assert store.dead("q", 50, 10) == []
    store.write_many([Write(item(2, key=Key("T#1", "R")), (1, "b"))])
    assert store.due("q", 1, 99, 10) == [Key("T#2", "R"), Key("T#0", "R")]


def test_an_index_may_lag():
    world = World(5, Faults(index_lag_seconds=10))
    world.store.write_many([Write(item(due=("q", 0, 1)), None)])
    assert world.store.due("q", 0, 99, 10) == []
    world.advance(10)
    assert world.store.due("q", 0, 99, 10) == [KEY]


def test_a_lost_reply_shows_as_a_refusal_by_ones_own_write():
    world = World(0, Faults(store_reply_lost=1))
    refused = world.store.write_many([Write(item(write_id="mine"), None)])[0]
    assert isinstance(refused, Refused)
    assert refused.item is not None
    assert refused.item.write_id == "mine"


def test_an_unanswered_write_may_stand_or_not():
    world = World(0, Faults(store_unanswered=1))
    writes = [Write(item(key=Key(f"T#{n}", "R")), None) for n in range(40)]
    assert all(isinstance(o, Unanswered) for o in world.store.write_many(writes))
    assert 5 < len(world.store.all()) < 35


def test_a_read_may_fail():
    world = World(0, Faults(store_read_fails=1))
    for read in (
        lambda: world.store.get_many([KEY]),
        lambda: world.store.due("q", 0, 1, 1),
        lambda: world.store.dead("q", 0, 1),
    ):
        with pytest.raises(ServiceError):
            read()


def test_what_is_stored_is_a_copy():
    store = World().store
    data = {"list": [1]}
    store.write_many([Write(item(data=data), None)])
    data["list"].append(2)
    read = store.get_many([KEY])[0]
    assert read.data == {"list": [1]}
    read.data["list"].append(3)
    assert store.get_many([KEY])[0].data == {"list": [1]}


@pytest.mark.parametrize("value", [1.5, b"x", object(), {1: 2}])
def test_what_is_not_json_like_is_never_written(value):
    store = World().store
    assert isinstance(store.write_many([Write(item(data={"x": value}), None)])[0], Unanswered)
    assert store.get_many([KEY]) == [None]


def test_a_text_is_put_once_and_passes_away():
    world = World()
    place = Stored("item", "1/P/w", 5)
    until = world.clock.now_ms() // 1000 + 60
    world.payloads.put(place, "first", until)
    world.payloads.put(place, "other", until)
    assert world.payloads.get(place) == "first"
    world.advance(60)
    with pytest.raises(PayloadMissing):
        world.payloads.get(place)


def test_where_a_text_belongs_by_its_size():
    payloads = World().payloads
    kinds = [payloads.kind_for(size) for size in (1024, 1025, 8192, 8193)]
    assert kinds == ["inline", "item", "item", "object"]
    with pytest.raises(TooLarge):
        payloads.put(Stored("item", "1/P/w", 500_000), "x" * 500_000, 0)
    with pytest.raises(ValueError, match="inline"):
        payloads.get(Stored("inline", "x", 1))
