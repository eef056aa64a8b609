"""The app of the stack's tests: a task for each way in which a worker's process may fare."""

import os
import time

import tenure

app = tenure.App("stacked")


@app.task(queue="quick", timeout="10s", lease="10s", retry=tenure.Retry(max_attempts=2, base="100ms", cap="200ms"))
def flaky(fails: int) -> int:
    """Fails so many times, then tells which attempt it is."""
    attempt = tenure.context().attempt
    if attempt <= fails:
        raise RuntimeError(f"attempt {attempt}")
    return attempt


@app.task(queue="quick", timeout="10s", lease="10s", retry=tenure.Retry(max_attempts=1))
def dies() -> None:
    """Takes its process along, as a crash of native code would."""
    os._exit(9)


@app.task(queue="steady", timeout="60s", lease="10s")
def who(seconds: float = 0.0) -> int:
    """Which process ran it."""
    time.sleep(seconds)
    return os.getpid()


@app.task(queue="ordered", timeout="10s", lease="10s", ordered_by="key")
def append(key: str, number: int) -> int:
    """Adds a number to the key's file."""
    path = os.path.join(os.environ["STACK_FOLDER"], key)
    with open(path, "a", encoding="utf-8") as lines:
        lines.write(f"{number}\n")
    return number
