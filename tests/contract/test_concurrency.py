"""Winners are exactly one: eight rivals at the same thing, as 8 threads and as 2 processes of 4, on moto (made atomic)
and on ministack. Whole paths of the code, over the AWS adapters: an emulator without a lock would fail them for faults
of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from tenure.core import machine
from tenure.core.envelope import decode
from tenure.core.machine import Lease, Stamp
from tenure.core.outcome import named
from tenure.core.task import Row, State
from tenure.core.topology import Pool, Queue, Topology
from tenure.local.emulator import Emulator
from tenure.local.provision import provision
from tenure.maintenance.replay import Replays
from tenure.maintenance.replay_record import ReplaySpec
from tenure.ports import Delivery
from tenure.rows import Stands
from tests.support.rivals import Crowd, OfProcesses, OfThreads, Rivals, Scene, delivered

pytestmark = pytest.mark.slow

RIVALS = 8
ROUNDS = 4
PAYLOADS: dict[str, dict[str, Any]] = {"cook": {"n": 1}, "post": {"n": 1, "account": "a1"}}
QUEUES = {"cook": "work", "post": "ledger"}
BACKENDS = ["moto", pytest.param("ministack", marks=pytest.mark.ministack)]


@pytest.fixture(scope="module", params=BACKENDS)
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A deployed app behind a server that other processes can reach."""
    topology = Topology(
        app="rivals",
        environment="test",
        queues=(Queue(name="work", pool="many"), Queue(name="ledger", pool="many", ordered=True)),
        pools=(Pool(name="many", kind="fargate"),),
    )
    with ExitStack() as stack:
        if request.param == "moto":
            url = stack.enter_context(Emulator()).url
        else:
            url = request.getfixturevalue("ministack_url")
        yield Scene(url, provision(topology, Scene(url, topology).clients()))


@pytest.fixture(scope="module", params=["threads", "processes"])
def crowd(request: pytest.FixtureRequest, scene: Scene, own: Rivals) -> Iterator[Crowd]:
    """Eight of them."""
    if request.param == "threads":
        yield OfThreads(own)
        return
    processes = OfProcesses(scene)
    yield processes
    processes.close()


class Stage:
    """What the test itself does before and after the rivals."""

    def __init__(self, own: Rivals) -> None:
        self.own = own
        self.rows = self.own.client.rows
        self.empty()

    def empty(self) -> list[Delivery]:
        """Take every message there is."""
        taken: list[Delivery] = []
        for tier in self.own.topology.tiers():
            queue = self.own.queue(tier)
            while found := queue.receive(10, 0, 60):
                queue.delete_many([each.receipt for each in found])
                taken += found
        return taken

    def delivery(self, task: str) -> tuple[str, Delivery]:
        """A fresh task, and its message as it was received."""
        handle = self.own.client.submit(task, PAYLOADS[task])
        tier = self.own.topology.tier(QUEUES[task])
        (found,) = self.own.queue(tier).receive(10, 5, 60)
        assert decode(found.body).id == handle.id
        return handle.id, found

    def row(self, task_id: str) -> Row:
        """Its row as it is."""
        row = self.rows.get(task_id)
        assert row is not None
        return row

    def change(self, task_id: str, make: Callable[[Row, Stamp], Row], age_ms: int = 0) -> Row:
        """Write what `make` makes of the row, as if so long ago."""
        row = self.row(task_id)
        new = make(row, Stamp(self.own.clock.now_ms() - age_ms, self.own.entropy.token(), "test"))
        assert isinstance(self.rows.replace(row, new), Stands)
        return new

    def claim(self, task_id: str, age_ms: int = 0) -> Row:
        """A worker took it so long ago, for a minute."""
        lease = Lease(60.0, self.own.entropy.token(), "gone", True, 5)
        return self.change(task_id, lambda row, stamp: machine.claim(row, stamp, lease), age_ms)

    def buried(self, count: int, error: str) -> list[str]:
        """So many dead letters by one error; no message of theirs is left."""
        ids = [self.own.client.submit("cook", {"n": n}).id for n in range(count)]
        self.empty()
        for task_id in ids:
            self.claim(task_id)
            self.change(task_id, lambda row, stamp: machine.bury(row, stamp, named(error, "it happened"), "gave_up"))
            self.change(task_id, machine.confirm_letter)
        return ids


@pytest.fixture(scope="module")
def own(scene: Scene) -> Rivals:
    return Rivals(scene)


@pytest.fixture
def stage(own: Rivals) -> Stage:
    return Stage(own)


def ids_of(deliveries: list[Delivery]) -> Counter[str]:
    """How many messages there are of each task."""
    return Counter(decode(each.body).id for each in deliveries)


# ---- claims --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", PAYLOADS)
def test_of_workers_with_the_same_delivery_one_runs_the_task(stage: Stage, crowd: Crowd, task: str) -> None:
    """SQS may deliver twice at once: the task is run once, under the fence that stands in its row."""
    for _ in range(ROUNDS):
        task_id, delivery = stage.delivery(task)
        ran = crowd.together("work", [delivered(delivery, QUEUES[task])] * RIVALS)
        row = stage.row(task_id)
        assert sorted(fence for fences in ran for fence in fences) == [1]
        assert (row.state, row.fence, row.failures, row.losses) == (State.COMPLETED, 1, 0, 0)
        stage.empty()


def test_of_workers_that_meet_a_lapsed_lease_one_takes_it_over(stage: Stage, crowd: Crowd) -> None:
    """A redelivery after its worker's death: one loss is counted, and one runs it under the next fence."""
    for _ in range(ROUNDS):
        task_id, delivery = stage.delivery("cook")
        stage.claim(task_id, age_ms=120_000)
        again = replace(delivery, receive_count=2)
        ran = crowd.together("work", [delivered(again, "work")] * RIVALS)
        row = stage.row(task_id)
        assert sorted(fence for fences in ran for fence in fences) == [2]
        assert (row.state, row.fence, row.losses) == (State.COMPLETED, 2, 1)


# ---- submits -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", PAYLOADS)
def test_of_submits_under_one_key_one_makes_the_task(stage: Stage, crowd: Crowd, task: str) -> None:
    """All are answered with the same task; there is one row and one message. The row is written once more, by the first
    of those that found it, so that it cannot be taken back from under them (R8)."""
    made: set[str] = set()
    for _ in range(ROUNDS):
        what = {"task": task, "payload": PAYLOADS[task], "key": stage.own.entropy.token()}
        answers = crowd.together("submit", [what] * RIVALS)
        (task_id,) = {answer["id"] for answer in answers}
        assert sorted(answer["found"] for answer in answers) == [False] + [True] * (RIVALS - 1)
        row = stage.row(task_id)
        assert (row.version, row.sends, row.state) == (2, 1, State.QUEUED)
        made.add(task_id)
    assert ids_of(stage.empty()) == dict.fromkeys(made, 1)


# ---- replays -------------------------------------------------------------------------------------------------------
LETTERS = 6


def test_of_replays_of_the_same_letters_each_letter_has_one(stage: Stage, crowd: Crowd) -> None:
    """Eight operators replay the same dead letters at once: each task is queued again once, by one message."""
    error = f"E{stage.own.entropy.token()}"
    ids = stage.buried(LETTERS, error)
    claimed = crowd.together("replay", [f"error:{error}"] * RIVALS)
    rows = [stage.row(task_id) for task_id in ids]
    assert {(row.state, row.replays) for row in rows} == {(State.QUEUED, 1)}
    assert ids_of(stage.empty()) == dict.fromkeys(ids, 1)
    assert sum(claimed) == LETTERS


def test_of_runners_of_one_replay_one_is_at_it(stage: Stage, crowd: Crowd) -> None:
    """A replay that eight runners go on with replays each letter once, and counts it once."""
    error = f"E{stage.own.entropy.token()}"
    ids = stage.buried(LETTERS, error)
    replays = Replays(stage.own.parts)
    made = replays.create(ReplaySpec(filter=f"error:{error}", reason="mended", by="ann", rate_per_second=500))
    crowd.together("run_replay", [made.id] * RIVALS)
    assert replays.status(made.id).replayed == LETTERS
    assert {(stage.row(task_id).state, stage.row(task_id).replays) for task_id in ids} == {(State.QUEUED, 1)}
    assert ids_of(stage.empty()) == dict.fromkeys(ids, 1)


# ---- cancel and claim ----------------------------------------------------------------------------------------------
def test_a_cancel_and_a_claim_agree_on_what_became_of_the_task(stage: Stage, crowd: Crowd) -> None:
    """Four workers and four persons at one queued task: it is cancelled and never ran, or it ran once and completed."""
    for _ in range(ROUNDS):
        task_id, delivery = stage.delivery("cook")
        work, cancel = delivered(delivery, "work"), {"cancel": task_id}
        said = crowd.together("work_or_cancel", [work, work, cancel, cancel] * 2)
        ran = sum(len(each) for each in said if isinstance(each, list))
        cancels = {each for each in said if isinstance(each, str)}
        row = stage.row(task_id)
        assert (row.state, ran) in ((State.CANCELLED, 0), (State.COMPLETED, 1))
        assert ("cancelled" in cancels) == (row.state is State.CANCELLED)
        assert row.version <= 4  # a claim, a request and an end; nobody wrote over anybody
        stage.empty()
