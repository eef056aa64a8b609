"""`tenure queues`: how much lies in each queue."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from tenure.cli import render
from tenure.cli.options import with_session
from tenure.cli.session import Reach, Session
from tenure.core.topology import Tier
from tenure.maintenance.pause import read_pause


@click.command()
@with_session
def queues(session: Session) -> None:
    """Show how much lies in every queue, and in its DLQ.

    SQS's counts are approximate, late by up to a minute on AWS.
    """
    reach = session.reach()
    found = [_depths(reach, tier) for tier in reach.topology.tiers()]
    if session.wants_json:
        render.as_json({"queues": found})
        return
    made = render.table(
        "QUEUE", "PRIORITY", "POOL", "READY", "IN FLIGHT", "DELAYED", "LETTERS", "ORDER",
        right=("READY", "IN FLIGHT", "DELAYED", "LETTERS"),
    )  # fmt: skip
    for one in sorted(found, key=lambda each: each["queue"]):
        numbers = [_number(one[name]) for name in ("ready", "in_flight", "delayed")]
        letters = _number(one["letters"], "bold red")
        made.add_row(one["queue"], one["priority"], one["pool"], *numbers, letters, "by key" if one["ordered"] else "")
    session.console.print(made)
    for name in sorted({one["queue"] for one in found if one["paused"]}):
        session.note(paused_text(reach, name))


def paused_text(reach: Reach, queue: str) -> str:
    """Who paused a queue, when and why, and what ends it; empty where it is not paused. Raises ServiceError."""
    pause = read_pause(reach.store, queue)
    if not pause.paused:
        return ""
    since = render.ago(pause.at_ms, reach.clock.now_ms())
    why = f": {pause.reason}" if pause.reason else ", for no reason that was told"
    return f"{queue} is paused ({since}) by {pause.by}{why}. Resume: tenure resume {queue}"


def _number(value: int, style: str = "") -> Text:
    """A count; a zero is there but does not draw the eye."""
    return render.cell(f"{value:,}", style if value else "dim")


def _depths(reach: Reach, tier: Tier) -> dict[str, Any]:
    depth = reach.queue(tier).depth()
    letters = reach.dead(tier).depth()
    queue = reach.topology.queue(tier.queue)
    pool = reach.topology.pool(queue.pool)
    return {
        "queue": tier.queue,
        "priority": tier.tier,
        "pool": pool.name,
        "pool_kind": pool.kind,
        "ordered": tier.ordered,
        "paused": read_pause(reach.store, tier.queue).paused,
        "ready": depth.visible,
        "in_flight": depth.in_flight,
        "delayed": depth.delayed,
        "letters": letters.visible + letters.in_flight,
        "sqs_name": tier.name,
    }
