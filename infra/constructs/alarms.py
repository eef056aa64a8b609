"""Alarms that can fire: what each watches, for how long, and what it makes of silence.

Three rules, each learned from alarms that never fired (docs/alarms.md lists them all):

- Dead letters are alarmed about by how many lie there, never by sends: SQS's own moves are not counted as sends.
- An alarm tells of a change of state, so while letters lie there a second one is silent. `Buried` counts burials and
  goes back to OK by itself, so it tells of the next one too.
- Missing data means "nothing happened" for counts of trouble, and "trouble" for what should happen by the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.constructs.lambda_worker import LambdaWorker
from infra.constructs.maintenance_function import MaintenanceFunction
from infra.constructs.own_metrics import OwnMetrics
from infra.constructs.stores import Stores
from infra.constructs.task_queue import TaskQueue
from infra.constructs.workers import Workers
from infra.environment import Settings

COMPOSITE_CHILDREN_MAX = 100
"""Alarms that one composite alarm may name. AmazonCloudWatch/…/cloudwatch_limits.html"""
MISSED_RUNS = 5
"""Runs of a scheduled duty that may be missing before it counts as stopped."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When an alarm goes off: `points` of the last `of` periods of `metric` at or beyond `threshold`.

    below: the alarm is on too little, not on too much. quiet_is_bad: missing data counts as beyond the threshold.
    unwell: whether its going off means that the executor itself is unwell (rather than the work that it was given).
    """

    metric: cloudwatch.IMetric
    threshold: float
    says: str
    points: int = 1
    of: int = 1
    below: bool = False
    quiet_is_bad: bool = False
    unwell: bool = False


class Alarms(Construct):
    """The alarms of one environment, the topic that they speak to, and one composite: is the executor unhealthy?"""

    def __init__(
        self, scope: Construct, construct_id: str, *, settings: Settings, stores: Stores, workers: Workers
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings = settings
        self.own = OwnMetrics(settings.prefix)
        self.topic = self._topic(stores.key)
        self.alarms: list[cloudwatch.Alarm] = []
        self._unwell: list[cloudwatch.Alarm] = []
        for tier in stores.tiers:
            self._watch_tier(tier)
        for function in workers.functions.values():
            self._watch_function(function)
        for duty in workers.duties.values():
            self._watch_duty(duty)
        if workers.duties:
            self._watch_schedules(workers.schedule_group.ref)
        self._watch_table(stores)
        self._watch_own()
        self.unhealthy = self._composite("ExecutorUnhealthy", self._unwell)

    def _topic(self, key: kms.IKey | None) -> sns.Topic:
        alarms = cdk.Stack.of(self).format_arn(
            service="cloudwatch", resource="alarm", resource_name="*", arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME
        )
        topic = sns.Topic(self, "Topic", enforce_ssl=True, master_key=key)
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsOfThisAccountOnly",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"ArnLike": {"aws:SourceArn": alarms}},
            )
        )
        for address in self._settings.deployment.alarms.addresses:
            topic.add_subscription(subscriptions.EmailSubscription(address))
        return topic

    def _watch_tier(self, tier: TaskQueue) -> None:
        queue = self._settings.topology.queue(tier.queue_name)
        oldest = self._settings.oldest_seconds(queue)
        name = "".join(word.capitalize() for word in tier.label.replace("/", "-").split("-"))
        runbook = f" Owner: {queue.owner or 'nobody named'}. Runbook: {queue.runbook or 'none'}."
        letters = f"Dead letters lie in {tier.label}: look with `tenure dead`.{runbook}"
        self._add(f"Dead{name}", Rule(tier.metric_dead(), 1, letters))
        waits = f"The oldest message of {tier.label} waits for over {oldest} s: too few workers, or none.{runbook}"
        self._add(f"Oldest{name}", Rule(tier.metric_oldest_seconds(), oldest, waits, points=5, of=5, unwell=True))
        if not tier.tier.ordered:
            says = f"Tenants that do not crowd {tier.label} wait for over {oldest} s: fairness does not hold.{runbook}"
            self._add(f"Quiet{name}", Rule(tier.metric_oldest_quiet_seconds(), oldest, says, points=5, of=5))

    def _watch_function(self, of: LambdaWorker) -> None:
        function, queue = of.worker, of.queue_name
        name = "".join(word.capitalize() for word in queue.split("-"))
        alarms = self._settings.deployment.alarms
        milliseconds = function.timeout_seconds * 1000 * alarms.duration_fraction
        errors = f"The function of {queue} fails as a whole: it cannot start, or the store is out of reach."
        self._add(f"Errors{name}", Rule(function.metric("Errors"), alarms.worker_errors, errors, unwell=True))
        throttled = f"Invocations for {queue} are throttled: the account's concurrency is used up."
        self._add(f"Throttles{name}", Rule(function.metric("Throttles"), 1, throttled, points=2, of=3, unwell=True))
        long = f"Invocations for {queue} come near their timeout of {function.timeout_seconds} s and will be cut."
        self._add(f"Duration{name}", Rule(function.metric("Duration", "Maximum"), milliseconds, long, points=2, of=3))
        drops = f"Lambda cut a chain of tasks that submit tasks to {queue}: docs/adr/0031 tells what to do."
        self._add(f"Recursion{name}", Rule(function.metric("RecursiveInvocationsDropped"), 1, drops, unwell=True))

    def _watch_duty(self, of: MaintenanceFunction) -> None:
        function, duty = of.worker, of.duty
        name = duty.name.capitalize()
        failed = f"The duty {duty.name} fails. Nothing is lost while it does, but nothing overdue is sent either."
        self._add(f"Errors{name}", Rule(function.metric("Errors"), 1, failed, points=2, of=3, unwell=True))
        if duty.every_minutes:
            minutes = duty.every_minutes * MISSED_RUNS
            stopped = f"The duty {duty.name} has not run for {minutes} minutes: its schedule or its function is gone."
            runs = function.metric("Invocations", "Sum", minutes)
            self._add(f"Stopped{name}", Rule(runs, 1, stopped, below=True, quiet_is_bad=True, unwell=True))

    def _watch_schedules(self, group: str) -> None:
        for name in ("TargetErrorCount", "InvocationDroppedCount"):
            metric = cloudwatch.Metric(
                namespace="AWS/Scheduler",
                metric_name=name,
                dimensions_map={"ScheduleGroup": group},
                statistic="Sum",
                period=cdk.Duration.minutes(5),
            )
            says = f"EventBridge Scheduler could not start a duty ({name}): rights, or the function is gone."
            self._add(f"Schedule{name}", Rule(metric, 1, says, points=2, of=3, unwell=True))

    def _watch_table(self, stores: Stores) -> None:
        for name, metric in (
            ("Reads", stores.table.metric_read_throttles()),
            ("Writes", stores.table.metric_write_throttles()),
        ):
            says = f"DynamoDB puts off {name.lower()} of the state table: a hot partition, or a cap on the table."
            self._add(f"Throttled{name}", Rule(metric, 1, says, points=3, of=5, unwell=True))

    def _watch_own(self) -> None:
        alarms = self._settings.deployment.alarms
        counted = {
            "Buried": (1, "A task has just become a dead letter (told again for each five minutes that have one)."),
            "Quarantined": (1, "Messages that are no tasks arrive: somebody else writes to these queues."),
            "LeaseLost": (
                alarms.leases_lost,
                "Workers lose leases: they stall, are overloaded, or cannot reach the table.",
            ),
            "Retried": (alarms.retries, "A retry storm: something that many tasks need is down."),
            "Dropped": (
                alarms.duplicates,
                "Many messages arrive whose tasks are over: somebody sends twice, or deletes fail.",
            ),
            "Resent": (
                alarms.retries,
                "Reconcile sends many stalled tasks again: messages are lost, or nobody receives.",
            ),
        }
        for name, (threshold, says) in counted.items():
            self._add(f"Own{name}", Rule(self.own.count(name), threshold, says))
        unwell = {
            "EngineFailed": "A worker failed outside any handler: a defect of tenure, or the store is out of reach.",
            "WorkerCrashed": "Worker processes crash: a handler kills them, or the machine is too small.",
            "ReconcileFailed": "A part of reconcile fails.",
        }
        for name, says in unwell.items():
            self._add(f"Own{name}", Rule(self.own.count(name), 1, says, points=2, of=3, unwell=True))

    def _add(self, construct_id: str, rule: Rule) -> None:
        operator = cloudwatch.ComparisonOperator
        treat = cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            metric=rule.metric,
            threshold=rule.threshold,
            comparison_operator=operator.LESS_THAN_THRESHOLD
            if rule.below
            else operator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=rule.of,
            datapoints_to_alarm=rule.points,
            treat_missing_data=treat.BREACHING if rule.quiet_is_bad else treat.NOT_BREACHING,
            alarm_description=rule.says,
        )
        act = actions.SnsAction(self.topic)
        alarm.add_alarm_action(act)
        alarm.add_ok_action(act)
        self.alarms.append(alarm)
        if rule.unwell:
            self._unwell.append(alarm)

    def _composite(self, construct_id: str, children: Sequence[cloudwatch.IAlarm]) -> cloudwatch.CompositeAlarm:
        """One alarm over many; in two storeys where one composite may not name them all."""
        if len(children) > COMPOSITE_CHILDREN_MAX:
            chunks = [
                children[at : at + COMPOSITE_CHILDREN_MAX] for at in range(0, len(children), COMPOSITE_CHILDREN_MAX)
            ]
            children = [self._composite(f"{construct_id}{number}", chunk) for number, chunk in enumerate(chunks)]
        composite = cloudwatch.CompositeAlarm(
            self,
            construct_id,
            alarm_rule=cloudwatch.AlarmRule.any_of(
                *(cloudwatch.AlarmRule.from_alarm(each, cloudwatch.AlarmState.ALARM) for each in children)
            ),
            alarm_description=f"tenure in {self._settings.prefix} is unwell: one of {len(children)} alarms is on.",
        )
        act = actions.SnsAction(self.topic)
        composite.add_alarm_action(act)
        composite.add_ok_action(act)
        return composite
