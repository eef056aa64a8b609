"""What tenure tells: every name is documented, no line holds what users sent, and telling never hurts."""

from __future__ import annotations

import ast
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from tenure.handle import Handle
from tenure.telemetry import KNOWN, EventName, LogTelemetry, json_lines, metrics_of
from tests.support.shop import Shop

LIBRARY = Path(__file__).resolve().parents[1] / "shared" / "tenure"
DOTTED = re.compile(r"^[a-z]+\.[a-z_]+$")


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(record.getMessage()))


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def logger(lines: Lines) -> logging.Logger:
    made = logging.Logger("test", logging.DEBUG)
    made.addHandler(lines)
    return made


def told_names() -> dict[str, str]:
    """Every event's name in the library's source -> where it is told."""
    found: dict[str, str] = {}
    for path in LIBRARY.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                first = node.args[0]
                teller = node.func.attr in ("emit", "_tell", "tell")
                if teller and isinstance(first, ast.Constant) and DOTTED.match(str(first.value)):
                    found[str(first.value)] = f"{path.relative_to(LIBRARY)}:{node.lineno}"
    return found


def test_every_event_that_is_told_has_its_name() -> None:
    """A new event is given its level, metric and meaning in telemetry.py before it is told."""
    told = told_names()
    assert len(told) > 20
    assert {name: where for name, where in told.items() if name not in KNOWN} == {}


@pytest.mark.parametrize("name", EventName)
def test_every_name_says_what_it_means(name: EventName) -> None:
    """Meaning, level and metrics of each; a metric is never split by a task's id or a tenant."""
    assert name.meaning.endswith(".")
    assert DOTTED.match(name.value)
    assert name.level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
    assert not {"task_id", "tenant", "message_id"}.intersection(*[m.dimensions for m in name.metrics] or [()])


def test_an_event_is_one_line_of_json(logger: logging.Logger, lines: Lines) -> None:
    """Name, level, what every event bears, and its own fields."""
    LogTelemetry(json_lines(logger), context={"app": "shop"}).emit("task.buried", task_id="t1", queue="media")
    assert lines.lines == [{"event": "task.buried", "level": "error", "app": "shop", "task_id": "t1", "queue": "media"}]


def test_a_field_cannot_take_the_events_place(logger: logging.Logger, lines: Lines) -> None:
    """A field by the name of a line's own member loses."""
    LogTelemetry(json_lines(logger)).emit("task.buried", level="none")
    assert lines.lines == [{"event": "task.buried", "level": "error"}]


def test_no_line_holds_what_users_sent(logger: logging.Logger, lines: Lines) -> None:
    """Even a caller that passes a payload by mistake tells nothing of it."""
    secret = {"card": "4111"}
    LogTelemetry(json_lines(logger)).emit("task.claimed", payload=secret, args=[secret], body=str(secret))
    assert "4111" not in json.dumps(lines.lines)


def test_a_long_field_is_cut_and_an_odd_one_is_shown(logger: logging.Logger, lines: Lines) -> None:
    """No line outgrows a log event, and no value is a reason not to tell."""
    LogTelemetry(json_lines(logger)).emit("task.retried", error="e" * 100_000, odd={1, 2}, big=object())
    [line] = lines.lines
    assert len(line["error"]) == 2049
    assert line["odd"] == "{1, 2}"


@pytest.mark.parametrize("error", [RuntimeError, ValueError, OSError, RecursionError])
def test_a_sink_that_raises_costs_its_own_copy_only(
    error: type[Exception], logger: logging.Logger, lines: Lines
) -> None:
    """The teller notices nothing, the other sinks get theirs, and the failure is counted."""

    def broken(*_: Any) -> None:
        raise error("the disk is full")

    telemetry = LogTelemetry(broken, json_lines(logger))
    telemetry.emit("task.claimed", task_id="t1")
    assert len(lines.lines) == 1
    assert telemetry.failures == 1


def test_a_logger_that_raises_changes_no_outcome(logger: logging.Logger) -> None:
    """S09c for the producer: with a handler that raises at every line, a submit does what it does without."""

    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise RuntimeError("the log is gone")

    logger.addHandler(Broken())
    shop = Shop()
    telemetry = LogTelemetry(json_lines(logger))
    client = shop.another_client(telemetry=telemetry)
    handle: Handle[Any] = client.submit("resize", {}, queue="media")
    assert shop.row(handle.id).id == handle.id
    assert len(shop.messages()) == 1
    assert telemetry.failures > 0


def test_metrics_are_what_an_event_counts_towards() -> None:
    """One for each metric: a count of one, or the field that holds the value, split by what is there."""
    told = metrics_of("task.claimed", {"queue": "media", "task": "resize", "waited_ms": 250, "task_id": "t1"})
    assert [(metric.name, value) for metric, value, _ in told] == [("Claimed", 1.0), ("WaitTime", 250.0)]
    assert told[0][2] == {"queue": "media", "task": "resize"}
    assert metrics_of("task.found", {}) == []
    assert metrics_of("no.such_event", {}) == []
