"""Snapshots of the constructs: the templates they make, one by one, as they were when somebody last looked at them.

python -m tests.infra.snapshots         writes them anew; then look at the difference, that is what they are for
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import assertions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs

from infra.bundle import Bundle
from infra.constructs.lambda_worker import Function, Program
from infra.constructs.network import WorkerNetwork
from infra.constructs.payload_bucket import PayloadBucket
from infra.constructs.people import People
from infra.constructs.published_topology import PublishedTopology
from infra.constructs.state_table import StateTable
from infra.constructs.stores import Stores
from infra.constructs.task_queue import TaskQueue
from infra.constructs.workers import Workers
from infra.environment import Network, Settings, settings_of
from tenure.core.environment import environment_of
from tests.infra.assembly import ROOT, stand_in_bundle

FOLDER = Path(__file__).with_name("snapshots")
CONTENT: dict[str, Any] = {
    "name": "shop",
    "app": "shop.tasks:app",
    "pools": {"quick": {"longest_runtime_seconds": 60}, "slow": {"kind": "fargate", "memory_mb": 1024}},
    "queues": {"mail": {"pool": "quick"}, "books": {"pool": "slow", "ordered": True, "message_bytes_max": 65536}},
    "deploy": {"removal": "retain"},
}


def settings() -> Settings:
    """A small environment."""
    return settings_of(environment_of("test", CONTENT, "test.toml"), "test.toml")


def program(stack: cdk.Stack) -> Program:
    """A program of one line."""
    return Program(
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        runtime=lambda_.Runtime.PYTHON_3_14,
        architecture=lambda_.Architecture.ARM_64,
        log_retention=logs.RetentionDays.ONE_MONTH,
        removal=cdk.RemovalPolicy.RETAIN,
    )


def _queue(name: str) -> Callable[[cdk.Stack], None]:
    def build(stack: cdk.Stack) -> None:
        topology = settings().topology
        TaskQueue(
            stack,
            "Queue",
            queue=topology.queue(name),
            tier=topology.tier(name),
            visibility_seconds=topology.visibility_seconds(name),
            removal=cdk.RemovalPolicy.RETAIN,
        )

    return build


def _function(stack: cdk.Stack) -> None:
    Function(
        stack,
        "Function",
        program=program(stack),
        handler="index.handler",
        statements=[],
        variables={"NAME": "value"},
        timeout_seconds=60,
        memory_mb=512,
        description="tenure: a snapshot",
    )


def _published(stack: cdk.Stack) -> None:
    topology = settings().topology
    urls = {f"{t.queue}/{t.tier}": (f"https://x/{t.name}", f"https://x/{t.dead_name}") for t in topology.tiers()}
    PublishedTopology(stack, "Published", topology=topology.model_copy(update={"urls": urls}))


def _people(stack: cdk.Stack) -> None:
    People(stack, "People", stores=Stores(stack, "Stores", settings=settings()))


def _workers(stack: cdk.Stack) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bundle = Bundle(stand_in_bundle(Path(folder)), "0" * 64)
        stores = Stores(stack, "Stores", settings=settings())
        Workers(stack, "Workers", settings=settings(), stores=stores, bundle=bundle, duties=[])


CASES: Mapping[str, Callable[[cdk.Stack], object]] = {
    "task_queue": _queue("mail"),
    "task_queue_ordered": _queue("books"),
    "state_table": lambda stack: StateTable(stack, "Table", removal=cdk.RemovalPolicy.RETAIN),
    "payload_bucket": lambda stack: PayloadBucket(stack, "Bucket", removal=cdk.RemovalPolicy.RETAIN),
    "published_topology": _published,
    "function": _function,
    "network_public": lambda stack: WorkerNetwork(stack, "Network", network=Network(), key_endpoint=False),
    "network_endpoints": lambda stack: WorkerNetwork(
        stack, "Network", network=Network(kind="endpoints"), key_endpoint=True
    ),
    "network_existing": lambda stack: WorkerNetwork(
        stack,
        "Network",
        network=Network(
            kind="existing",
            vpc_id="vpc-0123456789abcdef0",
            availability_zones=("us-east-1a", "us-east-1b"),
            subnet_ids=("subnet-0123456789abcdef0", "subnet-0123456789abcdef1"),
        ),
        key_endpoint=False,
    ),
    "people": _people,
    "workers": _workers,
}


def template(name: str) -> str:
    """The template of a case, as text that does not change with what is inside of assets."""
    flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    stack = cdk.Stack(cdk.App(context=flags), "Snapshot")
    CASES[name](stack)
    text = json.dumps(assertions.Template.from_stack(stack).to_json()["Resources"], indent=1, sort_keys=True)
    return re.sub(r"\b[0-9a-f]{64}\b", "<asset>", text) + "\n"


def main() -> None:
    """Write them all."""
    FOLDER.mkdir(exist_ok=True)
    for name in CASES:
        (FOLDER / f"{name}.json").write_text(template(name), encoding="utf-8")
    print(f"{len(CASES)} written to {FOLDER.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
