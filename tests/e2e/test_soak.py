"""The soak, in small: the same program, a few tasks, a few seconds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.soak.report import BEGIN, END

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.ministack, pytest.mark.timeout(200)]


def test_a_few_seconds_of_the_soak(tmp_path: Path) -> None:
    """Workers are killed by us and by their tasks, every check holds, and the figures land between the page's marks."""
    page = tmp_path / "soak.md"
    page.write_text(f"# Before\n{BEGIN}\nold\n{END}\nafter\n")
    arguments = "--minutes 0.1 --tasks 40 --workers 1 --kill-every 3 --visibility 10 --stop-seconds 0 --write-docs"
    done = subprocess.run(
        [sys.executable, "-m", "tools.soak", *arguments.split(), "--page", str(page), "--keep", str(tmp_path / "run")],
        cwd=ROOT,
        env={**os.environ, "SOAK_LEASE": "10s"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = page.read_text()
    assert text.startswith("# Before")
    assert text.endswith("after\n")
    assert "| 40, 40 " in text
    assert "killed by its own task 1" in text
    assert "old" not in text.split(BEGIN)[1].split(END)[0].splitlines()
