"""`tenure ls`, `show`, `why`: looking at tasks."""

from __future__ import annotations

import json
import re
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from tenure.cli import render
from tenure.cli.errors import NOTHING
from tenure.cli.hints import why_nothing
from tenure.cli.options import with_session
from tenure.cli.queues import paused_text
from tenure.cli.session import Reach, Session
from tenure.core import lease
from tenure.core.errors import PayloadMissing, TaskNotFound
from tenure.core.filters import parse
from tenure.core.story import tell
from tenure.core.task import Row, State, Stored
from tenure.listing import LISTED, list_tasks

SHOWN_BYTES_MAX = 2000
"""How much of a payload or result `show` prints; -o json prints all of it."""


class _Filtering(click.Command):
    """A command whose arguments are filter terms, so that `-queue:ledger` is one and not a row of options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with the excluding terms behind a `--`; the order of terms means nothing."""
        excluding = [each for each in args if re.match(r"-[a-z]+:", each)]
        if excluding and "--" not in args:
            args = [*(each for each in args if each not in excluding), "--", *excluding]
        return super().parse_args(ctx, args)


@click.command(cls=_Filtering)
@click.argument("filters", metavar="[FILTER]...", nargs=-1)
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@with_session
def ls(session: Session, filters: tuple[str, ...], limit: int) -> None:
    """List tasks that are not done, and open dead letters, latest first.

    A FILTER is field:value; all must hold. Fields: state task queue pool priority tenant key error fingerprint reason
    id, and since/before with a duration. A comma means any of these, * anything, a leading - excludes.

    \b
      tenure ls state:dead_lettered error:PDFError since:24h
      tenure ls 'task:render_*' tenant:acme,globex -queue:ledger

    Completed, cancelled and expired tasks are not listed: an index of them would cost two more writes for every task.
    Ask for one by its id (`tenure show ID`).
    """
    picked = parse(filters)
    reach = session.reach()
    now = reach.clock.now_ms()
    listing = list_tasks(reach.store, reach.topology, picked, now, limit)
    if session.wants_json:
        render.as_json({"tasks": [render.row_as_json(row) for row in listing.rows], "more": listing.more})
    elif listing.rows:
        session.console.print(_table(listing.rows, now))
        session.note(_summary(listing.rows, listing.more))
        for queue in sorted({row.queue for row in listing.rows}):
            if paused := paused_text(reach, queue):
                session.note(f"Queue {paused}")
    if not listing.rows:
        what = f"match {picked.text!r}" if picked.text else f"are {', '.join(state.value for state in LISTED)}"
        session.note(f"No tasks {what}.")
        for hint in why_nothing(reach, picked, of_letters=False) if not session.wants_json else ():
            session.note(hint)
        raise click.exceptions.Exit(NOTHING)


def _summary(rows: tuple[Row, ...], more: bool) -> str:
    counts = {state: sum(row.state is state for row in rows) for state in State}
    parts = ", ".join(f"{number:,} {state.value}" for state, number in counts.items() if number)
    return f"{render.count(len(rows), 'task')}: {parts}." + (
        " There are more; narrow it, or raise --limit." if more else ""
    )


def _table(rows: tuple[Row, ...], now_ms: int) -> RenderableType:
    tenants = any(row.tenant for row in rows)
    columns = ["ID", "STATE", "TASK", "QUEUE", *(["TENANT"] if tenants else []), "ATTEMPT", "SUBMITTED", "DETAIL"]
    made = render.table(*columns, right=("ATTEMPT",), stretch="DETAIL")
    for row in rows:
        cells: list[RenderableType] = [row.id, render.state(row.state), row.task, _queue(row)]
        if tenants:
            cells.append(row.tenant)
        made.add_row(
            *cells, f"{row.attempt}/{row.max_attempts}", render.ago(row.submitted_at_ms, now_ms), detail(row, now_ms)
        )
    return made


def _queue(row: Row) -> str:
    return row.queue if row.tier == "normal" else f"{row.queue}/{row.tier}"


def detail(row: Row, now_ms: int) -> Text:
    """What a person would ask next about a task in this state, on one line."""
    if row.state is State.LEASED:
        if lease.lapsed(row.lease_end_at_ms, now_ms):
            return render.cell(f"lease lapsed {render.ago(row.lease_end_at_ms, now_ms)}", "red")
        done = f"{row.progress_permille / 10:.0f} %, " if row.progress_permille else ""
        return render.cell(f"{done}running for {render.elapsed(row, now_ms)}")
    if row.state is State.DEAD_LETTERED:
        return render.cell(render.error_line(row))
    if row.due_at_ms > now_ms:
        error = f"; last {render.error_line(row)}" if row.error else ""
        return render.cell(f"due {render.ago(row.due_at_ms, now_ms)}{error}")
    return render.cell(render.error_line(row) if row.error else row.reason)


@click.command()
@click.argument("task_id", metavar="ID")
@with_session
def show(session: Session, task_id: str) -> None:
    """Show a task: times, attempts, payload, result, error, history."""
    reach = session.reach()
    row = get_row(reach, task_id)
    payload, result = text_at(reach, row.payload), text_at(reach, row.result)
    if session.wants_json:
        found = render.row_as_json(row)
        render.as_json(found | {"payload": _json(payload), "result": _json(result)})
        return
    now = reach.clock.now_ms()
    session.console.print(_facts(row, now))
    for title, text in (("Payload", payload), ("Result", result)):
        if text is not None:
            session.heading(title)
            session.console.print(_shortened(text))
    if row.error is not None:
        session.heading("Error")
        session.console.print(_error(row))
    session.heading("History")
    session.console.print(_history(row))


def get_row(reach: Reach, task_id: str) -> Row:
    """The task's row. Raises TaskNotFound."""
    row = reach.rows.get(task_id)
    if row is None:
        raise TaskNotFound(
            f"no task {task_id!r} in environment {reach.topology.environment!r} of app {reach.topology.app!r} "
            f"({reach.where}): it was never submitted there, or its row has passed its time to live."
        )
    return row


def text_at(reach: Reach, place: Stored | None) -> str | None:
    """The text that lies at a place; a note in its stead if it is not there."""
    if place is None:
        return None
    if place.kind == "inline":
        return place.value
    try:
        return reach.payloads.get(place)
    except PayloadMissing as error:
        return json.dumps(f"<not there: {error}>")


def _json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _shortened(text: str) -> str:
    pretty = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    size_bytes = len(text.encode())
    if len(pretty) <= SHOWN_BYTES_MAX:
        return pretty
    return f"{pretty[:SHOWN_BYTES_MAX]}\n… {render.size(size_bytes)} in all; -o json prints all of it"


def _facts(row: Row, now_ms: int) -> RenderableType:
    made = render.pairs()
    made.add_row("task", render.assembled(row.id, "  ", (row.task, "bold"), f"  version {row.task_version}"))
    state = render.assembled(render.state(row.state), "  ", detail(row, now_ms))
    made.add_row("state", state)
    where = f"{_queue(row)}" + (f", pool {row.pool}" if row.pool else "")
    facts: list[tuple[str, str]] = [
        ("queue", where),
        ("tenant", row.tenant),
        ("key", row.ordering_key),
        ("attempts", _attempts(row)),
        ("worker", row.worker),
        ("fence", str(row.fence) if row.fence else ""),
        ("submitted", _moment(row.submitted_at_ms, now_ms)),
        ("due", _moment(row.due_at_ms, now_ms)),
        ("deadline", _moment(row.deadline_at_ms, now_ms)),
        ("started", _moment(row.last_started_at_ms, now_ms)),
        ("heartbeat", _moment(row.last_heartbeat_at_ms, now_ms)),
        ("lease ends", _moment(row.lease_end_at_ms, now_ms)),
        ("ended", _moment(row.ended_at_ms, now_ms)),
        ("elapsed", render.elapsed(row, now_ms)),
        ("reason", row.reason),
        (
            "cancel",
            f"asked {render.ago(row.cancel_requested_at_ms, now_ms)}: {row.cancel_reason}"
            if row.cancel_requested_at_ms
            else "",
        ),
        ("disposition", _disposition(row)),
        (
            "checkpoint",
            f"{render.size(row.checkpoint.size_bytes)}, of fence {row.checkpoint_fence}" if row.checkpoint else "",
        ),
    ]
    for name, value in facts:
        if value:
            made.add_row(name, value)
    return made


def _attempts(row: Row) -> str:
    counted = [
        render.count(number, one, many)
        for number, one, many in (
            (row.failures, "failure", "failures"),
            (row.losses, "lost worker", "lost workers"),
            (row.replays, "replay", "replays"),
        )
        if number
    ]
    return f"{row.attempt} of {row.max_attempts}" + (f" ({', '.join(counted)})" if counted else "")


def _moment(at_ms: int, now_ms: int) -> str:
    return f"{render.time(at_ms)}  {render.ago(at_ms, now_ms)}" if at_ms else ""


def _disposition(row: Row) -> str:
    if row.disposition is None:
        return ""
    by = f" by {row.disposition.by}" if row.disposition.by else ""
    reason = f": {row.disposition.reason}" if row.disposition.reason else ""
    return f"{row.disposition.kind}{by}{reason}"


def _error(row: Row) -> str:
    if row.error is None:
        return ""
    told = f"{row.error.type}: {row.error.message}\nfingerprint {row.error.fingerprint}"
    return f"{told}\n\n{row.error.traceback.rstrip()}" if row.error.traceback else told


def _history(row: Row) -> RenderableType:
    made = render.pairs()
    made.add_column()
    made.add_column(overflow="fold")
    for happening in row.history:
        fence = f"fence {happening.fence}" if happening.fence else ""
        event, detail = str(happening.event).replace("_", " "), render.cell(happening.detail)
        made.add_row(render.time(happening.at_ms), event, fence, detail)
    return made


@click.command()
@click.argument("task_id", metavar="ID")
@with_session
def why(session: Session, task_id: str) -> None:
    """Say in words where a task is, how it came there and what is next."""
    reach = session.reach()
    row = get_row(reach, task_id)
    told = tell(row, reach.clock.now_ms(), reach.client.hidden_seconds(row.queue))
    paused = "" if row.final else paused_text(reach, row.queue)
    if session.wants_json:
        render.as_json({"id": row.id, "state": row.state.value, "why": told} | ({"paused": paused} if paused else {}))
    else:
        held = paused and row.state is not State.LEASED  # what runs goes on; of all else the pause is the cause
        if held:
            session.console.print(f"Queue {paused}\n")
        session.console.print(told)
        if paused and not held:
            session.console.print(f"\nQueue {paused}")
