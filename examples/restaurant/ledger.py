"""The nightly reconciliation: what guests paid against what they owed, one task per restaurant and day.

The days of a restaurant are reconciled in order, because each begins with the balance that the day before closed with.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal

from pydantic import BaseModel

import tenure
from examples.restaurant import books
from examples.restaurant.base import app
from examples.restaurant.books import NoSuchRestaurant, Order, Payment, Restaurant
from examples.restaurant.storage import Store, open_store


class Discrepancy(BaseModel):
    """One order whose money is not as it should be. Amounts are in the restaurant's currency."""

    order_id: str
    kind: str
    owed: Decimal
    received: Decimal
    payments: list[str]

    @property
    def off_by(self) -> Decimal:
        """Above zero: too much was received."""
        return self.received - self.owed


class DaySummary(BaseModel):
    """A day's result: small enough to live beside the task."""

    restaurant_id: str
    day: date
    currency: str
    orders: int
    owed: Decimal
    received: Decimal
    opening: Decimal
    closing: Decimal
    """`opening` and all that the day received: the next day's `opening`."""
    carried_from: date | None
    """The day whose closing balance was taken over; None on the first. A gap shows that a day before is missing."""
    discrepancies: dict[str, int]
    """Kind -> how many."""
    off_by: Decimal
    report: str
    """The key of the whole report."""


class DayReport(BaseModel):
    """The file that accountants read: the summary, and each order that is not as it should be."""

    summary: DaySummary
    discrepancies: list[Discrepancy]
    fence: int


def report_key(restaurant_id: str, day: date) -> str:
    """Where a day's report lies. It is also the idempotency key to submit with, so that one task writes one report."""
    return f"ledger/reports/{restaurant_id}/{day.isoformat()}.json"


@app.task(
    queue="ledger",
    timeout="2m",
    ordered_by="restaurant_id",
    retry=tenure.Retry(max_attempts=5, cap="1m", give_up_on=(NoSuchRestaurant,)),
)
def reconcile_day(day: date, restaurant_id: str) -> DaySummary:
    """Reconcile one day of one restaurant and write its report.

    Raises NoSuchRestaurant, and NoSuchFile while the books are not there yet.
    """
    ctx = tenure.context()
    store = open_store()
    restaurant = books.restaurant(restaurant_id)
    ever = books.orders(store, restaurant_id)
    orders = [order for order in ever if order.placed_at.date() == day]
    found = compare(restaurant.currency, orders, _paid_for(day, ever, books.payments(store, restaurant_id)))
    report = _report(store, restaurant, day, orders, found)
    report.fence = ctx.fence
    store.write(report.summary.report, report.model_dump_json(indent=2).encode(), fence=ctx.fence)
    ctx.log.info("%s %s: %d orders, %d discrepancies", restaurant_id, day, len(orders), len(report.discrepancies))
    return report.summary


def _paid_for(day: date, orders: list[Order], payments: list[Payment]) -> list[Payment]:
    """A payment belongs to its order's day, whenever it came; one without any order, to the day on which it came."""
    days = {order.order_id: order.placed_at.date() for order in orders}
    return [p for p in payments if days.get(p.order_id, p.captured_at.date()) == day]


def compare(currency: str, orders: Iterable[Order], payments: Iterable[Payment]) -> list[Discrepancy]:
    """Every order's money, and after them what was paid for no order; a `kind` of "" means that all is well."""
    by_order: dict[str, list[Payment]] = {}
    for payment in payments:
        by_order.setdefault(payment.order_id, []).append(payment)
    found = [_judge(currency, order, by_order.pop(order.order_id, [])) for order in orders]
    return found + [_stray(currency, order_id, paid) for order_id, paid in sorted(by_order.items())]


def _judge(currency: str, order: Order, paid: list[Payment]) -> Discrepancy:
    charged, refunded = _total(currency, paid, "charge"), _total(currency, paid, "refund")
    foreign = any(p.currency != currency for p in paid)
    return Discrepancy(
        order_id=order.order_id,
        kind="wrong_currency" if foreign else _kind(order, charged, refunded),
        owed=order.owed,
        received=charged - refunded,
        payments=[p.payment_id for p in paid],
    )


def _stray(currency: str, order_id: str, paid: list[Payment]) -> Discrepancy:
    received = _total(currency, paid, "charge") - _total(currency, paid, "refund")
    ids = [p.payment_id for p in paid]
    return Discrepancy(order_id=order_id, kind="unknown_order", owed=Decimal(0), received=received, payments=ids)


def _total(currency: str, paid: list[Payment], kind: str) -> Decimal:
    return sum((p.amount for p in paid if p.kind == kind and p.currency == currency), Decimal(0))


def _kind(order: Order, charged: Decimal, refunded: Decimal) -> str:
    if charged - refunded == order.owed:
        return ""
    if order.status == "cancelled":
        return "refund_missing" if charged > refunded else "refund_unexpected"
    if refunded:
        return "refund_unexpected"
    if not charged:
        return "missing_payment"
    return "double_charge" if charged == 2 * order.amount else "amount_off"


def _report(
    store: Store, restaurant: Restaurant, day: date, orders: list[Order], found: list[Discrepancy]
) -> DayReport:
    wrong = [each for each in found if each.kind]
    kinds = sorted({each.kind for each in wrong})
    before = _day_before(store, restaurant.id, day)
    opening = before.closing if before else Decimal(0)
    received = sum((each.received for each in found), Decimal(0))
    summary = DaySummary(
        restaurant_id=restaurant.id,
        day=day,
        currency=restaurant.currency,
        orders=len(orders),
        owed=sum((each.owed for each in found), Decimal(0)),
        received=received,
        opening=opening,
        closing=opening + received,
        carried_from=before.day if before else None,
        discrepancies={kind: sum(each.kind == kind for each in wrong) for kind in kinds},
        off_by=sum((each.off_by for each in wrong), Decimal(0)),
        report=report_key(restaurant.id, day),
    )
    return DayReport(summary=summary, discrepancies=wrong, fence=0)


def _day_before(store: Store, restaurant_id: str, day: date) -> DaySummary | None:
    """The latest earlier day that has been reconciled. A day that was buried leaves a gap, and the next one goes on."""
    earlier = [key for key in store.keys(f"ledger/reports/{restaurant_id}") if key < report_key(restaurant_id, day)]
    if not earlier:
        return None
    return DayReport.model_validate_json(store.read(earlier[-1])).summary
