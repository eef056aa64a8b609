"""The app as environment files and bundles name it."""

from __future__ import annotations

import subprocess
import sys

from examples.restaurant.app import app
from tests.architecture import repository

FOLDER = repository.ROOT / "examples" / "restaurant"


def test_the_app_has_all_its_tasks_on_their_queues() -> None:
    assert {name: task.queue for name, task in app.tasks.items()} == {
        "resize_photo": "media",
        "reconcile_day": "ledger",
        "weekly_report": "reports",
        "notify_partner": "partners",
    }


def test_a_worker_carries_pillow_alone() -> None:
    """What requirements.txt names is all that the app loads: no numpy, no boto3 while its store is a directory."""
    program = "import sys, examples.restaurant.app; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=repository.ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "PIL" in loaded
    assert not {"numpy", "skimage", "boto3", "http.server", "examples.restaurant.data"} & loaded


def test_a_worker_s_pillow_is_the_one_that_the_tests_run_with() -> None:
    pins = (repository.ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8").splitlines()
    lines = (FOLDER / "requirements.txt").read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert wanted == [line for line in pins if line.startswith("pillow==")]
