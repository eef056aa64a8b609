"""Let real workers work on ministack, kill them at random, and audit what they leave behind.

    python -m tools.soak                                    the half hour
    python -m tools.soak --minutes 1 --tasks 300            a taste of it
    python -m tools.soak --write-docs                       its figures into docs/soak.md

Exit code 0 only if every check holds. Workers are started anew all the time and import the tree as it is then: do not
edit it meanwhile, or run this from a copy. Linux only: memory and descriptors are read from /proc.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenure.adapters import items
from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock
from tenure.core.task import Row
from tenure.core.topology import Pool, Queue, Topology
from tenure.local.provision import provision
from tenure.rows import to_row
from tools.deploy_local.machine import ACCOUNT, PYTHON, REGION, emulator, settings
from tools.soak import app
from tools.soak.audit import Effect, Evidence, audit
from tools.soak.drive import Run, Settings, Told
from tools.soak.fleet import Fleet
from tools.soak.plan import plan
from tools.soak.report import Result, events_in, figures, write
from tools.soak.watch import Trend, trends

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "soak.md"
OVERTIME = 1.5
"""So many times the minutes are granted on a slow machine before submitting ends unfinished."""
WARM_SECONDS = 120.0
WARM_SHARE = 0.1
LETTERS_HIDDEN_SECONDS = 900
EMPTY_ANSWERS = 5
"""Receives without a letter, one after another, until the DLQ counts as read: SQS may answer empty before that."""


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0 if everything holds."""
    options = _options(arguments)
    os.environ.setdefault("LOG_LEVEL", "WARNING")  # the emulator's
    with ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        folder.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(filename=folder / "worker-submitter.log", level=logging.WARNING, format="%(message)s")
        url = stack.enter_context(emulator(folder))
        result = _soak(options, url, folder)
    print(figures(result))
    if options.write_docs:
        write(result, options.page)
    print("\nEverything holds." if result.holds else "\nNot everything holds.", flush=True)
    return 0 if result.holds else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="in which all is submitted and done")
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=3, help="processes that are killed now and then")
    parser.add_argument("--spared", type=int, default=1, help="processes that live throughout, beside them")
    parser.add_argument("--threads", type=int, default=6, help="handlers at once in a process")
    parser.add_argument("--kill-every", type=float, default=20.0, help="seconds, on average")
    parser.add_argument("--reconcile-every", type=float, default=60.0, help="seconds")
    parser.add_argument("--visibility", type=int, default=0, help="seconds of the queue's; 0: as deployed")
    parser.add_argument("--stop-seconds", type=float, default=90.0, help="what workers get to end at the end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for the logs; else they go with the run")
    parser.add_argument("--write-docs", action="store_true", help="write the figures into the page")
    parser.add_argument("--page", type=Path, default=PAGE)
    return parser.parse_args(arguments)


def _soak(options: argparse.Namespace, url: str, folder: Path) -> Result:
    clients = Clients(SystemClock().now_ms, region=REGION, endpoint_url=url, credentials=(ACCOUNT, "test"))
    topology = provision(_topology(options), clients)
    if options.visibility:
        for tier in topology.tiers():
            hidden = {"VisibilityTimeout": str(options.visibility)}
            clients.sqs.set_queue_attributes(QueueUrl=tier.url, Attributes=hidden)  # type: ignore[arg-type] # its own keys
    effects = folder / "effects"
    effects.touch()
    variables = {**os.environ, **settings(url), app.EFFECTS: str(effects)}
    fleet = Fleet(topology, variables, folder, (options.workers, options.spared))
    seconds = options.minutes * 60
    chosen = Settings(
        plan(options.tasks, options.seed),
        seconds,
        seconds * OVERTIME,
        options.kill_every,
        options.reconcile_every,
        options.seed,
    )
    try:
        told = Run(chosen, topology, clients, fleet, folder, _emulator_pid()).run()
        load = os.getloadavg()[2]
    finally:
        stopped = fleet.stop(options.stop_seconds)
    seen = replace(_evidence(told, topology, clients, effects), planned=options.tasks)
    events = events_in(sorted(folder.glob("worker-*.log")))
    return Result(chosen, told, seen, audit(seen), _trends(told), events, fleet, stopped, _versions(), load)


def _topology(options: argparse.Namespace) -> Topology:
    processes = options.workers + options.spared
    return Topology(
        app="soak",
        environment="local",
        queues=(Queue(name="work", pool="steady"),),
        pools=(Pool(name="steady", kind="fargate", threads=options.threads, processes=processes),),
    )


def _evidence(told: Told, topology: Topology, clients: Clients, effects: Path) -> Evidence:
    lines = [line.split() for line in effects.read_text().splitlines()]
    tier = topology.tier("work")
    names: Any = [f"ApproximateNumberOfMessages{which}" for which in ("", "NotVisible", "Delayed")]
    depth: Any = clients.sqs.get_queue_attributes(QueueUrl=tier.url, AttributeNames=names)
    return Evidence(
        submitted=told.submitted,
        rows={row.id: row for row in _rows(clients.dynamodb, topology.table)},
        effects=[Effect(task_id, int(fence), int(at_ms), step) for task_id, fence, at_ms, step in lines],
        letters=_letters(clients.sqs, tier.dead_url),
        waiting=sum(int(value) for value in depth["Attributes"].values()),
        refused=told.refused,
    )


def _rows(dynamodb: Any, table: str) -> Iterator[Row]:
    """Every row there is, as the table holds it."""
    scan = dynamodb.get_paginator("scan")
    for page in scan.paginate(TableName=table, ConsistentRead=True):
        yield from (to_row(items.from_attributes(each)) for each in page["Items"] if each["sk"]["S"] == "R")


def _letters(sqs: Any, url: str) -> list[str]:
    """The task of each letter, read from its mark; a message without one is told as it is."""
    found: list[str] = []
    empty = 0
    while empty < EMPTY_ANSWERS:
        answer = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=LETTERS_HIDDEN_SECONDS,
            MessageAttributeNames=["All"],
        )
        messages = answer.get("Messages", [])
        empty = 0 if messages else empty + 1
        for message in messages:
            mark = message.get("MessageAttributes", {}).get("tenure-letter", {}).get("StringValue", "")
            found.append(mark.split(":")[0] if mark else f"message {message['MessageId']}, which tenure did not send")
    return found


def _trends(told: Told) -> list[Trend]:
    begin, end = min(WARM_SECONDS, told.submit_seconds * WARM_SHARE), told.submit_seconds
    judged = {"spared worker": True, "killed workers": True, "submitter": True, "emulator": False}
    return [each for role, asked in judged.items() for each in trends(told.samples, role, begin, end, judged=asked)]


def _emulator_pid() -> int:
    """The only child that runs the emulator's interpreter; 0 if it cannot be told."""
    listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    for pid in listed:
        if str(PYTHON) in Path(f"/proc/{pid}/cmdline").read_text():
            return int(pid)
    return 0


def _versions() -> dict[str, str]:
    ask = "import importlib.metadata as m; print(m.version('ministack'))"
    ministack = subprocess.run([str(PYTHON), "-c", ask], check=True, capture_output=True, text=True).stdout.strip()
    return {
        "tenure": importlib.metadata.version("tenure"),
        "Python": sys.version.split()[0],
        "boto3": importlib.metadata.version("boto3"),
        "ministack": ministack,
    }


if __name__ == "__main__":
    sys.exit(main())
