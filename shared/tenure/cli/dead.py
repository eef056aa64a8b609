"""`tenure dead`: dead letters by cause, one of them in full, and those without a row."""

from __future__ import annotations

import fnmatch
from typing import Any, NoReturn

import click
from rich.console import RenderableType

from tenure.cli import render
from tenure.cli.errors import DONE, NOTHING, PARTLY
from tenure.cli.hints import why_nothing
from tenure.cli.look import get_row
from tenure.cli.options import with_session
from tenure.cli.session import Reach, Session
from tenure.cli.upkeep import DefaultGroup, caller, need_reason, parts_of, reason_option, yes_option
from tenure.core.errors import UsageError
from tenure.core.filters import Filter, parse
from tenure.core.task import Row, State
from tenure.maintenance.plan import Group, Plan, plan
from tenure.maintenance.redrive import Redrive, RedriveReport

SHOWN_CAUSES = 30
"""Causes printed; -o json prints all."""


@click.group(cls=DefaultGroup)
def dead() -> None:
    """Show dead letters by cause. Also: dead show ID, dead foreign QUEUE.

    \b
      tenure dead                                  all open dead letters, grouped by what went wrong and where
      tenure dead queue:media since:24h            those that a filter picks (the fields of `tenure ls`)
    """


@dead.default
@click.command()
@click.argument("filters", metavar="[FILTER]...", nargs=-1)
@with_session
def groups(session: Session, filters: tuple[str, ...]) -> None:
    """Show open dead letters, grouped by cause."""
    reach = session.reach()
    picked = parse(filters)
    made = plan(parts_of(reach), picked, reach.clock.now_ms())
    if session.wants_json:
        render.as_json(made.as_dict())
    elif made.count:
        session.console.print(causes_table(made, reach.clock.now_ms()))
        session.note(summary(made))
    if not made.count:
        none_found(session, reach, picked)


def none_found(session: Session, reach: Reach, picked: Filter, before: str = "") -> NoReturn:
    """Say that no open dead letter matches, and why as far as that can be seen. `before`: what comes of it."""
    told = f"no open dead letter matches {picked.text!r}." if picked.text else "there are no open dead letters."
    session.note(f"{before}: {told}" if before else told[0].upper() + told[1:])
    for hint in why_nothing(reach, picked, of_letters=True) if not session.wants_json else ():
        session.note(hint)
    raise click.exceptions.Exit(NOTHING)


def causes_table(made: Plan, now_ms: int) -> RenderableType:
    """One line for each cause, the largest first."""
    table = render.table(
        "COUNT", "ERROR", "FINGERPRINT", "TASK", "QUEUE", "OLDEST", "MESSAGE", right=("COUNT",), stretch="MESSAGE"
    )
    for group in made.causes()[:SHOWN_CAUSES]:
        table.add_row(
            f"{group.count:,}",
            group.error.rpartition(".")[2] or group.reason,
            group.fingerprint,
            _most(group.tasks),
            _most(group.queues),
            render.ago(group.oldest_at_ms, now_ms),
            group.message,
        )
    return table


def _most(counts: dict[str, int]) -> str:
    """The most frequent name, and how many others there are."""
    first = max(counts, key=lambda name: counts[name])
    return first if len(counts) == 1 else f"{first} +{len(counts) - 1}"


def summary(made: Plan) -> str:
    """The plan in a sentence or three."""
    causes = made.causes()
    told = f"{render.count(made.count, 'dead letter')} = {render.count(len(causes), 'cause')}."
    if len(causes) > SHOWN_CAUSES:
        told += f" The {SHOWN_CAUSES} largest are shown; -o json shows all."
    if made.expiring:
        told += f" {made.expiring:,} letters leave the DLQ within two days; their rows stay until you decide."
    return f"{told}{_next(causes)}"


def _next(causes: list[Group]) -> str:
    first = causes[0]
    pick = f"fingerprint:{first.fingerprint}" if first.fingerprint else f"reason:{first.reason}"
    return f"\nLook at one: tenure dead show {first.samples[0]}. Replay a cause once it is mended: tenure replay {pick}"


@dead.command()
@click.argument("task_id", metavar="ID")
@with_session
def show(session: Session, task_id: str) -> None:
    """Show a dead letter: what went wrong, where, how often, on whose code, and what was decided about it."""
    reach = session.reach()
    row = get_row(reach, task_id)
    if row.state is not State.DEAD_LETTERED and row.disposition is None:
        raise UsageError(
            f"task {task_id} is {row.state.value}, and never was a dead letter. See: tenure show {task_id}."
        )
    if session.wants_json:
        render.as_json(
            render.row_as_json(row) | {"letter_id": row.letter_id, "dead_letter_queue": _queue_of(reach, row)}
        )
        return
    session.console.print(_facts(reach, row))
    if row.error is not None and row.error.traceback:
        session.heading("Where it was raised")
        session.console.print(row.error.traceback.rstrip())
    session.heading("History")
    session.console.print(render_history(row))
    if row.state is State.DEAD_LETTERED:
        session.note(f"\nReplay it: tenure replay id:{row.id}. Close it: tenure discard id:{row.id}")


def _queue_of(reach: Reach, row: Row) -> str:
    return reach.topology.tier(row.queue, row.tier).dead_name


def _facts(reach: Reach, row: Row) -> RenderableType:
    now = reach.clock.now_ms()
    error = row.error
    disposition = row.disposition
    decided = f"{disposition.kind} {f'by {disposition.by}' if disposition.by else ''}" if disposition else ""
    facts = [
        ("task", f"{row.id}  {row.task}  version {row.task_version}"),
        ("error", f"{error.type}: {error.message}" if error else ""),
        ("fingerprint", error.fingerprint if error else ""),
        ("reason", row.reason),
        ("attempts", f"{row.failures} failed, {row.losses} lost their worker, of {row.max_attempts}"),
        ("replays", str(row.replays)),
        ("worker", f"{row.worker} in pool {row.pool}"),
        ("queue", f"{row.queue}/{row.tier}, letter in {_queue_of(reach, row)}"),
        ("tenant", row.tenant),
        ("key", row.ordering_key),
        ("submitted", _moment(row.submitted_at_ms, now)),
        ("first start", _moment(row.first_started_at_ms, now) or "it never started"),
        ("first failure", _moment(row.first_failed_at_ms, now)),
        ("last failure", _moment(row.last_failed_at_ms, now)),
        ("buried", _moment(row.ended_at_ms, now)),
        ("trace", row.traceparent),
        ("disposition", decided),
        ("", f"{_moment(disposition.at_ms, now)}  {disposition.reason}" if disposition and disposition.at_ms else ""),
    ]
    made = render.pairs()
    for name, value in facts:
        if value:
            made.add_row(name, value)
    return made


def _moment(at_ms: int, now_ms: int) -> str:
    return f"{render.time(at_ms)}  {render.ago(at_ms, now_ms)}" if at_ms else ""


def render_history(row: Row) -> RenderableType:
    """The row's short history, a line each."""
    made = render.table("TIME", "EVENT", "FENCE", "DETAIL", right=("FENCE",), stretch="DETAIL")
    for line in row.history:
        event, detail = str(line.event).replace("_", " "), render.cell(line.detail)
        made.add_row(render.time(line.at_ms), event, str(line.fence), detail)
    return made


@dead.command()
@click.argument("queue")
@click.option(
    "--why", "pattern", default="*", metavar="PATTERN", help="Only those whose reason matches, such as 'sns'."
)
@click.option("--limit", type=click.IntRange(0), default=0, help="Move at most so many; 0 for all.")
@reason_option(required=False)
@yes_option
@with_session
def foreign(session: Session, queue: str, pattern: str, limit: int, reason: str | None, confirmed: bool) -> None:
    """Show letters without a row (other people's messages, envelopes of a newer version), or put them back.

    With --yes they go back to the main queue as they were. No row guards them: a message whose work was done already
    is done again. To look at them hides them for a moment.
    """
    why = need_reason("dead foreign --yes", reason) if confirmed else ""
    reach = session.reach()
    reach.topology.queue(queue)
    redrive = Redrive(parts_of(reach))

    def picks(found: str) -> bool:
        return fnmatch.fnmatchcase(found, pattern) or fnmatch.fnmatchcase(found, f"*{pattern}*")

    if not confirmed:
        report = redrive.look(queue, picks)
        _tell_foreign(session, report, "without a row; --yes --reason puts them back")
        raise click.exceptions.Exit(DONE if report.reasons else NOTHING)
    report = redrive.run(queue, caller(session, reach), why, picks, limit)
    _tell_foreign(session, report, "picked")
    raise click.exceptions.Exit(PARTLY if report.counts["failed"] else DONE if report.counts["moved"] else NOTHING)


def _tell_foreign(session: Session, report: RedriveReport, what: str) -> None:
    told: dict[str, Any] = report.as_dict()
    if session.wants_json:
        render.as_json(told)
        return
    made = render.table("COUNT", "REASON", right=("COUNT",), stretch="REASON")
    for why, number in report.reasons.most_common():
        made.add_row(f"{number:,}", why)
    session.console.print(made)
    moved = f"; {told['moved']:,} moved, {told['failed']:,} failed" if told["moved"] or told["failed"] else ""
    session.note(f"{render.count(sum(report.reasons.values()), 'letter')} {what}{moved}.")
