"""A worker put together against an emulator, for either runtime."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from moto import mock_aws

import tenure
from tenure.adapters.clients import Clients
from tenure.adapters.dynamodb import DynamoStore
from tenure.config import WorkerConfig, worker_config
from tenure.core.errors import InvalidTopology, UsageError
from tenure.core.task import State
from tenure.core.topology import Pool, Queue, Topology
from tenure.local import atomic_moto
from tenure.maintenance.pause import Pause, set_pause
from tenure.wiring.apps import load_app
from tenure.wiring.poller import poller_of
from tenure.wiring.producer import client_of
from tenure.wiring.worker import lambda_handler, worker_of
from tests.support.deployed import Deployed

app = tenure.App("wired")
ran: list[int] = []


@app.task(queue="work")
def work(number: int) -> int:
    ran.append(number)
    return number


@app.task(queue="work")
def parent(number: int) -> str:
    """Submits another: inside a worker the App is connected."""
    return work.submit(number + 1).id


@app.task(queue="steady")
def long(number: int) -> int:
    ran.append(number)
    return number


TOPOLOGY = Topology(
    app="wired",
    environment="test",
    queues=(Queue(name="work", pool="quick", tiers=("high", "normal")), Queue(name="steady", pool="long")),
    pools=(Pool(name="quick", threads=2), Pool(name="long", kind="fargate", threads=3), Pool(name="bare")),
)


@pytest.fixture
def deployed() -> Iterator[Deployed]:
    ran.clear()
    with mock_aws():
        yield Deployed(TOPOLOGY)


def config(deployed: Deployed, pool: str = "quick", **changes: str) -> WorkerConfig:
    return worker_config(deployed.variables(f"{__name__}:app", pool) | changes)


def producer(deployed: Deployed) -> None:
    app.connect(client=client_of(deployed.topology, deployed.aws, {}))


def run(deployed: Deployed, handler: Any, tier: str = "normal") -> dict[str, Any]:
    at = deployed.topology.tier("work", tier)
    event = deployed.event(at)
    answer: dict[str, Any] = handler(event, SimpleNamespace(get_remaining_time_in_millis=lambda: 60_000))
    deployed.delete_done(at, event, answer)
    return answer


def test_a_function_runs_what_was_submitted_on_every_tier_of_its_queue(deployed: Deployed) -> None:
    producer(deployed)
    handles = [work.submit(1), work.options(priority="high").submit(2)]
    handler = lambda_handler(config(deployed))
    for tier in ("high", "normal"):
        assert run(deployed, handler, tier) == {"batchItemFailures": []}
    assert sorted(ran) == [1, 2]
    assert [handle.result() for handle in handles] == [1, 2]


def test_a_handler_may_submit_more(deployed: Deployed) -> None:
    producer(deployed)
    handle = parent.submit(10)
    handler = lambda_handler(config(deployed))
    run(deployed, handler)
    run(deployed, handler)
    assert ran == [11]
    assert handle.status().state is State.COMPLETED


def test_a_paused_queue_is_not_run(deployed: Deployed) -> None:
    """The worker reads the pauses that operators write."""
    producer(deployed)
    work.submit(1)
    worker = worker_of(config(deployed))
    store = DynamoStore(deployed.aws.dynamodb, deployed.topology.table_name, worker.clock)
    set_pause(store, worker.entropy, Pause("work", True, "somebody", 1, "a test"))
    answer = run(deployed, lambda_handler(config(deployed)))
    assert len(answer["batchItemFailures"]) == 1
    assert ran == []


def test_queues_deployed_under_other_names_are_found_by_their_address(deployed: Deployed) -> None:
    """CloudFormation may choose the SQS names; records bear those, not the conventional ones."""
    url = deployed.aws.sqs.create_queue(QueueName="Stack-Work-8FJ2", Attributes={"VisibilityTimeout": "60"})["QueueUrl"]
    urls = dict(deployed.topology.urls)
    urls["work/normal"] = (url, urls["work/normal"][1])
    deployed.topology = deployed.topology.model_copy(update={"urls": urls})
    producer(deployed)
    work.submit(5)
    assert run(deployed, lambda_handler(config(deployed))) == {"batchItemFailures": []}
    assert ran == [5]


def test_without_a_topology_of_its_own_a_worker_reads_what_is_published(deployed: Deployed) -> None:
    producer(deployed)
    work.submit(7)
    variables = deployed.variables(f"{__name__}:app", "quick")
    del variables["TENURE_TOPOLOGY"]
    assert run(deployed, lambda_handler(worker_config(variables))) == {"batchItemFailures": []}
    assert ran == [7]


def test_a_poller_serves_its_pool_s_queues_in_order_of_preference(deployed: Deployed) -> None:
    poller = poller_of(worker_of(config(deployed, "long")))
    assert [receiver.name for receiver in poller._receivers] == [deployed.topology.tier("steady").name]
    both = poller_of(worker_of(config(deployed, "quick")))
    assert [receiver.name for receiver in both._receivers] == [
        deployed.topology.tier("work", tier).name for tier in ("high", "normal")
    ]


def test_a_poller_runs_and_drains(deployed: Deployed) -> None:
    """On real threads: three tasks, then the end. Its long poll is cut short, since nobody else would wake it."""
    atomic_moto.install()
    atomic_moto.HURRY.clear()
    producer(deployed)
    handles = [long.submit(n) for n in range(3)]
    worker = worker_of(config(deployed, "long"))
    poller = poller_of(worker)
    codes: list[int] = []
    thread = worker.threads.start("poller", lambda: codes.append(poller.run()))
    assert [handle.result(timeout="60s") for handle in handles] == [0, 1, 2]
    poller.drain()
    atomic_moto.HURRY.set()
    assert thread.join(60)
    atomic_moto.HURRY.clear()
    assert codes == [0]


def test_the_first_client_is_the_worker_s_own_and_the_next_one_is_new(deployed: Deployed) -> None:
    """After failures a receiver asks for its inbox again: new connections, freshly read credentials."""
    made: list[Clients] = []

    def new_clients() -> Clients:
        made.append(Clients(lambda: 0))
        return made[-1]

    poller = poller_of(worker_of(config(deployed, "long"), new_clients=new_clients))
    assert len(made) == 1
    first = poller._receivers[0]._flow.inbox
    second = poller._receivers[0]._flow.connect()
    assert len(made) == 2
    assert first.queue is not second.queue


def test_a_pool_without_a_deployed_queue_is_told_at_the_start(deployed: Deployed) -> None:
    with pytest.raises(InvalidTopology, match="no deployed queue"):
        lambda_handler(config(deployed, "bare"))


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("nowhere.at.all:app", "no module 'nowhere'"),
        ("tests.nowhere:app", "no module 'tests.nowhere'"),
        (f"{__name__}:nothing", "no tenure.App called 'nothing'"),
        (f"{__name__}:ran", "no tenure.App called 'ran'"),
    ],
)
def test_an_app_that_is_not_there_is_told_by_name(where: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        load_app(where)


def test_an_import_that_fails_inside_the_user_s_module_is_shown_as_it_is(tmp_path, monkeypatch) -> None:
    """A package that the bundle lacks must not read as a missing app."""
    (tmp_path / "users_app.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        load_app("users_app:app")
