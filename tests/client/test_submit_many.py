"""Many submits: batches, an outcome for each, order, and memory that stays bounded."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.client import BATCH_ITEMS, FAILURES_KEPT
from tenure.core.errors import InvalidPayload, KeyConflict, SubmitRefused, UsageError
from tenure.core.task import State
from tests.support.shop import REFUSED, UNANSWERED, Shop, counting


@pytest.fixture
def shop() -> Shop:
    return Shop()


def note(shop: Shop) -> Any:
    @shop.app.task(queue="media")
    def note(number: int) -> None:
        shop.effects.append(number)

    return note


def post(shop: Shop) -> Any:
    @shop.app.task(queue="ledger", ordered_by="account")
    def post(amount: int, account: str) -> None:
        shop.effects.append((account, amount))

    return post


def test_all_are_submitted_and_run(shop: Shop) -> None:
    """Every call gets an outcome in the order given, and a handle of its own."""
    task = note(shop)
    report = task.submit_many(task.bind(n) for n in range(25))
    assert report.ok
    assert [each.index for each in report.outcomes] == list(range(25))
    assert len({handle.id for handle in report.handles()}) == 25
    shop.work(rounds=3)
    assert sorted(shop.effects) == list(range(25))


def test_rows_are_written_together_and_messages_sent_in_one_call(shop: Shop) -> None:
    """A batch costs one call on the table's port and one on the queue's; the adapters make tens of them."""
    task = note(shop)
    calls: list[int] = []
    real = shop.world.store.write_many

    def counted(writes: Any) -> Any:
        calls.append(len(writes))
        return real(writes)

    shop.world.store.write_many = counted  # type: ignore[method-assign] # counted
    task.submit_many(task.bind(n) for n in range(2 * BATCH_ITEMS + 1))
    assert calls == [BATCH_ITEMS, BATCH_ITEMS, 1]
    assert shop.queue().calls == [BATCH_ITEMS, BATCH_ITEMS, 1]


def test_a_generator_is_read_as_the_batches_go(shop: Shop) -> None:
    """No more than a batch of calls is held at once, whatever comes after."""
    task, read = note(shop), list[int]()
    held: list[int] = []
    shop.queue().real.watchers.append(lambda what, message: held.append(len(read)))
    task.submit_many(counting([task.bind(n) for n in range(500)], read))
    ahead = [taken - sent for sent, taken in enumerate(held)]
    assert max(ahead) == BATCH_ITEMS
    assert len(held) == 500


def test_large_payloads_close_a_batch_early(shop: Shop) -> None:
    """A batch holds a bounded amount of payload, not just a bounded number of calls."""

    @shop.app.task(queue="media")
    def keep(text: str) -> None: ...

    keep.submit_many(keep.bind("x" * 3_000_000) for _ in range(7))
    assert shop.queue().calls == [3, 3, 1]


def test_one_that_fails_hinders_none(shop: Shop) -> None:
    """A wrong argument, a conflict and a refusal are each told in their place; all others are submitted."""
    task = note(shop)
    keyed = task.options(idempotency_key="k")
    keyed.submit(1)
    shop.queue().answers = [None, REFUSED, None]
    calls = [task.bind(0), task.bind("wrong"), keyed.bind(2), task.bind(3), keyed.bind(1), task.bind(5)]
    report = task.submit_many(calls)
    assert [each.status for each in report.outcomes] == [
        "submitted",
        "failed",
        "failed",
        "failed",
        "found",
        "submitted",
    ]
    kinds = [type(each.error) for each in report.failures]
    assert kinds == [InvalidPayload, KeyConflict, SubmitRefused]
    assert (report.counts.done, report.counts.failed, report.counts.found) == (6, 3, 1)
    with pytest.raises(ExceptionGroup, match="3 of 6 tasks were not submitted"):
        report.raise_for_failures()


def test_a_batch_with_one_key_twice_makes_one_task(shop: Shop) -> None:
    """Within a batch as between batches, the second of a key is found."""
    keyed = note(shop).options(idempotency_key="k")
    report = keyed.submit_many([keyed.bind(1), keyed.bind(1), keyed.bind(2)])
    assert [each.status for each in report.outcomes] == ["submitted", "found", "failed"]
    assert len(shop.messages()) == 1


def test_progress_is_told_after_each_batch(shop: Shop) -> None:
    """The counts so far, as often as there are batches."""
    task, told = note(shop), list[int]()
    task.submit_many((task.bind(n) for n in range(250)), progress=lambda counts: told.append(counts.done))
    assert told == [100, 200, 250]


def test_outcomes_need_not_be_kept(shop: Shop) -> None:
    """For millions of calls: counts, and the first failures only."""
    task = note(shop)
    wrong = FAILURES_KEPT + 50
    calls = [task.bind("wrong") if n < wrong else task.bind(n) for n in range(wrong + 10)]
    report = task.submit_many(calls, keep_outcomes=False)
    assert (report.counts.submitted, report.counts.failed) == (10, wrong)
    assert len(report.outcomes) == FAILURES_KEPT
    assert not report.handles()


def test_what_the_generator_raises_comes_after_all_before_it(shop: Shop) -> None:
    """Its own error is raised on, and says how many calls before it were dealt with; they are submitted."""
    task = note(shop)

    def broken() -> Any:
        yield task.bind(1)
        yield task.bind(2)
        raise ZeroDivisionError("the list was cut off")

    with pytest.raises(ZeroDivisionError) as caught:
        task.submit_many(broken())
    assert "the 2 calls before this" in caught.value.__notes__[0]
    shop.work()
    assert sorted(shop.effects) == [1, 2]


def test_nothing_is_something_to_submit(shop: Shop) -> None:
    """An empty iterable is a report of nothing."""
    report = note(shop).submit_many([])
    assert (report.ok, report.counts.done, report.outcomes) == (True, 0, ())


def test_one_batch_may_go_to_several_queues_and_tiers(shop: Shop) -> None:
    """Calls of different tasks and priorities are sent each to their own, and keep their places in the report."""
    notes, posts = note(shop), post(shop)
    report = notes.submit_many(
        [notes.options(priority="high").bind(1), posts.bind(2, "a"), notes.bind(3), notes.options(delay="1h").bind(4)]
    )
    assert [each.status for each in report.outcomes] == ["submitted"] * 4
    assert [shop.queue(*place).calls for place in (("media", "high"), ("ledger",), ("media",))] == [[1], [1], [1]]
    assert shop.row(report.handles()[3].id).state is State.SCHEDULED


def test_calls_by_name_are_submitted_together(shop: Shop) -> None:
    """Client.bind makes calls for Client.submit_many, without any task code."""
    note(shop)
    client = shop.client
    report = client.submit_many(client.bind("note", {"number": n}, queue="media") for n in range(12))
    assert report.counts.submitted == 12
    shop.work(rounds=2)
    assert sorted(shop.effects) == list(range(12))


# ---- order ---------------------------------------------------------------------------------------------------------
def test_an_ordered_queue_keeps_the_order_given(shop: Shop) -> None:
    """Through several batches, each key's tasks run as they were given."""
    task = post(shop)
    task.submit_many(task.bind(n, account=f"a{n % 3}") for n in range(250))
    shop.work("ledger", rounds=80)
    assert len(shop.effects) == 250
    for account in ("a0", "a1", "a2"):
        amounts = [amount for each, amount in shop.effects if each == account]
        assert amounts == sorted(amounts)


def test_what_follows_an_unanswered_send_does_not_overtake_it(shop: Shop) -> None:
    """In a later batch too: the rest of that key is written and left to reconcile, other keys flow."""
    task = post(shop)
    shop.queue("ledger").answers = [UNANSWERED]
    calls = [task.bind(n, account="a" if n % 2 == 0 else "b") for n in range(BATCH_ITEMS + 20)]
    report = task.submit_many(calls)
    later = [each.status for each in report.outcomes[BATCH_ITEMS:]]
    assert report.outcomes[0].status == "unconfirmed"
    assert later == ["unconfirmed", "submitted"] * 10
    assert report.counts.failed == 0
    assert all(shop.row(handle.id).state is State.QUEUED for handle in report.handles())


def test_what_follows_a_refused_send_flows(shop: Shop) -> None:
    """A message that SQS refused for certain never comes, so nothing waits for it."""
    task = post(shop)
    shop.queue("ledger").answers = [REFUSED]
    report = task.submit_many(task.bind(n, account="a") for n in range(5))
    assert [each.status for each in report.outcomes] == ["failed"] + ["submitted"] * 4
    shop.work("ledger", rounds=5)
    assert shop.effects == [("a", n) for n in range(1, 5)]


def test_what_is_no_call_is_told_with_what_makes_one(shop: Shop) -> None:
    """Arguments without `bind` are the first thing that everybody tries; what came before them was submitted."""
    task = note(shop)
    with pytest.raises(UsageError, match=r"item 1 of submit_many is a str, not a call.*: note\.bind\(") as told:
        task.submit_many([task.bind(0), "1"])
    assert "the 1 calls before this" in "".join(told.value.__notes__)
    with pytest.raises(UsageError, match=r"item 0 of submit_many is an int.*TASK\.bind"):
        shop.app.producer.submit_many([7])  # type: ignore[list-item] # what is tested
    with pytest.raises(UsageError, match="was given one"):
        task.submit_many(task.bind(2))
    shop.work()
    assert shop.effects == [0]
