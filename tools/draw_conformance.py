"""Draw the table of docs/conformance.md: what AWS documents, and where emulators differ. It is made here, from the
checks and the list of expected differences, which the runs against the emulators hold true.

python -m tools.draw_conformance    write the table into the page
"""

from __future__ import annotations

from pathlib import Path

from tenure.conformance.check import Check
from tenure.conformance.expected import EMULATORS, EXPECTED
from tenure.conformance.suite import CHECKS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "conformance.md"
BEGIN, END = "<!-- table: python -m tools.draw_conformance -->", "<!-- end of table -->"


def table() -> str:
    """The table, in Markdown."""
    lines = [_row("check", "AWS documents", *EMULATORS), _row(*["---"] * (2 + len(EMULATORS)))]
    lines += [_row(f"`{each.id}`", f"[{each.documented}]({each.page})", *_answers(each)) for each in CHECKS]
    return "\n".join(lines)


def _answers(check: Check) -> list[str]:
    return [f"**differs**: {EXPECTED[name][check.id]}" if check.id in EXPECTED[name] else "so" for name in EMULATORS]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def with_table(page: str) -> str:
    """The page with the table as it is to be. Raises ValueError where it has no place for it."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} lacks {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
