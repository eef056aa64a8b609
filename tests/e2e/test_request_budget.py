"""What a task costs in requests, counted where they leave the SDK."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from moto import mock_aws

import tenure
from tenure.config import worker_config
from tenure.core.topology import Pool, Queue, Topology
from tenure.wiring.producer import client_of
from tenure.wiring.worker import lambda_handler
from tests.support.deployed import Deployed, counted

TASKS = 50
TABLE_WRITES_MAX = 3
"""A task's, fully tracked: submit, claim, settle."""
SENDS_MAX = 0.1
"""A task's, when ten are submitted at a time."""

app = tenure.App("budget")


@app.task(queue="work")
def add(a: int, b: int) -> int:
    return a + b


@pytest.fixture
def deployed() -> Iterator[Deployed]:
    loggers = [logging.getLogger(name) for name in ("tenure", "tenure.task")]
    before = [(logger, list(logger.handlers), logger.propagate, logger.level) for logger in loggers]
    with mock_aws():
        yield Deployed(
            Topology(
                app="budget",
                environment="test",
                queues=(Queue(name="work", pool="quick"),),
                pools=(Pool(name="quick", batch_size=10),),
            )
        )
    for logger, handlers, propagate, level in before:
        logger.handlers[:] = handlers
        logger.propagate = propagate
        logger.setLevel(level)


def test_a_tracked_task_on_lambda(deployed: Deployed) -> None:
    """Fifty tasks submitted by ten and run in batches of ten: three writes each, five sends in all, no read of a row,
    and nothing else but the reads of whether the queue is paused. Deletes are Lambda's."""
    requests = counted(deployed.clients)
    handler = lambda_handler(
        worker_config(deployed.variables(f"{__name__}:app", "quick")), new_clients=lambda: deployed.clients
    )
    app.connect(client=client_of(deployed.topology, deployed.clients, {}))
    for start in range(0, TASKS, 10):
        assert add.submit_many(add.bind(n, n) for n in range(start, start + 10)).ok
    tier = deployed.topology.tier("work")
    runs = 0
    while (event := deployed.event(tier))["Records"]:
        answer = handler(event, None)
        assert answer == {"batchItemFailures": []}
        deployed.delete_done(tier, event, answer)
        runs += len(event["Records"])
    assert runs == TASKS

    writes = sum(count for name, count in requests.items() if name in ("PutItem", "UpdateItem", "DeleteItem"))
    sends = requests["SendMessage"] + requests["SendMessageBatch"]
    print(f"\n{TASKS} tasks: {dict(requests)}; {writes / TASKS:g} table writes and {sends / TASKS:g} sends a task")
    assert writes <= TABLE_WRITES_MAX * TASKS
    assert sends <= SENDS_MAX * TASKS
    reads = sum(count for name, count in requests.items() if name in ("GetItem", "BatchGetItem", "Query"))
    assert reads <= 2, "one of the queue's pause for each ten seconds"
    assert set(requests) <= {"PutItem", "UpdateItem", "SendMessageBatch", "BatchGetItem", "GetItem"}
