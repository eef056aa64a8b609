"""How a command reaches its environment: the embedded stack if one runs here, else AWS as the SDK is configured.

AWS_ENDPOINT_URL goes before the embedded stack where it is set, as it does for producers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import NoCredentialsError, NoRegionError

from tenure import config, running
from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock, SystemEntropy
from tenure.adapters.dynamodb import DynamoStore
from tenure.adapters.sqs import SqsQueue
from tenure.cli.session import Reach, Session
from tenure.core.errors import ServiceError
from tenure.core.topology import Tier
from tenure.ports import TaskQueue
from tenure.wiring.producer import client_of, embedded_clients, embedded_stack, queues_of, read_published


def clients_for(session: Session) -> tuple[Clients, str]:
    """The SDK's clients, and in words what they lead to."""
    stack = embedded_stack(session.directory, session.environment)
    if stack is None:
        clients = Clients(SystemClock().now_ms)
        endpoint = clients.sqs.meta.endpoint_url
        where = f"AWS {clients.sqs.meta.region_name}" if ".amazonaws." in endpoint else endpoint
        return clients, where
    return embedded_clients(stack), f"the embedded stack at {stack.endpoint_url}"


@contextmanager
def reaching(session: Session) -> Iterator[None]:
    """Where nobody has set up AWS, what is missing is most often the embedded stack: say so first.

    Raises ServiceError in place of the SDK's errors about a region or credentials, unless AWS_ENDPOINT_URL leads
    somewhere.
    """
    try:
        yield
    except (ServiceError, *_NOT_SET_UP) as error:
        cause = error.__cause__ if isinstance(error, ServiceError) else error
        if not isinstance(cause, _NOT_SET_UP) or config.endpoint_url():
            raise
        lacks = "no region" if isinstance(cause, NoRegionError) else "no credentials"
        others = "".join(f" `tenure dev` of environment {name!r} does: add --env {name}." for name in _others(session))
        raise ServiceError(
            f"nothing of tenure runs here as environment {session.environment!r}: start `tenure dev` in this "
            f"directory, or sign in to AWS (the SDK finds {lacks}: `aws sso login`, AWS_PROFILE, AWS_REGION).{others}"
        ) from error


_NOT_SET_UP = (NoRegionError, NoCredentialsError)


def _others(session: Session) -> list[str]:
    """Environments whose embedded stack runs in this directory."""
    notes = sorted((session.directory / running.FOLDER).glob("*.json"))
    return [note.stem for note in notes if running.find(session.directory, note.stem)]


def connect(session: Session) -> Reach:
    """Connect as the session says. Raises InvalidTopology where nothing is deployed, ServiceError, UsageError."""
    app = session.app_name  # first: without it nothing below could mean anything
    with reaching(session):
        clients, where = clients_for(session)
        clock = SystemClock(clients.server_time.offset_ms)
        topology, tasks = read_published(app, session.environment, clients.ssm)
    client = client_of(topology, clients, tasks, clock=clock)
    main = queues_of(clients, clock)

    def dead(tier: Tier) -> TaskQueue:
        return SqsQueue(clients.sqs, tier.dead_url, tier.dead_name, tier.ordered, clock)

    return Reach(
        topology=topology,
        store=DynamoStore(clients.dynamodb, topology.table_name, clock),
        payloads=client.payloads,
        queue=main,
        dead=dead,
        clock=clock,
        entropy=SystemEntropy(),
        telemetry=client.telemetry,
        client=client,
        where=where,
    )
