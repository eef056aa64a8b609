"""Execution environments behave as Lambda's do: warm memory, frozen between invocations, killed at the timeout."""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.adapters.clock import SystemClock, SystemEntropy
from tenure.local import lambda_function
from tenure.local.lambda_function import Answered, Function, FunctionError, FunctionSpec

HANDLERS = """
import os, sys

calls = []

def warm(event, context):
    calls.append(event)
    print("printed by the handler")
    return {"calls": calls, "pid": os.getpid(), "name": context.function_name}

def left(event, context):
    return context.get_remaining_time_in_millis()

def hang(event, context):
    if event == "hang":
        while True:
            pass
    return "answered"

def fail(event, context):
    raise SystemExit("leaving") if event == "exit" else ValueError("no")

def die(event, context):
    os._exit(3)

def odd(event, context):
    return {1, 2}
"""

Make = Callable[..., Function]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Functions of the module above; their environments are killed at the end."""
    (tmp_path / "handlers.py").write_text(HANDLERS)
    made: list[Function] = []

    def function(handler: str, timeout_seconds: float = 30.0, concurrency: int = 2) -> Function:
        spec = FunctionSpec(
            name="quick",
            handler=f"handlers:{handler}",
            timeout_seconds=timeout_seconds,
            memory_mb=512,
            environment={},
            directory=str(tmp_path),
            log_path=str(tmp_path / "log"),
        )
        made.append(Function(spec, concurrency, SystemClock(), SystemEntropy()))
        return made[-1]

    yield function
    for each in made:
        each.close()


def test_an_environment_stays_warm_and_what_it_prints_is_no_answer(make: Make, tmp_path: Path) -> None:
    """Two invocations one after the other share one process and its memory; standard output is the log's."""
    function = make("warm")
    first, second = function.invoke("a"), function.invoke("b")
    assert isinstance(first, Answered)
    assert isinstance(second, Answered)
    assert '["a", "b"]' in second.text
    assert len(function.pids()) == 1
    assert (tmp_path / "log").read_text().count("printed by the handler") == 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads the process's state from /proc")
def test_an_environment_is_frozen_between_invocations(make: Make) -> None:
    """A heartbeat thread that a handler left behind must not run on: Lambda's would not either."""
    function = make("warm")
    function.invoke("a")
    (pid,) = function.pids()
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)  # the signal is on its way: until it has arrived
    assert Path(f"/proc/{pid}/stat").read_text().split()[2] == "T"


def test_a_timeout_kills_the_environment_and_the_next_one_is_new(make: Make) -> None:
    """The function's timeout is a SIGKILL: nothing of the invocation survives, and the next starts cold."""
    function = make("hang", timeout_seconds=1.0)
    assert function.invoke("go") == Answered('"answered"')
    before = function.pids()
    error = function.invoke("hang")
    assert isinstance(error, FunctionError)
    assert (error.kind, error.message) == ("Sandbox.Timedout", "Task timed out after 1.00 seconds")
    assert function.pids() == []
    assert function.invoke("go") == Answered('"answered"')
    assert function.pids() != before


def test_the_handler_sees_how_much_time_it_has(make: Make) -> None:
    """The context's remaining time is the function's timeout, less what has passed."""
    answer = make("left", timeout_seconds=20.0).invoke("x")
    assert isinstance(answer, Answered)
    assert 15_000 < int(answer.text) <= 20_000


@pytest.mark.parametrize(
    ("handler", "event", "kind"),
    [
        ("fail", "raise", "ValueError"),
        ("fail", "exit", "SystemExit"),
        ("die", "now", "Runtime.ExitError"),
        ("odd", "x", "Runtime.MarshalError"),
        ("missing", "x", "Runtime.InitError"),
    ],
)
def test_every_way_to_fail_is_a_function_error(make: Make, handler: str, event: str, kind: str) -> None:
    """Raised, exited, died, unserialisable or not importable: an error, never an answer and never a hang."""
    error = make(handler).invoke(event)
    assert isinstance(error, FunctionError)
    assert error.kind == kind


@pytest.mark.parametrize("moment", [1, 2], ids=["while it is loaded", "while it runs"])
def test_closing_ends_what_is_under_way_as_a_function_error(
    make: Make, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Whoever waits for an answer when the stack is stopped is told that it ended: no error in its thread."""
    function = make("hang")
    looks = 0
    wait = select.select

    def closing(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks == moment:
            function.close()
        return wait(*arguments)

    monkeypatch.setattr(lambda_function.select, "select", closing)
    answer = function.invoke("hang")
    assert isinstance(answer, FunctionError)
    assert answer.kind == "Runtime.ExitError"
    assert function.pids() == []


def test_an_environment_that_was_killed_from_outside_is_replaced(make: Make) -> None:
    """kill -9 between invocations (out of memory, say) costs nothing but a cold start."""
    function = make("warm")
    function.invoke("a")
    (pid,) = function.pids()
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    answer = function.invoke("b")
    assert isinstance(answer, Answered)
    assert '"calls": ["b"]' in answer.text
