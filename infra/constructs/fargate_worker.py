"""A Fargate service that serves one pool's queues: from no task while there is nothing to do, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.constructs.lambda_worker import Program
from infra.constructs.network import WorkerNetwork
from infra.constructs.task_queue import TaskQueue
from tenure.core import limits
from tenure.core.topology import Pool

STEPS_MAX = 20
"""Step adjustments of one step scaling policy. Application Auto Scaling's quotas."""
IDLE_MINUTES = 10
"""How long there must be nothing to do before the pool goes back to its least: a start costs about a minute."""
HEALTH_COMMAND = ["CMD", "python", "-m", "functions.poller.health"]


class FargateWorker(Construct):
    """The pollers of one pool: non-root, read-only, stopped with all the time that Fargate gives."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        pool: Pool,
        tiers: Sequence[TaskQueue],
        program: Program,
        cluster: ecs.ICluster,
        network: WorkerNetwork,
        image: ecs.ContainerImage,
        statements: Sequence[iam.PolicyStatement],
        variables: Mapping[str, str],
        backlog_per_task: int,
    ) -> None:
        """`backlog_per_task`: messages that one task is expected to work off before another is started."""
        super().__init__(scope, construct_id)
        self.pool, self.tiers = pool, list(tiers)
        self.log_group = logs.LogGroup(self, "Logs", retention=program.log_retention, removal_policy=program.removal)
        self.task = self._task_definition(program, [*statements, _protection(cluster)])
        self._container(image, variables)
        self.service = ecs.FargateService(
            self,
            "Service",
            cluster=cluster,
            task_definition=self.task,
            # Of scaling, not of the template: a deployment must not stop what is running.
            desired_count=None,
            min_healthy_percent=100,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(enable=True, rollback=True),
            capacity_provider_strategies=[self._capacity()],
            platform_version=ecs.FargatePlatformVersion.VERSION1_4,
            vpc_subnets=network.placement.subnets,
            assign_public_ip=network.placement.public_address,
            security_groups=[network.security_group],
            enable_execute_command=False,
        )
        self.backlog = self.metric_backlog()
        self._scale(backlog_per_task)

    def metric_backlog(self) -> cloudwatch.MathExpression:
        """Messages of the pool's queues, those in flight too: a task that works on its last message is not idle."""
        using = {}
        for number, tier in enumerate(self.tiers):
            using[f"v{number}"] = tier.metric("ApproximateNumberOfMessagesVisible")
            using[f"f{number}"] = tier.metric("ApproximateNumberOfMessagesNotVisible")
        # SQS stops telling of a queue that nobody has touched for hours: no point means no message.
        return cloudwatch.MathExpression(
            expression=" + ".join(f"FILL({name}, 0)" for name in using),
            using_metrics=using,
            period=cdk.Duration.minutes(1),
            label=f"Backlog of pool {self.pool.name}",
        )

    def _task_definition(
        self, program: Program, statements: Sequence[iam.PolicyStatement]
    ) -> ecs.FargateTaskDefinition:
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"),
            description=f"tenure: runs the tasks of pool {self.pool.name}",
        )
        for statement in statements:
            role.add_to_policy(statement)
        arm = program.architecture.name == "arm64"
        return ecs.FargateTaskDefinition(
            self,
            "Task",
            cpu=self.pool.cpu,
            memory_limit_mib=self.pool.memory_mb,
            task_role=role,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ecs.CpuArchitecture.ARM64 if arm else ecs.CpuArchitecture.X86_64,
                operating_system_family=ecs.OperatingSystemFamily.LINUX,
            ),
            # The one place that can be written: the root is read-only.
            volumes=[ecs.Volume(name="tmp")],
        )

    def _container(self, image: ecs.ContainerImage, variables: Mapping[str, str]) -> None:
        container = self.task.add_container(
            "Poller",
            image=image,
            environment=dict(variables),
            readonly_root_filesystem=True,
            user="tenure",
            stop_timeout=cdk.Duration.seconds(limits.FARGATE_STOP_SECONDS_MAX),
            logging=ecs.LogDrivers.aws_logs(stream_prefix="poller", log_group=self.log_group),
            health_check=ecs.HealthCheck(
                command=HEALTH_COMMAND,
                interval=cdk.Duration.seconds(30),
                timeout=cdk.Duration.seconds(10),
                retries=3,
                start_period=cdk.Duration.seconds(60),
            ),
        )
        container.add_mount_points(ecs.MountPoint(container_path="/tmp", source_volume="tmp", read_only=False))
        cdk.Validations.of(self.task).acknowledge(
            cdk.Acknowledgment(
                id="AwsSolutions-ECS2",
                reason="The variables are the topology's slice and what the environment file lists in the open; it "
                "refuses names that look like a secret's, and handlers read secrets from Secrets Manager.",
            )
        )

    def _capacity(self) -> ecs.CapacityProviderStrategy:
        return ecs.CapacityProviderStrategy(capacity_provider="FARGATE_SPOT" if self.pool.spot else "FARGATE", weight=1)

    def _scale(self, backlog_per_task: int) -> None:
        """Step scaling to an exact number of tasks: it leaves zero by itself, which target tracking cannot, and it
        divides by no number of running tasks, so Container Insights need not be bought."""
        target = self.service.auto_scale_task_count(min_capacity=self.pool.tasks_min, max_capacity=self.pool.tasks_max)
        up = self._action("Up", target)
        steps = capacity_steps(self.pool.tasks_min, self.pool.tasks_max, backlog_per_task)
        for (lower, capacity), after in zip(steps, [*steps[1:], None], strict=True):
            # Bounds count from the alarm's threshold, which is 1.
            up.add_adjustment(
                adjustment=capacity, lower_bound=lower - 1, upper_bound=None if after is None else after[0] - 1
            )
        down = self._action("Down", target)
        down.add_adjustment(adjustment=self.pool.tasks_min, upper_bound=0)
        self._alarm("Waiting", 1, cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD, up, minutes=1)
        self._alarm("Idle", 1, cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD, down, minutes=IDLE_MINUTES)

    def _action(self, name: str, target: ecs.ScalableTaskCount) -> scaling.StepScalingAction:
        scalable = target.node.find_child("Target")
        assert isinstance(scalable, scaling.ScalableTarget)
        return scaling.StepScalingAction(
            self,
            name,
            scaling_target=scalable,
            adjustment_type=scaling.AdjustmentType.EXACT_CAPACITY,
            cooldown=cdk.Duration.minutes(1),
            metric_aggregation_type=scaling.MetricAggregationType.MAXIMUM,
        )

    def _alarm(
        self,
        name: str,
        threshold: int,
        operator: cloudwatch.ComparisonOperator,
        action: scaling.StepScalingAction,
        minutes: int,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name,
            metric=self.backlog,
            threshold=threshold,
            comparison_operator=operator,
            evaluation_periods=minutes,
            datapoints_to_alarm=minutes,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING
            if name == "Waiting"
            else cloudwatch.TreatMissingData.BREACHING,
            alarm_description=f"Scales pool {self.pool.name}; nobody need look at it.",
        )
        alarm.add_alarm_action(actions.ApplicationScalingAction(action))


def _protection(cluster: ecs.ICluster) -> iam.PolicyStatement:
    """A busy poller asks its agent not to be scaled in; the agent asks ECS with the task's own role."""
    tasks = cdk.Stack.of(cluster).format_arn(service="ecs", resource="task", resource_name=f"{cluster.cluster_name}/*")
    return iam.PolicyStatement(
        sid="NotScaledInWhileBusy", actions=["ecs:GetTaskProtection", "ecs:UpdateTaskProtection"], resources=[tasks]
    )


def capacity_steps(tasks_min: int, tasks_max: int, backlog_per_task: int) -> list[tuple[int, int]]:
    """(backlog from which, number of tasks) pairs, rising: one task for each `backlog_per_task` messages, at least one
    as soon as there is a message; at most STEPS_MAX pairs, so that a large pool rises in strides."""
    least = max(1, tasks_min)
    stride = -(-(tasks_max - least + 1) // STEPS_MAX)
    capacities = sorted({*range(least, tasks_max + 1, stride), tasks_max})[-STEPS_MAX:]
    capacities[0] = least
    return [
        (1 if capacity == least else (before * backlog_per_task) + 1, capacity)
        for before, capacity in zip([0, *capacities], capacities, strict=False)
    ]
