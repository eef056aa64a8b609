"""One page that answers "is it working", top to bottom: is anything on fire, does work flow, what waits, what died."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.constructs.alarms import Alarms
from infra.constructs.own_metrics import OwnMetrics
from infra.constructs.stores import Stores
from infra.constructs.workers import Workers
from infra.environment import Settings

_FULL, _THIRD = 24, 8


class Dashboard(Construct):
    """The dashboard of one environment."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        stores: Stores,
        workers: Workers,
        alarms: Alarms,
    ) -> None:
        super().__init__(scope, construct_id)
        self._stores, self._workers, self._own = stores, workers, OwnMetrics(settings.prefix)
        self.dashboard = cloudwatch.Dashboard(self, "Dashboard", default_interval=cdk.Duration.hours(3))
        self.dashboard.add_widgets(
            cloudwatch.AlarmStatusWidget(
                title="Is anything wrong?", alarms=[alarms.unhealthy, *alarms.alarms], width=_FULL, height=6
            )
        )
        self.dashboard.add_widgets(*self._flow())
        self.dashboard.add_widgets(*self._queues())
        self.dashboard.add_widgets(*self._compute())

    def _flow(self) -> list[cloudwatch.IWidget]:
        own = self._own
        done = [own.count(name, minutes=1) for name in ("Submitted", "Claimed", "Succeeded")]
        trouble = [own.count(name, minutes=1) for name in ("Retried", "Buried", "LeaseLost", "Resent")]
        times = [own.spread(name, "p95", minutes=1) for name in ("WaitTime", "RunTime")]
        return [
            _graph("Does work flow? Tasks a minute", done, _THIRD),
            _graph("What goes wrong, a minute", trouble, _THIRD),
            _graph("How long tasks wait and run: p95, ms", times, _THIRD),
        ]

    def _queues(self) -> list[cloudwatch.IWidget]:
        tiers = self._stores.tiers
        waiting = [tier.metric_waiting().with_(label=tier.label) for tier in tiers]
        oldest = [tier.metric_oldest_seconds().with_(label=tier.label) for tier in tiers]
        dead = [tier.metric_dead().with_(label=tier.label) for tier in tiers]
        return [
            _graph("What waits: messages", waiting, _THIRD),
            _graph("How old the oldest is: seconds", oldest, _THIRD),
            _graph("What died and lies there: letters", dead, _THIRD),
        ]

    def _compute(self) -> list[cloudwatch.IWidget]:
        functions = [*self._workers.functions.values()]
        running = [f.worker.metric("ConcurrentExecutions", "Maximum", 1).with_(label=f.queue_name) for f in functions]
        failing = [
            f.worker.metric(name, "Sum", 1).with_(label=f"{f.queue_name} {name}")
            for f in functions
            for name in ("Errors", "Throttles")
        ]
        backlogs = [service.backlog for service in self._workers.services.values()]
        throttles = [self._stores.table.metric_read_throttles(), self._stores.table.metric_write_throttles()]
        found: list[cloudwatch.IWidget] = []
        if functions:
            found += [_graph("Invocations at once", running, _THIRD), _graph("Invocations that fail", failing, _THIRD)]
        if backlogs:
            found.append(_graph("Backlog of Fargate pools", backlogs, _THIRD))
        return [*found, _graph("Throttled by DynamoDB", throttles, _THIRD)]


def _graph(
    title: str, metrics: list[cloudwatch.Metric] | list[cloudwatch.MathExpression], width: int
) -> cloudwatch.IWidget:
    return cloudwatch.GraphWidget(
        title=title, left=list(metrics), width=width, height=6, left_y_axis=cloudwatch.YAxisProps(min=0)
    )
