"""The books come from a seed, and the reconciliation finds every fault in them and no other."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from datetime import timedelta
from decimal import Decimal

import pytest

from examples.restaurant import books, data
from examples.restaurant.app import app
from examples.restaurant.books import RESTAURANTS, NoSuchRestaurant
from examples.restaurant.ledger import DayReport, DaySummary, reconcile_day, report_key
from examples.restaurant.sales import week_of
from examples.restaurant.storage import NoSuchFile, StaleFence, Store
from tests.examples.conftest import FakeAttempt, running

WEEK = week_of(data.FIRST_DAY)


def reconciled(store: Store) -> list[DaySummary]:
    return [reconcile_day(day, restaurant.id) for day in WEEK for restaurant in RESTAURANTS]


def reports(store: Store) -> list[DayReport]:
    return [DayReport.model_validate_json(store.read(key)) for key in store.keys("ledger/reports")]


def test_the_same_seed_makes_the_same_bytes() -> None:
    """Held by a digest too, so that it is the same in every process, on every machine and every Python."""
    files = data.generate(7).files()
    assert files == data.generate(7).files()
    assert files != data.generate(8).files()
    digest = hashlib.sha256(b"".join(files[key] for key in sorted(files))).hexdigest()
    assert digest[:16] == "510327cfda3c0169"


def test_the_books_are_large_and_hold_every_kind_of_fault() -> None:
    made = data.generate(7)
    assert len(made.orders) > 5000
    assert len(made.payments) > 5000
    kinds = Counter(fault.kind for fault in made.planted)
    assert set(kinds) == {
        "missing_payment",
        "double_charge",
        "amount_off",
        "wrong_currency",
        "refund_missing",
        "refund_unexpected",
        "unknown_order",
    }
    assert min(kinds.values()) >= 5


def test_what_is_no_fault_is_in_the_books_too() -> None:
    """Bills split into equal halves, cards charged after midnight, refunds after a cancellation."""
    made = data.generate(7)
    orders = {order.order_id: order for order in made.orders}
    faulty = {fault.order_id for fault in made.planted}
    amounts: dict[str, list[Decimal]] = {}
    for payment in made.payments:
        if payment.order_id not in faulty:
            amounts.setdefault(payment.order_id, []).append(payment.amount)
    assert any(len(each) == 2 and each[0] == each[1] for each in amounts.values())
    sound = [p for p in made.payments if p.order_id in orders and p.order_id not in faulty]
    assert any(p.captured_at.date() > orders[p.order_id].placed_at.date() for p in sound)
    assert any(p.kind == "refund" for p in sound)


@pytest.mark.parametrize("seed", [1, 2, 7])
def test_every_planted_fault_is_found_and_nothing_else(store: Store, seed: int) -> None:
    made = data.generate(seed)
    made.write(store)
    reconciled(store)
    found = [
        (r.summary.restaurant_id, r.summary.day, wrong.order_id, wrong.kind, wrong.off_by)
        for r in reports(store)
        for wrong in r.discrepancies
    ]
    planted = [(f.restaurant_id, f.day, f.order_id, f.kind, f.off_by) for f in made.planted]
    assert sorted(found) == sorted(planted)


def test_the_sums_are_those_that_sql_finds(store: Store) -> None:
    """An independent reckoning, in whole hundredths, from the two files alone."""
    data.generate(7).write(store)
    summaries = reconciled(store)
    db = sqlite3.connect(":memory:")
    db.execute("create table orders (id, restaurant, day, status, currency, amount integer)")
    db.execute("create table payments (order_id, restaurant, day, sign integer, currency, amount integer)")
    for line in store.read(books.ORDERS).decode().splitlines()[1:]:
        order_id, restaurant, at, status, currency, amount = line.split(",")
        row = (order_id, restaurant, at[:10], status, currency, int(Decimal(amount) * 100))
        db.execute("insert into orders values (?,?,?,?,?,?)", row)
    for line in store.read(books.PAYMENTS).decode().splitlines()[1:]:
        _, order_id, restaurant, at, kind, currency, amount = line.split(",")
        sign = 1 if kind == "charge" else -1
        row2 = (order_id, restaurant, at[:10], sign, currency, int(Decimal(amount) * 100))
        db.execute("insert into payments values (?,?,?,?,?,?)", row2)
    owed = dict(
        db.execute(
            "select restaurant || day, sum(case status when 'fulfilled' then amount else 0 end) from orders group by 1"
        )
    )
    received = dict(
        db.execute(
            """select p.restaurant || coalesce(o.day, p.day), sum(p.sign * p.amount)
               from payments p left join orders o on o.id = p.order_id
               where p.currency = (select currency from orders x where x.restaurant = p.restaurant limit 1)
               group by 1"""
        )
    )
    db.close()
    for summary in summaries:
        day = f"{summary.restaurant_id}{summary.day}"
        assert (summary.owed * 100, summary.received * 100) == (owed[day], received.get(day, 0)), day
        assert summary.off_by == summary.received - summary.owed


def test_a_day_begins_with_the_balance_that_the_day_before_closed_with(store: Store) -> None:
    """Which is why a restaurant's days are ordered."""
    data.generate(7).write(store)
    days = [reconcile_day(day, "r1") for day in WEEK]
    assert [day.carried_from for day in days] == [None, *WEEK[:-1]]
    assert [day.opening for day in days[1:]] == [day.closing for day in days[:-1]]
    assert days[-1].closing == sum(day.received for day in days)
    definition = app.tasks["reconcile_day"]
    assert (definition.queue, definition.ordered_by) == ("ledger", "restaurant_id")


def test_a_day_that_is_missing_leaves_a_gap_that_can_be_seen(store: Store) -> None:
    data.generate(7).write(store)
    reconcile_day(WEEK[0], "r1")
    assert reconcile_day(WEEK[2], "r1").carried_from == WEEK[0]


def test_reconciling_a_day_again_writes_the_same_report(store: Store) -> None:
    data.generate(7).write(store)
    for day in WEEK[:2]:
        reconcile_day(day, "r2")
    before = store.read(report_key("r2", WEEK[0]))
    reconcile_day(WEEK[0], "r2")
    assert store.read(report_key("r2", WEEK[0])) == before


def test_an_attempt_that_lost_its_lease_cannot_overwrite_a_report(store: Store) -> None:
    data.generate(7).write(store)
    with running(FakeAttempt(fence=5)):
        reconcile_day(WEEK[0], "r1")
    with running(FakeAttempt(fence=4)), pytest.raises(StaleFence):
        reconcile_day(WEEK[0], "r1")
    assert DayReport.model_validate_json(store.read(report_key("r1", WEEK[0]))).fence == 5


def test_a_day_without_orders_is_an_empty_report(store: Store) -> None:
    data.generate(7).write(store)
    summary = reconcile_day(WEEK[0] - timedelta(days=30), "r5")
    assert (summary.orders, summary.received, summary.discrepancies, summary.currency) == (0, Decimal(0), {}, "JPY")


def test_a_result_comes_out_of_the_queue_as_it_went_in(store: Store) -> None:
    """Decimals, dates and counts survive the JSON that a task's result is."""
    data.generate(7).write(store)
    definition = app.tasks["reconcile_day"]
    summary = reconcile_day(WEEK[0], "r4")
    assert definition.decode_result(definition.encode_result(summary)) == summary


def test_books_that_are_not_there_yet_are_waited_for_and_an_unknown_restaurant_is_not(store: Store) -> None:
    retry = app.tasks["reconcile_day"].retry
    with pytest.raises(NoSuchFile) as early:
        reconcile_day(WEEK[0], "r1")
    assert retry.retriable(early.value)
    with pytest.raises(NoSuchRestaurant) as unknown:
        reconcile_day(WEEK[0], "r99")
    assert not retry.retriable(unknown.value)
