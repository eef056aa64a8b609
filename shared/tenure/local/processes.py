"""A worker process of a Fargate pool, on this machine."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to run. environment: all of its variables."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    log_path: str


class WorkerProcess:
    """Runs a command, again whenever it is started; its output goes to a file.

    A session of its own, so that a Ctrl-C in the terminal reaches the parent only, who then drains it.
    """

    def __init__(self, spec: ProcessSpec) -> None:
        self.spec = spec
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def pid(self) -> int:
        """Of the process that runs now, or ran last; 0 before the first."""
        return self._process.pid if self._process else 0

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def ending(self) -> str:
        """How the process that ran last ended, in words."""
        code = self._process.poll() if self._process else None
        if code is None:
            return "still running"
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def start(self) -> None:
        """Run it, if it does not run."""
        if self.alive:
            return
        self.starts += 1
        with open(self.spec.log_path, "ab") as log:
            self._process = subprocess.Popen(
                list(self.spec.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.spec.directory,
                env=dict(self.spec.environment),
                start_new_session=True,
            )

    def drain(self) -> None:
        """SIGTERM, as ECS sends it; returns at once."""
        if self._process is not None and self.alive:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> bool:
        """Until it has ended, or so long; whether it has."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
