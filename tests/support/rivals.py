"""Rivals: producers, workers and operators that do the same thing at the same moment, in threads or in processes.

As a program (`python -m tests.support.rivals`) it is one process of them: it reads where to work, then acts, a line of
JSON each, from standard input, and answers each act with a line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Barrier
from typing import Any, Protocol

from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock, SystemEntropy, SystemThreads
from tenure.adapters.sqs import SqsQueue
from tenure.application import App
from tenure.client import Client
from tenure.core.submission import Options
from tenure.core.topology import Tier, Topology
from tenure.local.emulator import CREDENTIALS, REGION
from tenure.maintenance.parts import Parts
from tenure.maintenance.replay import NothingMatched, Replays
from tenure.maintenance.replay_record import ReplaySpec
from tenure.ports import Delivery
from tenure.telemetry import LogTelemetry
from tenure.wiring.producer import client_of
from tenure.worker.acks import DirectAck
from tenure.worker.context import context
from tenure.worker.engine import Engine
from tenure.worker.held import Inbox
from tenure.worker.settling import EngineParts

ROOT = Path(__file__).resolve().parents[2]
HEAD_START_MS = 40
"""From the word to the act: enough for every process to have read the word."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where rivals meet: a deployed topology behind a URL."""

    url: str
    topology: Topology

    def clients(self) -> Clients:
        """Clients of their own for a process. Patient: a busy machine must not make a send twice."""
        local_ms = SystemClock().now_ms
        return Clients(local_ms, region=REGION, endpoint_url=self.url, credentials=CREDENTIALS, patience_seconds=60)


class Rivals:
    """Everybody of one process."""

    def __init__(self, scene: Scene) -> None:
        self.topology = scene.topology
        self.clients = scene.clients()
        self.clock = SystemClock(self.clients.server_time.offset_ms)
        self.entropy = SystemEntropy()
        self.telemetry = LogTelemetry()
        facts = {name: task.facts() for name, task in declared([]).tasks.items()}
        self.client: Client = client_of(self.topology, self.clients, facts, clock=self.clock)

    def queue(self, tier: Tier) -> SqsQueue:
        """A tier's queue."""
        return SqsQueue(self.clients.sqs, tier.url, tier.name, tier.ordered, self.clock)

    def dead(self, tier: Tier) -> SqsQueue:
        """A tier's DLQ."""
        return SqsQueue(self.clients.sqs, tier.dead_url, tier.dead_name, tier.ordered, self.clock)

    @property
    def parts(self) -> Parts:
        """The parts of maintenance."""
        client = self.client
        return Parts(
            store=client.rows._store,
            main=self.queue,
            dead=self.dead,
            payloads=client.payloads,
            clock=self.clock,
            entropy=self.entropy,
            telemetry=self.telemetry,
            topology=self.topology,
        )

    def together(self, act: str, arguments: Sequence[Any], at_ms: int) -> list[Any]:
        """One rival for each argument, let go at once at `at_ms`; what each says of it."""
        gate = Barrier(len(arguments))
        does: Callable[[Any], Any] = getattr(self, act)

        def one(argument: Any) -> Any:
            self.clock.sleep((at_ms - SystemClock().now_ms()) / 1000)
            gate.wait(timeout=60)
            return does(argument)

        with ThreadPoolExecutor(len(arguments)) as pool:
            return list(pool.map(one, arguments))

    # ---- acts ------------------------------------------------------------------------------------------------------
    def work(self, delivery: dict[str, Any]) -> list[int]:
        """A worker that was given this delivery; the fences under which its handler ran."""
        ran: list[int] = []
        tier = self.topology.tier(delivery["queue"])
        queue = self.queue(tier)
        parts = EngineParts(
            app=declared(ran),
            rows=self.client.rows,
            payloads=self.client.payloads,
            clock=self.clock,
            entropy=self.entropy,
            threads=SystemThreads(),
            telemetry=self.telemetry,
            worker_id=self.entropy.token(),
        )
        engine = Engine(parts)
        inbox = Inbox(tier, queue, self.dead(tier), DirectAck(queue, self.telemetry))
        for unit in engine.admit(inbox, [Delivery(**delivery["delivery"])]):
            engine.run(unit)
        return ran

    def submit(self, what: dict[str, Any]) -> dict[str, Any]:
        """A producer under an idempotency key; the task's id, and whether it was found and not made."""
        handle = self.client.submit(what["task"], what["payload"], options=Options(idempotency_key=what["key"]))
        return {"id": handle.id, "found": handle.found}

    def cancel(self, task_id: str) -> str:
        """A person who cancels."""
        return self.client.handle(task_id).cancel("not wanted any more").value

    def replay(self, filter: str) -> int:
        """An operator with a replay of their own; how many tasks it says it has replayed."""
        replays = Replays(self.parts)
        try:
            made = replays.create(ReplaySpec(filter=filter, reason="mended", by="ann", rate_per_second=500))
        except NothingMatched:
            return 0
        return replays.run(made.id).replayed

    def run_replay(self, replay_id: str) -> int:
        """A runner of a replay that somebody else has made."""
        return Replays(self.parts).run(replay_id).replayed

    def work_or_cancel(self, what: dict[str, Any]) -> Any:
        """Half of them work, half of them cancel."""
        return self.work(what) if "delivery" in what else self.cancel(what["cancel"])


def declared(ran: list[int]) -> App:
    """The app; its handlers note the fence under which they ran."""
    app = App("rivals")

    @app.task(queue="work")
    def cook(n: int) -> int:
        ran.append(context().fence)
        return n

    @app.task(queue="ledger", ordered_by="account")
    def post(n: int, account: str) -> int:
        ran.append(context().fence)
        return n

    return app


class Crowd(Protocol):
    """Eight rivals."""

    def together(self, act: str, arguments: Sequence[Any]) -> list[Any]:
        """An act of each, at the same moment."""
        ...


class OfThreads:
    """Eight threads of this process."""

    def __init__(self, rivals: Rivals) -> None:
        self._rivals = rivals

    def together(self, act: str, arguments: Sequence[Any]) -> list[Any]:
        """See Crowd."""
        return self._rivals.together(act, arguments, SystemClock().now_ms())


class OfProcesses:
    """Two processes of four threads each. A context manager."""

    def __init__(self, scene: Scene) -> None:
        told = json.dumps({"url": scene.url, "topology": scene.topology.model_dump(mode="json")})
        command = [sys.executable, "-m", "tests.support.rivals"]
        self._processes = [
            subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for process in self._processes:
            _say(process, told)
        for process in self._processes:
            assert _hear(process) == "ready"

    def together(self, act: str, arguments: Sequence[Any]) -> list[Any]:
        """See Crowd. Neighbours in `arguments` go to different processes."""
        at_ms = SystemClock().now_ms() + HEAD_START_MS
        for number, process in enumerate(self._processes):
            _say(process, json.dumps({"act": act, "arguments": list(arguments[number::2]), "at_ms": at_ms}))
        return [outcome for process in self._processes for outcome in _hear(process)]

    def close(self) -> None:
        """End them."""
        for process in self._processes:
            process.communicate(timeout=30)  # closes their standard input, which ends them


def _say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"a process of rivals has ended with {process.poll()}"
    return json.loads(line)


def delivered(delivery: Delivery, queue: str) -> dict[str, Any]:
    """A delivery as an argument of `work`."""
    return {"delivery": asdict(delivery), "queue": queue}


def main() -> None:
    """One process of rivals."""
    told = json.loads(sys.stdin.readline())
    rivals = Rivals(Scene(told["url"], Topology.model_validate(told["topology"])))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(rivals.together(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
