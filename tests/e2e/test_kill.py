"""The Kill test: workers die by kill -9 at random moments, and every task is done, by one owner at a time."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tenure.core.task import Row, State
from tenure.core.topology import Pool, Queue, Topology
from tenure.local.stack import EmbeddedStack, StackOptions
from tenure.wiring.producer import client_of
from tests.e2e.kill_app import app, work

SEED = 20261129
TASKS = 200
EFFECTS = 3 * TASKS
"""At the least: three for each task, and more for whatever was begun again."""
KILLS = 20
WORKERS = 3
SECONDS_MAX = 150.0
"""When the test gives up waiting, and says what is left."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[2]

TOPOLOGY = Topology(
    app="killed",
    environment="test",
    queues=(Queue(name="work", pool="steady"),),
    pools=(Pool(name="steady", kind="fargate", threads=4, processes=WORKERS),),
)


@dataclass(frozen=True)
class Effect:
    """A line of the effect log: what one attempt did, in the order in which it was written."""

    task_id: str
    fence: int
    at_ms: int
    step: int


@dataclass(frozen=True)
class Outcome:
    """What the run left behind."""

    rows: dict[str, Row]
    effects: list[Effect]
    kills: int

    @property
    def executions(self) -> Counter[str]:
        """Task -> how many attempts had an effect."""
        return Counter(task_id for task_id, _ in {(effect.task_id, effect.fence) for effect in self.effects})

    @property
    def takeovers(self) -> int:
        """Leases of the dead that another worker took."""
        return sum(
            h.event == "claim" and h.detail.startswith("took over") for row in self.rows.values() for h in row.history
        )


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("kill")
    effects = folder / "effects"
    options = StackOptions(ROOT, folder / "logs", variables={"KILL_EFFECTS": str(effects)})
    rng = random.Random(SEED)
    tasks = [task.facts() for task in app.tasks.values()]
    with EmbeddedStack(TOPOLOGY, "tests.e2e.kill_app:app", options, tasks=tasks) as stack:
        # A lease, not a minute: what a worker had received and not claimed yet must come back within the test's time.
        for tier in stack.topology.tiers():
            stack.clients.sqs.set_queue_attributes(QueueUrl=tier.url, Attributes={"VisibilityTimeout": "10"})
        app.connect(client=client_of(stack.topology, stack.clients, {}))
        report = work.submit_many(work.bind(number=n, seconds=rng.uniform(0.1, 0.7)) for n in range(TASKS))
        assert report.ok
        ids = [handle.id for handle in report.handles()]
        kills = kill_at_random(stack, rng, effects)
        rows = wait_until_done(stack, ids)
    return Outcome(rows, read(effects), kills)


def kill_at_random(stack: EmbeddedStack, rng: random.Random, effects: Path) -> int:
    """kill -9 a random worker at random moments. Paced by the work done, so that the kills are spread over all of it
    on a fast machine and on a slow one: there are at least EFFECTS effects, and fewer than that between all kills."""
    kills = 0
    processes = stack.processes["steady"]
    while kills < KILLS:
        wanted = lines(effects) + rng.randint(1, 2 * (EFFECTS // KILLS) - 8)
        until(lambda: lines(effects) >= min(wanted, EFFECTS - KILLS + kills), "some work between two kills")  # noqa: B023 - called at once
        time.sleep(rng.uniform(0.0, 0.2))
        victim = rng.choice(processes)
        if victim.alive:
            victim.kill()
            kills += 1
    return kills


def wait_until_done(stack: EmbeddedStack, ids: list[str]) -> dict[str, Row]:
    def all_final() -> bool:
        return all(row.final for row in stack.snapshot().rows)

    until(all_final, "all tasks final")
    rows = {row.id: row for row in stack.snapshot().rows}
    assert sorted(rows) == sorted(ids)
    return rows


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, f"gave up waiting: {what}"
        time.sleep(0.1)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def read(path: Path) -> list[Effect]:
    lines = [line.split() for line in path.read_text().splitlines()]
    return [Effect(task_id, int(fence), int(at_ms), int(step)) for task_id, fence, at_ms, step in lines]


def test_every_task_is_completed(outcome: Outcome) -> None:
    """No kill loses a task or buries one."""
    assert Counter(row.state for row in outcome.rows.values()) == {State.COMPLETED: TASKS}
    print(f"\n{outcome.kills} kills, {sum(outcome.executions.values())} executions, {outcome.takeovers} takeovers")


def test_no_effect_of_a_lower_fence_follows_one_of_a_higher(outcome: Outcome) -> None:
    """A task has one owner at a time: in the order of the log, its fences never fall."""
    highest: dict[str, int] = {}
    for effect in outcome.effects:
        assert effect.fence >= highest.get(effect.task_id, 0), effect
        highest[effect.task_id] = effect.fence


def test_the_last_owner_did_the_whole_work(outcome: Outcome) -> None:
    """What is called completed was done to the end by one attempt, and that attempt is the row's last."""
    steps: dict[tuple[str, int], list[int]] = {}
    for effect in outcome.effects:
        steps.setdefault((effect.task_id, effect.fence), []).append(effect.step)
    for row in outcome.rows.values():
        assert steps[row.id, row.fence] == [0, 1, 2]


def test_nothing_ran_again_without_a_death(outcome: Outcome) -> None:
    """Every execution beyond a task's first is owed to a takeover; and kills did hit work, else this shows nothing."""
    extra = sum(outcome.executions.values()) - TASKS
    assert extra <= outcome.takeovers
    assert outcome.takeovers >= KILLS // 2
    assert len(outcome.executions) == TASKS


def test_nothing_is_left_leased(outcome: Outcome) -> None:
    """No row holds a lease, and none waits to be looked at."""
    assert [row.id for row in outcome.rows.values() if row.lease_token or row.check_at_ms] == []
