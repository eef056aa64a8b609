"""`tenure replay` and `tenure discard`: what becomes of dead letters."""

from __future__ import annotations

from typing import Any

import click

from tenure.cli import render
from tenure.cli.dead import causes_table, none_found, summary
from tenure.cli.errors import DONE, FAILED, NOTHING, PARTLY
from tenure.cli.options import duration_option, with_session
from tenure.cli.session import Reach, Session
from tenure.cli.tasks import read_payload
from tenure.cli.upkeep import DefaultGroup, caller, need_reason, parts_of, reason_option, yes_option
from tenure.core.durations import seconds_of
from tenure.core.envelope import canonical
from tenure.core.filters import parse
from tenure.core.replaying import REPLAYS_MAX
from tenure.maintenance.discard import Discard
from tenure.maintenance.plan import Plan
from tenure.maintenance.replay import NothingMatched, Replays
from tenure.maintenance.replay_record import Phase, ReplaySpec, ReplayState
from tenure.wiring.maintenance import validator_of

LOOK_SECONDS = 2
"""Between two lines of progress."""


@click.group(cls=DefaultGroup)
def replay() -> None:
    """Run dead letters again: a plan, until --yes. Also: replay status, run, abort.

    \b
      tenure replay error:PDFError since:24h
      tenure replay fingerprint:1f3a99c0de --canary 5 --rate 50 --reason "fixed in 1.4.2" --yes
      tenure replay id:t42 --payload '{"month": "2026-07"}' --reason "wrong month" --yes
    """


@replay.default
@click.command()
@click.argument("filters", metavar="[FILTER]...", nargs=-1)
@reason_option(required=False)
@yes_option
@click.option("--rate", type=float, default=10.0, show_default=True, metavar="N", help="Tasks a second at most.")
@click.option("--limit", type=int, default=0, metavar="N", help="Tasks at most; 0 for all.")
@click.option("--canary", type=int, default=0, metavar="N", help="So many first; the rest only if they complete.")
@click.option("--canary-share", type=float, default=1.0, show_default=True, help="The share that must complete.")
@duration_option("--canary-timeout", default="15m", help="How long to wait for them.")
@click.option(
    "--max-replays", type=int, default=REPLAYS_MAX, show_default=True, help="Skip what was replayed so often."
)
@click.option("--payload", metavar="JSON", help="Another payload, for exactly one task; - reads standard input.")
@click.option("--detach", is_flag=True, help="Do not run it here: the replay function goes on with it.")
@with_session
def start(session: Session, filters: tuple[str, ...], confirmed: bool, detach: bool, **options: Any) -> None:
    """Plan a replay, or with --yes run it."""
    if confirmed:
        need_reason("replay --yes", options["reason"])
    picked = parse(filters)
    reach = session.reach()
    spec = _spec(picked.text, caller(session, reach) if confirmed else "a plan", options)
    replays = _replays(session, reach)
    if not confirmed:
        _show_plan(session, reach, replays.plan(spec), "replay")
        return
    try:
        state = replays.create(spec)
    except NothingMatched:
        _show_plan(session, reach, replays.plan(spec), "replay")
        raise click.exceptions.Exit(NOTHING) from None
    session.note(
        f"Replay {state.id}: {render.count(state.matched, 'dead letter')}. Abort: tenure replay abort {state.id}"
    )
    _finish(session, state if detach else _follow(session, reach, replays, state), detach)


def _spec(text: str, by: str, options: dict[str, Any]) -> ReplaySpec:
    return ReplaySpec(
        filter=text,
        reason=options["reason"] or "a plan",
        by=by,
        rate_per_second=options["rate"],
        limit=options["limit"],
        canary=options["canary"],
        canary_share=options["canary_share"],
        canary_seconds=round(seconds_of(options["canary_timeout"], "--canary-timeout")),
        replays_max=options["max_replays"],
        payload=canonical(read_payload(options["payload"])) if options["payload"] else None,
    )


def _replays(session: Session, reach: Reach) -> Replays:
    def validate(task: str, payload: str) -> str:
        return validator_of(session.load_app())(task, payload)

    return Replays(parts_of(reach), validate)


def _show_plan(session: Session, reach: Reach, made: Plan, verb: str) -> None:
    if session.wants_json:
        render.as_json(made.as_dict())
    elif made.count:
        session.console.print(causes_table(made, reach.clock.now_ms()))
        session.note(
            summary(made).split("\n")[0] + f" The oldest: {render.ago(made.oldest_at_ms, reach.clock.now_ms())}."
        )
    for why, number in made.skipped.items():
        session.note(f"{number:,} skipped: {why}.")
    if not made.count and made.skipped:
        session.note(f"Nothing to {verb}: all that match {made.filter!r} are skipped.")
        raise click.exceptions.Exit(NOTHING)
    if not made.count:
        none_found(session, reach, parse(made.filter), f"Nothing to {verb}")
    session.note(f'This is a plan: nothing was changed. Add --yes --reason "…" to {verb} them.')


def _follow(session: Session, reach: Reach, replays: Replays, state: ReplayState) -> ReplayState:
    """Run it here, telling how far it is. Interrupted, it goes on with the next tick of the replay function."""
    last = ""
    try:
        while not state.over:
            state = replays.run(state.id, reach.clock.now_ms() + LOOK_SECONDS * 1000)
            told = f"{state.phase.value}: {state.replayed:,} of {state.matched:,}"
            if told != last:
                session.note(told)
                last = told
            elif not state.over:
                reach.clock.sleep(LOOK_SECONDS)  # its runner is elsewhere
    except KeyboardInterrupt:
        session.note(f"Stopped looking. The replay goes on by itself; to end it: tenure replay abort {state.id}")
        raise click.exceptions.Exit(PARTLY) from None
    return state


def _finish(session: Session, state: ReplayState, detached: bool = False) -> None:
    if session.wants_json:
        render.as_json(state.as_dict())
    else:
        session.console.print(_facts(state))
    if detached or state.phase is Phase.DONE:
        raise click.exceptions.Exit(DONE)
    raise click.exceptions.Exit(PARTLY if state.replayed else FAILED)


def _facts(state: ReplayState) -> Any:
    made = render.pairs()
    counts = {name: number for name, number in state.counts.items() if number}
    told = ", ".join(f"{number:,} {name}" for name, number in sorted(counts.items()))
    facts = [
        ("replay", f"{state.id}  {state.phase.value}"),
        ("filter", state.spec.filter or "(all)"),
        ("by", f"{state.spec.by}: {state.spec.reason}"),
        ("matched", f"{state.matched:,}"),
        ("counts", told),
        ("note", state.note),
        ("created", render.time(state.created_at_ms)),
        ("ended", render.time(state.ended_at_ms)),
    ]
    for name, value in facts:
        if value:
            made.add_row(name, value)
    return made


@replay.command()
@click.argument("replay_id", metavar="[ID]", required=False)
@with_session
def status(session: Session, replay_id: str | None) -> None:
    """Show how far a replay is; without an ID, list those there are."""
    replays = _replays(session, session.reach())
    if replay_id:
        state = replays.status(replay_id)
        if session.wants_json:
            render.as_json(state.as_dict())
        else:
            session.console.print(_facts(state))
        return
    states = replays.list()
    if session.wants_json:
        render.as_json({"replays": [state.as_dict() for state in states]})
    elif states:
        made = render.table(
            "ID", "PHASE", "REPLAYED", "MATCHED", "BY", "FILTER", "REASON", right=("REPLAYED", "MATCHED")
        )
        for state in states:
            numbers = (f"{state.replayed:,}", f"{state.matched:,}")
            made.add_row(state.id, state.phase.value, *numbers, state.spec.by, state.spec.filter, state.spec.reason)
        session.console.print(made)
    if not states:
        session.note("No replays.")
        raise click.exceptions.Exit(NOTHING)


@replay.command()
@click.argument("replay_id", metavar="ID")
@with_session
def run(session: Session, replay_id: str) -> None:
    """Go on with a replay here, and follow it to its end."""
    reach = session.reach()
    replays = _replays(session, reach)
    _finish(session, _follow(session, reach, replays, replays.status(replay_id)))


@replay.command()
@click.argument("replay_id", metavar="ID")
@reason_option()
@with_session
def abort(session: Session, replay_id: str, reason: str) -> None:
    """Stop a replay before its next batch. What was replayed stays replayed."""
    reach = session.reach()
    state = _replays(session, reach).abort(replay_id, caller(session, reach), reason)
    if session.wants_json:
        render.as_json(state.as_dict())
    else:
        session.console.print(_facts(state))
        if not state.over:
            session.note("Its runner ends it with its next batch, within a minute.")


@click.command()
@click.argument("filters", metavar="[FILTER]...", nargs=-1)
@reason_option(required=False)
@yes_option
@with_session
def discard(session: Session, filters: tuple[str, ...], reason: str | None, confirmed: bool) -> None:
    """Close dead letters that need nothing more: a plan, until --yes.

    Their letters leave the DLQ.

    \b
      tenure discard fingerprint:1f3a99c0de --reason "the customer is gone" --yes
    """
    why = need_reason("discard --yes", reason) if confirmed else ""
    text = parse(filters).text
    reach = session.reach()
    duty = Discard(parts_of(reach))
    planned = duty.plan(text)
    if not confirmed or not planned.count:
        _show_plan(session, reach, planned, "discard")
        return
    report = duty.run(text, caller(session, reach), why)
    told = report.as_dict()
    if session.wants_json:
        render.as_json(told)
    else:
        session.note(", ".join(f"{number:,} {name}" for name, number in told.items() if number))
    raise click.exceptions.Exit(PARTLY if told["unknown"] else DONE)
