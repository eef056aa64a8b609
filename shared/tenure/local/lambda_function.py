"""A Lambda function on this machine: execution environments, each a process that runs one invocation at a time.

As on AWS: an environment is made when none is free, kept warm with its memory, frozen between invocations, and killed
(SIGKILL, no warning) when an invocation outlives the function's timeout; what it held is then lost with it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

from tenure.local.emulator import ACCOUNT, REGION
from tenure.ports import Clock, Entropy

INIT_SECONDS_MAX = 60
"""How long a new environment may take to import its handler. Lambda allows 10 s; a busy laptop gets more."""


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """What to run. handler: "module:name". environment: the function's variables, the AWS ones included."""

    name: str
    handler: str
    timeout_seconds: float
    memory_mb: int
    environment: Mapping[str, str]
    directory: str
    log_path: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The handler returned; `text` is its return value as JSON."""

    text: str


@dataclass(frozen=True, slots=True)
class FunctionError:
    """The invocation failed: an error raised, a timeout, or a process that died. `kind` is Lambda's word for it."""

    kind: str
    message: str


Invoked = Answered | FunctionError


class ExecutionEnvironment:
    """One process with the handler loaded. Not thread-safe: one invocation at a time."""

    def __init__(self, spec: FunctionSpec, clock: Clock) -> None:
        self._spec = spec
        self._clock = clock
        self._unread = b""
        with open(spec.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tenure.local.lambda_environment", spec.handler],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=spec.directory,
                env=dict(spec.environment),
                start_new_session=True,  # a Ctrl-C in the terminal is the parent's to handle
            )

    def wait_until_ready(self) -> FunctionError | None:
        """Until the handler is imported; the error if it cannot be, and the process is gone then."""
        line = self._read_line(self._clock.now_ms() + INIT_SECONDS_MAX * 1000)
        if isinstance(line, dict) and "ready" in line:
            return None
        self.kill()
        return _error_of(line, f"its handler was not loaded within {INIT_SECONDS_MAX} s")

    def invoke(self, event: Any, request_id: str) -> Invoked:
        """Run the handler. After a timeout or a death the process is gone; see `alive`."""
        deadline = self._clock.now_ms() + round(self._spec.timeout_seconds * 1000)
        context = {
            "aws_request_id": request_id,
            "function_name": self._spec.name,
            "memory_limit_in_mb": self._spec.memory_mb,
            "invoked_function_arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self._spec.name}",
            "deadline_at_ms": deadline,
        }
        try:
            self.process.send_signal(signal.SIGCONT)
            _pipe(self.process.stdin).write(json.dumps({"event": event, "context": context}).encode() + b"\n")
            _pipe(self.process.stdin).flush()
        except OSError:
            self.kill()
            return FunctionError("Runtime.ExitError", "the environment had died since its last invocation")
        line = self._read_line(deadline)
        if isinstance(line, dict) and "answer" in line:
            self.process.send_signal(signal.SIGSTOP)
            return Answered(line["answer"])
        if isinstance(line, dict):
            self.process.send_signal(signal.SIGSTOP)
        else:
            self.kill()
        return _error_of(line, f"Task timed out after {self._spec.timeout_seconds:.2f} seconds")

    @property
    def alive(self) -> bool:
        """Whether the process is there to be invoked again."""
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and no trace of it left. By whoever invokes it, or when nobody does; see `end`."""
        self.end()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                _close(pipe)

    def end(self) -> None:
        """SIGKILL, from any thread: whoever reads its pipes meanwhile sees them end, and closes them."""
        if self.alive:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:  # another thread has ended it since
                return
        self.process.wait()

    def _read_line(self, deadline_at_ms: int) -> dict[str, Any] | str:
        """The next line as JSON; "timeout" past the deadline, "exit" if the process ended first."""
        stream = _pipe(self.process.stdout)
        while b"\n" not in self._unread:
            left = (deadline_at_ms - self._clock.now_ms()) / 1000
            ready, _, _ = select.select([stream], [], [], max(0.0, left))
            if not ready:
                return "timeout"
            part = os.read(stream.fileno(), 65_536)
            if not part:
                return "exit"
            self._unread += part
        line, self._unread = self._unread.split(b"\n", 1)
        found: dict[str, Any] = json.loads(line)
        return found


class Function:
    """The environments of one function, at most `concurrency_max` of them."""

    def __init__(self, spec: FunctionSpec, concurrency_max: int, clock: Clock, entropy: Entropy) -> None:
        self.spec = spec
        self._clock = clock
        self._entropy = entropy
        self._free: list[ExecutionEnvironment] = []
        self._all: list[ExecutionEnvironment] = []
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(concurrency_max)
        self._closed = False

    def invoke(self, event: Any) -> Invoked:
        """Run the handler in a free environment, a new one if there is none; waits for a slot."""
        with self._slots:
            environment = self._take()
            if isinstance(environment, FunctionError):
                return environment
            answer = environment.invoke(event, self._entropy.token())
            with self._lock:
                if environment.alive and not self._closed:
                    self._free.append(environment)
                else:
                    self._all.remove(environment)
            return answer

    def pids(self) -> list[int]:
        """The processes there are now, busy or frozen."""
        with self._lock:
            return [environment.process.pid for environment in self._all]

    def close(self) -> None:
        """Kill every environment. What runs is lost, as it is when Lambda takes an environment away."""
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
            busy = [environment for environment in self._all if environment not in free]
        for environment in free:
            environment.kill()
        for environment in busy:
            environment.end()

    def _take(self) -> ExecutionEnvironment | FunctionError:
        with self._lock:
            while self._free:
                environment = self._free.pop()
                if environment.alive:
                    return environment
                environment.kill()
                self._all.remove(environment)
            if self._closed:
                return FunctionError("Closed", "the embedded stack is stopping")
            environment = ExecutionEnvironment(self.spec, self._clock)
            self._all.append(environment)
        error = environment.wait_until_ready()
        if error:
            with self._lock:
                self._all.remove(environment)
            return error
        return environment


def _error_of(line: dict[str, Any] | str, timeout_message: str) -> FunctionError:
    if isinstance(line, dict):
        return FunctionError(line["error"]["errorType"], line["error"]["errorMessage"])
    if line == "timeout":
        return FunctionError("Sandbox.Timedout", timeout_message)
    return FunctionError("Runtime.ExitError", "the process exited before it had answered")


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise RuntimeError("the process was started without this pipe")
    return pipe


def _close(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return  # what was not written cannot be read any more: its reader is dead
