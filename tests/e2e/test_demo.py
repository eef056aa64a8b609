"""`make demo` does what it says, where there is no terminal, as in CI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_ends_well_and_tells_of_every_task() -> None:
    """Exit code 0: a worker was killed and its task resumed, one dead letter with its reason, a line for each task."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TENURE_"))}
    ran = subprocess.run(
        [sys.executable, "-m", "examples.restaurant.demo", "--days", "1"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=390,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = ran.stdout
    assert "\x1b" not in told
    assert told.count("  completed  ") == 1 + 12 + 8 + 20
    assert told.count("  dead_lettered  ") == 1
    assert "BadImage: uploads/r7/cut-coffee.png" in told
    assert "kill -9" in told
    assert "took the weekly report over, under fence 2" in told
    assert "✓ 42 tasks ended as they should" in told
