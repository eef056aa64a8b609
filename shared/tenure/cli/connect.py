"""How a command reaches its environment: the embedded stack if one runs here, else AWS as the SDK is configured.

AWS_ENDPOINT_URL goes before the embedded stack where it is set, as it does for producers.
"""

from __future__ import annotations

from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock, SystemEntropy
from tenure.adapters.dynamodb import DynamoStore
from tenure.adapters.sqs import SqsQueue
from tenure.cli.session import Reach, Session
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


def connect(session: Session) -> Reach:
    """Connect as the session says. Raises InvalidTopology where nothing is deployed, ServiceError, UsageError."""
    app = session.app_name  # first: without it nothing below could mean anything
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
