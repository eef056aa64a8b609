"""A store of its own for each test, and an attempt to run tasks under without a worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from examples.restaurant import settings
from examples.restaurant.storage import DirectoryStore, Store
from tenure.core.outcome import LeaseLost
from tenure.worker import context


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store, which the tasks find too."""
    monkeypatch.setenv(settings.STORE, str(tmp_path / "store"))
    return DirectoryStore(tmp_path / "store")


@dataclass
class FakeAttempt:
    """What the engine gives a context, with a memory instead of a row. `dies_after` ends it at its nth checkpoint."""

    fence: int = 1
    attempt: int = 1
    task_id: str = "t-1"
    checkpoints: list[str] = field(default_factory=list)
    dies_after: int = 0
    told_to_stop: bool = False
    progress: list[float] = field(default_factory=list)

    def remaining(self) -> float:
        return 60.0

    def stopping(self) -> bool:
        return self.told_to_stop

    def lost(self) -> bool:
        return False

    def set_progress(self, fraction: float) -> None:
        self.progress.append(fraction)

    def save_checkpoint(self, value: Any) -> None:
        self.checkpoints.append(json.dumps(value))  # as text, as the row would have it
        if len(self.checkpoints) == self.dies_after:
            raise LeaseLost("killed here")

    def load_checkpoint(self) -> Any:
        return json.loads(self.checkpoints[-1]) if self.checkpoints else None

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        return function()


@contextmanager
def running(attempt: FakeAttempt) -> Iterator[FakeAttempt]:
    """Inside, `tenure.context()` is this attempt's."""
    leave = context.enter(attempt)
    try:
        yield attempt
    finally:
        leave()
