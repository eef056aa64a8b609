"""The work that is put through the deployment, and what must become of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from rich.table import Table

from examples.restaurant import data, ledger, partners, photos, reports, uploads
from examples.restaurant.downstream import Partner, TokenBucket
from examples.restaurant.storage import Store
from tenure.cli import render
from tenure.core.task import Row, State

LEDGER_DAYS = 3
LEDGER_RESTAURANTS = ("r1", "r2")
DELAY_SECONDS = 12
WAIT_SECONDS = 900.0
"""A ceiling, not a measure: a busy machine starts functions slowly."""
ANNOUNCED = 8


@dataclass
class Work:
    """What was submitted: task's id -> what it is about; and the ids of those that must become dead letters."""

    names: dict[str, str] = field(default_factory=dict)
    doomed: set[str] = field(default_factory=set)
    delayed: set[str] = field(default_factory=set)
    ordered: dict[str, list[str]] = field(default_factory=dict)
    """Ordering key -> ids in the order of their submits."""


def partner() -> Partner:
    """The downstream that `partners` tasks call: it throttles, and fails at times."""
    return Partner(TokenBucket(4.0, 4), faults=0.2, rng=random.Random(7))


def submit_everything(store: Store) -> Work:
    """Standard, prioritised, ordered, delayed, one that is poison, and one for the Fargate pool."""
    work = Work()
    monday = data.FIRST_DAY
    data.generate(7, days=7).write(store)
    report = reports.weekly_report.submit(monday, rounds=200)
    work.names[report.id] = f"week of {monday}"
    for photo in uploads.upload(store, "r7", with_a_cut_one=True):
        urgent = photos.resize_photo.options(tenant="r7", priority="high" if "rocket" in photo.key else "normal")
        handle = urgent.submit(photo, restaurant_id="r7")
        work.names[handle.id] = photo.key
        if photo.key.endswith(uploads.CUT):
            work.doomed.add(handle.id)
    for day in (monday + timedelta(days=n) for n in range(LEDGER_DAYS)):
        for restaurant in LEDGER_RESTAURANTS:
            work.ordered.setdefault(restaurant, []).append(_reconcile(work, day, restaurant))
    for number in range(ANNOUNCED):
        handle_of = partners.notify_partner.submit(f"order-{number}")
        work.names[handle_of.id] = f"order-{number}"
    submit_delayed(work, store, "r1", DELAY_SECONDS, 1)
    return work


def _reconcile(work: Work, day: date, restaurant: str) -> str:
    task = ledger.reconcile_day.options(idempotency_key=ledger.report_key(restaurant, day))
    handle = task.submit(day, restaurant)
    work.names[handle.id] = f"{restaurant} {day}"
    return handle.id


def submit_delayed(work: Work, store: Store, restaurant: str, delay_seconds: int, count: int) -> list[str]:
    """Photographs that are to be resized later; their ids."""
    found = []
    for photo in uploads.upload(store, restaurant)[:count]:
        later = photos.resize_photo.options(tenant=restaurant, delay=delay_seconds)
        handle = later.submit(photo, restaurant_id=restaurant)
        work.names[handle.id] = f"{photo.key}, {delay_seconds} s later"
        work.delayed.add(handle.id)
        found.append(handle.id)
    return found


def wait(work: Work, rows: Callable[[Sequence[str]], list[Row]]) -> list[Row]:
    """The rows of all that was submitted, when all of it has ended or it takes too long."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        found = rows(list(work.names))
        if time.monotonic() > end or (len(found) == len(work.names) and all(row.final for row in found)):
            return found
        time.sleep(0.5)


def faults(work: Work, rows: Sequence[Row]) -> Iterator[str]:
    """What did not become of the work as it should."""
    by_id = {row.id: row for row in rows}
    for task_id, name in work.names.items():
        row = by_id.get(task_id)
        wanted = State.DEAD_LETTERED if task_id in work.doomed else State.COMPLETED
        if row is None or row.state is not wanted:
            found = f"{row.state.value} ({render.error_line(row) or 'no error'})" if row else "not there"
            yield f"{name} ({task_id}) should be {wanted.value} and is {found}"
        elif task_id in work.delayed and row.first_started_at_ms < row.due_at_ms:
            yield f"{name} ({task_id}) was started {row.due_at_ms - row.first_started_at_ms} ms before it was due"
    for key, ids in work.ordered.items():
        started = [by_id[each].first_started_at_ms for each in ids if each in by_id]
        if started != sorted(started):
            yield f"the tasks of ordering key {key} did not start in the order in which they were submitted"


def table_of(work: Work, rows: Sequence[Row]) -> Table:
    """A line for each task, as the demo prints it."""
    right = ("ATTEMPTS", "CLAIMS", "ELAPSED")
    made = render.table("TASK", "ABOUT", "STATE", "ATTEMPTS", "CLAIMS", "ELAPSED", "WORKER", right=right)
    for row in sorted(rows, key=lambda row: (row.task, work.names[row.id])):
        made.add_row(
            row.task,
            work.names[row.id],
            render.state(row.state),
            f"{row.attempt}/{row.max_attempts}",
            str(row.fence - row.fence_floor),
            render.elapsed(row, row.ended_at_ms or row.last_started_at_ms),
            row.worker,
        )
    return made
