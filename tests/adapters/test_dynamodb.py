"""What the store asks of DynamoDB, and what it makes of answers that no emulator gives."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from tenure.adapters.clock import SystemClock
from tenure.adapters.dynamodb import READ_TRIES, DynamoStore
from tenure.core.errors import ServiceError
from tenure.core.machine import Lease, Stamp, claim
from tenure.core.task import Row, State
from tenure.ports import Item, Key, Refused, Unanswered, Write, Written
from tenure.rows import Rows, Stands, Unknown, to_item
from tests.support.backends import Aws
from tests.support.faults import Fault, Faults
from tests.support.forks import exit_code_of_a_fork


def an_item(name: str = "one", version: int = 1, write_id: str = "w") -> Item:
    return Item(Key(f"T#{name}", "R"), version, f"{write_id}{version}", {"n": version}, "born")


def a_row() -> Row:
    return Row(
        id="r1",
        birth="born",
        task="cook",
        queue="work",
        state=State.QUEUED,
        write_id="w1",
        check_at_ms=1_800_000_900_000,
    )


def a_claim() -> Row:
    lease = Lease(seconds=60, token="t", worker="worker", alone=True, max_attempts=5)
    return claim(a_row(), Stamp(1_800_000_000_000, "w2"), lease)


class StillClock(SystemClock):
    """Counts its pauses, and makes none."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


# ---- what is asked -------------------------------------------------------------------------------------------------
def test_a_write_is_one_call_and_a_refusal_needs_no_read(aws: Aws):
    """R2: the refusal itself carries the item as it is."""
    store = aws.store()
    faults = Faults(aws.dynamodb)
    store.write_many([Write(an_item(), None)])
    (refused,) = store.write_many([Write(an_item(), None)])
    assert isinstance(refused, Refused)
    assert refused.item is not None
    assert faults.tries == ["UpdateItem", "UpdateItem"]


def test_a_write_states_the_whole_item(aws: Aws):
    """Every attribute that an item can have is set or removed, else one would survive from the item before."""
    store = aws.store()
    faults = Faults(aws.dynamodb)
    store.write_many([Write(an_item(), None)])
    ((_, request),) = faults.requests
    assert request["UpdateExpression"] == "SET #row = :row REMOVE #ttl, #due_pk, #due_at_ms, #dead_pk, #dead_at_ms"


def test_a_claim_changes_nothing_in_the_index(aws: Aws):
    """A claim leaves the due time alone: the index's keys are named with the values they have, which costs no index
    write, while moving them would cost two."""
    rows = Rows(aws.store())
    rows.replace(None, a_row())
    faults = Faults(aws.dynamodb)
    row = a_claim()
    assert isinstance(rows.replace(a_row(), row), Stands)
    ((_, request),) = faults.requests
    before = to_item(a_row()).due
    assert before is not None
    queue, shard, at_ms = before
    values = request["ExpressionAttributeValues"]
    assert (values[":due_pk"], values[":due_at_ms"]) == ({"S": f"{queue}#{shard}"}, {"N": str(at_ms)})


def test_reads_are_consistent_and_a_hundred_to_a_call(aws: Aws):
    """An item is never read as it was; the limit is BatchGetItem's."""
    store = aws.store()
    faults = Faults(aws.dynamodb)
    store.get_many([Key(f"T#{n}", "R") for n in range(205)] * 2)
    asked = [next(iter(request["RequestItems"].values())) for _, request in faults.requests]
    assert [len(each["Keys"]) for each in asked] == [100, 100, 5]
    assert all(each["ConsistentRead"] for each in asked)


def test_one_write_runs_where_it_was_asked_and_many_on_a_bounded_pool(aws: Aws):
    """A lone write starts no thread; of many, no more are under way than there are workers."""
    store = DynamoStore(aws.dynamodb, "nowhere", SystemClock(), workers=3)
    seen: list[str] = []
    under_way: list[int] = [0]
    most: list[int] = [0]
    lock = threading.Lock()

    def before(**_: Any) -> None:
        with lock:
            seen.append(threading.current_thread().name)
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])

    def after(**_: Any) -> None:
        with lock:
            under_way[0] -= 1

    aws.dynamodb.meta.events.register("provide-client-params.dynamodb.UpdateItem", before)
    aws.dynamodb.meta.events.register("after-call.dynamodb.UpdateItem", after)
    store.write_many([Write(an_item(), None)])
    assert seen == [threading.current_thread().name]
    store.write_many([Write(an_item(f"t{n}"), None) for n in range(20)])
    assert {name.split("_")[0] for name in seen[1:]} == {"tenure-store"}
    assert 1 <= most[0] <= 3


# ---- lost replies (R3) ---------------------------------------------------------------------------------------------
def test_a_write_that_the_sdk_repeats_is_refused_by_its_own_first_try(aws: Aws):
    """The SDK hides the lost reply; what comes back is a refusal that bears this very write."""
    store = aws.store()
    faults = Faults(aws.dynamodb)
    faults.next("UpdateItem", Fault.REPLY_LOST)
    (outcome,) = store.write_many([Write(an_item(), None)])
    assert faults.tries == ["UpdateItem", "UpdateItem"]
    assert isinstance(outcome, Refused)
    assert outcome.item is not None
    assert outcome.item.write_id == an_item().write_id


def test_rows_recognise_it(aws: Aws):
    """So a lost reply is not taken for a lost race."""
    rows = Rows(aws.store())
    faults = Faults(aws.dynamodb)
    faults.next("UpdateItem", Fault.REPLY_LOST)
    assert rows.replace(None, a_row()) == Stands(a_row())
    faults.next("UpdateItem", Fault.REPLY_LOST, Fault.REPLY_LOST, Fault.REPLY_LOST, None)
    second = a_claim()
    assert rows.replace(a_row(), second) == Stands(second)
    assert rows.get("r1") == second


@pytest.mark.parametrize("seed", range(3))
def test_a_chain_of_writes_survives_a_bad_network(aws: Aws, seed: int):
    """A third of all replies lost: every write is still known to stand, once, and no version is skipped."""
    store = aws.store()
    faults = Faults(aws.dynamodb, seed)
    faults.sometimes("UpdateItem", Fault.REPLY_LOST, chance=0.33)
    rows = Rows(store)
    row = a_row()
    assert isinstance(rows.replace(None, row), Stands)
    for n in range(2, 30):
        new = replace(row, version=n, write_id=f"w{n}")
        assert rows.replace(row, new) == Stands(new)
        row = new
    assert faults.tries.count("UpdateItem") > 35
    assert rows.get("r1") == row


# ---- no answer -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("fault", [Fault.THROTTLED, Fault.BROKEN, Fault.UNREACHED, Fault.REPLY_LOST])
def test_what_no_try_settles_is_unanswered(aws: Aws, fault: Fault):
    """After the SDK's last try, for this entry alone; never an exception."""
    store = aws.store()
    faults = Faults(aws.dynamodb)
    faults.next("UpdateItem", fault, fault, fault)
    (outcome,) = store.write_many([Write(an_item(), None)])
    assert isinstance(outcome, Unanswered)
    assert "item T#one R" in outcome.error
    assert len(faults.tries) == 3


def test_rows_call_it_unknown_and_conclude_nothing(aws: Aws):
    """Until an answer comes the row may stand or not."""
    rows = Rows(aws.store())
    Faults(aws.dynamodb).sometimes("UpdateItem", Fault.THROTTLED, chance=1)
    assert isinstance(rows.replace(None, a_row()), Unknown)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("TransactionConflictException", 400),
        ("ProvisionedThroughputExceededException", 400),
        ("ResourceNotFoundException", 400),
        ("AccessDeniedException", 400),
        ("ValidationException", 400),
        ("InternalServerError", 500),
    ],
)
def test_every_other_error_settles_nothing(session: boto3.session.Session, code: str, status: int):
    """Not even one that can never succeed: an earlier try may stand. Its text tells what is wrong."""
    client = session.client("dynamodb")
    with Stubber(client) as stub:
        stub.add_client_error("update_item", code, "as the service says", status)
        (outcome,) = DynamoStore(client, "tasks", SystemClock()).write_many([Write(an_item(), None)])
    assert isinstance(outcome, Unanswered)
    assert code in outcome.error
    assert "as the service says" in outcome.error


def test_a_missing_table_is_told_by_both(aws: Aws):
    """A wrong name in a deployment: reads raise, writes are unanswered, and both name the table or its absence."""
    store = DynamoStore(aws.dynamodb, "nowhere", SystemClock())
    with pytest.raises(ServiceError, match=r"nowhere.*ResourceNotFound"):
        store.get_many([Key("T#1", "R")])
    with pytest.raises(ServiceError, match="nowhere"):
        store.due("work", 0, 1, 1)
    (outcome,) = store.write_many([Write(an_item(), None)])
    assert isinstance(outcome, Unanswered)
    assert "ResourceNotFound" in outcome.error


def test_an_item_that_is_too_large_is_not_sent(aws: Aws):
    """DynamoDB would refuse it in words that do not name it."""
    store = aws.store()
    faults = Faults(aws.dynamodb)
    (outcome,) = store.write_many([Write(Item(Key("T#1", "R"), 1, "w", {"x": "x" * 409_600}), None)])
    assert isinstance(outcome, Unanswered)
    assert "409,600" in outcome.error
    assert faults.tries == []


# ---- reads that do not come whole ----------------------------------------------------------------------------------
def test_keys_left_unread_are_asked_again(aws: Aws):
    """A throttled BatchGetItem answers in part; the rest is asked for after a pause that grows."""
    store = aws.store()
    items = [an_item(f"t{n}") for n in range(20)]
    assert store.write_many([Write(item, None) for item in items]) == [Written()] * 20
    clock = StillClock()
    patient = DynamoStore(aws.dynamodb, store._table, clock)
    faults = Faults(aws.dynamodb)
    faults.next("BatchGetItem", Fault.HALF, Fault.HALF, Fault.HALF)
    found = patient.get_many([item.key for item in items])
    assert [item and item.key for item in found] == [item.key for item in items]
    asked = [len(next(iter(request["RequestItems"].values()))["Keys"]) for _, request in faults.requests]
    assert asked == [20, 10, 5, 2]
    assert clock.pauses == sorted(clock.pauses)
    assert len(clock.pauses) == 3


def test_a_read_that_stays_throttled_is_given_up(session: boto3.session.Session):
    """In so many calls, and with so many keys: not for ever, and not as if the items were absent."""
    client = session.client("dynamodb")
    asked = {"tasks": {"Keys": [{"pk": {"S": "T#1"}, "sk": {"S": "R"}}]}}
    clock = StillClock()
    with Stubber(client) as stub:
        for _ in range(READ_TRIES):
            stub.add_response("batch_get_item", {"Responses": {}, "UnprocessedKeys": asked})
        with pytest.raises(ServiceError, match="1 of 1 items stayed unread"):
            DynamoStore(client, "tasks", clock).get_many([Key("T#1", "R")])
        stub.assert_no_pending_responses()
    assert sum(clock.pauses) < 5


def test_queries_go_on_until_there_is_no_more_or_enough(session: boto3.session.Session):
    """A page may be empty and yet not the last; the next one is asked for what is still missing."""
    client = session.client("dynamodb")
    entry = {"pk": {"S": "T#1"}, "sk": {"S": "R"}, "due_pk": {"S": "work#0"}, "due_at_ms": {"N": "5"}}
    asked = {
        "TableName": "tasks",
        "IndexName": "due",
        "KeyConditionExpression": "due_pk = :pk AND due_at_ms < :at",
        "ExpressionAttributeValues": {":pk": {"S": "work#0"}, ":at": {"N": "9"}},
    }
    with Stubber(client) as stub:
        stub.add_response("query", {"Items": [entry], "LastEvaluatedKey": entry}, {**asked, "Limit": 3})
        more = {**asked, "Limit": 2, "ExclusiveStartKey": entry}
        stub.add_response("query", {"Items": [], "LastEvaluatedKey": entry}, more)
        stub.add_response("query", {"Items": [entry]}, more)
        assert DynamoStore(client, "tasks", SystemClock()).due("work", 0, 9, 3) == [Key("T#1", "R")] * 2
        stub.assert_no_pending_responses()


def test_a_forked_process_writes_many_with_threads_of_its_own(aws: Aws):
    """A producer that forks (gunicorn --preload, multiprocessing) after a first large submit: its parent's threads are
    not there, and work for them would lie for ever."""
    store = aws.store()

    def write(first: int) -> bool:
        writes = [Write(an_item(f"n{number}"), None) for number in range(first, first + 20)]
        return store.write_many(writes) == [Written()] * 20

    assert write(0)
    assert exit_code_of_a_fork(lambda: write(20)) == 0
    assert write(20), "and its parent goes on with its own"
