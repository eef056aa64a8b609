"""tenure's own metrics, written as embedded metrics (EMF): log lines of which CloudWatch makes metrics, with no call.

A sink of telemetry.LogTelemetry. It gathers and writes when told to: at the end of an invocation, each minute on
Fargate. Metrics bear the environment, and the environment and queue; never a task or tenant, since each combination is
billed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from tenure.ports import Threads
from tenure.telemetry import metrics_of

NAMESPACE = "tenure"
VALUES_MAX = 90
"""Of one metric in one line; EMF takes 100 (CloudWatch_Embedded_Metric_Format_Specification.html)."""

_Gathered = dict[str, dict[tuple[str, str], list[float]]]


class EmfMetrics:
    """Gathers what events count, by queue. Thread-safe.

    service: what the dimension `environment` holds: `<app>-<environment>`.
    queue_names: SQS name -> logical name; the events tell of either, the metrics of the logical one.
    """

    def __init__(
        self,
        service: str,
        queue_names: Mapping[str, str],
        threads: Threads,
        write: Callable[[str], None] = print,
    ) -> None:
        self._service = service
        self._queue_names = queue_names
        self._lock = threads.lock()
        self._write = write
        self._gathered: _Gathered = defaultdict(lambda: defaultdict(list))

    def __call__(self, event: str, level: int, fields: Mapping[str, Any]) -> None:
        """Take an event into account."""
        for metric, value, dimensions in metrics_of(event, fields):
            queue = dimensions.get("queue", "")
            with self._lock:
                values = self._gathered[self._queue_names.get(queue, queue)][metric.name, metric.unit]
                if metric.value or not values:
                    values.append(value)
                else:
                    values[0] += value  # a count is one number, however often it was counted
                full = len(values) >= VALUES_MAX
            if full:
                self.flush()

    def flush(self) -> None:
        """Write what was gathered, one line for each queue. Nothing was gathered: nothing is written."""
        with self._lock:
            gathered, self._gathered = self._gathered, defaultdict(lambda: defaultdict(list))
        for queue, metrics in gathered.items():
            self._write(self._line(queue, metrics))

    def _line(self, queue: str, metrics: Mapping[tuple[str, str], list[float]]) -> str:
        # No `service` of Powertools' own: a variable of the user's would then change our metrics' dimensions.
        provider = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service="")
        provider.add_dimension("environment", self._service)
        if queue:
            provider.add_dimensions(environment=self._service, queue=queue)
        for (name, unit), values in metrics.items():
            for value in values:
                provider.add_metric(name, unit, value)
        return json.dumps(provider.serialize_metric_set(), separators=(",", ":"))
