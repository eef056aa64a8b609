"""What provisioning makes is what the topology says, and it may be run again."""

import json

import pytest

from tenure.adapters.clients import Clients
from tenure.core.published import topology_of
from tenure.core.topology import Pool, Queue, Topology
from tenure.local.provision import provision

TOPOLOGY = Topology(
    app="shop",
    environment="dev",
    queues=(
        Queue(name="media", pool="quick", tiers=("high", "normal")),
        Queue(name="ledger", pool="careful", ordered=True, receive_count_max=500, message_bytes_max=2048),
    ),
    pools=(Pool(name="quick", longest_runtime_seconds=100), Pool(name="careful", kind="fargate")),
)


@pytest.fixture(scope="module")
def deployed(clients: Clients) -> Topology:
    provision(TOPOLOGY, clients)
    return provision(TOPOLOGY, clients)  # twice: what is there is left as it is


def _attributes(clients: Clients, url: str) -> dict[str, str]:
    found: dict[str, str] = clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return found


def test_every_tier_has_its_queue_and_a_dlq_of_its_kind(deployed: Topology, clients: Clients) -> None:
    """Names, FIFO, visibility and redrive are the topology's, for the queue and for its DLQ."""
    for tier in deployed.tiers():
        queue, dead = _attributes(clients, tier.url), _attributes(clients, tier.dead_url)
        assert queue["QueueArn"].endswith(f":{tier.name}")
        assert dead["QueueArn"].endswith(f":{tier.dead_name}")
        assert [found.get("FifoQueue", "false") for found in (queue, dead)] == [str(tier.ordered).lower()] * 2
        assert int(queue["VisibilityTimeout"]) == TOPOLOGY.visibility_seconds(tier.queue)
        if tier.queue == "ledger":  # the other's is SQS's own maximum, which the emulator puts lower than AWS does
            assert int(queue["MaximumMessageSize"]) == TOPOLOGY.queue("ledger").message_bytes_max
        assert json.loads(queue["RedrivePolicy"]) == {
            "deadLetterTargetArn": dead["QueueArn"],
            "maxReceiveCount": TOPOLOGY.queue(tier.queue).receive_count_max,
        }
    assert len(clients.sqs.list_queues(QueueNamePrefix="shop-dev-")["QueueUrls"]) == 6


def test_what_is_published_reads_back_as_the_same_topology(deployed: Topology, clients: Clients) -> None:
    """Producers and workers find the embedded stack the way they find a deployed one."""
    found = clients.ssm.get_parameters_by_path(Path="/tenure/shop/dev", Recursive=True)["Parameters"]
    read = topology_of("shop", "dev", {parameter["Name"]: parameter["Value"] for parameter in found})
    assert read.urls == deployed.urls
    assert read.table_name == deployed.table_name
    assert read.bucket_name == deployed.bucket_name


def test_the_table_has_its_indexes_and_time_to_live(deployed: Topology, clients: Clients) -> None:
    """The stores of the adapters run on it as it is."""
    table = clients.dynamodb.describe_table(TableName=deployed.table)["Table"]
    assert {index["IndexName"] for index in table["GlobalSecondaryIndexes"]} == {"due", "dead"}
    ttl = clients.dynamodb.describe_time_to_live(TableName=deployed.table)["TimeToLiveDescription"]
    assert (ttl["TimeToLiveStatus"], ttl["AttributeName"]) == ("ENABLED", "ttl")
