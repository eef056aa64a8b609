"""S31: a task that takes its process with it each time it runs. Here in simulated processes, on both runtimes; with
real ones in tests/e2e/test_poller_process.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure.adapters.memory.scheduler import Killed, Process
from tenure.application import App
from tenure.core.retry import Retry
from tenure.core.task import State
from tests.support.lab import Lab
from tests.support.runtimes import Function, serve

ATTEMPTS = 3


class Fleet:
    """A queue with one killer task, and whoever starts processes anew when they die."""

    def __init__(self) -> None:
        app = App("lab")
        self.lab = Lab(app)
        self.world = self.lab.world
        self.starts: list[str] = []
        self.process = ""

        def kill() -> None:
            self.starts.append("killer")
            self.world.kill(self.process)
            raise Killed(self.process)

        def healthy(key: str) -> str:
            self.starts.append(key)
            return key

        app.task(queue="work", name="kill", lease="10s", retry=Retry(max_attempts=ATTEMPTS))(kill)
        app.task(queue="work", name="work")(healthy)

    def names(self) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            self.process = f"w{number}"
            yield self.process

    def check(self, killer: str, healthy: list[str]) -> None:
        row = self.lab.row(killer)
        assert (row.state, row.reason) == (State.DEAD_LETTERED, "worker_lost")
        assert (row.attempt, row.losses, row.failures) == (ATTEMPTS, ATTEMPTS, 0)
        assert row.error is not None
        assert row.error.type == "WorkerLost"
        assert [letter.attributes["tenure-reason"] for letter in self.lab.letters()] == ["worker_lost"]
        assert all(self.lab.row(task_id).state is State.COMPLETED for task_id in healthy)
        assert all(self.lab.row(task_id).losses == 0 for task_id in healthy), "a neighbour is never blamed"


@pytest.mark.parametrize("threads", [1, 3])
def test_under_a_supervisor_it_is_buried_and_its_neighbours_are_done(threads):
    """At most one start in company, which nobody can be blamed for, and three alone; then nothing more, ever."""
    fleet = Fleet()
    lab, world = fleet.lab, fleet.world
    killer = lab.submit("kill", max_attempts=ATTEMPTS)
    healthy = [lab.submit(args={"key": str(number)}) for number in range(4)]
    names = fleet.names()
    processes: list[Process] = []
    with world:
        for _ in range(200):
            if not processes or processes[-1].dead:
                processes.append(world.process(next(names)))
                serve(lab, fleet.process, threads_count=threads)
            world.run(seconds=5)
        fleet.check(killer, healthy)
    starts = fleet.starts.count("killer")
    assert starts == ATTEMPTS if threads == 1 else ATTEMPTS <= starts <= ATTEMPTS + 1
    assert len(processes) == starts + 1


def test_on_lambda_too():
    """Each death fails the invocation, and nothing is deleted: the messages come back by themselves."""
    fleet = Fleet()
    lab, world = fleet.lab, fleet.world
    killer = lab.submit("kill", max_attempts=ATTEMPTS)
    healthy = [lab.submit(args={"key": str(number)}) for number in range(4)]
    names = fleet.names()
    with world:
        for _ in range(60):
            function = Function(lab, next(names))
            event = function.event()
            if event["Records"]:
                world.spawn(fleet.process, lambda function=function, event=event: function.invoke(event))
            world.run(seconds=15)
        fleet.check(killer, healthy)
    assert ATTEMPTS <= fleet.starts.count("killer") <= ATTEMPTS + 1


@pytest.mark.parametrize("count", ["7", "abc", None])
def test_sqs_s_own_count_is_no_count_of_attempts(count):
    """Received seven times by whatever mishap, or a count that cannot be read: it has not run, so it runs."""
    fleet = Fleet()
    lab = fleet.lab
    task_id = lab.submit(args={"key": "x"}, max_attempts=ATTEMPTS)
    function = Function(lab)
    event = function.event()
    attributes = event["Records"][0]["attributes"]
    if count is None:
        del attributes["ApproximateReceiveCount"]
    else:
        attributes["ApproximateReceiveCount"] = count
    assert function.invoke(event) == []
    assert (lab.row(task_id).state, lab.row(task_id).attempt) == (State.COMPLETED, 1)
