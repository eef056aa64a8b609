"""What `tenure dev` shows: counts of tasks by queue and state, the workers, and what happened last. Drawing only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tenure.cli import render
from tenure.core.durations import text_of
from tenure.core.task import Happening, Row, State
from tenure.core.topology import Topology

ALWAYS_SHOWN = (State.QUEUED, State.LEASED, State.RETRYING, State.COMPLETED, State.DEAD_LETTERED)
"""Columns that are there from the start; the others come when a task is in their state, so that 80 columns suffice."""
TITLES = {State.DEAD_LETTERED: "DEAD"}
"""Column titles, where the state's own name is too long for one."""

EVENT_STYLES = {
    "claim": "yellow",
    "succeed": "green",
    "bury": "bold red",
    "retry": "magenta",
    "cancel": "dim",
    "expire": "red",
    "release": "magenta",
    "replay": "cyan",
}


@dataclass(frozen=True, slots=True)
class View:
    """What is on the screen at a moment."""

    topology: Topology
    endpoint_url: str
    counts: Mapping[str, Counter[State]]
    events: Sequence[tuple[Happening, Row]]
    workers: Mapping[str, str]
    """Pool -> what runs for it, in words."""
    up_seconds: float
    notes: Sequence[str] = ()
    draining: bool = False


def draw(view: View) -> RenderableType:
    """The whole screen."""
    parts: list[RenderableType] = [_title(view), Text(), _queues(view), Text()]
    if view.events:
        parts += [_events(view.events), Text()]
    parts += [Text(note, style="yellow") for note in view.notes]
    parts.append(_foot(view))
    return Group(*parts)


def _title(view: View) -> RenderableType:
    line = Table.grid(expand=True)
    line.add_column()
    line.add_column(justify="right", style="dim")
    name = Text.assemble(("tenure dev", "bold"), f"  {view.topology.app} · {view.topology.environment}")
    line.add_row(name, f"{view.endpoint_url}  up {text_of(view.up_seconds)}")
    return line


def _queues(view: View) -> RenderableType:
    met = {state for counts in view.counts.values() for state in counts}
    shown = [state for state in State if state in ALWAYS_SHOWN or state in met]
    columns = [TITLES.get(state, state.value.upper()) for state in shown]
    made = render.table("QUEUE", *columns, "WORKERS", right=columns)
    for queue in view.topology.queues:
        found = view.counts.get(queue.name, Counter())
        cells = [number(found[state], render.STYLES[state]) for state in shown]
        made.add_row(Text(queue.name, style="bold"), *cells, Text(view.workers.get(queue.pool, ""), style="dim"))
    return made


def number(value: int, style: str) -> Text:
    """A count in its state's colour; a dot for none, so that what is there stands out."""
    return Text(f"{value:,}", style=style) if value else Text("·", style="dim")


def _events(events: Sequence[tuple[Happening, Row]]) -> RenderableType:
    made = render.table("TIME", "TASK", "ID", "EVENT", "", stretch="")
    for happening, row in events:
        made.add_row(*event_cells(happening, row))
    return made


def event_cells(happening: Happening, row: Row) -> tuple[Text, ...]:
    """One happening: time, task, id, event, detail."""
    event, detail = str(happening.event), happening.detail
    if event == "bury" and row.error is not None:
        detail = render.error_line(row)
    if event == "claim":
        detail = f"fence {happening.fence}" + (f", {detail}" if detail else "")
    return (
        render.cell(render.time(happening.at_ms)[11:19], "dim"),
        render.cell(row.task),
        render.cell(row.id, "dim"),
        render.cell(event.replace("_", " "), EVENT_STYLES.get(event, "")),
        render.cell(detail, "dim"),
    )


def _foot(view: View) -> Text:
    if view.draining:
        return Text("Draining: running tasks may end; Ctrl-C again ends them.", style="bold yellow")
    return Text("Ctrl-C drains and stops. In another terminal: tenure ls, tenure submit, tenure why ID.", style="dim")
