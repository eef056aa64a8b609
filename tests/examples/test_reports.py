"""The weekly report resumes where a killed attempt stopped, and what it draws is a chart."""

from __future__ import annotations

import io

import pytest
from PIL import Image

import tenure
from examples.restaurant import chart, data, sales
from examples.restaurant.books import RESTAURANTS
from examples.restaurant.reports import weekly_report
from examples.restaurant.storage import Store
from tenure.core.outcome import LeaseLost
from tests.examples.conftest import FakeAttempt, running

ROUNDS = 20


@pytest.fixture
def books(store: Store) -> data.Books:
    made = data.generate(7)
    made.write(store)
    return made


def files(store: Store) -> dict[str, bytes]:
    return {key: store.read(key) for key in store.keys("reports")}


@pytest.mark.usefixtures("books")
@pytest.mark.parametrize("dies_after", [1, 4, len(RESTAURANTS)])
def test_a_killed_report_goes_on_after_its_last_checkpoint(store: Store, dies_after: int) -> None:
    """Nothing recorded is done again, and the outcome is to the byte what an undisturbed run writes."""
    with running(FakeAttempt()) as undisturbed:
        result = weekly_report(data.FIRST_DAY, ROUNDS)
    expected = files(store)
    assert len(undisturbed.checkpoints) == len(RESTAURANTS)

    first = FakeAttempt(fence=2, dies_after=dies_after)
    with running(first), pytest.raises(LeaseLost):
        weekly_report(data.FIRST_DAY, ROUNDS)
    second = FakeAttempt(fence=3, attempt=2, checkpoints=first.checkpoints[-1:])
    with running(second):
        assert weekly_report(data.FIRST_DAY, ROUNDS) == result
    assert len(second.checkpoints) - 1 == len(RESTAURANTS) - dies_after
    assert files(store) == expected


def test_the_result_tells_the_week_s_sales(store: Store, books: data.Books) -> None:
    """Against a plain sum over the orders that the books were made of."""
    made = weekly_report(data.FIRST_DAY, ROUNDS)
    sold = [order for order in books.orders if order.status == "fulfilled"]
    assert made.orders == len(sold)
    exact = sum(order.amount * sales.EUROS[order.currency] * 100 for order in sold)
    assert abs(made.total_cents - exact) <= len(sold) / 2, "each bill is rounded to a cent once"
    table = store.read(made.table).decode().splitlines()
    assert table[0].startswith("restaurant,Mon 04 Mar,")
    assert [line.split(",")[0] for line in table[1:]] == [restaurant.name for restaurant in RESTAURANTS]


@pytest.mark.usefixtures("books")
def test_the_chart_is_a_picture_with_its_bars_in_it(store: Store) -> None:
    made = weekly_report(data.FIRST_DAY, ROUNDS)
    picture = Image.open(io.BytesIO(store.read(made.chart)))
    assert (picture.format, picture.size) == ("PNG", (chart.WIDTH, chart.HEIGHT))
    colours = {colour: count for count, colour in picture.convert("RGB").getcolors(1 << 20)}
    for wanted in (chart.WEEKDAY, chart.WEEKEND, chart.BAR):
        rgb = tuple(int(wanted[n : n + 2], 16) for n in (1, 3, 5))
        assert colours.get(rgb, 0) > 5000, wanted


def test_a_chart_of_a_week_without_sales_is_drawn_all_the_same() -> None:
    empty = sales.RestaurantWeek(
        restaurant_id="r1", name="Closed", orders=0, daily_cents=[0] * 7, low_cents=0, high_cents=0
    )
    for weeks in ([empty], []):
        assert Image.open(io.BytesIO(chart.draw(data.FIRST_DAY, weeks))).size == (chart.WIDTH, chart.HEIGHT)


@pytest.mark.usefixtures("books")
def test_a_report_that_is_told_to_stop_stops_at_no_cost_and_publishes_nothing(store: Store) -> None:
    """A worker that must go, or a caller that cancelled: Snooze costs no attempt, and the cancelled ends cancelled."""
    with running(FakeAttempt(told_to_stop=True)) as attempt, pytest.raises(tenure.Snooze, match="Chez Odile"):
        weekly_report(data.FIRST_DAY, 10_000)
    assert attempt.checkpoints == []
    assert files(store) == {}


@pytest.mark.usefixtures("books")
def test_progress_rises_and_is_never_complete_before_the_chart_is(store: Store) -> None:
    with running(FakeAttempt()) as attempt:
        weekly_report(data.FIRST_DAY, ROUNDS)
    assert attempt.progress == sorted(attempt.progress)
    assert len(attempt.progress) == len(RESTAURANTS)
    assert attempt.progress[-1] < 1


def test_a_week_is_named_by_its_monday() -> None:
    with pytest.raises(ValueError, match="2024-03-05 is a Tuesday"):
        sales.week_of(data.FIRST_DAY.replace(day=5))


def test_the_forecast_is_the_same_wherever_it_is_reckoned() -> None:
    days = [[100, 250], [75], [], [1000]]
    totals = [total for part in sales.resampled(days, 250, "r1") for total in part]
    assert len(totals) == 250
    assert totals == [total for part in sales.resampled(days, 250, "r1") for total in part]
    assert totals != [total for part in sales.resampled(days, 250, "r2") for total in part]
    low, high = sales.nine_in_ten(totals)
    assert sum(total < low for total in totals) <= 25
    assert sum(total > high for total in totals) <= 25
    assert sales.nine_in_ten([]) == (0, 0)


@pytest.mark.parametrize(
    ("highest", "expected"), [(0, (100, 100)), (99, (100, 100)), (3_200_000, (1_000_000, 4_000_000)), (600, (200, 600))]
)
def test_an_axis_has_round_steps(highest: int, expected: tuple[int, int]) -> None:
    assert chart.ticks(highest) == expected
