"""Puts a producer together: the SDK's clients, the adapters, and the Client that uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from tenure import config
from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock, SystemEntropy
from tenure.adapters.dynamodb import DynamoStore
from tenure.adapters.payloads import Payloads
from tenure.adapters.sdk_errors import explained
from tenure.adapters.sqs import SqsQueue
from tenure.client import Client
from tenure.core import published
from tenure.core.errors import InvalidTopology, ServiceError
from tenure.core.submission import TaskFacts
from tenure.core.topology import Tier, Topology
from tenure.ports import Clock, TaskQueue, Telemetry
from tenure.rows import Rows
from tenure.running import CREDENTIALS, PATIENCE_SECONDS, REGION, Running, find
from tenure.telemetry import LogTelemetry

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient


def connect(app: str, *, environment: str | None = None, clients: Clients | None = None) -> Client:
    """A client for the app `app` in an environment.

    Where TENURE_TOPOLOGY tells of this very app and environment (in a worker, say), it is taken and nothing is read;
    else what the deployment published is read from SSM: one call for each ten queues.

    clients: other SDK clients than those of the embedded stack, if `tenure dev` runs this environment in the current
             directory, and else those that the SDK's own configuration leads to (AWS_ENDPOINT_URL, if it is set, goes
             before the embedded stack).

    Raises UsageError where nothing names the environment, InvalidTopology if nothing is deployed there, and
    ServiceError if it could not be read: no region, no credentials, no answer, no permission.
    """
    chosen = config.producer_config(environment)
    own = chosen.topology if chosen.topology is not None and chosen.topology.app == app else None
    try:
        at = clients or _clients(chosen.environment, told=own is not None)
        if own is not None:
            return client_of(own, at, {})
        topology, tasks = read_published(app, chosen.environment, at.ssm)
        return client_of(topology, at, tasks)
    except BotoCoreError as error:  # making a client looks for a region and a profile
        raise ServiceError(f"app {app!r} is not connected to {chosen.environment!r}. {explained(error)}") from error


def embedded_stack(directory: Path, environment: str) -> Running | None:
    """The embedded stack that producers and commands in this directory mean by this environment's name: the one that
    `tenure dev` runs there, unless AWS_ENDPOINT_URL says where to go."""
    return None if config.endpoint_url() else find(directory, environment)


def embedded_clients(stack: Running) -> Clients:
    """The SDK's clients, of an embedded stack that runs in another process."""
    return Clients(
        SystemClock().now_ms,
        region=REGION,
        endpoint_url=stack.endpoint_url,
        credentials=CREDENTIALS,
        patience_seconds=PATIENCE_SECONDS,
    )


def _clients(environment: str, *, told: bool) -> Clients:
    """told: what this process belongs to is in its environment variables, so no note is looked for."""
    stack = None if told else embedded_stack(Path.cwd(), environment)
    return embedded_clients(stack) if stack else Clients(SystemClock().now_ms)


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
    except BotoCoreError as error:
        raise ServiceError(f"what is published under {path} could not be read. {explained(error)}") from error
    except ClientError as error:
        raise ServiceError(
            f"what is published under {path} could not be read: {error}. It needs ssm:GetParametersByPath there."
        ) from error
    return published.topology_of(app, environment, values), published.tasks_of(app, environment, values)
