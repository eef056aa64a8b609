"""The metrics that tenure's workers publish of themselves, as the alarms and the dashboard read them.

Names come from the telemetry's own table, so a metric that nobody publishes cannot be alarmed about. They are
dimensioned by environment, and by environment and queue: never by task or tenant, since each combination is billed.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch

from tenure.telemetry import EventName

NAMESPACE = "tenure"
NAMES = {metric.name: metric for event in EventName for metric in event.metrics}


class OwnMetrics:
    """tenure's own metrics in one environment. `service` is `<app>-<environment>`."""

    def __init__(self, service: str) -> None:
        self.service = service

    def count(self, name: str, queue: str | None = None, minutes: int = 5) -> cloudwatch.Metric:
        """How often it happened, of one queue or of all. Raises KeyError for a metric that no event counts."""
        return self._metric(NAMES[name].name, "Sum", queue, minutes)

    def spread(self, name: str, statistic: str, queue: str | None = None, minutes: int = 5) -> cloudwatch.Metric:
        """A statistic of a duration, "p99" say."""
        return self._metric(NAMES[name].name, statistic, queue, minutes)

    def _metric(self, name: str, statistic: str, queue: str | None, minutes: int) -> cloudwatch.Metric:
        dimensions = {"environment": self.service} | ({"queue": queue} if queue else {})
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map=dimensions,
            statistic=statistic,
            period=cdk.Duration.minutes(minutes),
        )
