"""The app of the soak: tasks that behave in each of the ways that tasks do, and note what they did.

A line of the effect log is `task id, fence, time, step`. It stands for a write downstream that refuses nothing, so that
whatever a worker does after its lease is lost can be seen.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import tenure

EFFECTS = "SOAK_EFFECTS"
"""The variable that names the effect log."""
SPARED = "SOAK_SPARED"
"""The variable that is set for the worker that nobody kills, so that a long life can be looked at."""
LEASE = os.environ.get("SOAK_LEASE", "15s")

# So many, that no number of deaths around a task can bury it: whoever is buried here, was to be.
PATIENT = tenure.Retry(max_attempts=60, base="200ms", cap="2s")
THREE = tenure.Retry(max_attempts=3, base="200ms", cap="1s")
REST_SECONDS = 0.25

app = tenure.App("soak")


@app.task(queue="work", timeout="2m", lease=LEASE, retry=PATIENT)
def quick(number: int, seconds: float) -> int:
    """What most tasks are: done in a moment."""
    return _work(number, seconds)


@app.task(queue="work", timeout="2m", lease=LEASE, retry=PATIENT)
def long(number: int, seconds: float) -> int:
    """Longer than a third of its lease, so that it lives by its heartbeat."""
    return _work(number, seconds)


@app.task(queue="work", timeout="2m", lease=LEASE, retry=PATIENT)
def flaky(number: int, seconds: float) -> int:
    """Fails once or twice."""
    if tenure.context().attempt <= 1 + number % 2:
        raise ConnectionError("connection reset")
    return _work(number, seconds)


@app.task(queue="work", timeout="2m", lease=LEASE, retry=PATIENT)
def snoozing(number: int, seconds: float) -> int:
    """Puts itself off, twice."""
    if tenure.context().fence <= 2:
        raise tenure.Snooze("1s")
    return _work(number, seconds)


@app.task(queue="work", timeout="2m", lease=LEASE, retry=PATIENT)
def gives_up(number: int, seconds: float) -> None:
    """A dead letter at its first attempt."""
    note("begin")
    raise tenure.GiveUp("not an image")


@app.task(queue="work", timeout="2m", lease=LEASE, retry=THREE)
def exhausted(number: int, seconds: float) -> None:
    """A dead letter at its third attempt."""
    note("begin")
    raise ValueError("never right")


@app.task(queue="work", timeout="2m", lease=LEASE, retry=PATIENT)
def killer(number: int, seconds: float) -> int:
    """Takes its worker with it, once."""
    ctx = tenure.context()
    if ctx.last_checkpoint is None:
        _leave_the_spared()
        ctx.checkpoint("about to die")
        note("begin")
        os.kill(os.getpid(), signal.SIGKILL)
    return _work(number, seconds)


@app.task(queue="work", timeout="2m", lease=LEASE, retry=THREE)
def poison(number: int, seconds: float) -> None:
    """Takes its worker with it, each time: a dead letter in the end."""
    _leave_the_spared()
    note("begin")
    os.kill(os.getpid(), signal.SIGKILL)


TASKS = {task.name: task for task in (quick, long, flaky, snoozing, gives_up, exhausted, killer, poison)}


def note(step: str) -> None:
    """Append a line, whole or not at all (O_APPEND, one write). Raises LeaseLost."""
    ctx = tenure.context()
    ctx.remaining()  # a handler with effects asks whether it is still the owner just before each
    line = f"{ctx.task_id} {ctx.fence} {time.time_ns() // 1_000_000} {step}\n"
    handle = os.open(Path(os.environ[EFFECTS]), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def _work(number: int, seconds: float) -> int:
    note("begin")
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, REST_SECONDS))
    note("end")
    return number


def _leave_the_spared() -> None:
    if os.environ.get(SPARED):
        raise tenure.Snooze("1s")
