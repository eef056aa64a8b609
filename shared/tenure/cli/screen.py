"""What `tenure dev` shows: counts of tasks by queue and state, the workers, and what happened last. Drawing only."""

from __future__ import annotations

import math
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

EVENTS_SHOWN = 12
NOTES_SHOWN = 3
"""At most; a low terminal shows fewer."""
WIDE_COLUMNS = 100
"""From here on everything is written out; a narrower terminal gets short titles and the beginning of an id."""
ID_BEGINNING = 6
"""Characters of an id on a narrow terminal: enough to see which lines are of one task."""
TASK_COLUMNS = 18
"""Of a task's name on a narrow terminal."""
DETAIL_COLUMNS_MIN = 20
"""Room that an event keeps for what went wrong; other columns go for it."""

ALWAYS_SHOWN = (State.QUEUED, State.LEASED, State.RETRYING, State.COMPLETED, State.DEAD_LETTERED)
"""Columns that are there from the start; the others come when a task is in their state, so that 80 columns suffice."""
TITLES = {State.DEAD_LETTERED: "DEAD"}
"""Column titles, where the state's own name is too long for one."""
SHORT_TITLES = {
    State.SCHEDULED: "SCHED",
    State.WAITING: "WAIT",
    State.RETRYING: "RETRY",
    State.COMPLETED: "DONE",
    State.DEAD_LETTERED: "DEAD",
    State.CANCELLED: "CANC",
    State.EXPIRED: "EXP",
}
"""The same for a narrow terminal."""

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

DRAINING = "Draining: running tasks may end; Ctrl-C again ends them."


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
    width: int = WIDE_COLUMNS
    height: int = 50
    """Of the terminal, in characters."""

    @property
    def narrow(self) -> bool:
        """Whether there is no room to write everything out."""
        return self.width < WIDE_COLUMNS


def draw(view: View) -> RenderableType:
    """The whole screen, within the terminal's height: events first give way, the oldest of them."""
    notes = [render.cell(note, "yellow") for note in view.notes]
    lines = 2 + 1 + len(view.topology.queues) + 1 + sum(_lines(note.plain, view.width) for note in notes) + 1
    room = view.height - lines - 3  # the events' title, the blank line below them, and where the cursor stands
    parts: list[RenderableType] = [_title(view), Text(), _queues(view), Text()]
    if view.events and room > 0:
        parts += [_events(view, room), Text()]
    parts += notes
    parts.append(_foot(view))
    return Group(*parts)


def _lines(text: str, width: int) -> int:
    return math.ceil(len(text) / max(1, width))


def _title(view: View) -> RenderableType:
    line = Table.grid(expand=True)
    line.add_column(no_wrap=True, overflow="ellipsis")
    line.add_column(justify="right", style="dim", no_wrap=True, overflow="ellipsis")
    name = render.assembled(("tenure dev", "bold"), f"  {view.topology.app} · {view.topology.environment}")
    line.add_row(name, render.cell(f"{view.endpoint_url}  up {text_of(view.up_seconds)}"))
    return line


def _queues(view: View) -> RenderableType:
    met = {state for counts in view.counts.values() for state in counts}
    shown = [state for state in State if state in ALWAYS_SHOWN or state in met]
    titles = SHORT_TITLES if view.narrow else TITLES
    columns = [titles.get(state, state.value.upper()) for state in shown]
    left = view.width - max(len("QUEUE"), *(len(queue.name) for queue in view.topology.queues))
    left -= sum(2 + max(len(title), _widest(view, state)) for state, title in zip(shown, columns, strict=True))
    workers = left >= 2 + max(len("WORKERS"), *map(len, view.workers.values()), 0)  # else there is no room for them
    told = number if left >= 0 else rounded
    made = render.table("QUEUE", *columns, *(["WORKERS"] if workers else []), right=columns)
    for queue in view.topology.queues:
        found = view.counts.get(queue.name, Counter())
        cells = [told(found[state], render.STYLES[state]) for state in shown]
        if workers:
            cells.append(render.cell(view.workers.get(queue.pool), "dim"))
        made.add_row(render.cell(queue.name, "bold"), *cells)
    return made


def number(value: int, style: str) -> Text:
    """A count in its state's colour; a dot for none, so that what is there stands out."""
    return render.cell(f"{value:,}", style) if value else render.cell("·", "dim")


def rounded(value: int, style: str) -> Text:
    """A count in at most four characters, for where there is no room for all of it: 1234 is "1.2k"."""
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if value >= size:
            return render.cell(f"{value / size:.{1 if value < 10 * size else 0}f}{unit}", style)
    return number(value, style)


def _widest(view: View, state: State) -> int:
    return max((len(f"{counts[state]:,}") for counts in view.counts.values()), default=1)


def _events(view: View, room: int) -> RenderableType:
    """A line for each: of a long detail the beginning, since `tenure show` has all of it."""
    rows = [event_cells(happening, row) for happening, row in view.events[:room]]
    columns = {
        name: [render.cell(name), *(_on_one_line(cells[place]) for cells in rows)]
        for place, name in enumerate(("TIME", "TASK", "ID", "EVENT", ""))
    }
    if view.narrow:
        _shorten(columns["TASK"], TASK_COLUMNS)
        _shorten(columns["ID"], ID_BEGINNING + 1)
    details = columns.pop("")
    for name in ("ID", "TIME"):  # the first to go where nothing else helps
        if _left(view, columns) < DETAIL_COLUMNS_MIN:
            del columns[name]
    _shorten(details, max(1, _left(view, columns)))
    made = render.table(*columns, "")
    for cells in list(zip(*columns.values(), details, strict=True))[1:]:
        made.add_row(*cells)
    return made


def _on_one_line(cell: Text) -> Text:
    return render.cell(" ".join(cell.plain.split()), cell.style)


def _shorten(cells: Sequence[Text], most: int) -> None:
    for cell in cells:
        cell.truncate(most, overflow="ellipsis")


def _left(view: View, columns: Mapping[str, Sequence[Text]]) -> int:
    """Characters that these columns leave of a line."""
    return view.width - sum(2 + max(cell.cell_len for cell in cells) for cells in columns.values())


def event_cells(happening: Happening, row: Row) -> tuple[Text, ...]:
    """One happening: time, task, id, event, detail. Whatever stands in it: the screen outlives an odd row."""
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
        return render.cell(DRAINING, "bold yellow")
    if view.narrow:
        return render.cell("Ctrl-C drains and stops. Elsewhere: tenure ls, tenure why ID.", "dim")
    return render.cell("Ctrl-C drains and stops. In another terminal: tenure ls, tenure submit, tenure why ID.", "dim")
