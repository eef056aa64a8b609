"""python -m functions.poller.health: whether the container is alive, for its health check. Exit code 0 or 1."""

from __future__ import annotations

import sys
from pathlib import Path

from tenure.adapters.clock import SystemClock
from tenure.config import liveness_file
from tenure.worker.liveness import files_of, problems

if __name__ == "__main__":
    found = problems(files_of(Path(liveness_file())), SystemClock().now_ms())
    print(*found or ["alive"], sep="\n")
    sys.exit(1 if found else 0)
