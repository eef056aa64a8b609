"""All that keeps tasks: the queues, the table, the bucket, the key, and what is published of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.constructs import roles
from infra.constructs.payload_bucket import PayloadBucket
from infra.constructs.published_topology import PublishedTopology
from infra.constructs.state_table import StateTable
from infra.constructs.task_queue import TaskQueue
from infra.environment import Settings
from tenure.core.submission import TaskFacts
from tenure.core.topology import Topology


class Stores(Construct):
    """Queues, table and bucket of one environment. What is deployed of the topology is `deployed`."""

    def __init__(
        self, scope: Construct, construct_id: str, *, settings: Settings, tasks: Iterable[TaskFacts] = ()
    ) -> None:
        """`tasks`: what is published of the App's tasks, so that producers without its code can check a payload."""
        super().__init__(scope, construct_id)
        self.topology = settings.topology
        removal = cdk.RemovalPolicy[settings.deployment.removal.upper()]
        self.key = self._own_key(removal) if settings.deployment.customer_key else None
        self.table = StateTable(self, "State", removal=removal, key=self.key)
        self.bucket = PayloadBucket(self, "Payloads", removal=removal, key=self.key)
        self.tiers = [
            TaskQueue(
                self,
                f"{tier.queue}-{tier.tier}" + ("-ordered" if tier.ordered else ""),
                queue=self.topology.queue(tier.queue),
                tier=tier,
                visibility_seconds=self.topology.visibility_seconds(tier.queue),
                removal=removal,
                key=self.key,
            )
            for tier in self.topology.tiers()
        ]
        self.published = PublishedTopology(self, "Published", topology=self.deployed, tasks=tasks)

    @cached_property
    def deployed(self) -> Topology:
        """The topology with its queues' URLs, its table and its bucket: tokens, until CloudFormation fills them."""
        urls = {tier.label: (tier.main.queue_url, tier.dead.queue_url) for tier in self.tiers}
        names = {"table": self.table.table.table_name, "bucket": self.bucket.bucket.bucket_name}
        return self.topology.model_copy(update={"urls": urls, **names})

    def tiers_of(self, queues: Iterable[str] | None) -> list[TaskQueue]:
        """The SQS queues of these logical queues; of all for None."""
        wanted = None if queues is None else set(queues)
        return [tier for tier in self.tiers if wanted is None or tier.queue_name in wanted]

    def grant_submit(self, grantee: iam.IGrantable, *queues: str) -> None:
        """Let `grantee` submit to these queues (none named: to all), and follow and cancel tasks."""
        self._grant(grantee, roles.producer(self, queues or None))

    def grant_operate_read_only(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` look at everything."""
        self._grant(grantee, roles.operator_reads(self))

    def grant_operate(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` look at everything, and cancel, replay, discard, pause and reconcile."""
        self._grant(grantee, [*roles.operator_reads(self), *roles.operator_acts(self)])

    def _grant(self, grantee: iam.IGrantable, statements: roles.Statements) -> None:
        for statement in statements:
            grantee.grant_principal.add_to_principal_policy(statement)

    def _own_key(self, removal: cdk.RemovalPolicy) -> kms.Key:
        key = kms.Key(
            self,
            "Key",
            enable_key_rotation=True,
            removal_policy=removal,
            description=f"tenure: tasks of {self.topology.app} in {self.topology.environment}",
        )
        # The topic of the alarms is encrypted with it: without this they would go off and nobody would be told.
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsPublishToTheEncryptedTopic",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=["*"],
            )
        )
        return key
