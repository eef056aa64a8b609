"""A supervisor as a process of its own, with children that a test chooses: python -m tests.e2e.supervised MODE ..."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

from tenure.adapters.clock import SystemClock
from tenure.worker.supervisor import Supervisor, SupervisorParts

STEADY = """
import os, signal, sys, threading
done = threading.Event()
def note(text):
    with open(sys.argv[1], "a") as log: log.write(f"{sys.argv[2]} {os.getpid()} {text}\\n")
signal.signal(signal.SIGTERM, lambda *_: (note("term"), done.set()))
note("start")
while not done.wait(0.05): pass
"""

LEAVE = """
note("start")
os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "sleep 0.2 & echo $! >> " + sys.argv[1] + ".orphans")
"""

CHILDREN = {
    "steady": STEADY,
    # Ends at its second SIGTERM only.
    "patient": STEADY.replace("done.set()", 'done.set() if open(sys.argv[1]).read().count("term") > 1 else None'),
    "crashing": STEADY.replace('note("start")', 'note("start"); sys.exit(3)'),
    "killed": STEADY.replace('note("start")', 'note("start"); os.kill(os.getpid(), 9)'),
    "stubborn": STEADY.replace("done.set()", "None"),
    # Leaves a grandchild behind that ends later, under whoever adopts it.
    "leaving": STEADY.replace('note("start")', LEAVE),
}


class Told:
    """Events as JSON lines on standard output."""

    def emit(self, event: str, /, **fields: Any) -> None:
        print(json.dumps({"event": event, **fields}), flush=True)


def main(mode: str, log: Path, count: int, window_seconds: float) -> int:
    """Adopts orphans, as a container's first process does (prctl PR_SET_CHILD_SUBREAPER)."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    supervisor = Supervisor(
        SupervisorParts(
            command=lambda index: [sys.executable, "-c", CHILDREN[mode], str(log), str(index)],
            count=count,
            clock=SystemClock(),
            telemetry=Told(),
            window_seconds=window_seconds,
            restart_seconds=0.2,
        )
    )
    supervisor.install()
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
