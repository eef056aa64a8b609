"""`tenure reconcile`, `pause`, `resume`, `audit`: keeping the house in order, and seeing who did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tenure.cli import render
from tenure.cli.errors import DONE, NOTHING, PARTLY
from tenure.cli.options import duration_option, with_session
from tenure.cli.session import Session
from tenure.cli.upkeep import caller, need_reason, parts_of, reason_option
from tenure.core.durations import seconds_of
from tenure.maintenance.audit import Audit, Record
from tenure.maintenance.ingest import Ingest
from tenure.maintenance.pause import Pause, read_pause, set_pause
from tenure.maintenance.reconcile import Reconcile
from tenure.maintenance.restore import mark_restored, read_restored


@click.command()
@click.option("--letters", is_flag=True, help="Read every DLQ too (ingest), though nothing seems to differ.")
@duration_option("--restored-from", help="The table was put back to so long ago: hold what may be done since.")
@click.option("--release-held", is_flag=True, help="Held tasks have been decided about: send the rest as ever.")
@reason_option(required=False)
@with_session
def reconcile(
    session: Session, letters: bool, restored_from: str | None, release_held: bool, reason: str | None
) -> None:
    """Do now what reconcile does each minute, and say what it did.

    After a point-in-time recovery, tasks that may have been done in the lost time are held and named. Decide about
    them (`tenure cancel ID` for what was done), then --release-held.
    """
    seconds = None if restored_from is None else seconds_of(restored_from, "--restored-from")
    marks = seconds is not None or release_held
    why = need_reason("reconcile --restored-from and --release-held", reason) if marks else ""
    reach = session.reach()
    parts = parts_of(reach)
    if marks:
        _mark(session, seconds, why)
    report = Reconcile(parts, by=caller(session, reach)).run_once()
    told: dict[str, Any] = {"reconcile": report.as_dict()}
    if letters:
        told["ingest"] = Ingest(parts).run_once(force=True).as_dict()
    if session.wants_json:
        render.as_json(told | {"restored": read_restored(reach.store)})
    else:
        for name, counts in told.items():
            _print_counts(session, name, counts)
    failed = sum(counts["failed"] + counts["unsent"] for counts in told.values())
    raise click.exceptions.Exit(PARTLY if failed else DONE)


def _mark(session: Session, restored_seconds: float | None, reason: str) -> None:
    """The table was put back to so long ago; None: what is held has been decided about."""
    reach = session.reach()
    by, now = caller(session, reach), reach.clock.now_ms()
    audit = Audit(reach.store, reach.clock, reach.entropy)
    action = "release-held" if restored_seconds is None else "restored"
    begun = audit.begin(action, "table", by, reason, {"restored": read_restored(reach.store)})
    from_ms, until_ms = (0, 0) if restored_seconds is None else (now - round(restored_seconds * 1000), now)
    mark_restored(reach.store, reach.entropy, from_ms, until_ms, by)
    audit.end(begun, {"restored": read_restored(reach.store)})


def _print_counts(session: Session, name: str, counts: dict[str, Any]) -> None:
    told = [f"{value:,} {what.replace('_', ' ')}" for what, value in counts.items() if value and isinstance(value, int)]
    session.console.print(f"{name}: {', '.join(told) or 'nothing to do'}")
    for what, about in (("held_ids", "held after a restore"), ("ahead_ids", "known by its letter only")):
        for task_id in counts.get(what, ()):
            session.console.print(f"  {task_id}  {about}")
    if counts.get("more"):
        session.note("There is more to do; the next run goes on.")


@click.command()
@click.argument("queue")
@reason_option()
@with_session
def pause(session: Session, queue: str, reason: str) -> None:
    """Stop workers from starting tasks of a queue.

    Running tasks go on, submits are taken, nothing is lost; resume starts the rest.
    """
    _set(session, queue, reason, paused=True)


@click.command()
@click.argument("queue")
@reason_option()
@with_session
def resume(session: Session, queue: str, reason: str) -> None:
    """Let workers start a queue's tasks again."""
    _set(session, queue, reason, paused=False)


def _set(session: Session, queue: str, reason: str, *, paused: bool) -> None:
    reach = session.reach()
    reach.topology.queue(queue)
    by = caller(session, reach)
    audit = Audit(reach.store, reach.clock, reach.entropy)
    before = read_pause(reach.store, queue)
    begun = audit.begin("pause" if paused else "resume", queue, by, reason, {"paused": before.paused})
    set_pause(reach.store, reach.entropy, Pause(queue, paused, by, reach.clock.now_ms(), reason))
    audit.end(begun, {"paused": paused})
    if session.wants_json:
        render.as_json({"queue": queue, "paused": paused, "was_paused": before.paused})
    else:
        what = (
            "paused: workers stop starting its tasks within seconds"
            if paused
            else "resumed: messages that were handed back come back within two minutes"
        )
        session.note(
            f"{queue} is {what}." if before.paused is not paused else f"{queue} was {what.split(':')[0]} already."
        )


@click.command()
@duration_option("--since", default="24h", help="How far back.")
@click.option("--action", help="Only this action: replay, discard, pause, …")
@click.option("--by", help="Only what this caller did.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most so many records.")
@with_session
def audit(session: Session, since: str, action: str | None, by: str | None, limit: int) -> None:
    """Show what people did, latest first.

    Who, when, what, why, and the counts before and after.
    """
    reach = session.reach()
    since_ms = reach.clock.now_ms() - round(seconds_of(since, "--since") * 1000)
    found: list[Record] = []
    for record in Audit(reach.store, reach.clock, reach.entropy).read(since_ms):
        if (action is None or record.action == action) and (by is None or record.by == by):
            found.append(record)
        if len(found) == limit:
            break
    if session.wants_json:
        render.as_json({"records": [record.as_dict() for record in found]})
    elif found:
        made = render.table("TIME", "BY", "ACTION", "TARGET", "PHASE", "REASON", "COUNTS", stretch="COUNTS")
        for each in found:
            told = (each.by, each.action, each.target, each.phase, each.reason, counts_text(each.counts))
            made.add_row(render.time(each.at_ms), *map(render.cell, told))
        session.console.print(made)
    if not found:
        session.note(f"Nothing in the last {since}.")
        raise click.exceptions.Exit(NOTHING)


def counts_text(counts: object) -> str:
    """A record's counts as a person reads them: "3 replayed, 1 skipped", "not paused"; what is zero is left out."""
    if not isinstance(counts, Mapping):
        return "" if counts is None else str(counts)
    told = [_count_text(name.replace("_", " "), value) for name, value in counts.items()]
    return ", ".join(each for each in told if each) or ("nothing" if counts else "")


def _count_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if not value:
        return ""
    if isinstance(value, int | float):
        return f"{value:,} {name}"
    if isinstance(value, Mapping):
        return f"{name}: {counts_text(value)}"
    if isinstance(value, list | tuple):
        return f"{name}: {', '.join(map(str, value))}"
    return f"{name} {value}"
