"""One submit: what it writes, what it sends, and what each answer of table and queue comes to."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from tenure.adapters.memory import Faults, World
from tenure.application import App
from tenure.core import limits
from tenure.core.envelope import decode, snapshot
from tenure.core.errors import (
    InvalidPayload,
    InvalidTask,
    InvalidTopology,
    NotBuilt,
    NotConnected,
    ServiceError,
    SubmitRefused,
    UsageError,
)
from tenure.core.task import State
from tenure.rows import Rows
from tests.client.tasks import post, resize
from tests.support.shop import REFUSED, UNANSWERED, Shop, Table, topology


@pytest.fixture
def shop() -> Shop:
    return Shop()


# ---- what is written and sent --------------------------------------------------------------------------------------
def test_a_submit_writes_the_row_and_sends_its_snapshot(shop: Shop) -> None:
    """The message tells the row as it was written, so that a worker can claim it without reading it."""
    handle = resize(shop).options(tenant="r7").submit("p1", width=7)
    row = shop.row(handle.id)
    [message] = shop.messages()
    assert (row.state, row.version, row.fence, row.sends) == (State.QUEUED, 1, 0, 1)
    assert json.loads(row.payload.value) == {"photo": "p1", "width": 7}  # type: ignore[union-attr] # it has one
    assert snapshot(decode(message.body), "media") == row
    assert message.group == "r7"
    assert shop.world.telemetry.named("task.submitted") == [{"task_id": row.id, "task": "resize", "queue": "media"}]


def test_the_row_is_there_before_the_message(shop: Shop) -> None:
    """A worker that is quicker than the producer still meets the row."""
    seen: list[Any] = []
    queue = shop.queue().real
    queue.watchers.append(lambda what, message: seen.append(shop.rows.get(json.loads(message.body)["id"])))
    resize(shop).submit("p1")
    assert [row.state for row in seen] == [State.QUEUED]


def test_priorities_go_to_their_tier(shop: Shop) -> None:
    """A high priority is another SQS queue; one that the queue does not have is refused with those it has."""
    task = resize(shop)
    task.options(priority="high").submit("p1")
    assert len(shop.queue("media", "high").sent) == 1
    with pytest.raises(InvalidTopology, match="its tiers are high, normal"):
        task.options(priority="low").submit("p2")


@pytest.mark.parametrize(
    ("delay", "state", "sent"),
    [("15m", State.QUEUED, 1), (900, State.QUEUED, 1), (900.001, State.SCHEDULED, 0), ("3d", State.SCHEDULED, 0)],
)
def test_a_delay_is_carried_by_sqs_as_far_as_it_can(shop: Shop, delay: Any, state: State, sent: int) -> None:
    """Up to 15 minutes the message waits in SQS; beyond, the row waits without one, for reconcile to send."""
    handle = resize(shop).options(delay=delay).submit("p1")
    row = shop.row(handle.id)
    assert row.state is state
    assert [send.delay_seconds for send in shop.queue().sent] == [900] * sent
    assert row.check_at_ms > 0


def test_a_delayed_task_does_not_run_early(shop: Shop) -> None:
    """SQS holds it for the whole delay."""
    resize(shop).options(delay="10m").submit("p1")
    shop.world.advance(599)
    shop.work()
    assert shop.effects == []
    shop.world.advance(2)
    shop.work()
    assert shop.effects == [("p1", 100)]


def test_a_large_payload_lies_beside_its_row_under_the_rows_write_id(shop: Shop) -> None:
    """Its place is named by the write that names it, and it is there before the row."""
    handle = resize(shop).submit("p" * 5000)
    row = shop.row(handle.id)
    assert row.payload is not None
    assert (row.payload.kind, row.payload.value) == ("item", f"{row.id}/P/{row.write_id}")
    assert json.loads(shop.world.payloads.get(row.payload))["photo"] == "p" * 5000


def test_a_payload_outlives_its_row_even_if_it_is_due_late(shop: Shop) -> None:
    """Its time to live counts from when the task is due."""
    handle = resize(shop).options(delay="300d").submit("p" * 5000)
    place = shop.row(handle.id).payload
    assert place is not None
    shop.world.advance(300 * 86_400 + limits.ROW_LIFE_SECONDS_MIN)
    assert shop.world.payloads.get(place)


# ---- order ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("value", "key"), [("acct 7", "acct 7"), (7, "7"), ("é" * 128, "é" * 128)])
def test_the_ordering_key_is_the_parameters_value(shop: Shop, value: Any, key: str) -> None:
    """A text or whole number; what SQS cannot take as a group is hashed, and the row keeps it as it is."""
    handle = post(shop).submit(5, account=value)
    [message] = shop.messages()
    row = shop.row(handle.id)
    assert row.ordering_key == key
    assert message.deduplication_id == f"{row.id}:{row.birth}:1"
    assert message.group == key or message.group.startswith("h:")


def test_a_default_ordering_key_is_written_into_the_payload(shop: Shop) -> None:
    """An argument that orders travels even when the call leaves it to its default."""
    handle = post(shop).submit(5)
    assert shop.row(handle.id).ordering_key == "main"


@pytest.mark.parametrize("value", ["", " ", None, True, 1.5, ["a"], "é" * 129])
def test_what_cannot_order_is_refused(shop: Shop, value: Any) -> None:
    """Blank, missing, or not a text or whole number: refused before anything exists."""
    with pytest.raises(InvalidPayload, match="`account`"):
        post(shop).submit(5, account=value)
    assert shop.nothing_exists()


def test_order_excludes_priority_and_delay(shop: Shop) -> None:
    """Both are refused on an ordered queue, by name and with the mend."""
    task = post(shop)
    with pytest.raises(UsageError, match="Order and priority exclude each other"):
        task.options(priority="high").submit(5)
    with pytest.raises(NotBuilt, match="a delay on the ordered queue 'ledger' is not built"):
        task.options(delay="1m").submit(5)
    assert shop.nothing_exists()


def test_order_and_queue_must_agree(shop: Shop) -> None:
    """A task that is ordered by nothing cannot go to an ordered queue, nor an ordered one to a standard queue."""

    @shop.app.task(queue="ledger")
    def loose(amount: int) -> None: ...

    @shop.app.task(queue="media", ordered_by="account")
    def strict(account: str) -> None: ...

    with pytest.raises(InvalidTask, match="must say by what"):
        loose.submit(1)
    with pytest.raises(InvalidTask, match="keeps no order"):
        strict.submit("a")
    assert shop.nothing_exists()


# ---- no answer -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("stored", [True, False])
def test_a_send_without_an_answer_is_a_success(shop: Shop, stored: bool) -> None:
    """The row stands and is due for a look, so the task is not lost whether SQS has the message or not."""
    shop.queue().answers, shop.queue().stored = [UNANSWERED], stored
    handle = resize(shop).submit("p1")
    row = shop.row(handle.id)
    assert row.state is State.QUEUED
    assert row.check_at_ms == row.submitted_at_ms + limits.RECONCILE_GRACE_SECONDS * 1000
    assert shop.world.telemetry.named("send.unknown")[0]["task_id"] == handle.id
    assert len(shop.messages()) == int(stored)


@pytest.mark.parametrize("age_seconds", [limits.RESUBMIT_GRACE_SECONDS, limits.RELY_SECONDS])
def test_a_submit_that_finds_an_unsent_row_sends_it(shop: Shop, age_seconds: int) -> None:
    """A producer that died between row and message comes back with its key: the message is sent now."""
    shop.queue().answers = [UNANSWERED]
    task = resize(shop).options(idempotency_key="k")
    first = task.submit("p1")
    shop.world.advance(age_seconds)
    second = task.submit("p1")
    lost, sent = shop.queue().sent
    assert second.id == first.id
    assert (sent.body == lost.body) == (age_seconds == limits.RELY_SECONDS), "then nothing is written any more"
    shop.work()
    assert shop.effects == [("p1", 100)]


def test_an_unsent_ordered_row_is_sent_under_the_same_deduplication_id(shop: Shop) -> None:
    """Where SQS had the first message after all, the second one is no other."""
    shop.queue("ledger").answers, shop.queue("ledger").stored = [UNANSWERED], True
    task = post(shop).options(idempotency_key="k")
    task.submit(5)
    shop.world.advance(limits.RESUBMIT_GRACE_SECONDS)
    task.submit(5)
    assert len(shop.queue("ledger").sent) == 2
    assert len(shop.messages()) == 1


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_write_whose_reply_is_lost_is_recognised(shop: Shop, times: int) -> None:
    """The row bears this submit's write id, so it is its own: the message is sent, once, and no key is in conflict."""
    client = shop.another_client(rows=Rows(Table(shop, applied=True, times=times)))
    shop.app.connect(client=client)
    handle = resize(shop).options(idempotency_key="k").submit("p1")
    assert not handle.found
    assert len(shop.messages()) == 1


def test_a_row_without_an_answer_is_not_sent(shop: Shop) -> None:
    """A message whose row may not exist would run nothing: the submit raises, says so, and sends nothing."""
    shop.app.connect(client=shop.another_client(rows=Rows(Table(shop, applied=False, times=3))))
    with pytest.raises(ServiceError, match=r"did not say whether its row was written .* idempotency key"):
        resize(shop).submit("p1")
    assert shop.nothing_exists()


def test_a_refusal_that_cannot_be_recorded_is_told(shop: Shop) -> None:
    """SQS said no and the table says nothing: neither success nor a clean refusal is claimed."""
    task = resize(shop)
    shop.queue().answers = [REFUSED]
    table = Table(shop, applied=False, times=0)
    shop.app.connect(client=shop.another_client(rows=Rows(table)))
    real = shop.queue().send_many

    def table_fails_now(sends: Any) -> Any:
        table.left = 3
        return real(sends)

    shop.queue().send_many = table_fails_now  # type: ignore[method-assign] # the table fails after the send
    with pytest.raises(ServiceError, match="the table did not answer when its row was to be taken back"):
        task.submit("p1")


@pytest.mark.parametrize("seed", range(30))
def test_a_rough_world_loses_no_submit(seed: int) -> None:
    """Whatever table, queue and payload store do not answer, a submit that returned has its row, and one that raised
    SubmitRefused has none that could run."""
    shop = Shop(World(seed=seed, topology=topology(), faults=replace(Faults.rough(0.2), slow_call=0.0)))
    task = resize(shop)
    for number in range(20):
        try:
            handle = task.options(idempotency_key=f"k{number}").submit("p" * (number * 700))
        except ServiceError:
            continue
        except SubmitRefused as refused:
            raise AssertionError("this world refuses nothing") from refused
        shop.world.faults = Faults.none()
        row = shop.row(handle.id)
        assert row.state is State.QUEUED
        assert row.check_at_ms > 0
        assert row.payload is not None
        assert row.payload.kind == "inline" or shop.world.payloads.get(row.payload)
        shop.world.faults = replace(Faults.rough(0.2), slow_call=0.0)


# ---- connected, async ----------------------------------------------------------------------------------------------
def test_a_submit_before_connect_says_what_to_do() -> None:
    """The error names the app and the call that mends it."""
    app = App("lonely")
    task = app.task(queue="media", name="idle")(lambda: None)
    with pytest.raises(NotConnected, match=r'app .lonely. is not connected.*app.connect\(environment="..."\)'):
        task.submit()


def test_every_blocking_call_has_its_async_form(shop: Shop) -> None:
    """Submit, submit_many, status, result, why and cancel can be awaited, and do the same."""
    task = resize(shop)

    async def scenario() -> None:
        handle = await task.asubmit("p1")
        report = await task.asubmit_many([task.bind("p2")])
        named = await shop.another_client().asubmit("resize", {"photo": "p3"}, queue="media")
        assert (await named.acancel("not needed")).value == "cancelled"
        shop.work()
        assert await handle.aresult("0s") == "p1"
        assert (await handle.astatus()).final
        assert "completed" in await handle.awhy()
        assert report.counts.submitted == 1

    asyncio.run(scenario())
    assert sorted(shop.effects) == [("p1", 100), ("p2", 100)]


def test_a_write_that_stands_is_not_written_again(shop: Shop) -> None:
    """A plain submit costs one write and one send."""
    calls: list[int] = []
    store = shop.world.store
    real = store.write_many
    store.write_many = lambda writes: calls.append(len(writes)) or real(writes)  # type: ignore[method-assign,func-returns-value] # counted
    resize(shop).submit("p1")
    assert calls == [1]
    assert shop.queue().calls == [1]
