"""Draw the states of a task from the table of transitions: docs/states.md is made here, never by hand.

python -m tools.draw_states            write the page
python -m tools.draw_states --check    fail if the page is not what the table says
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tenure.core.machine import TRANSITIONS, Event
from tenure.core.task import FINAL, State

PAGE = Path(__file__).resolve().parent.parent / "docs" / "states.md"

STATES = {
    State.SCHEDULED: "Due later than SQS can delay a message. There is none yet; reconcile sends it in time.",
    State.WAITING: "Off the queue until its halted ordering key opens.",
    State.QUEUED: "A message is on its way, or lies in SQS.",
    State.LEASED: "A worker holds it, until the lease lapses or is settled.",
    State.RETRYING: "Between two attempts, or put off: it is due at a known time.",
    State.COMPLETED: "Its handler returned. Final.",
    State.DEAD_LETTERED: "Set aside for a person to look at. Final, unless it is replayed.",
    State.CANCELLED: "Ended on request, or refused by SQS at its submit. Final; a refused one can be submitted again.",
    State.EXPIRED: "Its deadline passed before it was done. Final.",
}
EVENTS = {
    Event.SUBMIT: ("a producer", "A task is submitted, or one that SQS refused is submitted again."),
    Event.SCHEDULE: ("a producer", "The same, due later than SQS can delay a message."),
    Event.REFUSE: ("a producer", "SQS refused the first message for certain."),
    Event.CLAIM: ("a worker", "It takes the task under a new fence; of a lapsed lease, it takes it over."),
    Event.BEAT: ("a worker", "It is alive: the lease runs anew."),
    Event.SUCCEED: ("a worker", "The handler returned."),
    Event.RETRY: ("a worker", "The attempt failed and another is due."),
    Event.SNOOZE: ("a worker", "The handler asked for later; it costs nothing."),
    Event.RELEASE: ("a worker", "A started attempt is given back, since its worker stops."),
    Event.UNCLAIM: ("a worker", "A task that was never started is given back, free of charge."),
    Event.BURY: ("a worker, or maintenance", "No further attempt: given up, budget used up, or nobody can run it."),
    Event.EXPIRE: ("whoever meets it", "Its deadline has passed."),
    Event.SEND: ("maintenance", "Another message is sent for it."),
    Event.PARK: ("a worker", "Its message is taken off the queue while its ordering key is halted."),
    Event.CONFIRM_LETTER: ("a worker, or maintenance", "Its letter lies in the DLQ."),
    Event.CANCEL: ("a person, or whoever meets it", "It ends on request."),
    Event.REQUEST_CANCEL: ("a person", "A running task is asked to stop; only a success still counts."),
    Event.REPLAY: ("a person", "A dead letter gets a new budget."),
    Event.DISCARD: ("a person", "A dead letter needs nothing more."),
}
ENDINGS = (Event.BURY, Event.CANCEL, Event.EXPIRE, Event.REFUSE)
"""Told in a table: almost every state has them, and in the picture they would hide the way of a task."""

INTRODUCTION = """\
<!-- Made by `python -m tools.draw_states` from TRANSITIONS in core/machine.py. Do not edit. -->
# The states of a task

A task's row is in one of {states} states. Every change of it is one of {events} events, and a pair of state and event
that is not in the table at the end of this page is illegal: `IllegalTransition` is raised, and nothing is written.
"""


def page() -> str:
    """The whole page."""
    parts = [
        INTRODUCTION.format(states=len(State), events=len(Event)),
        table(("state", "meaning"), ((f"`{state}`", STATES[state]) for state in State)),
        "## The way of a task\n",
        picture(),
        "## The ways out\n",
        "A task that waits may also end without having been run again.\n",
        table(("ends", *(f"by `{event}`" for event in ENDINGS)), map(_exits, [s for s in State if s not in FINAL])),
        "## The table\n",
        table(("event", "by", "what happens", "from → to"), map(_row, Event)),
        "An event that leaves the state as it is stands in the table and not in the pictures.\n",
    ]
    return "\n".join(parts)


def picture() -> str:
    """A Mermaid diagram of how a task goes from one state into another, its early endings left out."""
    labels: dict[tuple[str, str], list[str]] = {}
    for (source, event), target in TRANSITIONS.items():
        early = event in ENDINGS and source is not State.LEASED
        if not early and source not in (target, State.CANCELLED):
            labels.setdefault((str(source or "[*]"), str(target)), []).append(event.value)
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR"]
    lines += [f"    {source} --> {target}: {', '.join(events)}" for (source, target), events in labels.items()]
    return "\n".join([*lines, "```", ""])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _exits(state: State) -> list[str]:
    targets = (TRANSITIONS.get((state, event)) for event in ENDINGS)
    return [f"`{state}`", *(f"`{target}`" if target else "" for target in targets)]


def _row(event: Event) -> tuple[str, str, str, str]:
    by, what = EVENTS[event]
    steps: dict[str, list[str]] = {}
    for (source, each), target in TRANSITIONS.items():
        if each is event:
            steps.setdefault(f"`{target}`", []).append(f"`{source}`" if source else "no row")
    told = "; ".join(f"{', '.join(sources)} → {target}" for target, sources in steps.items())
    return f"`{event}`", by, what, told


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the states of a task.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    wanted = page()
    if parser.parse_args().check:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted
        print("docs/states.md is current" if current else "docs/states.md is out of date: python -m tools.draw_states")
        return 0 if current else 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
