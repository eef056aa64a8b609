"""What a deployment publishes is read back as it was, and fits into a parameter."""

from __future__ import annotations

import json

import pytest

from tenure.application import App
from tenure.core import limits, published
from tenure.core.errors import InvalidTopology
from tenure.core.submission import TaskFacts
from tests.support.shop import topology

DEPLOYED = topology().model_copy(
    update={
        "urls": {
            f"{tier.queue}/{tier.tier}": (f"https://q/{tier.name}", f"https://q/{tier.dead_name}")
            for tier in topology().tiers()
        },
        "table": "the-table",
        "bucket": "the-bucket",
    }
)


def facts() -> list[TaskFacts]:
    """Tasks of every kind, as an App declares them."""
    app = App("shop")

    @app.task(queue="media", version=2)
    def resize(photo: str, width: int = 100) -> None: ...

    @app.task(queue="ledger", ordered_by="account")
    def post(account: str, amount: int) -> None: ...

    @app.task(queue="media")
    def plain() -> None: ...

    return [definition.facts() for definition in app.tasks.values()]


def test_what_is_published_is_read_back() -> None:
    """Topology and tasks, by way of the parameters' texts."""
    values = published.parameters(DEPLOYED, facts())
    read = published.topology_of("shop", "test", values)
    assert {queue.name: queue for queue in read.queues} == {queue.name: queue for queue in DEPLOYED.queues}
    assert (read.table, read.bucket) == ("the-table", "the-bucket")
    assert read.tier("ledger").url == "https://q/shop-test-ledger-normal.fifo"
    assert published.tasks_of("shop", "test", values) == {task.name: task for task in facts()}


def test_what_was_published_without_tasks_is_read_too() -> None:
    """By a deployment that could not import the App."""
    assert published.tasks_of("shop", "test", published.parameters(DEPLOYED)) == {}


def many(count: int, arguments: int) -> list[TaskFacts]:
    names = tuple(f"argument_number_{n}" for n in range(arguments))
    return [TaskFacts(name=f"task_{n}", queue="media", required=names) for n in range(count)]


def test_many_tasks_on_a_queue_fit_without_their_arguments() -> None:
    """Rather than fail the deployment, the names of arguments are left out, and are then unknown, not empty."""
    values = published.parameters(DEPLOYED, many(40, 10))
    assert all(len(value.encode()) <= limits.SSM_PARAMETER_BYTES_MAX for value in values.values())
    read = published.tasks_of("shop", "test", values)
    assert len(read) == 40
    assert {task.required for task in read.values()} == {None}


def test_what_cannot_fit_is_refused_with_its_size() -> None:
    """Before a deployment begins."""
    with pytest.raises(InvalidTopology, match=r"queue 'media': .* bytes; a parameter holds 4,096.*400 tasks"):
        published.parameters(DEPLOYED, many(400, 0))


def test_a_newer_format_is_not_guessed_at() -> None:
    """A producer that is older than its deployment says so."""
    values = published.parameters(DEPLOYED, facts())
    name = "/tenure/shop/test/queues/media"
    values[name] = json.dumps(json.loads(values[name]) | {"tenure": 2})
    with pytest.raises(InvalidTopology, match="Upgrade tenure here"):
        published.tasks_of("shop", "test", values)
