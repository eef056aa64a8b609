"""Puts a producer together: the SDK's clients, the adapters, and the Client that uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from tenure import config
from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock, SystemEntropy
from tenure.adapters.dynamodb import DynamoStore
from tenure.adapters.payloads import Payloads
from tenure.adapters.sqs import SqsQueue
from tenure.client import Client
from tenure.core import published
from tenure.core.errors import InvalidTopology, ServiceError
from tenure.core.submission import TaskFacts
from tenure.core.topology import Tier, Topology
from tenure.ports import Clock, TaskQueue, Telemetry
from tenure.rows import Rows
from tenure.telemetry import LogTelemetry

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient


def connect(app: str, *, environment: str | None = None, clients: Clients | None = None) -> Client:
    """A client for the app `app` in an environment.

    Where TENURE_TOPOLOGY tells of this very app and environment (in a worker, say), it is taken and nothing is read;
    else what the deployment published is read from SSM: one call for each ten queues.

    clients: other SDK clients than those that the SDK's own configuration leads to.

    Raises UsageError where nothing names the environment, InvalidTopology if nothing is deployed there, and
    ServiceError if it could not be read.
    """
    chosen = config.producer_config(environment)
    at = clients or Clients(SystemClock().now_ms)
    if chosen.topology is not None and chosen.topology.app == app:
        return client_of(chosen.topology, at, {})
    topology, tasks = read_published(app, chosen.environment, at.ssm)
    return client_of(topology, at, tasks)


def client_of(
    topology: Topology,
    clients: Clients,
    tasks: Mapping[str, TaskFacts],
    *,
    clock: Clock | None = None,
    telemetry: Telemetry | None = None,
) -> Client:
    """A Client on AWS (or an emulator of it), for a topology as deployed."""
    time = clock or SystemClock(clients.server_time.offset_ms)
    store = DynamoStore(clients.dynamodb, topology.table_name, time)
    bucket = topology.bucket_name
    return Client(
        app_name=topology.app,
        topology=topology,
        rows=Rows(store),
        payloads=Payloads(store, clients.s3 if bucket else None, bucket),
        queues=queues_of(clients, time),
        clock=time,
        entropy=SystemEntropy(),
        telemetry=telemetry or LogTelemetry(context={"app": topology.app, "environment": topology.environment}),
        tasks=tasks,
    )


def queues_of(clients: Clients, clock: Clock) -> Callable[[Tier], TaskQueue]:
    """How a tier's SQS queue is reached. The queue raises InvalidTopology for a tier that is not deployed."""

    def queue(tier: Tier) -> TaskQueue:
        if not tier.url:
            raise InvalidTopology(
                f"the queue {tier.name} has no URL in what was published: it is declared, but not deployed. Deploy it."
            )
        return SqsQueue(clients.sqs, tier.url, tier.name, tier.ordered, clock)

    return queue


def read_published(app: str, environment: str, ssm: SSMClient) -> tuple[Topology, dict[str, TaskFacts]]:
    """What a deployment has published: its topology and its tasks. Raises InvalidTopology, ServiceError."""
    path = published.path(app, environment)
    try:
        pages = ssm.get_paginator("get_parameters_by_path").paginate(Path=path, Recursive=True)
        values = {each["Name"]: each["Value"] for page in pages for each in page["Parameters"]}
    except (BotoCoreError, ClientError) as error:
        raise ServiceError(
            f"what is published under {path} could not be read: {error}. It needs ssm:GetParametersByPath there."
        ) from error
    return published.topology_of(app, environment, values), published.tasks_of(app, environment, values)
