"""All that runs tasks: a function for each queue of a Lambda pool, a service for each Fargate pool, the duties."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from infra.bundle import Bundle
from infra.constructs import roles
from infra.constructs.fargate_worker import FargateWorker
from infra.constructs.lambda_worker import LambdaWorker, Program
from infra.constructs.maintenance_function import DUTIES, Duty, MaintenanceFunction
from infra.constructs.network import WorkerNetwork
from infra.constructs.private_bucket import PrivateBucket
from infra.constructs.published_topology import at_full_length
from infra.constructs.stores import Stores
from infra.environment import Settings
from tenure.core import limits, published
from tenure.core.errors import InvalidTopology
from tenure.core.topology import Pool, Queue, Topology

WORKER_HANDLER = "functions.worker.handler.handler"
DOCKERFILE = "functions/poller/Dockerfile"
TOPOLOGY_BYTES_MAX = limits.LAMBDA_ENVIRONMENT_BYTES_MAX - 512
"""Of TENURE_TOPOLOGY; the rest is for the other variables, and for the names of table and bucket."""
LOG_RETENTION = {
    1: logs.RetentionDays.ONE_DAY,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    90: logs.RetentionDays.THREE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    731: logs.RetentionDays.TWO_YEARS,
    1827: logs.RetentionDays.FIVE_YEARS,
    3653: logs.RetentionDays.TEN_YEARS,
}
"""Days, as the environment file writes them, in the CDK's words."""


class Workers(Construct):
    """The compute of one environment."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        stores: Stores,
        bundle: Bundle,
        duties: Sequence[Duty] | None = None,
    ) -> None:
        """`duties`: None for those whose code is there."""
        super().__init__(scope, construct_id)
        self.settings, self.stores = settings, stores
        self.program = _program(settings, bundle)
        self.files = self._files_bucket()
        pools = {pool.name: pool for pool in settings.topology.pools}
        served = [(queue, pools[queue.pool]) for queue in settings.topology.queues]
        self.functions = {queue.name: self._function(queue, pool) for queue, pool in served if pool.kind == "lambda"}
        fargate = [
            pool for pool in pools.values() if pool.kind == "fargate" and pool.name in {q.pool for q, _ in served}
        ]
        self.services = self._services(fargate, bundle)
        self.duties = self._duties(written() if duties is None else duties)

    def role_of(self, queue: str) -> iam.IRole:
        """The role that a queue's handlers run with, to be given what they need besides tenure's own."""
        if queue in self.functions:
            return self.functions[queue].worker.role
        return self.services[self.settings.topology.queue(queue).pool].task.task_role

    def _files_bucket(self) -> PrivateBucket | None:
        if not self.settings.deployment.files_variable:
            return None
        return PrivateBucket(self, "Files", removal=self.program.removal, key=self.stores.key)

    def _function(self, queue: Queue, pool: Pool) -> LambdaWorker:
        submits = self.settings.deployment.submits.get(queue.name, ())
        return LambdaWorker(
            self,
            f"queue-{queue.name}",
            queue_name=queue.name,
            pool=pool,
            tiers=self.stores.tiers_of([queue.name]),
            program=self.program,
            handler=WORKER_HANDLER,
            statements=[*roles.worker(self.stores, [queue.name], submits), *self._files_statements()],
            variables=self._worker_variables(pool, [queue.name], submits),
            recursion=self.settings.deployment.recursion,
        )

    def _services(self, pools: Sequence[Pool], bundle: Bundle) -> dict[str, FargateWorker]:
        if not pools:
            return {}
        network = WorkerNetwork(
            self,
            "Network",
            network=self.settings.deployment.network,
            key_endpoint=self.stores.key is not None,
        )
        cluster = ecs.Cluster(
            self,
            "Cluster",
            vpc=network.vpc,
            enable_fargate_capacity_providers=True,
            container_insights_v2=ecs.ContainerInsights.DISABLED,
        )
        cdk.Validations.of(cluster).acknowledge(
            cdk.Acknowledgment(
                id="AwsSolutions-ECS4",
                reason="Container Insights are billed per task and metric; what an operator needs to know of a pool is "
                "in the queues' metrics and in tenure's own.",
            )
        )
        arm = self.settings.deployment.architecture == "arm64"
        image = ecs.ContainerImage.from_asset(
            str(bundle.path),
            file=DOCKERFILE,
            build_args={"PYTHON": self.settings.deployment.python_version},
            platform=ecr_assets.Platform.LINUX_ARM64 if arm else ecr_assets.Platform.LINUX_AMD64,
        )
        return {pool.name: self._service(pool, cluster, network, image) for pool in pools}

    def _service(
        self, pool: Pool, cluster: ecs.ICluster, network: WorkerNetwork, image: ecs.ContainerImage
    ) -> FargateWorker:
        queues = [queue.name for queue in self.settings.topology.queues if queue.pool == pool.name]
        submits = sorted({each for queue in queues for each in self.settings.deployment.submits.get(queue, ())})
        return FargateWorker(
            self,
            f"pool-{pool.name}",
            pool=pool,
            tiers=self.stores.tiers_of(queues),
            program=self.program,
            cluster=cluster,
            network=network,
            image=image,
            statements=[*roles.worker(self.stores, queues, submits), *self._files_statements()],
            variables=self._worker_variables(pool, queues, submits),
            backlog_per_task=self.settings.deployment.backlog_per_task,
        )

    def _duties(self, duties: Sequence[Duty]) -> dict[str, MaintenanceFunction]:
        if not duties:
            return {}
        group = scheduler.CfnScheduleGroup(self, "Schedules")
        self.schedule_group = group
        return {
            duty.name: MaintenanceFunction(
                self,
                f"duty-{duty.name}",
                duty=duty,
                stores=self.stores,
                program=self.program,
                variables=self._duty_variables(),
                group=group,
            )
            for duty in duties
        }

    def _worker_variables(self, pool: Pool, queues: Sequence[str], submits: Sequence[str]) -> dict[str, str]:
        """What a worker is told: the queues it serves and those that it may submit to, and the handlers' variables."""
        whole = self.stores.deployed
        parts = [published.slice_of(whole, queue=name) for name in dict.fromkeys([*queues, *submits])]
        topology = whole.model_copy(
            update={
                "queues": tuple(queue for part in parts for queue in part.queues),
                "pools": tuple({each.name: each for part in parts for each in part.pools}.values()),
                "urls": {name: pair for part in parts for name, pair in part.urls.items()},
            }
        )
        files = {self.settings.deployment.files_variable: f"s3://{self.files.bucket.bucket_name}"} if self.files else {}
        handlers = {**self.settings.deployment.variables, **files}
        if pool.kind == "lambda":
            _refuse_large(queues[0], topology, handlers)
        return {**self._variables(topology), "TENURE_POOL": pool.name, **handlers}

    def _variables(self, topology: Topology) -> dict[str, str]:
        return {
            "TENURE_APP": self.settings.environment.app,
            "TENURE_ENVIRONMENT": topology.environment,
            "TENURE_TOPOLOGY": _as_variable(topology),
        }

    def _duty_variables(self) -> dict[str, str]:
        """A duty's variables: with the whole topology, as long as Lambda takes it; else it reads what is published."""
        whole = self.stores.deployed
        full, _ = at_full_length(whole)
        size_bytes = len(_as_variable(full).encode())
        variables = self._variables(whole)
        if size_bytes > TOPOLOGY_BYTES_MAX:
            del variables["TENURE_TOPOLOGY"]
        return variables

    def _files_statements(self) -> list[iam.PolicyStatement]:
        if self.files is None:
            return []
        bucket = self.files.bucket
        return [
            iam.PolicyStatement(
                sid="KeepOwnFiles", actions=["s3:GetObject", "s3:PutObject"], resources=[bucket.arn_for_objects("*")]
            ),
            iam.PolicyStatement(sid="ListOwnFiles", actions=["s3:ListBucket"], resources=[bucket.bucket_arn]),
        ]


def _refuse_large(queue: str, topology: Topology, handlers: Mapping[str, str]) -> None:
    """Raise InvalidTopology if a function's variables would exceed what Lambda takes."""
    full, _ = at_full_length(topology)
    own = sum(len(name) + len(value.encode()) for name, value in handlers.items())
    size_bytes = len(_as_variable(full).encode()) + own
    if size_bytes > TOPOLOGY_BYTES_MAX:
        raise InvalidTopology(
            f"queue {queue!r}: its function's variables would be {size_bytes:,} bytes and more; Lambda takes "
            f"{limits.LAMBDA_ENVIRONMENT_BYTES_MAX:,} in all. Shorten deploy.variables or deploy.submits.{queue}, or "
            "the queue's owner and runbook."
        )


def _as_variable(topology: Topology) -> str:
    """What is at its default is left out: code and variables are deployed together."""
    return topology.model_dump_json(exclude_defaults=True)


def written() -> list[Duty]:
    """The duties whose code is there: a function without its code must not be deployed."""
    return [duty for duty in DUTIES if _exists(duty.module)]


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package above it
        return False


def _program(settings: Settings, bundle: Bundle) -> Program:
    deployment = settings.deployment
    return Program(
        # The name of a bundle is the hash of what it was made from: nothing is walked, and nothing uploaded twice.
        code=lambda_.Code.from_asset(
            str(bundle.path), asset_hash=bundle.digest, asset_hash_type=cdk.AssetHashType.CUSTOM
        ),
        runtime=getattr(lambda_.Runtime, f"PYTHON_{deployment.python_version.replace('.', '_')}"),
        architecture=lambda_.Architecture.ARM_64 if deployment.architecture == "arm64" else lambda_.Architecture.X86_64,
        log_retention=LOG_RETENTION[deployment.log_retention_days],
        removal=cdk.RemovalPolicy[deployment.removal.upper()],
    )
