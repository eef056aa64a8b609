"""The weekly chart, drawn with Pillow: what each day brought, and what each restaurant did and may do next week.

Drawn at twice its size and then made smaller, which smooths its edges. No font file is needed: Pillow carries one.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from datetime import date, timedelta

from PIL import Image, ImageDraw, ImageFont

from examples.restaurant.sales import RestaurantWeek, week_of

WIDTH, HEIGHT = 1280, 720
SCALE = 2

PAPER = "#fbf9f5"
INK = "#2a2522"
GREY = "#857b72"
LINE = "#e4ddd3"
WEEKDAY = "#c96f4a"
WEEKEND = "#a14a2b"
BAR = "#3f6f6a"
SPAN = "#1d3f3c"

NOTE = (
    "Other currencies at fixed rates. The dark line spans the middle eight in ten of weeks drawn again from the bills."
)

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels of the finished chart."""


class _Canvas:
    """A drawing in pixels of the finished chart, whatever it is scaled by."""

    def __init__(self) -> None:
        self.image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), PAPER)
        self._draw = ImageDraw.Draw(self.image)

    def text(self, at: tuple[float, float], text: str, size: int, colour: str = INK, anchor: str = "ls") -> None:
        place = (at[0] * SCALE, at[1] * SCALE)
        font = ImageFont.load_default(size * SCALE)
        self._draw.text(place, text, fill=colour, font=font, anchor=anchor)

    def bar(self, box: Box, colour: str) -> None:
        left, top, right, bottom = (round(each * SCALE) for each in box)
        if right > left and bottom > top:
            self._draw.rounded_rectangle((left, top, right, bottom), radius=3 * SCALE, fill=colour)

    def line(self, box: Box, colour: str, width: float = 1) -> None:
        self._draw.line([each * SCALE for each in box], fill=colour, width=round(width * SCALE))

    def png(self) -> bytes:
        buffer = io.BytesIO()
        smaller = self.image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
        smaller.save(buffer, "PNG", optimize=True)
        return buffer.getvalue()


def draw(monday: date, weeks: Sequence[RestaurantWeek]) -> bytes:
    """The chart as a PNG."""
    canvas = _Canvas()
    sunday = monday + timedelta(days=6)
    orders = sum(week.orders for week in weeks)
    total = sum(week.total_cents for week in weeks)
    canvas.text((56, 66), f"Sales, {monday.day} {monday:%B} to {sunday.day} {sunday:%B} {sunday.year}", 28)
    canvas.text((56, 96), f"{euros(total)} in {orders:,} orders at {len(weeks)} restaurants", 16, GREY)
    _days(canvas, monday, weeks, (56, 150, 560, 620))
    _ranking(canvas, sorted(weeks, key=lambda w: -w.total_cents), (640, 150, 1224, 620))
    canvas.text((56, 686), NOTE, 13, GREY)
    return canvas.png()


def _days(canvas: _Canvas, monday: date, weeks: Sequence[RestaurantWeek], box: Box) -> None:
    """Columns: what each day brought, all restaurants together."""
    left, top, right, bottom = box
    canvas.text((left, top), "Each day, in euros; darker: Friday to Sunday", 16)
    totals = [sum(week.daily_cents[n] for week in weeks) for n in range(7)]
    step, ceiling = ticks(max(totals))
    floor, head = bottom - 28, top + 36
    for value in range(0, ceiling + 1, step):
        y = floor - (floor - head) * value / ceiling
        canvas.line((left + 44, y, right, y), LINE if value else GREY)
        canvas.text((left + 36, y), short(value).replace(".0", ""), 13, GREY, "rm")
    slot = (right - left - 44) / 7
    for n, (day, cents) in enumerate(zip(week_of(monday), totals, strict=True)):
        middle = left + 44 + slot * (n + 0.5)
        y = floor - (floor - head) * cents / ceiling
        canvas.bar((middle - slot * 0.32, y, middle + slot * 0.32, floor), WEEKEND if n >= 4 else WEEKDAY)
        canvas.text((middle, y - 8), short(cents), 13, INK, "ms")
        canvas.text((middle, bottom - 6), f"{day:%a}", 14, GREY, "ms")


def _ranking(canvas: _Canvas, weeks: Sequence[RestaurantWeek], box: Box) -> None:
    """Bars: each restaurant's week, the best first, and over each the range to expect of the next."""
    left, top, right, bottom = box
    canvas.text((left, top), "Each restaurant, and what next week may bring", 16)
    ceiling = max([1, *(cents for week in weeks for cents in (week.total_cents, week.high_cents))])
    start, end = left + 178, right - 70
    row = (bottom - top - 36) / max(len(weeks), 1)
    for n, week in enumerate(weeks):
        middle = top + 36 + row * (n + 0.5)
        half = min(row * 0.3, 16)
        x, low, high = (
            start + (end - start) * cents / ceiling for cents in (week.total_cents, week.low_cents, week.high_cents)
        )
        canvas.text((start - 14, middle), week.name, 14, INK, "rm")
        canvas.bar((start, middle - half, x, middle + half), BAR)
        canvas.line((low, middle, high, middle), SPAN, 3)
        for edge in (low, high):
            canvas.line((edge, middle - 5, edge, middle + 5), SPAN, 3)
        canvas.text((max(x, high) + 12, middle), short(week.total_cents), 14, INK, "lm")


def ticks(highest: int) -> tuple[int, int]:
    """(step, ceiling) in cents for an axis that holds `highest`: round steps, four to six of them. The step is at
    least a euro."""
    rough = max(highest, 400) / 5
    power = 10 ** max(math.floor(math.log10(rough)), 2)
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough)
    return step, step * max(math.ceil(highest / step), 1)


def euros(cents: int) -> str:
    """Whole euros, for a sentence. (The font that Pillow carries has no euro sign.)"""
    return f"EUR {round(cents / 100):,}"


def short(cents: int) -> str:
    """A sum of money in little room: thousands as k."""
    value = cents / 100
    return f"{value:.0f}" if value < 1000 else f"{value / 1000:.1f}k"
