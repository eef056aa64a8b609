"""The table that decides who owns a task and what became of it."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from tenure.adapters.items import table_definition, time_to_live


class StateTable(Construct):
    """The state table: paid per request, restorable to any second of the last 35 days, with time to live.

    Its keys and indexes are read from the adapter that uses them, so that the two cannot disagree.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, removal: cdk.RemovalPolicy, key: kms.IKey | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        definition = table_definition("unnamed")
        kinds = {each["AttributeName"]: each["AttributeType"] for each in definition["AttributeDefinitions"]}
        partition, sort = _keys(definition["KeySchema"], kinds)
        # Table rather than TableV2: the latter cannot use a key of one's own in a stack that is bound to no region.
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=partition,
            sort_key=sort,
            billing_mode=dynamodb.BillingMode[definition["BillingMode"]],
            time_to_live_attribute=time_to_live("unnamed")["TimeToLiveSpecification"]["AttributeName"],
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if key else dynamodb.TableEncryption.DEFAULT,
            encryption_key=key,
            removal_policy=removal,
            deletion_protection=removal != cdk.RemovalPolicy.DESTROY,
        )
        for index in definition["GlobalSecondaryIndexes"]:
            partition, sort = _keys(index["KeySchema"], kinds)
            self.table.add_global_secondary_index(
                index_name=index["IndexName"],
                partition_key=partition,
                sort_key=sort,
                projection_type=dynamodb.ProjectionType[index["Projection"]["ProjectionType"]],
            )

    def index_arn(self, name: str) -> str:
        """The ARN of one index. Grants name single indexes: a star there would cover those that come later."""
        return f"{self.table.table_arn}/index/{name}"

    def metric_throttles(self) -> cloudwatch.Metric:
        """Reads and writes that DynamoDB put off, a minute's sum. The SDK tries again; a worker just gets slower."""
        return self.table.metric("ThrottledRequests", statistic="Sum", period=cdk.Duration.minutes(1))

    def metric_read_throttles(self) -> cloudwatch.Metric:
        """Read requests that exceeded what a partition or the table takes, a minute's sum."""
        return self.table.metric("ReadThrottleEvents", statistic="Sum", period=cdk.Duration.minutes(1))

    def metric_write_throttles(self) -> cloudwatch.Metric:
        """Write requests that exceeded what a partition or the table takes, a minute's sum."""
        return self.table.metric("WriteThrottleEvents", statistic="Sum", period=cdk.Duration.minutes(1))


def _keys(schema: list[dict[str, Any]], kinds: dict[str, str]) -> tuple[dynamodb.Attribute, dynamodb.Attribute]:
    """(partition, sort) of a CreateTable key schema."""
    types = {"S": dynamodb.AttributeType.STRING, "N": dynamodb.AttributeType.NUMBER}
    found = {each["KeyType"]: each["AttributeName"] for each in schema}
    partition, sort = (
        dynamodb.Attribute(name=found[kind], type=types[kinds[found[kind]]]) for kind in ("HASH", "RANGE")
    )
    return partition, sort
