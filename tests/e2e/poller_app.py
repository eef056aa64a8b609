"""The app of the poller's own processes: tasks that note what they do, wait for a file, or kill their worker."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import tenure

app = tenure.App("polled")


def note(line: str) -> None:
    """Append a line, whole or not at all (O_APPEND, one write)."""
    handle = os.open(Path(os.environ["POLLED_NOTES"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, (line + "\n").encode())
    finally:
        os.close(handle)


@app.task(queue="work", timeout="5m", lease="10s")
def hold(name: str) -> str:
    """Runs until the file of its name lies beside the notes."""
    note(f"start {name}")
    while not Path(os.environ["POLLED_NOTES"]).with_name(name).exists():
        time.sleep(0.05)
    note(f"end {name}")
    return name


@app.task(queue="work", timeout="1m", lease="10s", retry=tenure.Retry(max_attempts=3))
def kill(name: str) -> None:
    """What an out-of-memory killer does to its worker, each time it runs."""
    note(f"start {name} {tenure.context().attempt}")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(queue="work", timeout="1m", lease="10s")
def quick(name: str) -> str:
    note(f"start {name}")
    return name
