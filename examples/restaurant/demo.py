"""`make demo`: a week of the restaurant's work on the embedded stack, with one of its workers killed in the middle.

Photographs are resized, books reconciled in order, orders announced to a partner that throttles and fails, and a
weekly report is drawn, whose worker is killed with kill -9 half way: it must go on where its last checkpoint was. One
upload is broken and must become a dead letter. Exit code 0 if every task ended as it should, 1 if not, and 2 if the
stack could not be started.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from examples.restaurant import books, data, ledger, partners, photos, reports, settings, uploads
from examples.restaurant.app import app
from examples.restaurant.downstream import Downstream, Partner, TokenBucket
from examples.restaurant.storage import Store, open_store
from tenure.adapters.sdk_errors import explained
from tenure.cli import render
from tenure.client import Client
from tenure.core.errors import TenureError
from tenure.core.task import Row, State
from tenure.environment_file import read_environment
from tenure.local.snapshot import Snapshot
from tenure.local.stack import EmbeddedStack, StackOptions
from tenure.wiring.producer import client_of

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 300.0
"""When the demo gives up. It takes a minute on two idle cores, most of it a lease; more where others compute."""
ROUNDS = 25_000
"""Draws of each of the report's forecasts: about a second for each of the restaurants, on one core of 2024."""
KILL_AFTER_RESTAURANTS = 3
LOOK_SECONDS = 0.4
SAY_SECONDS = 5.0
"""Between two lines of progress where there is no terminal for bars."""

KINDS = {
    "resize_photo": "photographs",
    "reconcile_day": "books",
    "notify_partner": "announcements",
    "weekly_report": "weekly report",
}


class NotStarted(Exception):
    """The embedded stack could not be started; the text says why."""


@dataclass
class Demo:
    """What was submitted and what happened besides."""

    stack: EmbeddedStack
    client: Client
    logs: Path
    doomed: set[str] = field(default_factory=set)
    """Ids of tasks that must become dead letters."""
    names: dict[str, str] = field(default_factory=dict)
    """Task's id -> what it is about."""
    report: str = ""
    began_at: float = field(default_factory=time.monotonic)
    killed_pid: int = 0
    """The worker that was killed; 0 before."""
    taken_over: bool = False
    killed_with: int = 0
    """Restaurants that the report had recorded when its worker was killed."""

    @property
    def seconds(self) -> float:
        """Since the set-up was over."""
        return time.monotonic() - self.began_at


# ---- the work ------------------------------------------------------------------------------------------------------
def submit_everything(demo: Demo, store: Store, days: int) -> None:
    """The week's work, the longest first."""
    monday = data.FIRST_DAY
    report = reports.weekly_report.submit(monday, rounds=ROUNDS)
    demo.report = report.id
    demo.names[report.id] = f"week of {monday}"
    for restaurant in ("r1", "r7"):
        for photo in uploads.upload(store, restaurant, with_a_cut_one=restaurant == "r7"):
            handle = photos.resize_photo.options(tenant=restaurant).submit(photo, restaurant_id=restaurant)
            demo.names[handle.id] = f"{restaurant}/{Path(photo.key).name}"
            if photo.key.endswith(uploads.CUT):
                demo.doomed.add(handle.id)
    for day in (monday + timedelta(days=n) for n in range(days)):
        for restaurant_id in [each.id for each in books.RESTAURANTS]:
            demo.names[reconcile(day, restaurant_id)] = f"{restaurant_id} {day}"
    orders = [order.order_id for order in books.orders(store, "r2")[:20]]
    announced = partners.notify_partner.submit_many(partners.notify_partner.bind(each) for each in orders)
    announced.raise_for_failures()
    demo.names |= {handle.id: order for handle, order in zip(announced.handles(), orders, strict=True)}


def reconcile(day: date, restaurant_id: str) -> str:
    """Submit a day's reconciliation; the task's id. The report's key is the idempotency key: one task, one file."""
    task = ledger.reconcile_day.options(idempotency_key=ledger.report_key(restaurant_id, day))
    return task.submit(day, restaurant_id).id


def restaurants_recorded(demo: Demo, row: Row) -> int:
    """How many restaurants the report's newest checkpoint holds."""
    place = row.checkpoint
    if place is None:
        return 0
    saved = json.loads(place.value if place.kind == "inline" else demo.client.payloads.get(place))
    return len(saved["value"])


def maybe_kill(demo: Demo, snapshot: Snapshot) -> str:
    """kill -9 the report's worker, once it has something to go on from. What was done, in words; else empty."""
    row = next((row for row in snapshot.rows if row.id == demo.report), None)
    if demo.killed_pid or row is None or row.state is not State.LEASED or row.checkpoint is None:
        return ""
    recorded = restaurants_recorded(demo, row)
    if recorded < KILL_AFTER_RESTAURANTS:
        return ""
    victim = next(process for process in demo.stack.processes["heavy"] if process.alive)
    demo.killed_pid, demo.killed_with = victim.pid, recorded
    victim.kill()
    done = f"{recorded} of {len(books.RESTAURANTS)} restaurants done"
    return f"kill -9 {victim.pid}: the weekly report's worker, {done}. Its lease must lapse first: about 35 s."


def maybe_taken_over(demo: Demo, snapshot: Snapshot) -> str:
    """That another worker has the report, once; else empty."""
    row = next((row for row in snapshot.rows if row.id == demo.report), None)
    if demo.taken_over or not demo.killed_pid or row is None or row.fence < 2:
        return ""
    demo.taken_over = True
    return f"{row.worker} took the weekly report over, under fence {row.fence}."


# ---- what is seen of it --------------------------------------------------------------------------------------------
class Screen:
    """Bars on a terminal; elsewhere a line whenever something has changed, at most each few seconds."""

    def __init__(self, console: Console, demo: Demo) -> None:
        self._console = console
        self._demo = demo
        self._live: Live | None = None
        self._said_at = -99.0
        self._said = ""
        self._progress = Progress(
            TextColumn("  {task.description:<14}"),
            BarColumn(40),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._bars: dict[str, TaskID] = {}

    @contextmanager
    def showing(self) -> Iterator[None]:
        """For as long as there is something to see."""
        if not self._console.is_terminal:
            yield
            return
        with Live(self._progress, console=self._console, refresh_per_second=8) as self._live:
            yield

    def show(self, snapshot: Snapshot) -> None:
        """How far each kind of work is."""
        counted = {title: self._count(name, snapshot) for name, title in KINDS.items()}
        for title, (done, total, note) in counted.items():
            if title not in self._bars:
                self._bars[title] = self._progress.add_task(title, total=total, note="")
            self._progress.update(self._bars[title], completed=done, total=total, note=note)
        if self._live is None:
            self._say_line(", ".join(f"{title} {done}/{total}" for title, (done, total, _) in counted.items()))

    def _count(self, name: str, snapshot: Snapshot) -> tuple[int, int, str]:
        """(done, of how many, in which states) of one kind of work. The report is counted by its restaurants."""
        rows = [row for row in snapshot.rows if row.task == name]
        if name != "weekly_report" or not rows:
            return sum(row.final for row in rows), len(rows), _note(rows)
        whole = len(books.RESTAURANTS)
        return (whole if rows[0].final else restaurants_recorded(self._demo, rows[0])), whole, _note(rows)

    def _say_line(self, line: str) -> None:
        if line != self._said and self._demo.seconds - self._said_at >= SAY_SECONDS:
            self._said, self._said_at = line, self._demo.seconds
            self.say(line)

    def say(self, text: str, style: str = "") -> None:
        """One line that stays."""
        self._console.print(Text.assemble((f"{self._demo.seconds:5.1f} s  ", "dim"), (text, style)))


def _note(rows: Sequence[Row]) -> str:
    states = Counter(row.state for row in rows)
    shown = (State.LEASED, State.RETRYING, State.DEAD_LETTERED)
    return ", ".join(f"{states[state]} {state.value}" for state in shown if states[state])


# ---- the reckoning -------------------------------------------------------------------------------------------------
def reckon(console: Console, demo: Demo, snapshot: Snapshot) -> bool:
    """Print what became of every task, and whether that is as it should be."""
    console.print()
    console.print(table_of(demo, snapshot))
    for row in snapshot.rows:
        if row.state is State.DEAD_LETTERED:
            title = f"Dead letter {row.id}, {demo.names.get(row.id, row.task)}: {row.reason.replace('_', ' ')}"
            console.print("\n" + title, style="bold red")
            console.print("  " + render.error_line(row))
    wrong = [*unexpected(demo, snapshot), *not_resumed(demo, snapshot)]
    console.print()
    if wrong:
        for each in wrong:
            console.print(f"✗ {each}", style="bold red")
        for _, what, detail in demo.stack.notes:
            console.print(f"  {what}: {detail}", style="dim")
        return False
    console.print(story_of_the_report(demo, snapshot))
    ended = Counter(row.state.value for row in snapshot.rows)
    told = ", ".join(f"{number} {state}" for state, number in sorted(ended.items()))
    console.print(
        f"✓ {len(snapshot.rows)} tasks ended as they should: {told}; {demo.seconds:.0f} s.", style="bold green"
    )
    return True


def story_of_the_report(demo: Demo, snapshot: Snapshot) -> str:
    """How the report came through its worker's death."""
    row = next(row for row in snapshot.rows if row.id == demo.report)
    return (
        f"The weekly report lost its worker (kill -9 {demo.killed_pid}) with {demo.killed_with} of "
        f"{len(books.RESTAURANTS)} restaurants done.\n{row.worker} took it over under fence {row.fence} and went on "
        f"after {resumed_after(demo)}, the last one recorded."
    )


def table_of(demo: Demo, snapshot: Snapshot) -> Table:
    """A line for each task."""
    made = render.table(
        "TASK",
        "ABOUT",
        "STATE",
        "ATTEMPTS",
        "CLAIMS",
        "ELAPSED",
        "LETTER",
        right=("ATTEMPTS", "CLAIMS", "ELAPSED"),
    )
    order = list(KINDS)
    for row in sorted(snapshot.rows, key=lambda row: (order.index(row.task), demo.names.get(row.id, ""))):
        made.add_row(
            row.task,
            demo.names.get(row.id, ""),
            render.state(row.state),
            f"{row.attempt}/{row.max_attempts}",
            str(row.fence - row.fence_floor),
            render.elapsed(row, row.ended_at_ms or row.last_started_at_ms),
            row.disposition.kind if row.disposition else "",
        )
    return made


def unexpected(demo: Demo, snapshot: Snapshot) -> Iterator[str]:
    """Tasks that did not end as they should."""
    rows = {row.id: row for row in snapshot.rows}
    for task_id in demo.names:
        row = rows.get(task_id)
        wanted = State.DEAD_LETTERED if task_id in demo.doomed else State.COMPLETED
        if row is None or row.state is not wanted:
            found = f"{row.state.value} ({render.error_line(row) or 'no error'})" if row else "not there"
            yield f"{demo.names[task_id]} ({task_id}) should be {wanted.value} and is {found}"
    extra = set(rows) - set(demo.names)
    if extra:
        yield f"{len(extra)} tasks are there that nobody submitted"


def not_resumed(demo: Demo, snapshot: Snapshot) -> Iterator[str]:
    """What shows that the report was not interrupted and taken up again as it should be."""
    row = next((row for row in snapshot.rows if row.id == demo.report), None)
    if not demo.killed_pid:
        yield "the weekly report's worker was never killed: it was done too soon, or did not start"
    elif row is None or not any(each.detail.startswith("took over") for each in row.history):
        yield "nobody took the weekly report's lapsed lease over"
    elif not resumed_after(demo):
        yield "the weekly report began anew instead of going on from its checkpoint"


def resumed_after(demo: Demo) -> str:
    """The restaurant after which the report's second attempt went on, as its own log says; empty if it does not."""
    for line in (demo.logs / "heavy.log").read_text(encoding="utf-8").splitlines():
        if "goes on after " in line and line.startswith("{"):
            message: str = json.loads(line)["message"]
            return message.removeprefix("goes on after ").partition(",")[0]
    return ""


# ---- all of it -----------------------------------------------------------------------------------------------------
def run(console: Console, days: int, seed: int) -> bool:
    """Set up, work, reckon. Whether everything ended as it should."""
    environment = read_environment(ROOT / "infra" / "environments" / "dev.toml")
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tenure-demo-")))
        store = open_store(str(folder / "files"))
        books_made = data.generate(seed, days=7)
        books_made.write(store)
        partner = Partner(TokenBucket(6.0, 6), faults=0.15, rng=random.Random(seed))
        downstream = cleanup.enter_context(Downstream(partner))
        variables = {settings.STORE: str(folder / "files"), settings.PARTNERS: downstream.url}
        options = StackOptions(ROOT, folder / "logs", environments_max=2, variables=variables)
        facts = [task.facts() for task in app.tasks.values()]
        app.check(environment.topology)
        stack = started(EmbeddedStack(environment.topology, environment.app, options, tasks=facts), cleanup)
        client = client_of(stack.topology, stack.clients, {})
        app.connect(client=client)
        demo = Demo(stack, client, folder / "logs")
        screen = Screen(console, demo)
        with screen.showing():
            submit_everything(demo, store, days)
            screen.say(f"{len(demo.names)} tasks submitted to {stack.emulator.url}")
            snapshot = watch(demo, screen)
        passed = reckon(console, demo, snapshot)
        asked = ", ".join(f"{number} x {status}" for status, number in sorted(partner.answers.items()))
        console.print(f"The partner was asked {sum(partner.answers.values())} times and answered {asked}.", style="dim")
        return passed


def started(stack: EmbeddedStack, cleanup: ExitStack) -> EmbeddedStack:
    """The stack, running until the clean-up. Raises NotStarted, with a sentence, where it cannot be started."""
    try:
        return cleanup.enter_context(stack)
    except (BotoCoreError, ClientError) as error:
        raise NotStarted(explained(error)) from error
    except (OSError, TenureError) as error:
        raise NotStarted(str(error)) from error


def watch(demo: Demo, screen: Screen) -> Snapshot:
    """Show the work until all of it has ended, or it takes too long; kill the report's worker on the way."""
    while True:
        snapshot = demo.stack.snapshot()
        screen.show(snapshot)
        for told in (maybe_kill(demo, snapshot), maybe_taken_over(demo, snapshot)):
            if told:
                screen.say(told, "bold yellow")
        if all(row.final for row in snapshot.rows) or demo.seconds > SECONDS_MAX:
            return snapshot
        time.sleep(LOOK_SECONDS)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description="The restaurant's work on the embedded stack.")
    parser.add_argument("--days", type=int, default=2, help="days of books to reconcile, for each of 8 restaurants")
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args()
    console = render.console(piped_columns=120)
    try:
        passed = run(console, chosen.days, chosen.seed)
    except NotStarted as error:
        sys.stderr.write(f"The embedded stack could not be started: {error}\n")
        sys.exit(2)
    except TenureError as error:
        sys.stderr.write(f"The demo ended early: {error}\n")
        sys.exit(2)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
