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


class Ours(logging.Logger):
    """A logger that configuring others does not silence. `dictConfig` and `fileConfig` disable by default every logger
    that they do not name, `logging.disable` all there are: a handler that sets up its own logging would take the
    process's events, and what its neighbours log, with it. Its level is the way to quiet it."""

    @property
    def disabled(self) -> bool:
        """Never."""
        return False

    @disabled.setter
    def disabled(self, value: bool) -> None:
        """Set by whoever configures logging, and not heeded."""

    def isEnabledFor(self, level: int) -> bool:
        """By its level alone."""
        return level >= self.getEffectiveLevel()


def set_up(level: str, service: str, stream: TextIO | None = None, *, whole_process: bool = False) -> None:
    """Send events and handlers' `ctx.log` to standard output at this level; with `whole_process` all else as well.

    On Lambda the rest is left to the runtime, which has set up the root logger before us. Whoever sets up logging
    afterwards has all of it but those two (Ours).
    """
    out = stream or sys.stdout
    plain = logging.StreamHandler(out)
    plain.setFormatter(logging.Formatter("%(message)s"))
    structured = logging.StreamHandler(out)
    structured.setFormatter(LambdaPowertoolsFormatter(service=service, utc=True))
    for name, handler in ((EVENTS, plain), (TASKS, structured)):
        logger = logging.getLogger(name)
        logger.__class__ = Ours  # others hold this very object, and have since before anything was set up
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level)
    if whole_process:
        root = logging.getLogger()
        root.handlers[:] = [structured]
        root.setLevel(max(logging.WARNING, logging.getLevelName(level)))
