"""A producer put together against an emulator: connect by app or by name, submit, and be told what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from botocore.stub import Stubber
from moto import mock_aws

import tenure
from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock
from tenure.core import published
from tenure.core.errors import InvalidTopology, ServiceError, SubmitRefused
from tenure.core.machine import REFUSED
from tenure.core.task import State
from tenure.core.topology import Topology
from tenure.local.provision import provision
from tenure.wiring.producer import connect
from tests.support.shop import topology

app = tenure.App("shop")


@app.task(queue="media")
def price(amount: Decimal, note: str = "") -> Decimal:
    return amount


@app.task(queue="ledger", ordered_by="account")
def post(account: str, amount: int) -> None: ...


@pytest.fixture
def deployed() -> Iterator[Topology]:
    """The shop's environment, as its deployment leaves it; moto within this process."""
    with mock_aws():
        clients = Clients(SystemClock().now_ms)
        made = provision(topology(), clients)
        facts = [definition.facts() for definition in app.tasks.values()]
        for name, value in published.parameters(made, facts).items():
            clients.ssm.put_parameter(Name=name, Value=value, Type="String", Overwrite=True)
        yield made


def bodies(made: Topology, queue: str) -> list[dict[str, Any]]:
    url = made.tier(queue).url
    found = Clients(SystemClock().now_ms).sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    return [json.loads(message["Body"]) for message in found.get("Messages", [])]


def test_an_app_connects_and_submits(deployed: Topology) -> None:
    """From what is published alone: the row stands in the table, the message in the queue."""
    app.connect(environment="test")
    handle = price.options(tenant="r7").submit(Decimal("1.10"))
    assert handle.status().state is State.QUEUED
    [body] = bodies(deployed, "media")
    assert (body["id"], body["task"], body["payload"]) == (handle.id, "price", {"amount": "1.10"})


def test_large_payloads_reach_the_bucket(deployed: Topology) -> None:
    """Through S3, and the message names the place."""
    app.connect(environment="test")
    handle = price.submit(Decimal(1), note="n" * 300_000)
    [body] = bodies(deployed, "media")
    assert body["payload_ref"]["kind"] == "object"
    listed = Clients(SystemClock().now_ms).s3.list_objects_v2(Bucket=deployed.bucket_name)
    assert handle.id in listed["Contents"][0]["Key"]


def test_a_producer_without_the_code_submits_by_name(deployed: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published of a task decides its queue, its order and its arguments; the environment may be a variable."""
    monkeypatch.setenv("TENURE_ENVIRONMENT", "test")
    client = tenure.connect("shop")
    client.submit("post", {"account": "a7", "amount": 5})
    [body] = bodies(deployed, "ledger")
    assert (body["key"], body["task"]) == ("a7", "post")
    with pytest.raises(tenure.InvalidPayload, match="no parameter 'acct'"):
        client.submit("post", {"acct": "a7", "amount": 5})


def test_many_are_submitted_through_the_real_adapters(deployed: Topology) -> None:
    """A batch of a hundred and more, each with its row and message."""
    app.connect(environment="test")
    report = price.submit_many(price.bind(Decimal(n)) for n in range(123))
    assert report.counts.submitted == 123
    attributes = Clients(SystemClock().now_ms).sqs.get_queue_attributes(
        QueueUrl=deployed.tier("media").url, AttributeNames=["ApproximateNumberOfMessages"]
    )
    assert attributes["Attributes"]["ApproximateNumberOfMessages"] == "123"


def test_a_function_reads_its_own_slice_and_no_parameter(deployed: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the topology in its environment, nothing is read before the first submit."""
    for name in published.parameters(deployed):
        Clients(SystemClock().now_ms).ssm.delete_parameter(Name=name)
    monkeypatch.setenv("TENURE_ENVIRONMENT", "test")
    monkeypatch.setenv("TENURE_TOPOLOGY", deployed.model_dump_json(exclude_defaults=True))
    app.connect()
    assert price.submit(Decimal(1)).status().state is State.QUEUED


def test_an_environment_that_is_not_there_is_told(deployed: Topology) -> None:
    """With its path, and what may be wrong."""
    with pytest.raises(InvalidTopology, match="nothing is published at /tenure/shop/prod"):
        app.connect(environment="prod")
    with pytest.raises(InvalidTopology, match="nothing is published at /tenure/shup/test"):
        tenure.connect("shup", environment="test")


def test_a_queue_that_is_not_deployed_is_told_before_anything_exists(deployed: Topology) -> None:
    """A topology with a queue and no URL for it: nothing is written for a task that could not be sent."""
    client = connect("shop", environment="test")
    bare = client.topology.model_copy(update={"urls": {}})
    with pytest.raises(InvalidTopology, match="declared, but not deployed"):
        replace(client, topology=bare).submit("price", {"amount": "1"})
    assert Clients(SystemClock().now_ms).dynamodb.scan(TableName=deployed.table_name)["Count"] == 0


def test_a_queue_that_was_deleted_refuses_for_certain(deployed: Topology) -> None:
    """What SQS answers for a queue that is gone is a definite refusal: the row is taken back, and the submit raises."""
    app.connect(environment="test")
    Clients(SystemClock().now_ms).sqs.delete_queue(QueueUrl=deployed.tier("media").url)
    with pytest.raises(SubmitRefused) as caught:
        price.submit(Decimal(1))
    status = price.handle(caught.value.task_id).status()
    assert (status.state, status.reason) == (State.CANCELLED, REFUSED)


def test_parameters_that_cannot_be_read_are_told() -> None:
    """Without the right to: what was asked for, and the permission that it needs."""
    clients = Clients(SystemClock().now_ms)
    stub = Stubber(clients.ssm)
    stub.add_client_error("get_parameters_by_path", "AccessDeniedException")
    with stub, pytest.raises(ServiceError, match="ssm:GetParametersByPath"):
        connect("shop", environment="test", clients=clients)
