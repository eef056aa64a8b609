"""A function that keeps the house in order: run by a schedule, or by a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from infra.constructs import roles
from infra.constructs.lambda_worker import Function, Program
from infra.constructs.stores import Stores


@dataclass(frozen=True, slots=True)
class Duty:
    """One maintenance duty: the module of its handler, its right to act, and when it runs.

    every_minutes: 0 for a duty that only a person starts.
    """

    name: str
    module: str
    statements: Callable[[Stores], roles.Statements]
    every_minutes: int = 0
    timeout_seconds: int = 60
    memory_mb: int = 512

    @property
    def handler(self) -> str:
        """Lambda's notation of it."""
        return f"{self.module}.handler"


DUTIES = (
    Duty("reconcile", "functions.reconcile.handler", roles.reconcile, every_minutes=1, timeout_seconds=55),
    Duty("ingest", "functions.ingest.handler", roles.ingest, every_minutes=5, timeout_seconds=240),
    # A replay that outlives an invocation, or its death, goes on with the next tick; without one a tick is two queries.
    Duty("replay", "functions.replay.handler", roles.replay, every_minutes=1, timeout_seconds=900),
)
"""The duties there may be; one whose module does not exist is not deployed (see constructs/workers.py)."""


class MaintenanceFunction(Construct):
    """One duty as a function with a role of its own, and its schedule."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        duty: Duty,
        stores: Stores,
        program: Program,
        variables: Mapping[str, str],
        group: scheduler.CfnScheduleGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        self.duty = duty
        reads = [] if "TENURE_TOPOLOGY" in variables else roles.reads_published(stores)
        self.worker = Function(
            self,
            "Duty",
            program=program,
            handler=duty.handler,
            statements=[*duty.statements(stores), *reads],
            variables=variables,
            timeout_seconds=duty.timeout_seconds,
            memory_mb=duty.memory_mb,
            description=f"tenure: {duty.name}",
        )
        if duty.every_minutes:
            self._schedule(group)

    def _schedule(self, group: scheduler.CfnScheduleGroup) -> None:
        """L1: the L2 target gives the schedule's role a star over the function's versions."""
        arn = self.worker.function.function_arn
        role = iam.Role(
            self,
            "Clock",
            assumed_by=iam.ServicePrincipal("scheduler.amazonaws.com"),
            description=f"tenure: starts {self.duty.name}",
        )
        role.add_to_policy(iam.PolicyStatement(sid="StartTheDuty", actions=["lambda:InvokeFunction"], resources=[arn]))
        minutes = self.duty.every_minutes
        schedule = scheduler.CfnSchedule(
            self,
            "Schedule",
            group_name=group.ref,
            schedule_expression=f"rate({minutes} minute{'s' if minutes > 1 else ''})",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=arn,
                role_arn=role.role_arn,
                # The next tick does what a lost one would have done: old ticks are not worth keeping.
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=max(60, minutes * 60), maximum_retry_attempts=2
                ),
            ),
        )
        schedule.node.add_dependency(role)
