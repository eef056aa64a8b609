"""The ratchet on size: a norm for all, a recorded maximum for each that exceeds it, and maxima only ever go down.

A hard limit is either too loose to teach or broken on the first bad day. So what exceeds the norm is listed in
`ratchet.json` with its size and the reason why it stands; it may shrink and may not grow, and nothing new joins the
list without a reviewer seeing the line. `python -m tests.architecture.ratchet` (`make ratchet`) lowers the maxima.
"""

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.architecture import repository

FILE_LINES_NORM = 400
FUNCTION_LINES_NORM = 60
RECORD = Path(__file__).with_name("ratchet.json")


@dataclass(frozen=True)
class Size:
    """How long a thing is, and how long things of its kind should be. `what` is `path` or `path::Class.function`."""

    what: str
    lines: int
    norm: int


def measure(path: str, source: str) -> list[Size]:
    """The size of one Python file and of every function in it, nested ones too."""
    sizes = [Size(path, len(source.splitlines()), FILE_LINES_NORM)]
    _measure_functions(ast.parse(source), path + "::", sizes)
    return sizes


def _measure_functions(node: ast.AST, prefix: str, sizes: list[Size]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = prefix + child.name
            if not isinstance(child, ast.ClassDef):
                sizes.append(Size(name, (child.end_lineno or child.lineno) - child.lineno + 1, FUNCTION_LINES_NORM))
            _measure_functions(child, name + ".", sizes)
        else:
            _measure_functions(child, prefix, sizes)


def measure_repository() -> list[Size]:
    return [size for path, source in repository.texts(".py") for size in measure(path, source)]


def complaints(sizes: list[Size], record: dict[str, dict[str, Any]]) -> list[str]:
    """What is wrong, one line each, each telling how to mend it."""
    # Two overloads or a property and its setter share a name: the longest of them stands for the name.
    longest: dict[str, Size] = {}
    for size in sizes:
        longest[size.what] = max(size, longest.get(size.what, size), key=lambda each: each.lines)
    found = [_complaint_of_size(size, record.get(size.what)) for size in longest.values()]
    found += [_complaint_of_entry(what, entry, what in longest) for what, entry in record.items()]
    return [complaint for complaint in found if complaint]


def _complaint_of_size(size: Size, entry: dict[str, Any] | None) -> str | None:
    if entry is None:
        if size.lines <= size.norm:
            return None
        listed = json.dumps({size.what: {"lines": size.lines, "why": "..."}})
        return (
            f"{size.what}: {size.lines} lines, the norm is {size.norm}. Give one of its duties a home of its own; "
            f"if it truly is one thing, list it in {RECORD.name}: {listed[1:-1]}"
        )
    if size.lines > entry["lines"]:
        return f"{size.what}: grew from {entry['lines']} to {size.lines} lines. A listed one only shrinks: split it."
    if size.lines < entry["lines"]:
        return f"{size.what}: shrank from {entry['lines']} to {size.lines} lines. Keep that: run `make ratchet`."
    return None


def _complaint_of_entry(what: str, entry: dict[str, Any], is_there: bool) -> str | None:
    if not is_there:
        return f"{what}: listed in {RECORD.name}, but no longer there. Run `make ratchet`."
    if not str(entry.get("why", "")).strip(" ."):
        return f"{what}: listed in {RECORD.name} without a reason. Say why it may be that long."
    return None


def tighten(sizes: list[Size], record: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The record with every maximum lowered to the present size, and without those that keep the norm. Never raises."""
    lowered = {}
    for what, entry in record.items():
        present = [size for size in sizes if size.what == what]
        if present and max(size.lines - size.norm for size in present) > 0:
            lines = max(size.lines for size in present)
            lowered[what] = {**entry, "lines": min(lines, entry["lines"])}
    return lowered


def load() -> dict[str, dict[str, Any]]:
    record: dict[str, dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))
    return record


def main() -> None:
    record = tighten(measure_repository(), load())
    RECORD.write_text(json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{RECORD.name}: {len(record)} listed")


if __name__ == "__main__":
    main()
