"""A worker's log lines: one JSON object each, ours and the handlers'."""

from __future__ import annotations

import io
import json
import logging
import logging.config
from collections.abc import Iterator

import pytest

from tenure.telemetry import LogTelemetry
from tenure.worker import logs
from tenure.worker.context import Context


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    kept = [(name, logging.getLogger(name)) for name in ("tenure", "tenure.task", "")]
    before = [(logger, list(logger.handlers), logger.propagate, logger.level) for _, logger in kept]
    enabled = {name: logging.getLogger(name).disabled for name in logging.root.manager.loggerDict}
    yield
    for logger, handlers, propagate, level in before:
        logger.handlers[:] = handlers
        logger.propagate = propagate
        logger.setLevel(level)
    for name, disabled in enabled.items():
        logging.getLogger(name).disabled = disabled


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


def test_a_handler_that_sets_up_logging_silences_neither_events_nor_ctx_log():
    """`disable_existing_loggers` is on by default, and `logging.disable` is for everybody."""
    out = io.StringIO()
    logging.config.dictConfig({"version": 1})  # an app's module, before the worker starts
    logs.set_up("INFO", "shop-dev", out)
    try:
        for number in range(2):
            LogTelemetry().emit("task.buried", task_id=f"t{number}")
            Context().log.info("line %d", number)
            logging.config.dictConfig({"version": 1})  # a handler, in between
            logging.disable(logging.CRITICAL)
    finally:
        logging.disable(logging.NOTSET)
    assert [line.get("task_id") or line["message"] for line in lines(out)] == ["t0", "line 0", "t1", "line 1"]


def test_a_handler_s_extra_stands_beside_whose_line_it_is():
    """On every Python: LoggerAdapter drops it before 3.13. The task's own names are not given away."""
    out = io.StringIO()
    logs.set_up("INFO", "shop-dev", out)
    Context().log.info("served", extra={"dish": "soup", "attempt": 99})
    (line,) = lines(out)
    assert (line["dish"], line["attempt"]) == ("soup", 1)
