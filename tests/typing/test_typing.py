"""A checker knows the handler's own signature at every submit; producer.py says what is right and wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SURFACE = Path(__file__).with_name("producer.py")
IGNORE = re.compile(r"\s*# type: ignore\[([\w,-]+)\].*")


def mypy(*arguments: str) -> str:
    """What mypy says, a line for each error."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_wrong_arguments_are_refused_by_a_checker(tmp_path: Path) -> None:
    """As it stands the file is clean; without its ignores, every line that bore one is the error that it names."""
    source = SURFACE.read_text(encoding="utf-8")
    assert mypy(str(SURFACE)) == ""
    bare = tmp_path / "bare.py"
    bare.write_text("\n".join(IGNORE.sub("", line) for line in source.splitlines()) + "\n", encoding="utf-8")
    told = {int(match[1]): match[2] for match in re.finditer(r"bare\.py:(\d+): error: .*\[([\w-]+)\]", mypy(str(bare)))}
    meant = {number: match[1] for number, line in enumerate(source.splitlines(), 1) if (match := IGNORE.search(line))}
    assert told == meant
    assert len(meant) >= 15
