"""One Lambda function that serves one logical queue: its own role, its own log group, a mapping for each tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.constructs import roles
from infra.constructs.task_queue import TaskQueue
from tenure.core.topology import Pool


@dataclass(frozen=True)
class Program:
    """What functions and containers run: one asset for all of them."""

    code: lambda_.Code
    runtime: lambda_.Runtime
    architecture: lambda_.Architecture
    log_retention: logs.RetentionDays
    removal: cdk.RemovalPolicy


class Function(Construct):
    """A Lambda function with a role that has nothing but `statements` and its own log group."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        program: Program,
        handler: str,
        statements: Sequence[iam.PolicyStatement],
        variables: Mapping[str, str],
        timeout_seconds: int,
        memory_mb: int,
        description: str,
        recursion: str = "terminate",
    ) -> None:
        """`handler` is Lambda's own notation: module.function."""
        super().__init__(scope, construct_id)
        self.timeout_seconds = timeout_seconds
        self.log_group = logs.LogGroup(self, "Logs", retention=program.log_retention, removal_policy=program.removal)
        # Not AWSLambdaBasicExecutionRole: that one may write every log group there is.
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=description,
        )
        for statement in (roles.own_logs(self.log_group.log_group_arn), *statements):
            self.role.add_to_policy(statement)
        # No reserved concurrency: what it throttles has been received already, so throttling would spend receives and
        # end in the DLQ. MaximumConcurrency of the mapping holds messages back before they are received.
        self.function = lambda_.Function(
            self,
            "Function",
            code=program.code,
            handler=handler,
            runtime=program.runtime,
            architecture=program.architecture,
            role=self.role,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.TEXT,
            timeout=cdk.Duration.seconds(timeout_seconds),
            memory_size=memory_mb,
            environment=dict(variables),
            recursive_loop=lambda_.RecursiveLoop[recursion.upper()],
            description=description,
        )

    def metric(self, name: str, statistic: str = "Sum", minutes: int = 5) -> cloudwatch.Metric:
        """An AWS/Lambda metric of this function."""
        return self.function.metric(name, statistic=statistic, period=cdk.Duration.minutes(minutes))


class LambdaWorker(Construct):
    """The worker of one logical queue on Lambda.

    One function a queue, not one a pool: a role can then name the one queue that it serves, an alarm names the queue
    that suffers, and a slow queue cannot take another's concurrency.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queue_name: str,
        pool: Pool,
        tiers: Sequence[TaskQueue],
        program: Program,
        handler: str,
        statements: Sequence[iam.PolicyStatement],
        variables: Mapping[str, str],
        recursion: str = "terminate",
        window_seconds: int = 0,
    ) -> None:
        """`window_seconds`: how long Lambda may gather a batch; each message waits as long, so 0 unless asked for.

        Raises InvalidTopology for a mapping that AWS would refuse or that would lose messages.
        """
        super().__init__(scope, construct_id)
        self.queue_name, self.pool, self.tiers = queue_name, pool, list(tiers)
        timeout_seconds = pool.longest_runtime_seconds
        for tier in tiers:
            tier.check_consumer(
                timeout_seconds=timeout_seconds, window_seconds=window_seconds, batch_size=pool.batch_size
            )
        self.worker = Function(
            self,
            "Worker",
            program=program,
            handler=handler,
            statements=statements,
            variables=variables,
            timeout_seconds=timeout_seconds,
            memory_mb=pool.memory_mb,
            description=f"tenure: runs the tasks of queue {queue_name}",
            recursion=recursion,
        )
        self.mappings = [self._mapping(tier, window_seconds) for tier in tiers]

    def _mapping(self, tier: TaskQueue, window_seconds: int) -> lambda_.EventSourceMapping:
        """Not SqsEventSource: that one grants the role more than it needs, and cannot be told not to."""
        mapping = lambda_.EventSourceMapping(
            self,
            f"From{tier.tier.tier.capitalize()}",
            target=self.worker.function,
            event_source_arn=tier.main.queue_arn,
            batch_size=self.pool.batch_size,
            max_batching_window=cdk.Duration.seconds(window_seconds) if window_seconds else None,
            max_concurrency=self.pool.concurrency,
            # Without it Lambda ignores what the worker reports and deletes the messages of failed tasks.
            report_batch_item_failures=True,
        )
        # Lambda tries the role's rights on the queue when the mapping is made.
        mapping.node.add_dependency(self.worker.role)
        return mapping
