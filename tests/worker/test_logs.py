"""A worker's log lines: one JSON object each, ours and the handlers'."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from tenure.telemetry import LogTelemetry
from tenure.worker import logs
from tenure.worker.context import Context


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    kept = [(name, logging.getLogger(name)) for name in ("tenure", "tenure.task", "")]
    before = [(logger, list(logger.handlers), logger.propagate, logger.level) for _, logger in kept]
    yield
    for logger, handlers, propagate, level in before:
        logger.handlers[:] = handlers
        logger.propagate, logger.level = propagate, level
        logger.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_and_a_handler_s_line_are_json_objects_once_each():
    out = io.StringIO()
    logs.set_up("INFO", "shop-dev", out)
    LogTelemetry().emit("task.claimed", task_id="t1", queue="media")
    Context().log.info("resizing %s", "photo.jpg")
    event, handler = lines(out)
    assert (event["event"], event["task_id"]) == ("task.claimed", "t1")
    assert (handler["message"], handler["level"], handler["service"]) == ("resizing photo.jpg", "INFO", "shop-dev")
    assert handler["task_id"] == ""


def test_what_is_below_the_level_is_not_written():
    out = io.StringIO()
    logs.set_up("WARNING", "shop-dev", out)
    LogTelemetry().emit("task.claimed", task_id="t1")
    LogTelemetry().emit("lease.lost", task_id="t1")
    assert [line["event"] for line in lines(out)] == ["lease.lost"]


def test_set_up_twice_writes_once():
    out = io.StringIO()
    logs.set_up("INFO", "a", out)
    logs.set_up("INFO", "a", out)
    LogTelemetry().emit("task.claimed")
    assert len(lines(out)) == 1


def test_a_whole_process_also_writes_what_libraries_warn_of():
    out = io.StringIO()
    logs.set_up("INFO", "shop-dev", out, whole_process=True)
    logging.getLogger("somebody.else").warning("old")
    logging.getLogger("somebody.else").info("chatter")
    assert [line["message"] for line in lines(out)] == ["old"]
