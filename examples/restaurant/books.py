"""The chain's books: its restaurants, and the two files of orders and payments, read and written."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal

from examples.restaurant.storage import Store

ORDERS = "ledger/orders.csv"
PAYMENTS = "ledger/payments.csv"

SMALLEST = {"EUR": Decimal("0.01"), "GBP": Decimal("0.01"), "CHF": Decimal("0.05"), "JPY": Decimal("1")}
"""Currency -> its smallest amount. Cash rounding gives the franc its five Rappen; the yen has no hundredths."""


class NoSuchRestaurant(LookupError):
    """The chain has no such place."""


@dataclass(frozen=True)
class Restaurant:
    """One place of the chain. `covers` is about how many orders it has on a weekday, `bill` a usual one."""

    id: str
    name: str
    currency: str
    covers: int
    bill: Decimal


RESTAURANTS = (
    Restaurant("r1", "Chez Odile", "EUR", 74, Decimal(46)),
    Restaurant("r2", "Trattoria Nonna Pia", "EUR", 96, Decimal(28)),
    Restaurant("r3", "The Copper Kettle", "GBP", 82, Decimal(31)),
    Restaurant("r4", "Zum Goldenen Hecht", "CHF", 48, Decimal(62)),
    Restaurant("r5", "Hanako", "JPY", 88, Decimal(4200)),
    Restaurant("r6", "Bar Marisol", "EUR", 118, Decimal(19)),
    Restaurant("r7", "Pikolo", "EUR", 132, Decimal(11)),
    Restaurant("r8", "Bombay Canteen", "GBP", 90, Decimal(26)),
)


@dataclass(frozen=True)
class Order:
    order_id: str
    restaurant_id: str
    placed_at: datetime
    status: str
    """ "fulfilled" or "cancelled"."""
    currency: str
    amount: Decimal

    @property
    def owed(self) -> Decimal:
        """What the guests owe for it in the end."""
        return self.amount if self.status == "fulfilled" else Decimal(0)


@dataclass(frozen=True)
class Payment:
    payment_id: str
    order_id: str
    restaurant_id: str
    captured_at: datetime
    kind: str
    """ "charge" or "refund"; the amount is positive either way."""
    currency: str
    amount: Decimal


def to_csv(records: Iterable[Order] | Iterable[Payment]) -> bytes:
    """The records as CSV with a header; nothing for none."""
    buffer = io.StringIO()
    rows = [{name: _text(value) for name, value in asdict(record).items()} for record in records]
    if rows:
        writer = csv.DictWriter(buffer, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return buffer.getvalue().encode()


def restaurant(restaurant_id: str) -> Restaurant:
    """One of RESTAURANTS. Raises NoSuchRestaurant."""
    for each in RESTAURANTS:
        if each.id == restaurant_id:
            return each
    raise NoSuchRestaurant(f"{restaurant_id!r} is none of {', '.join(each.id for each in RESTAURANTS)}")


def orders(store: Store, restaurant_id: str) -> list[Order]:
    """Every order of one restaurant, in order of time. Raises NoSuchFile."""
    return [
        Order(
            order_id=row["order_id"],
            restaurant_id=row["restaurant_id"],
            placed_at=datetime.fromisoformat(row["placed_at"]),
            status=row["status"],
            currency=row["currency"],
            amount=Decimal(row["amount"]),
        )
        for row in _rows(store, ORDERS)
        if row["restaurant_id"] == restaurant_id
    ]


def payments(store: Store, restaurant_id: str) -> list[Payment]:
    """Every payment of one restaurant, in order of time. Raises NoSuchFile."""
    return [
        Payment(
            payment_id=row["payment_id"],
            order_id=row["order_id"],
            restaurant_id=row["restaurant_id"],
            captured_at=datetime.fromisoformat(row["captured_at"]),
            kind=row["kind"],
            currency=row["currency"],
            amount=Decimal(row["amount"]),
        )
        for row in _rows(store, PAYMENTS)
        if row["restaurant_id"] == restaurant_id
    ]


def _rows(store: Store, key: str) -> Sequence[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(store.read(key).decode())))


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
