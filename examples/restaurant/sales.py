"""A week's sales of one restaurant, and what to expect of the next: plain numbers, nothing of tasks.

The forecast is a bootstrap: the week's bills are drawn again, with replacement, many times over, and the totals that
come out show how far chance alone can move a week. It is honest work for a processor, as long as one asks for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal

from pydantic import BaseModel

from examples.restaurant.books import Order

EUROS = {"EUR": Decimal(1), "GBP": Decimal("1.17"), "CHF": Decimal("1.04"), "JPY": Decimal("0.0062")}
"""Currency -> euros for one of it; the rates of the first week of March 2024, held still so that reports can be
compared."""

ROUNDS_AT_ONCE = 100
"""Draws between two looks at whether to stop: a few hundredths of a second."""


class RestaurantWeek(BaseModel):
    """One restaurant's week, in whole euro cents."""

    restaurant_id: str
    name: str
    orders: int
    daily_cents: list[int]
    low_cents: int
    """Nine weeks in ten would be above this, if the next were like this one."""
    high_cents: int

    @property
    def total_cents(self) -> int:
        """The week's sales."""
        return sum(self.daily_cents)


def week_of(monday: date) -> list[date]:
    """The seven days from `monday`. Raises ValueError for another day of the week."""
    if monday.weekday() != 0:
        raise ValueError(f"{monday} is a {monday:%A}; a week is named by its Monday")
    return [monday + timedelta(days=n) for n in range(7)]


def bills_by_day(orders: Sequence[Order], monday: date) -> list[list[int]]:
    """For each day of the week, its fulfilled orders in euro cents."""
    bills: dict[date, list[int]] = {day: [] for day in week_of(monday)}
    for order in orders:
        day = bills.get(order.placed_at.date())
        if day is not None and order.status == "fulfilled":
            day.append(int((order.amount * EUROS[order.currency] * 100).to_integral_value()))
    return list(bills.values())


def resampled(days: Sequence[Sequence[int]], rounds: int, seed: str) -> Iterator[list[int]]:
    """Totals of `rounds` weeks drawn from this one's bills, some at a time, so that the caller can stop in between.

    The same seed draws the same weeks, wherever and however often it is run.
    """
    rng = random.Random(seed)
    bills = [bill for day in days for bill in day]
    for start in range(0, rounds, ROUNDS_AT_ONCE):
        count = min(ROUNDS_AT_ONCE, rounds - start)
        yield [sum(rng.choices(bills, k=len(bills))) if bills else 0 for _ in range(count)]


def nine_in_ten(totals: Sequence[int]) -> tuple[int, int]:
    """The totals that one draw in ten falls short of, and that one in ten exceeds; (0, 0) for none."""
    if not totals:
        return 0, 0
    ranked = sorted(totals)
    return ranked[len(ranked) // 10], ranked[(len(ranked) * 9) // 10]
