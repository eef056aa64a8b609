"""Where a worker's log lines go: to standard output, one JSON object a line, ours and those of handlers."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

EVENTS = "tenure"
"""The logger that events are written through; each is JSON already (telemetry.json_lines)."""
TASKS = "tenure.task"
"""The logger of `ctx.log`."""


def set_up(level: str, service: str, stream: TextIO | None = None, *, whole_process: bool = False) -> None:
    """Send events and handlers' `ctx.log` to standard output at this level; with `whole_process` all else as well.

    On Lambda the rest is left to the runtime, which has set up the root logger before us.
    """
    out = stream or sys.stdout
    plain = logging.StreamHandler(out)
    plain.setFormatter(logging.Formatter("%(message)s"))
    structured = logging.StreamHandler(out)
    structured.setFormatter(LambdaPowertoolsFormatter(service=service, utc=True))
    for name, handler in ((EVENTS, plain), (TASKS, structured)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level)
    if whole_process:
        root = logging.getLogger()
        root.handlers[:] = [structured]
        root.setLevel(max(logging.WARNING, logging.getLevelName(level)))
