"""Makes in the emulator what a deployment makes on AWS, from the same topology: queues with their DLQs, the table,
the bucket, the published parameters.

Idempotent: what is there already is left as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tenure.adapters import items
from tenure.adapters.clients import Clients
from tenure.core import limits, published
from tenure.core.submission import TaskFacts
from tenure.core.topology import Queue, Tier, Topology


def provision(topology: Topology, clients: Clients, tasks: Iterable[TaskFacts] = ()) -> Topology:
    """The topology as deployed: its queues with their URLs, its table, its bucket. Raises ClientError."""
    urls = {f"{tier.queue}/{tier.tier}": _tier(topology, tier, clients.sqs) for tier in topology.tiers()}
    deployed = topology.model_copy(
        update={"urls": urls, "table": topology.table_name, "bucket": f"{topology.app}-{topology.environment}-payloads"}
    )
    _table(deployed.table, clients.dynamodb)
    clients.s3.create_bucket(Bucket=deployed.bucket)
    for name, value in published.parameters(deployed, tasks).items():
        clients.ssm.put_parameter(Name=name, Value=value, Type="String", Overwrite=True)
    return deployed


def _tier(topology: Topology, tier: Tier, sqs: Any) -> tuple[str, str]:
    """(queue URL, DLQ URL) of one tier, made where they are missing."""
    kind = {"FifoQueue": "true", "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    fifo = kind if tier.ordered else {}
    dead_url: str = sqs.create_queue(QueueName=tier.dead_name, Attributes=fifo)["QueueUrl"]
    dead = sqs.get_queue_attributes(QueueUrl=dead_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    # No retention: moto never expires a message, but a receive that meets one past its retention answers nothing.
    attributes = fifo | {
        "VisibilityTimeout": str(topology.visibility_seconds(tier.queue)),
        "RedrivePolicy": _redrive(topology.queue(tier.queue), dead),
    }
    bytes_max = topology.queue(tier.queue).message_bytes_max
    if bytes_max < limits.SQS_MESSAGE_BYTES_MAX:
        attributes["MaximumMessageSize"] = str(bytes_max)
    url: str = sqs.create_queue(QueueName=tier.name, Attributes=attributes)["QueueUrl"]
    return url, dead_url


def _redrive(queue: Queue, dead_arn: str) -> str:
    return json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": queue.receive_count_max})


def _table(name: str, dynamodb: Any) -> None:
    try:
        dynamodb.create_table(**items.table_definition(name))
    except dynamodb.exceptions.ResourceInUseException:
        return
    dynamodb.update_time_to_live(**items.time_to_live(name))
