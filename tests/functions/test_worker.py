"""The worker's entry points, as Lambda and ECS call them."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

import tenure
from tenure.adapters.clock import SystemClock
from tenure.core.topology import Pool, Queue, Topology
from tenure.wiring.producer import client_of
from tenure.worker.liveness import STALE_SECONDS, LivenessFile, child_path
from tests.support.deployed import Deployed

ROOT = Path(__file__).resolve().parents[2]

app = tenure.App("function")
ran: list[int] = []


@app.task(queue="work")
def work(number: int) -> int:
    ran.append(number)
    return number


TOPOLOGY = Topology(
    app="function", environment="test", queues=(Queue(name="work", pool="quick"),), pools=(Pool(name="quick"),)
)


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    with mock_aws():
        made = Deployed(TOPOLOGY)
        for name, value in made.variables(f"{__name__}:app", "quick").items():
            monkeypatch.setenv(name, value)
        yield made


def test_the_handler_is_ready_when_it_is_imported_and_answers_a_real_event(deployed: Deployed) -> None:
    """`functions.worker.handler.handler`, which is what a deployed function names."""
    sys.modules.pop("functions.worker.handler", None)
    handler: Any = importlib.import_module("functions.worker.handler").handler
    app.connect(client=client_of(deployed.topology, deployed.aws, {}))
    handle = work.submit(3)
    event = json.loads(json.dumps(deployed.event(deployed.topology.tier("work"))))
    assert json.loads(json.dumps(handler(event, None))) == {"batchItemFailures": []}
    assert handle.result() == 3
    sys.modules.pop("functions.worker.handler")


def test_a_function_that_is_told_nothing_fails_as_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    sys.modules.pop("functions.worker.handler", None)
    with pytest.raises(tenure.UsageError, match="TENURE_"):
        importlib.import_module("functions.worker.handler")


def health(path: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "functions.poller.health"],
        cwd=ROOT,
        env={"TENURE_LIVENESS_FILE": str(path), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_health_check_tells_the_fresh_from_the_stale(tmp_path: Path) -> None:
    """Exit codes as ECS reads them, over the files of two processes."""
    path, now = tmp_path / "alive", SystemClock().now_ms()
    assert health(path)[0] == 1
    LivenessFile(child_path(path, 0)).write(now, now)
    LivenessFile(child_path(path, 1)).write(now, now)
    assert health(path) == (0, "alive\n")
    LivenessFile(child_path(path, 1)).write(now - (STALE_SECONDS + 60) * 1000, now)
    code, text = health(path)
    assert code == 1
    assert "alive.1: no sign of life" in text


def test_the_image_is_what_a_read_only_non_root_container_needs() -> None:
    """No docker here: what can be read from the Dockerfile."""
    text = (ROOT / "functions" / "poller" / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines[:2] == ["ARG PYTHON=3.13", "FROM python:${PYTHON}-slim"]
    assert "USER tenure" in lines
    assert lines[-1] == 'ENTRYPOINT ["python", "-m", "functions.poller"]'
    assert "PYTHONDONTWRITEBYTECODE=1" in text
    assert not any(line.startswith("RUN") and "pip" in line for line in lines), "packages come with the bundle"


@pytest.mark.parametrize("path", sorted((ROOT / "functions").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_entry_points_stay_thin(path: Path) -> None:
    """Twenty lines, documentation apart: what a function does is in the library."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(lines) <= 20
