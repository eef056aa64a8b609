"""An environment as a deployment leaves it, on moto in this process, and what Lambda's poller does with its queues."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock
from tenure.core.topology import Tier, Topology
from tenure.local.provision import provision

ARN = "arn:aws:sqs:us-east-1:123456789012:"


class Deployed:
    """`clients`: those that tenure is given. `aws`: others, for what AWS does by itself."""

    def __init__(self, topology: Topology) -> None:
        self.aws = Clients(SystemClock().now_ms)
        self.clients = Clients(SystemClock().now_ms)
        self.topology = provision(topology, self.aws)

    def variables(self, app: str, pool: str) -> dict[str, str]:
        """A worker's environment variables."""
        return {
            "TENURE_APP": app,
            "TENURE_ENVIRONMENT": self.topology.environment,
            "TENURE_POOL": pool,
            "TENURE_TOPOLOGY": self.topology.model_dump_json(),
        }

    def event(self, tier: Tier, limit: int = 10) -> dict[str, Any]:
        """A batch as Lambda's poller receives and passes it on."""
        answer: Any = self.aws.sqs.receive_message(
            QueueUrl=tier.url,
            MaxNumberOfMessages=limit,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return {
            "Records": [
                {
                    "messageId": message["MessageId"],
                    "receiptHandle": message["ReceiptHandle"],
                    "body": message["Body"],
                    "attributes": message["Attributes"],
                    "messageAttributes": {
                        name: {"dataType": each["DataType"], "stringValue": each.get("StringValue")}
                        for name, each in message.get("MessageAttributes", {}).items()
                    },
                    "eventSource": "aws:sqs",
                    "eventSourceARN": ARN + tier.url.rpartition("/")[2],
                    "awsRegion": "us-east-1",
                }
                for message in answer.get("Messages", [])
            ]
        }

    def delete_done(self, tier: Tier, event: dict[str, Any], answer: dict[str, Any]) -> None:
        """What Lambda deletes: everything that the answer does not list."""
        listed = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
        for record in event["Records"]:
            if record["messageId"] not in listed:
                self.aws.sqs.delete_message(QueueUrl=tier.url, ReceiptHandle=record["receiptHandle"])

    def depth(self, url: str) -> int:
        """Messages in whatever condition."""
        told = self.aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return int(told["ApproximateNumberOfMessages"]) + int(told["ApproximateNumberOfMessagesNotVisible"])


def counted(clients: Clients) -> Counter[str]:
    """Every request that these clients make from now on, retries too, by operation."""
    requests: Counter[str] = Counter()

    def count(operation_name: str, **_: Any) -> None:
        requests[operation_name] += 1

    for client in (clients.dynamodb, clients.sqs, clients.sqs_polls, clients.s3):
        client.meta.events.register("request-created", count)
    return requests
