"""Embedded metrics: what CloudWatch would make of the lines."""

from __future__ import annotations

import json
from typing import Any

from tenure.adapters.memory import World
from tenure.telemetry import LogTelemetry
from tenure.worker.emf import NAMESPACE, EmfMetrics

NAMES = {"shop-dev-media-normal": "media"}


def gathered(*events: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    lines: list[str] = []
    metrics = EmfMetrics("shop-dev", NAMES, World().threads, lines.append)
    telemetry = LogTelemetry(metrics)
    for event, fields in events:
        telemetry.emit(event, **fields)
    metrics.flush()
    return [json.loads(line) for line in lines]


def test_counts_are_added_up_and_durations_kept_apart():
    """Three successes are one number of 3, and three run times for a percentile."""
    (line,) = gathered(
        *[("task.succeeded", {"queue": "media", "task": "resize", "elapsed_ms": ms}) for ms in (5, 7, 9)]
    )
    assert line["Succeeded"] == [3.0]
    assert line["RunTime"] == [5.0, 7.0, 9.0]
    (told,) = line["_aws"]["CloudWatchMetrics"]
    assert told["Namespace"] == NAMESPACE
    assert {(metric["Name"], metric["Unit"]) for metric in told["Metrics"]} == {
        ("Succeeded", "Count"),
        ("RunTime", "Milliseconds"),
    }


def test_each_metric_is_there_for_the_environment_and_for_its_queue_and_for_nothing_finer():
    """The dimensions that alarms read; a tenant or task id in them would be billed by the thousand."""
    (line,) = gathered(("task.buried", {"queue": "media", "task": "resize", "task_id": "t1", "tenant": "acme"}))
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["environment"], ["environment", "queue"]]
    assert (line["environment"], line["queue"]) == ("shop-dev", "media")
    assert "acme" not in json.dumps(line)
    assert "t1" not in json.dumps(line)


def test_a_queue_told_by_its_sqs_name_counts_for_the_logical_one():
    (line,) = gathered(
        ("message.quarantined", {"queue": "shop-dev-media-normal"}),
        ("message.quarantined", {"queue": "media"}),
    )
    assert (line["queue"], line["Quarantined"]) == ("media", [2.0])


def test_what_has_no_queue_counts_for_the_environment_alone():
    (line,) = gathered(("engine.failed", {"error": "x"}))
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["environment"]]
    assert line["EngineFailed"] == [1.0]


def test_nothing_happened_is_no_line_and_flushing_forgets():
    assert gathered() == []
    assert gathered(("worker.started", {})) == []


def test_no_line_holds_more_values_than_embedded_metrics_take():
    lines = gathered(*[("task.succeeded", {"queue": "media", "elapsed_ms": ms}) for ms in range(250)])
    assert max(len(line["RunTime"]) for line in lines) <= 100
    assert sum(len(line["RunTime"]) for line in lines) == 250
    assert sum(line["Succeeded"][0] for line in lines) == 250


def test_a_user_s_own_powertools_settings_do_not_change_our_dimensions(monkeypatch):
    """POWERTOOLS_SERVICE_NAME, set for the handlers' own metrics, would make our alarms blind."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "photos")
    (line,) = gathered(("engine.failed", {}))
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["environment"]]
