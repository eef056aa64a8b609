"""Books made from a seed: orders and payments of some days, with the faults that real books have.

The same seed gives the same bytes. Every fault that is put in is also told (`Books.planted`), so that a
reconciliation can be held to finding these and no others. What looks like a fault and is none is there too: bills split
between guests, cards charged after midnight, orders cancelled before and after they were paid.

    python -m examples.restaurant.data --days 7 --seed 7        into the store that the settings name
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal

from examples.restaurant.books import ORDERS, PAYMENTS, RESTAURANTS, SMALLEST, Order, Payment, Restaurant, to_csv
from examples.restaurant.storage import Store, open_store

FIRST_DAY = date(2024, 3, 4)
"""A Monday, so that seven days are a week of the sales report."""


@dataclass(frozen=True)
class Planted:
    """One fault in the books. `off_by` is what was received less what was owed, in the restaurant's currency."""

    restaurant_id: str
    day: date
    order_id: str
    kind: str
    off_by: Decimal


@dataclass
class Books:
    """Orders and payments, as they are written to the two files, and the faults in them."""

    orders: list[Order] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)
    planted: list[Planted] = field(default_factory=list)

    def files(self) -> dict[str, bytes]:
        """Key -> CSV."""
        return {ORDERS: to_csv(self.orders), PAYMENTS: to_csv(self.payments)}

    def write(self, store: Store) -> None:
        """Put both files into the store."""
        for key, data in self.files().items():
            store.write(key, data)


def generate(
    seed: int, *, days: int = 7, first_day: date = FIRST_DAY, restaurants: Sequence[Restaurant] = RESTAURANTS
) -> Books:
    """The books of so many days. About one order in forty has a fault."""
    rng = random.Random(seed)
    books = Books()
    for offset in range(days):
        for restaurant in restaurants:
            _day(books, rng, restaurant, first_day + timedelta(days=offset))
    # As the provider lists them: by time. Their numbers then tell nothing of which order they are for.
    books.payments.sort(key=lambda p: (p.captured_at, p.order_id, p.amount))
    books.payments = [replace(p, payment_id=f"p-{n:06d}") for n, p in enumerate(books.payments, start=1)]
    return books


def _day(books: Books, rng: random.Random, restaurant: Restaurant, day: date) -> None:
    weekend = 1.4 if day.weekday() >= 4 else 1.0
    count = round(restaurant.covers * weekend * rng.triangular(0.8, 1.2))
    for number, placed_at in enumerate(sorted(_opening_hours(rng, day) for _ in range(count))):
        order = Order(
            order_id=f"{restaurant.id}-{day:%y%m%d}-{number:03d}",
            restaurant_id=restaurant.id,
            placed_at=placed_at,
            status="fulfilled",
            currency=restaurant.currency,
            amount=_bill(rng, restaurant),
        )
        fate = rng.choices(_FATES, weights=_WEIGHTS)[0](order, rng)
        books.orders.append(fate.order)
        books.payments += fate.payments
        if fate.kind:
            books.planted.append(Planted(restaurant.id, day, order.order_id, fate.kind, fate.off_by))
    if rng.randrange(4) == 0:
        _stray(books, rng, restaurant, day)


def _stray(books: Books, rng: random.Random, restaurant: Restaurant, day: date) -> None:
    """A charge for an order that is in no book."""
    order_id = f"{restaurant.id}-{day:%y%m%d}-x{rng.randrange(1000):03d}"
    amount = _bill(rng, restaurant)
    at = datetime.combine(day, time(12, rng.randrange(60)))
    books.payments.append(Payment("", order_id, restaurant.id, at, "charge", restaurant.currency, amount))
    books.planted.append(Planted(restaurant.id, day, order_id, "unknown_order", amount))


def _opening_hours(rng: random.Random, day: date) -> datetime:
    hour = rng.choices(range(11, 24), weights=(3, 12, 14, 6, 2, 2, 4, 10, 16, 14, 9, 5, 3))[0]
    return datetime.combine(day, time(hour, rng.randrange(60), rng.randrange(60)))


def _bill(rng: random.Random, restaurant: Restaurant) -> Decimal:
    return _rounded(restaurant.bill * Decimal(str(round(rng.lognormvariate(0, 0.45), 3))), restaurant.currency)


def _rounded(amount: Decimal, currency: str) -> Decimal:
    smallest = SMALLEST[currency]
    return max((amount / smallest).quantize(Decimal(1)), Decimal(1)) * smallest


# ---- what can become of an order -------------------------------------------------------------------------------
@dataclass
class _Fate:
    order: Order
    payments: list[Payment]
    kind: str = ""
    off_by: Decimal = Decimal(0)


def _paid(order: Order, rng: random.Random, amount: Decimal, kind: str = "charge", currency: str = "") -> Payment:
    # Most cards are charged when the guests go; a late table's only after midnight, on another day than its order.
    minutes = rng.randrange(35, 140) if kind == "charge" else rng.randrange(140, 600)
    return Payment(
        payment_id="",
        order_id=order.order_id,
        restaurant_id=order.restaurant_id,
        captured_at=order.placed_at + timedelta(minutes=minutes, seconds=rng.randrange(60)),
        kind=kind,
        currency=currency or order.currency,
        amount=amount,
    )


def _settled(order: Order, rng: random.Random) -> _Fate:
    return _Fate(order, [_paid(order, rng, order.amount)])


def _split(order: Order, rng: random.Random) -> _Fate:
    """Guests who share the bill, at times into equal halves: two charges, and still no double charge."""
    share = _rounded(order.amount * rng.choice((Decimal("0.5"), Decimal("0.5"), Decimal("0.3"))), order.currency)
    shares = [part for part in (share, order.amount - share) if part]
    return _Fate(order, [_paid(order, rng, part) for part in shares])


def _cancelled_unpaid(order: Order, rng: random.Random) -> _Fate:
    return _Fate(replace(order, status="cancelled"), [])


def _cancelled_refunded(order: Order, rng: random.Random) -> _Fate:
    charge, refund = _paid(order, rng, order.amount), _paid(order, rng, order.amount, "refund")
    return _Fate(replace(order, status="cancelled"), [charge, refund])


def _missing(order: Order, rng: random.Random) -> _Fate:
    return _Fate(order, [], "missing_payment", -order.amount)


def _double(order: Order, rng: random.Random) -> _Fate:
    charges = [_paid(order, rng, order.amount), _paid(order, rng, order.amount)]
    return _Fate(order, charges, "double_charge", order.amount)


def _mistyped(order: Order, rng: random.Random) -> _Fate:
    """A bill typed wrong by a few of the currency's smallest amounts."""
    error = SMALLEST[order.currency] * rng.randrange(1, 60) * rng.choice((1, -1))
    if error <= -order.amount:
        error = abs(error)
    if error == order.amount:
        error += SMALLEST[order.currency]  # exactly twice the amount would be another fault
    return _Fate(order, [_paid(order, rng, order.amount + error)], "amount_off", error)


def _foreign(order: Order, rng: random.Random) -> _Fate:
    """The right number in the wrong currency: nothing came in the order's own."""
    other = rng.choice([each for each in SMALLEST if each != order.currency])
    return _Fate(order, [_paid(order, rng, order.amount, currency=other)], "wrong_currency", -order.amount)


def _unrefunded(order: Order, rng: random.Random) -> _Fate:
    payments = [_paid(order, rng, order.amount)]
    return _Fate(replace(order, status="cancelled"), payments, "refund_missing", order.amount)


def _refunded(order: Order, rng: random.Random) -> _Fate:
    """Eaten, paid, and paid back."""
    payments = [_paid(order, rng, order.amount), _paid(order, rng, order.amount, "refund")]
    return _Fate(order, payments, "refund_unexpected", -order.amount)


_FATES: Sequence[Callable[[Order, random.Random], _Fate]] = (
    _settled,
    _split,
    _cancelled_unpaid,
    _cancelled_refunded,
    _missing,
    _double,
    _mistyped,
    _foreign,
    _unrefunded,
    _refunded,
)
_WEIGHTS = (875, 60, 20, 20, 6, 5, 6, 2, 3, 3)


def _main() -> None:
    parser = argparse.ArgumentParser(description="Write the restaurant's books into its store.")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--store", help="a directory or s3://bucket/prefix; default: as the settings say")
    options = parser.parse_args()
    books = generate(options.seed, days=options.days)
    books.write(open_store(options.store))
    print(f"{len(books.orders)} orders, {len(books.payments)} payments, {len(books.planted)} faults")


if __name__ == "__main__":
    _main()
