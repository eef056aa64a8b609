"""A handler sets up the process's logging; a test gives it back as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("tenure", "tenure.task", "")]
    before = [(logger, list(logger.handlers), logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, handlers, propagate, level in before:
        logger.handlers[:] = handlers
        logger.propagate = propagate
        logger.setLevel(level)
