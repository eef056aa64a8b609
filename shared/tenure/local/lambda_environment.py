"""One execution environment of a Lambda function, as a process: python -m tenure.local.lambda_environment MODULE:NAME

Requests come in on standard input and answers leave on what was standard output, one JSON text a line; whatever the
handler prints goes to standard error. Between invocations the parent stops the process (SIGSTOP), as Lambda freezes
an environment: a thread left behind does not run on. It ends when its standard input does.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from tenure.adapters.clock import SystemClock

Handler = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Context:
    """What Lambda hands to a handler besides the event; the names are Lambda's own."""

    aws_request_id: str
    function_name: str
    memory_limit_in_mb: int
    invoked_function_arn: str
    deadline_at_ms: int
    function_version: str = "$LATEST"
    log_group_name: str = ""
    log_stream_name: str = ""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the environment is killed."""
        return max(0, self.deadline_at_ms - SystemClock().now_ms())


def main(handler_path: str) -> None:
    """Load the handler, tell that it is there, then answer one request after the other."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        handler = load(handler_path)
    except BaseException as error:  # what the import of a user's module may raise: told as Lambda does, then the end
        _say(answers, {"error": _described("Runtime.InitError", error)})
        sys.exit(1)
    _say(answers, {"ready": os.getpid()})
    for line in sys.stdin:
        _say(answers, answer(handler, json.loads(line)))


def load(handler_path: str) -> Handler:
    """The function called `module:name`."""
    module, _, name = handler_path.partition(":")
    found: Handler = getattr(importlib.import_module(module), name)
    return found


def answer(handler: Handler, request: dict[str, Any]) -> dict[str, Any]:
    """{"answer": JSON text} of what the handler returned, or {"error": ...} as Lambda reports it."""
    try:
        returned = handler(request["event"], Context(**request["context"]))
    except BaseException as error:  # Lambda reports every kind, SystemExit too, as a function error
        return {"error": _described(type(error).__name__, error)}
    try:
        return {"answer": json.dumps(returned, allow_nan=False)}
    except (TypeError, ValueError, RecursionError) as error:
        return {"error": _described("Runtime.MarshalError", error)}


def _described(kind: str, error: BaseException) -> dict[str, Any]:
    traceback.print_exception(error, limit=-10)
    return {"errorType": kind, "errorMessage": str(error)}


def _say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
