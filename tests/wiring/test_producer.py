"""A producer put together against an emulator: connect by app or by name, submit, and be told what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber
from moto import mock_aws

import tenure
from tenure import running
from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock
from tenure.cli.connect import clients_for
from tenure.cli.session import Opener, Session
from tenure.core import published
from tenure.core.errors import InvalidTopology, ServiceError, SubmitRefused
from tenure.core.machine import REFUSED
from tenure.core.task import State
from tenure.core.topology import Topology
from tenure.local.provision import provision
from tenure.local.stack import EmbeddedStack, StackOptions
from tenure.wiring.producer import connect, embedded_stack
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


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that is told nothing of AWS: no region, no credentials, no endpoint; in a directory of its own."""
    for name in ("REGION", "DEFAULT_REGION", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "ENDPOINT_URL", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ended_pid() -> int:
    """A process's that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_producer_finds_the_embedded_stack_of_its_directory(elsewhere: Path) -> None:
    """By the note that `tenure dev` leaves: nothing of AWS is set up, and the submit arrives in that stack."""
    stack = EmbeddedStack(topology(), "shop:app", StackOptions(log_directory=elsewhere, workers=False))
    with stack:
        running.leave(elsewhere, running.Running(stack.emulator.url, os.getpid(), "shop", "test"))
        app.connect(environment="test")
        handle = price.submit(Decimal("1.10"))
        assert [row.id for row in stack.snapshot().rows] == [handle.id]
        assert tenure.connect("shop", environment="test").topology.urls == stack.topology.urls


def test_a_note_of_another_environment_or_of_a_dead_process_is_passed_over(elsewhere: Path) -> None:
    """Only a stack that runs, under the name asked for, is connected to: `prod` never means a stack on this machine."""
    running.leave(elsewhere, running.Running("http://127.0.0.1:1", ended_pid(), "shop", "test"))
    running.leave(elsewhere, running.Running("http://127.0.0.1:1", os.getpid(), "shop", "dev"))
    for environment in ("test", "prod"):
        with pytest.raises(ServiceError, match="AWS region: none is set"):
            tenure.connect("shop", environment=environment)


def test_an_endpoint_that_is_set_goes_before_the_note(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For producers and for commands alike: who says where to go is not sent elsewhere because a stack runs here."""
    running.leave(elsewhere, running.Running("http://127.0.0.1:1", os.getpid(), "shop", "test"))
    here = Session("test", None, wants_json=False, opener=Opener(), directory=elsewhere)
    assert clients_for(here)[1] == "the embedded stack at http://127.0.0.1:1"
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:2")
    clients, where = clients_for(here)
    assert where == "http://127.0.0.1:2" == clients.sqs.meta.endpoint_url
    assert embedded_stack(elsewhere, "test") is None


def test_an_sdk_that_is_not_set_up_is_told_in_tenures_words(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No region, no credentials, nobody at the endpoint, no such profile: ServiceError with what to do, never the SDK's
    own."""
    with pytest.raises(ServiceError, match=r"AWS region: none is set\. Set AWS_REGION.*`tenure dev`"):
        app.connect(environment="test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(ServiceError, match=r"AWS credentials: .*aws sso login"):
        app.connect(environment="test")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nobody")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(ServiceError, match="Nothing answers there"):
        app.connect(environment="test")
    monkeypatch.setenv("AWS_PROFILE", "nobodys")
    with pytest.raises(ServiceError, match="nobodys"):
        app.connect(environment="test")
