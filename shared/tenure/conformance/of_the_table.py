"""Checks of DynamoDB, through tenure's own adapter: they are of what it asks of the service, and of its asking."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

from tenure.adapters import items
from tenure.adapters.payloads import PREFIX as OBJECTS
from tenure.adapters.payloads import Payloads
from tenure.conformance.check import DYNAMODB_API, DYNAMODB_GUIDE, S3_GUIDE, Check, Seen
from tenure.conformance.sandbox import Sandbox, refusal
from tenure.core import limits
from tenure.core.task import Stored
from tenure.ports import Item, Key, Refused, TaskStore, Write, WriteOutcome, Written

RIVALS = 8


def _item(name: str, version: int = 1, birth: str = "first", **places: Any) -> Item:
    item = Item(Key(f"T#{name}", "R"), version, f"{name}-{version}-{birth}", {"n": version}, birth=birth)
    return replace(item, **places)


def _put(store: TaskStore, item: Item, expected: tuple[int, str] | None = None) -> WriteOutcome:
    return store.write_many([Write(item, expected)])[0]


def _shows(outcome: WriteOutcome, write_id: str) -> bool:
    """Whether it is a refusal that bears the item which this write has left."""
    return isinstance(outcome, Refused) and outcome.item is not None and outcome.item.write_id == write_id


def _told(outcome: WriteOutcome) -> str:
    if isinstance(outcome, Written):
        return "written"
    if isinstance(outcome, Refused):
        return "refused, with the item" if outcome.item else "refused, without an item"
    return f"unanswered: {outcome.error[:100]}"


def _absent_guard(sandbox: Sandbox) -> Seen:
    _put(sandbox.store, _item("absent"))
    second = _put(sandbox.store, _item("absent", birth="second"))
    return Seen(_shows(second, "absent-1-first"), f"a second put: {_told(second)}")


def _version_guard(sandbox: Sandbox) -> Seen:
    store = sandbox.store
    _put(store, _item("version"))
    first = _put(store, _item("version", 2), (1, "first"))
    late = _put(store, _item("version", 2, birth="late"), (1, "first"))
    kept = store.get_many([Key("T#version", "R")])[0]
    holds = first == Written() and _shows(late, "version-2-first") and kept is not None and kept.version == 2
    return Seen(holds, f"on the version as seen: {_told(first)}; on an older one: {_told(late)}")


def _birth_guard(sandbox: Sandbox) -> Seen:
    _put(sandbox.store, _item("birth"))
    other = _put(sandbox.store, _item("birth", 2, "second"), (1, "second"))
    return Seen(_shows(other, "birth-1-first"), f"the same version of another life: {_told(other)}")


def _missing(sandbox: Sandbox) -> Seen:
    outcome = _put(sandbox.store, _item("missing", 2), (1, "first"))
    return Seen(outcome == Refused(None), f"a replacement of what is not there: {_told(outcome)}")


def _one_winner(sandbox: Sandbox) -> Seen:
    store = sandbox.store
    _put(store, _item("race"))
    gate = Barrier(RIVALS)

    def write(rival: int) -> WriteOutcome:
        gate.wait(timeout=30)
        return _put(store, _item("race", 2, write_id=f"rival-{rival}"), (1, "first"))

    with ThreadPoolExecutor(RIVALS) as pool:
        outcomes = list(pool.map(write, range(RIVALS)))
    winners = [f"rival-{n}" for n, outcome in enumerate(outcomes) if outcome == Written()]
    alike = all(_shows(outcome, winners[0]) for outcome in outcomes if outcome != Written()) if winners else False
    return Seen(len(winners) == 1 and alike, f"{len(winners)} of {RIVALS} writes at once won")


def _sparse_index(sandbox: Sandbox) -> Seen:
    store = sandbox.store
    _put(store, _item("sparse-out"))
    _put(store, _item("sparse-in", due=("check", 0, 5), dead=("check", 5)))

    def found() -> tuple[list[str], list[str]]:
        due = [key.pk for key in store.due("check", 0, 10, 10)]
        return due, [key.pk for key, _ in store.dead("check", 0, 10)]

    came = sandbox.until(lambda: found() == (["T#sparse-in"], ["T#sparse-in"]))
    _put(store, _item("sparse-in", 2), (1, "first"))
    left = sandbox.until(lambda: found() == ([], []))
    return Seen(
        came and left,
        f"with its attributes an item {'came into' if came else 'did not come into'} both indexes alone, "
        f"without them it {'left' if left else 'did not leave'} them",
    )


def _expired(sandbox: Sandbox) -> Seen:
    store, past = sandbox.store, sandbox.clock.now_ms() // 1000 - 86_400
    _put(store, _item("expired", expires_at_s=past))
    read = store.get_many([Key("T#expired", "R")])[0]
    late = _put(store, _item("expired", 2), (1, "first"))
    new = _put(store, _item("expired", birth="second"))
    raw = sandbox.clients.dynamodb.get_item(
        TableName=sandbox.table_name, Key=items.key_attributes(Key("T#expired", "R")), ConsistentRead=True
    )
    alone = "ttl" not in raw.get("Item", {"ttl": ""})
    holds = read is None and late == Refused(None) and new == Written() and alone
    return Seen(holds, f"read as {'absent' if read is None else 'there'}; replaced: {_told(late)}; put: {_told(new)}")


def _item_limit(sandbox: Sandbox) -> Seen:
    def put(size_bytes: int) -> str:
        name = "T#limit"
        room = size_bytes - len("pk") - len(name) - len("sk") - len("R") - len("text")
        item = {"pk": {"S": name}, "sk": {"S": "R"}, "text": {"S": "é" * (room // 2) + "x" * (room % 2)}}
        return refusal(lambda: sandbox.clients.dynamodb.put_item(TableName=sandbox.table_name, Item=item))

    most = limits.DYNAMODB_ITEM_BYTES_MAX
    fits, over = put(most), put(most + 1)
    return Seen(
        not fits and bool(over),
        f"{most:,} bytes in characters of two: {fits or 'taken'}; one more: {over or 'taken'}",
    )


def _time_to_live(sandbox: Sandbox) -> Seen:
    told = sandbox.clients.dynamodb.describe_time_to_live(TableName=sandbox.table_name)["TimeToLiveDescription"]
    status, name = told.get("TimeToLiveStatus"), told.get("AttributeName")
    return Seen(status in ("ENABLED", "ENABLING") and name == "ttl", f"{status}, by attribute {name}")


def _put_if_absent(sandbox: Sandbox) -> Seen:
    payloads = Payloads(sandbox.store, sandbox.clients.s3, sandbox.bucket_name)
    place = Stored("object", "check/P/w1", 4)
    payloads.put(place, "1234", 0)
    answer = refusal(
        lambda: sandbox.clients.s3.put_object(
            Bucket=sandbox.bucket_name, Key=OBJECTS + place.value, Body=b"other", IfNoneMatch="*"
        )
    )
    payloads.put(place, "1234", 0)
    kept = payloads.get(place)
    return Seen(bool(answer) and kept == "1234", f"a second put: {answer or 'taken'}; the object reads {kept!r}")


_UPDATE = f"{DYNAMODB_API}UpdateItem.html"

CHECKS: tuple[Check, ...] = (
    Check(
        "table-absent-guard",
        "a write whose condition fails is refused and, asked for ALL_OLD, brings the item as it is",
        _UPDATE,
        _absent_guard,
    ),
    Check(
        "table-version-guard",
        "a condition on an attribute is evaluated against the latest item; a refused write changes nothing",
        f"{DYNAMODB_GUIDE}Expressions.ConditionExpressions.html",
        _version_guard,
    ),
    Check(
        "table-birth-guard",
        "conditions joined by AND must all hold",
        f"{DYNAMODB_GUIDE}Expressions.OperatorsAndFunctions.html",
        _birth_guard,
    ),
    Check(
        "table-missing",
        "a condition on an attribute of an item that is not there fails, and ALL_OLD brings none",
        _UPDATE,
        _missing,
    ),
    Check(
        "table-one-winner",
        "conditional writes of one item are serialised: of several on the same version one succeeds",
        f"{DYNAMODB_GUIDE}WorkingWithItems.html",
        _one_winner,
    ),
    Check(
        "table-sparse-index",
        "an item is in a secondary index only while it has the index's key attributes",
        f"{DYNAMODB_GUIDE}bp-indexes-general-sparse-indexes.html",
        _sparse_index,
    ),
    Check(
        "table-expired-is-absent",
        "an expired item may stay for days; reads and conditions on its time to live can leave it out",
        f"{DYNAMODB_GUIDE}ttl-expired-items.html",
        _expired,
    ),
    Check(
        "table-item-limit",
        "an item has at most 400 KB, names and values counted in UTF-8 bytes",
        f"{DYNAMODB_GUIDE}Constraints.html",
        _item_limit,
    ),
    Check(
        "table-time-to-live",
        "time to live is switched on by attribute name, and told so",
        f"{DYNAMODB_API}UpdateTimeToLive.html",
        _time_to_live,
    ),
    Check(
        "bucket-put-if-absent",
        "a put with If-None-Match: * is refused where the object is there",
        f"{S3_GUIDE}conditional-writes.html",
        _put_if_absent,
    ),
)
