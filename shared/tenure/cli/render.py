"""How tenure's things look to a person: states in colour, durations and ages in words, tables aligned.

Colour and box lines only where there is a terminal; piped, the same tables are plain text that a tool can cut.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, TextIO, cast

from rich.console import Console, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from tenure.cli.visible import exact, in_line, say, visible
from tenure.core.durations import text_of
from tenure.core.task import Row, State

STYLES: dict[State, str] = {
    State.SCHEDULED: "blue",
    State.WAITING: "blue",
    State.QUEUED: "cyan",
    State.LEASED: "yellow",
    State.RETRYING: "magenta",
    State.COMPLETED: "green",
    State.DEAD_LETTERED: "bold red",
    State.CANCELLED: "dim",
    State.EXPIRED: "red",
}
"""A state's colour, the same wherever it is shown."""

PIPED_COLUMNS = 200
"""Width where there is no terminal to ask: wide enough that nothing is cut short for a tool."""


class _Trimmed:
    """A stream that is written without the blanks with which rich fills a table's last column."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write whole lines, as rich does."""
        return self._stream.write(re.sub(r"[ \t]+(?=\n|$)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Plain(Console):
    """A console to which a str is text and nothing else: no markup, no names of emoji, no escapes."""

    def render_str(self, text: str, *, style: str | Style = "", **_: Any) -> Text:
        """What rich does with every str that it is given, wherever it stands."""
        return Text(visible(text), style=style)


def console(*, err: bool = False, piped_columns: int = PIPED_COLUMNS) -> Console:
    """A console on what is standard output now. rich leaves out colours by itself where there is no terminal; there,
    lines end without blanks, too."""
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        return _Plain(file=stream, markup=False, emoji=False, highlight=False, soft_wrap=False)
    piped = cast(IO[str], _Trimmed(stream))
    return _Plain(file=piped, width=piped_columns, markup=False, emoji=False, highlight=False, soft_wrap=False)


def as_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    say(exact(value))


class _Table(Table):
    """A table to which a str is text and nothing else."""

    keeps_lines = False
    """Whether a value may be of several lines. Not in a list, where its second line would pass for a row."""

    def add_row(self, *cells: RenderableType | None, **look: Any) -> None:
        """A row; of text with a style of its own, what `cell`, `block` and `assembled` made."""
        made = block if self.keeps_lines else cell
        super().add_row(*(made(each) if isinstance(each, str) else each for each in cells), **look)


class _Pairs(_Table):
    keeps_lines = True


def table(*columns: str, right: Sequence[str] = (), stretch: str = "") -> Table:
    """An empty table: a header, aligned columns, no boxes. `right`: columns of numbers; `stretch`: takes the rest."""
    made = _Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name != stretch,
            overflow="fold" if name == stretch else "ellipsis",
        )
    return made


def pairs() -> Table:
    """An empty table of names and values."""
    made = _Pairs(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    return made


def cell(value: object, style: str | Style = "") -> Text:
    """A value of any kind in a table: nothing for None. What a row or a record holds was written by somebody else."""
    return Text("" if value is None else in_line(str(value)), style=style)


def block(text: str, style: str = "") -> Text:
    """Text of somebody else's that may be of several lines."""
    return Text(visible(text), style=style)


def assembled(*parts: str | Text | tuple[str, str]) -> Text:
    """Text of parts: what somebody wrote, the same with a style, or a Text."""
    given = (part if isinstance(part, Text | tuple) else (part, "") for part in parts)
    return Text.assemble(*(part if isinstance(part, Text) else block(*part) for part in given))


def state(of: State) -> Text:
    """The state in its colour."""
    return Text(of.value, style=STYLES[of])


def ago(at_ms: int, now_ms: int) -> str:
    """How long ago, or how soon: "3m20s ago", "in 45s", "now". Empty for a time that is not set."""
    if not at_ms:
        return ""
    seconds = (now_ms - at_ms) / 1000
    if abs(seconds) < 1:
        return "now"
    return f"{text_of(seconds)} ago" if seconds > 0 else f"in {text_of(-seconds)}"


def duration(seconds: float) -> str:
    """How long something took: "240ms", "2.5s", "1m20s"."""
    return f"{seconds:.1f}s" if 1 <= seconds < 10 else text_of(seconds)


def elapsed(row: Row, now_ms: int) -> str:
    """From a task's first start to its end, or to now while it is under way; empty before it ever ran."""
    if not row.first_started_at_ms:
        return ""
    end_ms = row.ended_at_ms or now_ms
    return duration(max(0, end_ms - row.first_started_at_ms) / 1000)


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 task", "3 tasks"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(size_bytes: int) -> str:
    """Bytes as people say them."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    if size_bytes < 1024 * 1024:
        return f"{size_bytes / 1024:.1f} KiB"
    return f"{size_bytes / (1024 * 1024):.1f} MiB"


def error_line(row: Row) -> str:
    """A row's error on one line: its class's last name and the message's first line."""
    if row.error is None:
        return row.reason.replace("_", " ")
    first = row.error.message.strip().split("\n", 1)[0]
    return f"{row.error.type.rpartition('.')[2]}: {first}" if first else row.error.type.rpartition(".")[2]


def time(at_ms: int) -> str:
    """A moment in UTC, to the second, as ISO 8601; what is no moment as it is, and nothing for 0 and None."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at_ms else ""
    except (TypeError, ValueError, OverflowError, OSError):
        return str(at_ms)


def row_as_json(row: Row) -> dict[str, Any]:
    """A row as the JSON output has it: the names of core/task.py, places of stored texts with their sizes."""
    from dataclasses import asdict

    found = {name: value for name, value in asdict(row).items() if value not in ("", None, ())}
    found["state"] = row.state.value
    found["attempt"] = row.attempt
    found["history"] = [asdict(happening) for happening in row.history]
    return found


class Restored:
    """Signal handlers for as long as the `with` lasts. In the main thread only."""

    def __init__(self, handlers: Mapping[int, Callable[..., None]]) -> None:
        self._handlers = handlers
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, handler) for number, handler in self._handlers.items()}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
