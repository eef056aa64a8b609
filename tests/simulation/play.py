"""One simulated run: real clients, engines, pollers, Lambda runtimes and reconcile, in processes that die and stall."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

from tenure.adapters.memory import Faults, World
from tenure.adapters.memory.lambda_poller import LambdaPoller
from tenure.adapters.memory.process import Process
from tenure.core.errors import KeyConflict, ServiceError, SubmitRefused
from tenure.core.topology import Pool, Queue, Topology
from tenure.ports import Send, Sent
from tenure.worker.poller import Poller
from tests.simulation.cast import Cast
from tests.simulation.evidence import Evidence
from tests.simulation.operators import SOON_SECONDS, Operators
from tests.simulation.settings import (
    CALM_SECONDS_MAX,
    SETTINGS,
    STEPS_MAX,
    Setting,
    coarse_ticks,
    setting_of,
    small_bounds,
)
from tests.simulation.workload import Planned, draw

JUNK = (
    "not json",
    "[1, 2]",
    '{"Records": [{"eventSource": "aws:s3"}]}',
    '{"tenure": 1, "id": "x"}',
    '{"tenure": 1, "id": "", "task": "work", "payload": {}}',
    '{"tenure": 1, "id": "nobody", "task": "work", "row_version": 1, "payload": {}}',
    '{"tenure": 1, "id": "nobody", "task": "unheard-of", "payload": {}}',
    '{"tenure": 99, "id": "x", "task": "work", "payload": {}}',
)


class Play:
    """A world, a workload, and everybody in it."""

    def __init__(self, seed: int, setting: Setting | None = None, plan: list[Planned] | None = None) -> None:
        self.seed = seed
        self.setting = setting or SETTINGS[setting_of(seed)]
        self.random = Random(f"play {seed}")
        self.plan = draw(seed, self.setting.mix) if plan is None else plan
        self.runtime = self.setting.runtime or self.random.choice(("lambda", "fargate"))
        self.topology = _topology(self.runtime, self.random, self.setting)
        self.world = World(seed, self.setting.faults, topology=self.topology)
        for tier in self.topology.tiers() if self.setting.moves_after else ():
            if not tier.ordered:
                self.world.queues(tier).receive_count_max = self.setting.moves_after
        self.start_ms = self.world.clock.now_ms()
        self.evidence = Evidence(self.world)
        self.evidence.watch(self.topology)
        self.cast = Cast(self.world, self.topology, self.evidence, {each.name: each for each in self.plan})
        self.cast.stop_seconds = self.setting.stop_seconds
        self.operators = Operators(self.cast, self.setting, self.random, self._skew_ms)
        self._submitting = 0
        self._workers: dict[str, Process] = {}
        self._pollers: dict[str, Poller] = {}
        self._lambdas: list[LambdaPoller] = []

    def run(self) -> Evidence:
        """Rough, then calm, until everything has ended or a virtual day has passed."""
        with coarse_ticks(), small_bounds(self.setting), self.world:
            for planned in self.plan:
                for number, at_seconds in enumerate(planned.submit_at_seconds):
                    self._start_producer(planned, number, at_seconds)
                if planned.cancel_at_seconds is not None:
                    self.operators.cancel_later(planned, planned.cancel_at_seconds)
            self._start_workers()
            self.operators.start()
            self._start_chaos()
            self._start_vandal()
            self.world.run(seconds=self.setting.rough_seconds, steps_max=STEPS_MAX)
            self._calm_down()
        return self.evidence

    def _calm_down(self) -> None:
        """Nothing goes wrong any more, and everybody gets time to finish: at most a virtual day."""
        self.operators.calm = True
        self.world.faults = Faults.none()
        self.operators.resume_all()
        until_ms = self.world.clock.now_ms() + CALM_SECONDS_MAX * 1000
        while self.world.clock.now_ms() < until_ms:
            self.world.run(until=self._over, seconds=(until_ms - self.world.clock.now_ms()) / 1000, steps_max=STEPS_MAX)
            if not self.setting.replay:
                return
            self.world.run(seconds=SOON_SECONDS, steps_max=STEPS_MAX)  # a replay under way may open some again
            if self._over():
                return

    def _over(self) -> bool:
        if self.evidence.open_rows or self._submitting or self.evidence.messages_left or self.evidence.keys_halted:
            return False
        return not self.evidence.bells_missing()

    def _skew_ms(self) -> int:
        most = self.setting.skew_ms
        return self.random.randint(-most, most) if most else 0

    # ---- producers and operators -------------------------------------------------------------------------------
    def _start_producer(self, planned: Planned, number: int, at_seconds: float) -> None:
        name = f"producer-{planned.name}-{number}"
        process = self.world.process(name, self._skew_ms())
        self._submitting += 1

        def body() -> None:
            try:
                self.world.clock.sleep(at_seconds)
                (self._write_message if planned.foreign else self._submit)(name, planned, number)
            finally:
                self._submitting -= 1

        process.start(body)
        if self.random.random() < self.setting.kill / 2:
            process.at_step(self.random.randint(1, 12), process.kill)

    def _submit(self, process: str, planned: Planned, number: int) -> None:
        client, evidence = self.cast.client(process), self.evidence
        while True:
            try:
                handle = client.submit(planned.task, planned.payload(number), options=planned.options())
            except ServiceError as error:
                evidence.tell("submit failed", planned.name, "", str(error))
                if planned.idempotency_key is None:
                    return
                self.world.clock.sleep(3)
            except (SubmitRefused, KeyConflict) as error:
                evidence.tell("submit refused", planned.name, error.task_id, str(error))
                return
            else:
                evidence.names[handle.id] = planned.name
                found = "found" if handle.found else ""
                evidence.tell("submitted", planned.name, handle.id, found, planned.letter(number))
                return

    def _write_message(self, process: str, planned: Planned, number: int) -> None:
        """A producer in another language: one message in the documented form, sent until SQS says that it has it."""
        queue = self.world.queues(self.topology.tier("work", planned.priority))
        body = {"tenure": 1, "id": f"foreign-{planned.name}", "task": planned.task, "payload": planned.payload()}
        self.evidence.names[f"foreign-{planned.name}"] = planned.name
        while not isinstance(queue.send_many([Send(json.dumps(body | {"tier": planned.priority}))])[0], Sent):
            self.world.clock.sleep(3)
        self.evidence.tell("submitted", planned.name, f"foreign-{planned.name}", rival=planned.letter(number))

    def _start_vandal(self) -> None:
        """Somebody sends what is no task of ours: it must get out of the way, into the DLQ."""
        tiers = self.topology.tiers()

        def body() -> None:
            while not self.operators.calm:
                self.world.clock.sleep(60)
                if self.random.random() < self.setting.junk:
                    tier = self.random.choice(tiers)
                    send = Send(self.random.choice(JUNK), "k0" if tier.ordered else "", "")
                    if tier.ordered:
                        send = replace(send, deduplication_id=self.world.entropy.token())
                    self.world.queues(tier).send_many([send])

        self.world.process("vandal").start(body)

    # ---- workers -----------------------------------------------------------------------------------------------
    def _start_workers(self) -> None:
        if self.runtime == "lambda":
            for tier in self.topology.tiers():
                made = self.cast.mapping(tier, concurrency=self.setting.workers, skew_ms=self._skew_ms)
                made.start()
                self._lambdas.append(made)
        else:
            for number in range(self.setting.workers):
                self._start_fargate(f"worker-{number}", 0)

    def _start_fargate(self, name: str, after_seconds: float) -> None:
        process = self._workers[name] = self.world.process(name, self._skew_ms())

        def body() -> None:
            self.world.clock.sleep(after_seconds)
            self._pollers[name] = self.cast.poller(process)
            self._pollers[name].run()
            self.cast.kill(process)

        process.start(body)

    def _start_chaos(self) -> None:
        """Kills, stalls and drains until calm; what ECS does, starting workers anew, goes on to the end."""

        def body() -> None:
            while True:
                self.world.clock.sleep(3 + self.random.random() * 4)
                for name in [name for name, process in self._workers.items() if process.dead]:
                    del self._workers[name]
                    self._start_fargate(f"{name.split('+')[0]}+{len(self.evidence.deaths)}", 10.0)
                for process in [] if self.operators.calm else self._alive():
                    self._harm(process)

        self.world.process("chaos").start(body)

    def _alive(self) -> list[Process]:
        served = [process for each in self._lambdas for process in each.processes]
        return served + [process for process in self._workers.values() if not process.dead]

    def _harm(self, process: Process) -> None:
        setting, drawn = self.setting, self.random.random() * 12  # about twelve looks a minute
        if drawn < setting.kill:
            self.cast.kill(process)
        elif drawn < setting.kill + setting.stall:
            self.evidence.stalls.append((self.world.scheduler.now_ms, process.name))
            process.stall(self.random.choice(setting.stall_seconds))
        elif drawn < setting.kill + setting.stall + setting.drain and process.name in self._pollers:
            self._pollers[process.name].drain()


def _topology(runtime: str, random: Random, setting: Setting) -> Topology:
    threads, batch_size = random.choice((1, 1, 2, 4)), random.choice((1, 5, 10))
    pool: dict[str, Any] = {"kind": "fargate"}
    if runtime == "lambda":
        pool = {"kind": "lambda", "longest_runtime_seconds": 150, "batch_size": batch_size}
    queues = (
        Queue(name="work", pool="many", tiers=("high", "normal"), receive_count_max=setting.receive_count_max),
        Queue(name="ledger", pool="many", ordered=True, receive_count_max=1000, on_bury=setting.on_bury),
    )
    pools = (Pool(name="many", threads=threads, **pool),)
    return Topology(app="sim", environment="test", queues=queues, pools=pools)
