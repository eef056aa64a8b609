"""ports.TaskStore, held against every adapter: each test names the semantic that the rules of the protocol lean on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest

from tenure.core.machine import Stamp
from tenure.core.task import Row, State
from tenure.ports import Item, Key, Refused, TaskStore, Unanswered, Write, WriteOutcome, Written
from tenure.rows import Overtaken, Rows, Stands, to_item
from tests.support.backends import Backend

EVERY_KIND: dict[str, Any] = {
    "text": "grüße 😀\u0000\ufffe",
    "empty": "",
    "whole": -(2**63),
    "zero": 0,
    "yes": True,
    "no": False,
    "nothing": None,
    "list": [1, "a", [None, {"deep": [True]}], []],
    "map": {"none": {}, "a.b": 1, "#c": ":d"},
}

STAMP = Stamp(now_ms=1_800_000_000_000, write_id="unused")


def an_item(task_id: str = "one", version: int = 1, **changes: Any) -> Item:
    item = Item(Key(f"T#{task_id}", "R"), version, f"write-{task_id}-{version}", {"n": version}, birth="born")
    return replace(item, **changes)


def plain(item: Item | None) -> Item | None:
    """Without the store's own names, which an adapter may add to the data."""
    return item and replace(
        item, data={name: value for name, value in item.data.items() if name not in ("v", "b", "w")}
    )


def put(store: TaskStore, item: Item, expected: tuple[int, str] | None = None) -> WriteOutcome:
    return store.write_many([Write(item, expected)])[0]


def get(store: TaskStore, task_id: str = "one") -> Item | None:
    return plain(store.get_many([Key(f"T#{task_id}", "R")])[0])


def current(refused: WriteOutcome) -> Item | None:
    assert isinstance(refused, Refused)
    return plain(refused.item)


# ---- what is written is what is read -------------------------------------------------------------------------------
def test_an_item_is_read_as_it_was_written(backend: Backend):
    """Every kind of value, and every place outside the data, comes back equal and of the same type."""
    store = backend.store()
    item = an_item(data=EVERY_KIND, due=("work", 7, 1_800_000_000_123), dead=("work", 5), expires_at_s=4_000_000_000)
    assert put(store, item) == Written()
    found = get(store)
    assert found == item
    assert found is not None
    assert type(found.data["yes"]) is bool
    assert type(found.data["zero"]) is int


def test_a_write_replaces_the_item_whole(backend: Backend):
    """What the new item does not have is gone: names in the data, places in the indexes, the time to live."""
    store = backend.store()
    put(store, an_item(data={"old": 1}, due=("work", 0, 5), dead=("work", 5), expires_at_s=4_000_000_000))
    new = an_item(version=2, data={"new": 2})
    assert put(store, new, (1, "born")) == Written()
    assert get(store) == new
    assert store.due("work", 0, 10, 10) == []
    assert store.dead("work", 0, 10) == []


def test_reads_answer_in_the_order_asked(backend: Backend):
    """Missing keys are None, a key asked twice is answered twice, and there may be more than one call takes (100)."""
    store = backend.store()
    items = [an_item(f"t{n}") for n in range(130)]
    assert store.write_many([Write(item, None) for item in items]) == [Written()] * 130
    keys = [item.key for item in items] + [Key("T#nobody", "R"), items[0].key]
    found = [plain(item) for item in store.get_many(keys)]
    assert found == [*items, None, items[0]]


def test_nothing_asked_is_nothing_answered(backend: Backend):
    """Empty batches are no error."""
    store = backend.store()
    assert store.get_many([]) == []
    assert store.write_many([]) == []


def test_items_under_one_partition_key_are_apart(backend: Backend):
    """A task's row and the texts beside it do not touch each other."""
    store = backend.store()
    row, text = an_item(), an_item(key=Key("T#one", "P#w1"), data={"x": "text"})
    assert [put(store, row), put(store, text)] == [Written(), Written()]
    assert [plain(item) for item in store.get_many([text.key, row.key])] == [text, row]


# ---- the guard of a write (R2) -------------------------------------------------------------------------------------
def test_absent_guard(backend: Backend):
    """A write that expects nothing is refused where something is, and changes nothing."""
    store = backend.store()
    put(store, an_item())
    assert current(put(store, an_item(data={"n": "other"}, write_id="other"))) == an_item()
    assert get(store) == an_item()


def test_version_guard(backend: Backend):
    """A write that was decided on another version, older or newer, is refused."""
    store = backend.store()
    put(store, an_item())
    assert put(store, an_item(version=2), (1, "born")) == Written()
    for seen in (1, 3):
        assert current(put(store, an_item(version=seen + 1, data={}), (seen, "born"))) == an_item(version=2)
    assert get(store) == an_item(version=2)


def test_birth_guard(backend: Backend):
    """The same version of another life is another item."""
    store = backend.store()
    put(store, an_item())
    assert current(put(store, an_item(version=2, birth="again"), (1, "again"))) == an_item()
    assert get(store) == an_item()


def test_a_write_that_expects_an_item_is_refused_where_there_is_none(backend: Backend):
    """A row that was deleted is not brought back by a late writer."""
    store = backend.store()
    assert put(store, an_item(version=2), (1, "born")) == Refused(None)
    assert get(store) is None


def test_a_refusal_carries_the_item_as_it_is(backend: Backend):
    """Every kind of value of it, so that the next decision needs no read."""
    store = backend.store()
    item = an_item(data=EVERY_KIND, due=("work", 1, 9), dead=("work", 8))
    put(store, item)
    assert current(put(store, an_item(version=9), (8, "born"))) == item


def test_each_write_of_a_batch_stands_or_falls_by_itself(backend: Backend):
    """Refusals hinder no neighbour, and outcomes come in the order of the writes."""
    store = backend.store()
    put(store, an_item("b"))
    put(store, an_item("d"))
    outcomes = store.write_many(
        [
            Write(an_item("a"), None),
            Write(an_item("b"), None),
            Write(an_item("c", version=2), (1, "born")),
            Write(an_item("d", version=2), (1, "born")),
        ]
    )
    assert [type(outcome) for outcome in outcomes] == [Written, Refused, Refused, Written]
    assert [current(outcomes[1]), current(outcomes[2])] == [an_item("b"), None]
    assert [get(store, name) for name in "abcd"] == [an_item("a"), an_item("b"), None, an_item("d", version=2)]


def test_what_cannot_be_stored_hinders_no_neighbour(backend: Backend):
    """A float is a defect of the caller's; it is told for its entry and never raised, and nothing of it is stored."""
    store = backend.store()
    bad, good = store.write_many([Write(an_item("bad", data={"x": 0.5}), None), Write(an_item("good"), None)])
    assert isinstance(bad, Unanswered)
    assert "float" in bad.error
    assert good == Written()
    assert [get(store, "bad"), get(store, "good")] == [None, an_item("good")]


def test_an_item_over_dynamodbs_limit_hinders_no_neighbour(backend: Backend):
    """409,600 bytes are counted in UTF-8: 150,000 of these characters are 600,000 bytes."""
    store = backend.store()
    big = an_item("big", data={"x": "😀" * 150_000})
    outcome, good = store.write_many([Write(big, None), Write(an_item("good"), None)])
    assert isinstance(outcome, Unanswered)
    assert "exceed" in outcome.error
    assert good == Written()
    assert get(store, "big") is None


# ---- an expired item counts as absent ------------------------------------------------------------------------------
def expired(backend: Backend) -> int:
    return backend.clock.now_ms() // 1000 - 5


def test_an_expired_item_is_not_read(backend: Backend):
    """DynamoDB deletes it up to days later; until then it is treated as if it had."""
    store = backend.store()
    put(store, an_item(expires_at_s=expired(backend)))
    assert get(store) is None


def test_an_expired_item_makes_room_for_a_new_one(backend: Backend):
    """Absent is absent: the new life begins, and the old one's time to live is not inherited."""
    store = backend.store()
    put(store, an_item(expires_at_s=expired(backend), due=("work", 0, 5)))
    new = an_item(birth="again", data={"n": 2})
    assert put(store, new) == Written()
    assert get(store) == new
    assert store.due("work", 0, 10, 10) == []


def test_an_expired_item_is_not_written_to(backend: Backend):
    """A write that was decided on it is refused as if it were gone, or it would rise from the dead."""
    store = backend.store()
    put(store, an_item(expires_at_s=expired(backend)))
    assert put(store, an_item(version=2), (1, "born")) == Refused(None)
    assert get(store) is None


def test_an_item_that_will_expire_is_there_until_then(backend: Backend):
    """Its time to live is a guard of the future only."""
    store = backend.store()
    item = an_item(expires_at_s=backend.clock.now_ms() // 1000 + 3600)
    put(store, item)
    assert get(store) == item
    assert isinstance(put(store, an_item()), Refused)
    assert put(store, an_item(version=2), (1, "born")) == Written()


# ---- the sparse indexes --------------------------------------------------------------------------------------------
def test_due_answers_the_earliest_first_and_only_those_before(backend: Backend):
    """By queue and shard, strictly before the time, up to the limit; items that have no due time are not in it."""
    store = backend.store()
    places = {"c": 30, "a": 10, "d": 40, "b": 20}
    store.write_many([Write(an_item(name, due=("work", 3, at_ms)), None) for name, at_ms in places.items()])
    store.write_many([Write(an_item("other-shard", due=("work", 4, 1)), None)])
    store.write_many([Write(an_item("other-queue", due=("work#3", 3, 1)), None), Write(an_item("never"), None)])
    keys = [Key(f"T#{name}", "R") for name in "abc"]
    assert store.due("work", 3, 40, 10) == keys
    assert store.due("work", 3, 40, 2) == keys[:2]
    assert store.due("work", 3, 10, 10) == []
    assert store.due("nowhere", 3, 40, 10) == []


def test_due_answers_as_many_as_asked(backend: Backend):
    """Of sixty, the fifty earliest."""
    store = backend.store()
    store.write_many([Write(an_item(f"t{n:03}", due=("work", 0, n + 1)), None) for n in range(60)])
    assert store.due("work", 0, 1000, 50) == [Key(f"T#t{n:03}", "R") for n in range(50)]


def test_a_write_moves_an_item_within_due_and_out_of_it(backend: Backend):
    """An item is at one place at a time, and at none once it has no due time."""
    store = backend.store()
    put(store, an_item(due=("work", 0, 10)))
    put(store, an_item(version=2, due=("work", 0, 500)), (1, "born"))
    assert store.due("work", 0, 100, 10) == []
    assert store.due("work", 0, 501, 10) == [Key("T#one", "R")]
    put(store, an_item(version=3), (2, "born"))
    assert store.due("work", 0, 1000, 10) == []


def test_dead_answers_the_oldest_first_with_their_times(backend: Backend):
    """By queue, strictly after the time, up to the limit: how a listing pages through a queue's open dead letters."""
    store = backend.store()
    places = {"c": 30, "a": 10, "b": 20}
    store.write_many([Write(an_item(name, dead=("work", at_ms)), None) for name, at_ms in places.items()])
    store.write_many([Write(an_item("other", dead=("rest", 1)), None), Write(an_item("alive"), None)])
    all_of_it = [(Key(f"T#{name}", "R"), places[name]) for name in "abc"]
    assert store.dead("work", 0, 10) == all_of_it
    assert store.dead("work", 0, 2) == all_of_it[:2]
    assert store.dead("work", 10, 10) == all_of_it[1:]
    put(store, an_item("b", version=2), (1, "born"))
    assert store.dead("work", 0, 10) == [all_of_it[0], all_of_it[2]]


# ---- rows over the store -------------------------------------------------------------------------------------------
def a_row(**changes: Any) -> Row:
    row = Row(id="r1", birth="born", task="cook", queue="work", state=State.QUEUED, write_id="w1", check_at_ms=77)
    return replace(row, **changes)


class ReplyLost:
    """A store whose first write stands though its reply is lost, as a time-out looks to the caller."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write_many(self, writes: list[Write]) -> list[WriteOutcome]:
        outcomes = self._store.write_many(writes)
        self.writes += 1
        return [Unanswered("timed out")] * len(writes) if self.writes == 1 else outcomes


def test_a_row_survives_the_store(backend: Backend):
    """All of it, with its places in the indexes."""
    rows = Rows(backend.store())
    assert rows.replace(None, a_row()) == Stands(a_row())
    assert rows.get_many(["r1", "r2"]) == [a_row(), None]


@pytest.mark.parametrize("seen", [None, a_row()])
def test_ones_own_write_whose_reply_was_lost_is_recognised(backend: Backend, seen: Row | None):
    """R3: the second try is refused by the first, and the write id in the refusal tells whose it was."""
    store = backend.store()
    if seen:
        put(store, to_item(seen))
    new = a_row(version=2, write_id="mine") if seen else a_row(write_id="mine")
    lossy = ReplyLost(store)
    assert Rows(lossy).replace(seen, new) == Stands(new)
    assert lossy.writes == 2


def test_anothers_equal_write_is_not_taken_for_ones_own(backend: Backend):
    """R3: never judged by equal values; two workers may want the very same change."""
    store = backend.store()
    put(store, to_item(a_row()))
    theirs = a_row(version=2, write_id="theirs")
    assert Rows(store).replace(a_row(), theirs) == Stands(theirs)
    assert Rows(store).replace(a_row(), a_row(version=2, write_id="mine")) == Overtaken(theirs)


# ---- one winner ----------------------------------------------------------------------------------------------------
WRITERS = 8


def race(store: TaskStore, key: str, expected: tuple[int, str] | None) -> list[WriteOutcome]:
    """Eight threads let go at once, each with a write of its own for the same item."""
    gate = Barrier(WRITERS)

    def write(writer: int) -> WriteOutcome:
        item = an_item(key, version=(expected[0] if expected else 0) + 1, write_id=f"writer-{writer}")
        gate.wait(timeout=30)
        return put(store, item, expected)

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(write, range(WRITERS)))


@pytest.mark.parametrize("expected", [None, (1, "born")], ids=["absent", "version"])
def test_of_writers_at_once_one_wins(backend: Backend, expected: tuple[int, str] | None):
    """R2: in each of 20 rounds one write stands, the others are refused, and all refusals show the winner's."""
    store = backend.store()
    for turn in range(20):
        if expected:
            put(store, an_item(f"t{turn}"))
        outcomes = race(store, f"t{turn}", expected)
        winner = [f"writer-{n}" for n, outcome in enumerate(outcomes) if isinstance(outcome, Written)]
        assert len(winner) == 1
        shown = {outcome.item.write_id for outcome in outcomes if isinstance(outcome, Refused) and outcome.item}
        assert shown == set(winner)


def test_no_update_is_lost_among_writers_that_read_and_write_again(backend: Backend):
    """Optimistic replacement: 8 threads add 1 five times each; the sum and the version tell of all 40."""
    store = backend.store()
    put(store, an_item(data={"sum": 0}))

    def add(writer: int) -> None:
        added, tried = 0, 0
        while added < 5:
            (seen,) = store.get_many([Key("T#one", "R")])
            assert seen is not None
            tried += 1
            data = {"sum": seen.data["sum"] + 1}
            new = an_item(version=seen.version + 1, data=data, write_id=f"{writer}-{tried}")
            added += put(store, new, (seen.version, seen.birth)) == Written()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(add, range(WRITERS)))
    found = get(store)
    assert found is not None
    assert (found.version, found.data["sum"]) == (41, 40)
