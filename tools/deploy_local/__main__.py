"""python -m tools.deploy_local: bootstrap, deploy, work, diff, redeploy, work, destroy. Exit code 0 if all went well.

What is real: the CDK's command line, the templates, the bundle, the functions with their event source mappings, the
poller, the SDK. What is not: AWS. The emulator drops what tests/infra asserts on the templates instead.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
from rich.console import Console

from examples.restaurant import settings as restaurant
from examples.restaurant.app import app
from examples.restaurant.downstream import Downstream
from examples.restaurant.storage import open_store
from infra.bundle import bundle
from infra.constructs.task_executor import ingredients
from infra.environment import read_settings
from tenure.adapters.clock import SystemClock
from tenure.adapters.dynamodb import DynamoStore
from tenure.core import published
from tenure.core.task import Row
from tenure.core.topology import Topology
from tenure.rows import Rows
from tenure.wiring.producer import read_published
from tools.deploy_local import container, machine, work
from tools.deploy_local.cdk import Cdk

FOLDER = machine.ROOT / ".work" / "deploy-local"
ROOT_PATH = published.path("restaurant", "local")
WAITING_SECONDS_MIN, WAITING_FACTOR = 25, 8
"""How long the tasks are delayed that wait through a deployment: so many times what the first one took."""
FIRST_DEPLOY = "cdk deploy --all"
UNPACKED_BYTES_MAX = 250_000_000
"""A function's code, unpacked. lambda/latest/dg/gettingstarted-limits.html"""


class Wrong(Exception):
    """Something did not go as it must."""


class Story:
    """Tells what happens, with the seconds that each part took."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = time.monotonic()
        self.seconds: dict[str, float] = {}
        """What each part took."""

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """One part of it."""
        began = time.monotonic()
        yield
        self.seconds[what] = time.monotonic() - began
        since = time.monotonic() - self._began
        self.console.print(f"[dim]{since:6.1f} s[/]  {what}  [dim]({self.seconds[what]:.1f} s)[/]")

    def must(self, holds: bool, what: str) -> None:
        """Say that it holds, or end. Raises Wrong."""
        if not holds:
            raise Wrong(what)
        self.console.print(f"          [green]✓[/] {what}")


def write_environment(partner_url: str, changes: Mapping[str, str] | None = None) -> Path:
    """infra/environments/local.toml as this machine needs it, with `changes` (text -> text) made; its directory."""
    text = (machine.ROOT / "infra" / "environments" / "local.toml").read_text(encoding="utf-8")
    architecture = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    text = re.sub(r'python_version = ".*"', f'python_version = "{machine.python_version()}"', text)
    text = re.sub(r'architecture = ".*"', f'architecture = "{architecture}"', text)
    text = re.sub(rf"{restaurant.PARTNERS} = .*", f'{restaurant.PARTNERS} = "{partner_url}"', text)
    for old, new in (changes or {}).items():
        if old not in text:
            raise Wrong(f"local.toml does not hold {old!r}")
        text = text.replace(old, new)
    folder = FOLDER / "environments"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "local.toml").write_text(text, encoding="utf-8")
    return folder


class Clients:
    """boto3 clients of the emulator. boto3 is told where it is by the environment, as in a user's own program."""

    def __init__(self) -> None:
        self.sqs, self.dynamodb, self.s3 = boto3.client("sqs"), boto3.client("dynamodb"), boto3.client("s3")
        self.ssm, self.ecs, self.lambda_ = boto3.client("ssm"), boto3.client("ecs"), boto3.client("lambda")
        self.cloudwatch = boto3.client("cloudwatch")


def functions_of(clients: Clients) -> dict[str, dict[str, Any]]:
    """tenure's functions by what they do, "media" or "reconcile" say."""
    found = clients.lambda_.list_functions()["Functions"]
    return {f["Description"].rpartition(" ")[2]: f for f in found if f.get("Description", "").startswith("tenure")}


def deployed(clients: Clients) -> Topology:
    """What the deployment has published."""
    topology, _ = read_published("restaurant", "local", clients.ssm)
    return topology


def rows_of(clients: Clients) -> Callable[[Sequence[str]], list[Row]]:
    """Reads the rows of tasks by their ids, out of the deployed table; those there are."""
    rows = Rows(DynamoStore(clients.dynamodb, deployed(clients).table_name, SystemClock()))
    return lambda ids: [row for row in rows.get_many(ids) if row is not None]


def check_deployment(story: Story, clients: Clients) -> None:
    """What was made is what was declared, asked of the emulator."""
    topology = deployed(clients)
    queues = clients.sqs.list_queues().get("QueueUrls", [])
    tiers = topology.tiers()
    story.must(len(queues) == 2 * len(tiers), f"{len(tiers)} SQS queues, each with its DLQ")
    for tier in tiers:
        told = clients.sqs.get_queue_attributes(QueueUrl=tier.url, AttributeNames=["All"])["Attributes"]
        dead = json.loads(told["RedrivePolicy"])["deadLetterTargetArn"]
        if not dead.endswith(tier.dead_url.rpartition("/")[2]):
            raise Wrong(f"{tier.url} does not redrive into {tier.dead_url} but into {dead}")
    mappings = clients.lambda_.list_event_source_mappings()["EventSourceMappings"]
    story.must(
        len(mappings) == 4 and all(m["FunctionResponseTypes"] == ["ReportBatchItemFailures"] for m in mappings),
        f"{len(mappings)} event source mappings that read partial batch responses",
    )
    alarms = clients.cloudwatch.describe_alarms()["MetricAlarms"]
    story.must(
        len(alarms) > 30,
        f"{len(alarms)} alarms, {len(clients.cloudwatch.list_dashboards()['DashboardEntries'])} dashboard",
    )


def invoke(clients: Clients, name: str, event: dict[str, Any]) -> dict[str, Any]:
    """Call one of tenure's functions by hand. Raises Wrong if it fails."""
    arn = functions_of(clients)[name]["FunctionArn"]
    answer = clients.lambda_.invoke(FunctionName=arn, Payload=json.dumps(event).encode())
    said = answer["Payload"].read().decode()
    if answer.get("FunctionError"):
        raise Wrong(f"function {name} failed: {said[:2000]}")
    told: dict[str, Any] = json.loads(said)
    return told


def first_deployment(story: Story, cdk: Cdk, clients: Clients) -> None:
    """Bootstrap and deploy, as on an account that has seen neither."""
    with story.part("cdk bootstrap"):
        cdk.bootstrap()
    with story.part("cdk synth -c env=local"):
        assembly = cdk.synth("first")
    with story.part(FIRST_DEPLOY):
        cdk.deploy(assembly)
    check_deployment(story, clients)


def put_work_through(story: Story, clients: Clients, pool: container.Container) -> work.Work:
    """Submit, wait, and judge what became of it."""
    variables = functions_of(clients)["media"]["Environment"]["Variables"]
    store = open_store(variables[restaurant.STORE])
    app.connect(environment="local")
    with story.part("submitted through the SDK, which found everything by the environment's name"):
        done = work.submit_everything(store)
    with story.part(f"{len(done.names)} tasks worked off by the functions and by the poller"):
        rows = work.wait(done, rows_of(clients))
    story.console.print(work.table_of(done, rows))
    wrong = list(work.faults(done, rows))
    story.must(not wrong, "every task ended as it should" if not wrong else "\n".join(wrong))
    pools = {row.worker.partition("/")[0] for row in rows}
    story.must(
        pools == {"quick", "careful", "heavy"}, "on Lambda through its mappings, and on the Fargate pool's poller"
    )
    alive = pool.process.poll() is None
    story.must(alive, f"the poller's entry point is {'process 1 of its namespace' if pool.is_pid_1 else 'a process'}")
    return done


def keep_house(story: Story, clients: Clients, done: work.Work) -> None:
    """The duties as functions: reconcile finds nothing to do, replay plans for the one dead letter."""
    story.must(invoke(clients, "reconcile", {}).get("resent", 0) == 0, "reconcile runs and has nothing to send again")
    plan = invoke(clients, "replay", {"filter": "state:dead_lettered"})["plan"]
    story.must(json.dumps(plan).count("BadImage") > 0 or plan.get("count") == 1, "replay plans for the dead letter")
    letters = sum(
        int(
            clients.sqs.get_queue_attributes(QueueUrl=t.dead_url, AttributeNames=["All"])["Attributes"][
                "ApproximateNumberOfMessages"
            ]
        )
        for t in deployed(clients).tiers()
    )
    story.must(letters == len(done.doomed), f"{letters} letter in the DLQs")


def redeploy(story: Story, cdk: Cdk, clients: Clients, partner_url: str) -> None:
    """A changed file updates in place, with tasks waiting in the queues, and loses none of them."""
    with story.part("cdk diff of a fresh synth"):
        different = cdk.diff(cdk.synth("again"))
    story.must(different == 0, "no difference from what is deployed")
    changes = {
        "memory_mb = 512": "memory_mb = 768",
        "[queues.partners]": '[queues.mail]\npool = "careful"\nowner = "menu team"\n\n[queues.partners]',
    }
    write_environment(partner_url, changes)
    with story.part("cdk synth of a changed file: more memory, a queue more"):
        assembly = cdk.synth("changed")
    before, old = functions_of(clients), deployed(clients)
    store = open_store(before["media"]["Environment"]["Variables"][restaurant.STORE])
    waiting = work.Work()
    delay_seconds = max(WAITING_SECONDS_MIN, round(WAITING_FACTOR * story.seconds[FIRST_DEPLOY]))
    work.submit_delayed(waiting, store, "r3", delay_seconds, 5)
    with story.part(f"cdk deploy of it, with {len(waiting.names)} tasks waiting in their queue"):
        cdk.deploy(assembly)
    after, new = functions_of(clients), deployed(clients)
    still = [row.state.value for row in rows_of(clients)(list(waiting.names))]
    story.must(len(still) == 5 and set(still) == {"queued"}, "they waited all the while")
    kept = all(after[name]["FunctionArn"] == before[name]["FunctionArn"] for name in before)
    story.must(kept and after["media"]["MemorySize"] == 768, "the functions were updated in place")
    story.must(all(new.urls[key] == old.urls[key] for key in old.urls), "the queues are the same ones")
    story.must("mail/normal" in new.urls and "mail" in after, "the new queue is there, published, with its function")
    with story.part("the tasks that waited"):
        rows = work.wait(waiting, rows_of(clients))
    wrong = list(work.faults(waiting, rows))
    story.must(not wrong, "none was lost" if not wrong else "\n".join(wrong))


def take_down(story: Story, cdk: Cdk, clients: Clients) -> None:
    """Development tears down clean."""
    with story.part("cdk destroy --all"):
        cdk.destroy(cdk.folder / "changed")
    left = {
        "queues": clients.sqs.list_queues().get("QueueUrls", []),
        "tables": clients.dynamodb.list_tables()["TableNames"],
        "functions": clients.lambda_.list_functions()["Functions"],
        "parameters": clients.ssm.get_parameters_by_path(Path=ROOT_PATH, Recursive=True)["Parameters"],
        "buckets": [b["Name"] for b in clients.s3.list_buckets()["Buckets"] if not b["Name"].startswith("cdk-")],
    }
    wrong = {kind: found for kind, found in left.items() if found}
    story.must(not wrong, "nothing is left: " + ", ".join(f"{len(found)} {kind}" for kind, found in left.items()))


def make_bundle(story: Story, environments: Path) -> Path:
    """What functions and containers run, made once, as a job before the deployment would."""
    with story.part("the bundle, from wheels"):
        made = bundle(ingredients(read_settings(environments / "local.toml"))).path
    size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
    story.must(size < UNPACKED_BYTES_MAX, f"{size / 1e6:.1f} MB unpacked; Lambda takes 250")
    return made


def tell(story: Story) -> None:
    """The whole of it."""
    with ExitStack() as cleanup:
        url = cleanup.enter_context(machine.emulator(FOLDER))
        variables = machine.settings(url)
        for name in [each for each in os.environ if each.startswith(("AWS_", "TENURE_"))]:
            del os.environ[name]
        os.environ.update(variables)
        downstream = cleanup.enter_context(Downstream(work.partner()))
        environments = write_environment(downstream.url)
        program = make_bundle(story, environments)
        cdk = Cdk(variables, environments, program, FOLDER)
        clients = Clients()
        first_deployment(story, cdk, clients)
        own = container.variables_of(clients.ecs, "restaurantlocal")
        with container.running(program, {**variables, **own}, FOLDER) as pool:
            done = put_work_through(story, clients, pool)
        drained = "worker.stopped" in (FOLDER / "container.log").read_text(encoding="utf-8")
        story.must(pool.exit_code == 0 and drained, "the poller drained on SIGTERM and ended with 0")
        keep_house(story, clients, done)
        redeploy(story, cdk, clients, downstream.url)
        take_down(story, cdk, clients)


def main() -> int:
    """The program."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    story = Story(console)
    try:
        tell(story)
    except Exception as error:
        console.print(f"[bold red]✗[/] {error}", markup=True)
        console.print(f"Logs: {FOLDER.relative_to(machine.ROOT)}/*.log")
        if not isinstance(error, Wrong):
            raise
        return 1
    console.print("[bold green]✓ deployed, worked, redeployed and destroyed[/]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
