"""People and duties around the workers: pauses, cancels, replays, discards, redrives by hand, reconcile, ingest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

from tenure.adapters.memory.process import Process
from tenure.core.errors import ServiceError, TaskNotFound, UsageError
from tenure.maintenance.discard import Discard
from tenure.maintenance.ingest import Ingest
from tenure.maintenance.keys import HaltedKeys, KeyNotHalted
from tenure.maintenance.pause import Pause, set_pause
from tenure.maintenance.reconcile import Reconcile
from tenure.maintenance.replay import NothingMatched, Replays
from tenure.maintenance.replay_record import ReplaySpec
from tests.simulation.cast import Cast
from tests.simulation.settings import Setting
from tests.simulation.workload import Planned

SOON_SECONDS = 300.0


class Operators:
    """What is done to the tasks from outside. Each act has a process of its own, as a command or a function has."""

    def __init__(self, cast: Cast, setting: Setting, random: Random, skew_ms: Callable[[], int]) -> None:
        self._cast = cast
        self._setting = setting
        self._random = random
        self._skew_ms = skew_ms
        self._count = 0
        self.calm = False

    def start(self) -> None:
        """Begin; until `calm` things are also done that make work."""
        duties = self._cast.world.process("schedule")
        duties.start(lambda: self._each_minute("reconcile", self._reconcile), "reconcile")
        duties.start(lambda: self._each_minute("ingest", self._ingest), "ingest")
        duties.start(lambda: self._each_minute("replays", self._go_on_with_replays), "replays")
        for name, chance, act in (
            ("pause", self._setting.pause, self._pause),
            ("replay", self._setting.replay, self._replay),
            ("discard", self._setting.discard, self._discard),
            ("redrive", self._setting.redrive, self._redrive_by_hand),
            ("decide", self._setting.decide, self._decide_about_keys),
        ):
            if chance:
                duties.start(lambda n=name, c=chance, a=act: self._now_and_then(n, c, a), name)  # type: ignore[misc] # bound now
        if self._setting.decide:
            duties.start(self._decide_in_the_calm, "decide at last")

    def cancel_later(self, planned: Planned, at_seconds: float) -> None:
        """Somebody cancels a task at that moment."""
        process = self._process(f"cancel-{planned.name}")
        world, evidence = self._cast.world, self._cast.evidence

        def body() -> None:
            world.clock.sleep(at_seconds)
            for task_id in [i for i, n in evidence.names.items() if n == planned.name]:
                with suppress(ServiceError, TaskNotFound):
                    answer = self._cast.client(process.name).handle(task_id).cancel("planned")
                    evidence.tell("cancel", planned.name, task_id, answer.value)

        process.start(body)

    # ---- when --------------------------------------------------------------------------------------------------
    def _each_minute(self, name: str, act: Callable[[str], None]) -> None:
        while True:
            self._cast.world.clock.sleep(60)
            self._do(name, act)

    def _now_and_then(self, name: str, chance: float, act: Callable[[str], None]) -> None:
        while not self.calm:
            self._cast.world.clock.sleep(60)
            if self._random.random() < chance and not self.calm:
                self._do(name, act)

    def _do(self, name: str, act: Callable[[str], None]) -> None:
        process = self._process(name)
        if not self.calm and self._random.random() < self._setting.kill:
            process.at_step(self._random.randint(1, 70), process.kill)
        process.start(lambda: self._trying(process.name, act))

    def _process(self, name: str) -> Process:
        self._count += 1
        return self._cast.world.process(f"{name}-{self._count}", self._skew_ms())

    @staticmethod
    def _trying(process: str, act: Callable[[str], None]) -> None:
        with suppress(ServiceError, NothingMatched, KeyNotHalted):
            act(process)

    # ---- what --------------------------------------------------------------------------------------------------
    def _reconcile(self, process: str) -> None:
        Reconcile(self._cast.parts(process)).run_once()

    def _ingest(self, process: str) -> None:
        Ingest(self._cast.parts(process)).run_once()

    def _go_on_with_replays(self, process: str) -> None:
        parts = self._cast.parts(process)
        Replays(parts).run_all(parts.clock.now_ms() + 240_000)

    def _replay(self, process: str) -> None:
        canary = self._random.choice((0, 0, 1))
        spec = ReplaySpec(filter="state:dead_lettered", reason="planned", by="somebody", canary=canary, replays_max=2)
        replays = Replays(self._cast.parts(process))
        replays.run(replays.create(spec).id)

    def _discard(self, process: str) -> None:
        Discard(self._cast.parts(process)).run(
            self._random.choice(("queue:work", "queue:ledger")), "somebody", "planned"
        )

    def _redrive_by_hand(self, process: str) -> None:
        """What the console's "Start DLQ redrive" does: SQS puts every letter back, as a new message."""
        tier = self._random.choice(self._cast.topology.tiers())
        self._cast.world.dead(tier).redrive_to(self._cast.world.queues(tier))

    def _decide_about_keys(self, process: str) -> None:
        """A person looks at each halted key. A head that was retried and died again is skipped in the calm."""
        duty = HaltedKeys(self._cast.parts(process))
        for state in duty.keys.listed():
            acts = (duty.retry_heads, duty.retry_heads, duty.skip_heads, duty.drain)
            retried = any(self._cast.evidence.rows[head].replays for head in state.heads)
            act = duty.skip_heads if self.calm and retried else self._random.choice(acts)
            try:
                act(state.queue, state.key, "somebody", "planned")
            except UsageError:  # a head past its deadline is not retried: the person does what the refusal says
                duty.skip_heads(state.queue, state.key, "somebody", "planned")

    def _decide_in_the_calm(self) -> None:
        while True:
            self._cast.world.clock.sleep(SOON_SECONDS)
            if self.calm:
                self._do("decide", self._decide_about_keys)

    def _pause(self, process: str) -> None:
        queue = self._random.choice(("work", "ledger"))
        self._set_pause(queue, True)
        self._cast.world.clock.sleep(self._random.choice((30.0, SOON_SECONDS)))
        self._set_pause(queue, False)

    def resume_all(self) -> None:
        """Nothing stays paused in the calm."""
        for queue in ("work", "ledger"):
            self._set_pause(queue, False)

    def _set_pause(self, queue: str, paused: bool) -> None:
        world = self._cast.world
        set_pause(world.store, world.entropy, Pause(queue, paused, "somebody", world.clock.now_ms(), "planned"))
