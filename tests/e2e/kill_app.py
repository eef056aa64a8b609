"""The app of the Kill test: one task that leaves a line for each thing that it does, and takes its time between."""

import os
import time
from pathlib import Path

import tenure

app = tenure.App("killed")


@app.task(queue="work", timeout="60s", lease="10s", retry=tenure.Retry(max_attempts=30, base="100ms", cap="1s"))
def work(number: int, seconds: float) -> int:
    """Three effects under this attempt's fence, with a rest after each."""
    ctx = tenure.context()
    for step in range(3):
        note(f"{ctx.task_id} {ctx.fence} {time.time_ns() // 1_000_000} {step}")
        time.sleep(seconds / 3)
    return number


def note(line: str) -> None:
    """Append a line, whole or not at all (O_APPEND, one write), and never twice the same check."""
    handle = os.open(Path(os.environ["KILL_EFFECTS"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, (line + "\n").encode())
    finally:
        os.close(handle)
