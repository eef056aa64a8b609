"""The weekly sales report: a long task that works restaurant by restaurant and remembers each one it has done.

Kill its worker at any moment: the next attempt goes on after the last restaurant that was recorded, and what comes out
is, to the byte, what an undisturbed run would have written.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import date

from pydantic import BaseModel

import tenure
from examples.restaurant import books
from examples.restaurant.base import app
from examples.restaurant.books import Restaurant
from examples.restaurant.chart import draw
from examples.restaurant.sales import RestaurantWeek, bills_by_day, nine_in_ten, resampled, week_of
from examples.restaurant.storage import Store, open_store


class WeeklyReport(BaseModel):
    """The result: the keys of chart and table, and the sum in whole euro cents."""

    monday: date
    chart: str
    table: str
    orders: int
    total_cents: int


@app.task(queue="reports", timeout="30m", lease="30s", retry=tenure.Retry(max_attempts=5, cap="5m"))
def weekly_report(monday: date, rounds: int = 2000) -> WeeklyReport:
    """Draw the week's chart and write its table. `rounds`: draws of each forecast, and so how long it takes.

    Raises NoSuchFile while the books are not there yet, and Snooze (at no cost) if it is told to stop before its end.
    """
    ctx = tenure.context()
    store = open_store()
    done = [RestaurantWeek.model_validate(each) for each in ctx.last_checkpoint or ()]
    if done:
        ctx.log.info("goes on after %s, the last that an earlier attempt recorded", done[-1].name)
    for number, restaurant in enumerate(books.RESTAURANTS[len(done) :], start=len(done) + 1):
        done.append(_week(store, restaurant, monday, rounds))
        ctx.progress(number / (len(books.RESTAURANTS) + 1))
        ctx.checkpoint([each.model_dump() for each in done])
    return _publish(store, monday, done, ctx.fence)


def _week(store: Store, restaurant: Restaurant, monday: date, rounds: int) -> RestaurantWeek:
    ctx = tenure.context()
    days = bills_by_day(books.orders(store, restaurant.id), monday)
    totals: list[int] = []
    for some in resampled(days, rounds, seed=f"{restaurant.id} {monday}"):
        totals += some
        if ctx.cancelled:
            raise tenure.Snooze("0s", f"told to stop at {restaurant.name}")
    low, high = nine_in_ten(totals)
    return RestaurantWeek(
        restaurant_id=restaurant.id,
        name=restaurant.name,
        orders=sum(len(day) for day in days),
        daily_cents=[sum(day) for day in days],
        low_cents=low,
        high_cents=high,
    )


def _publish(store: Store, monday: date, weeks: Sequence[RestaurantWeek], fence: int) -> WeeklyReport:
    report = WeeklyReport(
        monday=monday,
        chart=f"reports/{monday}/sales.png",
        table=f"reports/{monday}/sales.csv",
        orders=sum(week.orders for week in weeks),
        total_cents=sum(week.total_cents for week in weeks),
    )
    store.write(report.table, _table(monday, weeks), fence=fence)
    store.write(report.chart, draw(monday, weeks), fence=fence)
    return report


def _table(monday: date, weeks: Sequence[RestaurantWeek]) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["restaurant", *(f"{day:%a %d %b}" for day in week_of(monday)), "total", "low", "high"])
    for week in weeks:
        cents = (*week.daily_cents, week.total_cents, week.low_cents, week.high_cents)
        writer.writerow([week.name, *(f"{each / 100:.2f}" for each in cents)])
    return buffer.getvalue().encode()
