"""What others wrote, as it may stand on a person's terminal: every character seen, none obeyed.

A task's id, its key, an error's text or a reason may hold escape sequences that repaint a terminal, write its clipboard
or turn the order of the words. For people they are shown escaped (\\x1b); for programs, JSON holds them exactly.
"""

from __future__ import annotations

import json
import re
from typing import Any

import click

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but for tab and newline, those of ISO 6429's second set among them
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    # of Unicode's format characters those that turn text about, break lines or are not to be seen; joiners stay
    "\ud800-\udfff]"  # half a pair: no terminal can be sent one
)
_BREAKS = re.compile("[\t\n]")
_SHORT = {"\r": "\\r", "\n": "\\n", "\t": "\\t"}


def visible(text: str) -> str:
    """The text with what a terminal would obey shown escaped. Its lines and tabs stay."""
    return _OBEYED.sub(_escaped, text)


def in_line(text: str) -> str:
    """The same on one line: breaks are shown escaped, too, so that no value passes for two."""
    return _BREAKS.sub(_escaped, visible(text))


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return _SHORT.get(found[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def exact(value: Any, *, indent: int | None = 2) -> str:
    """JSON that any program reads back as `value` exactly, and that no terminal obeys."""
    return _OBEYED.sub(_in_json, json.dumps(value, ensure_ascii=False, indent=indent))


def _in_json(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def say(text: str, *, head: str = "", colour: str = "", dim: bool = False, err: bool = False) -> None:
    """Print sentences, whoever wrote what they quote: on standard output, or on standard error. `head` stands before
    them in `colour`. The only way by which text reaches click's echo."""
    told = visible(text)
    if head:
        told = click.style(head, fg=colour, bold=True) + told
    click.echo(click.style(told, dim=True) if dim else told, err=err)
