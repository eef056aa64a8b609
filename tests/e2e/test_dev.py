"""From nothing to a task that ran, as a newcomer types it: init, dev, doctor, submit, Ctrl-C; with real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SECONDS_MAX = 60.0


@dataclass
class Project:
    """A directory, and the `tenure dev` that runs in it."""

    directory: Path
    dev: subprocess.Popen[str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`tenure ...` in the project's directory, without anybody's AWS settings."""
        return run(self.directory, *arguments)


def command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("tenure")), *arguments]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TENURE_"))}


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def children(pid: int) -> list[int]:
    told = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in told.stdout.split()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, f"gave up waiting: {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    directory = tmp_path_factory.mktemp("kitchen")
    written = run(directory, "init", "--name", "kitchen")
    assert written.returncode == 0, written.stderr
    with open(directory / "dev.out", "w") as out:
        dev = subprocess.Popen(command("dev"), cwd=directory, env=environment(), stdout=out, stderr=out, text=True)
    try:
        until((directory / ".tenure" / "dev.json").exists, "the stack to come up")
        yield Project(directory, dev)
    finally:
        dev.kill()
        dev.wait()


def test_a_submitted_task_runs_and_its_result_is_printed(project: Project) -> None:
    """The two commands that `init` prints do what it says."""
    result = project.run("submit", "greet", '{"name": "Ada", "times": 2}', "--wait")
    assert (result.returncode, json.loads(result.stdout)) == (0, "Hello, Ada! Hello, Ada!")


def test_a_task_that_gives_up_is_a_dead_letter_that_is_listed(project: Project) -> None:
    """It ends at once, `ls` finds it with its error, and `queues` counts its letter."""
    result = project.run("submit", "greet", '{"name": "Ada", "times": 0}', "--wait")
    assert result.returncode == 1
    listed = json.loads(project.run("ls", "state:dead_lettered", "-o", "json").stdout)["tasks"]
    assert [(task["task"], task["error"]["message"]) for task in listed] == [("greet", "cannot greet 0 times")]
    until(lambda: json.loads(project.run("queues", "-o", "json").stdout)["queues"][0]["letters"] == 1, "the letter")


def test_doctor_finds_nothing_wrong(project: Project) -> None:
    """Every check is made and passes."""
    result = project.run("doctor", "-o", "json")
    told = json.loads(result.stdout)
    assert (result.returncode, told["ok"]) == (0, True), told
    assert {check["outcome"] for check in told["checks"]} == {"ok"}
    assert len(told["checks"]) == 8


def test_a_worker_of_ones_own_joins_in_and_drains(project: Project) -> None:
    """`tenure worker` serves the same queues from another terminal, and SIGTERM ends it with exit code 0."""
    own = subprocess.Popen(
        command("worker", "--pool", "quick"),
        cwd=project.directory,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert own.stdout is not None
    for line in own.stdout:
        if "worker.started" in line:
            break
    own.send_signal(signal.SIGTERM)
    rest = own.communicate(timeout=SECONDS_MAX)[0]
    assert own.returncode == 0
    assert "worker.stopped" in rest


def test_a_second_stack_in_one_project_is_refused(project: Project) -> None:
    """Two stacks of one environment would take each other's commands."""
    result = project.run("dev")
    assert result.returncode == 2
    assert "runs here already" in " ".join(result.stderr.split())


def test_ctrl_c_drains_and_leaves_nothing(project: Project) -> None:
    """Exit code 0; no note, so that no command is led to a stack that is gone; and no process."""
    workers = children(project.dev.pid)
    assert workers
    project.dev.send_signal(signal.SIGINT)
    assert project.dev.wait(timeout=SECONDS_MAX) == 0
    told = (project.directory / "dev.out").read_text()
    assert "Traceback" not in told
    assert told.rstrip().endswith("Stopped.")
    assert not (project.directory / ".tenure" / "dev.json").exists()
    until(lambda: not any(alive(pid) for pid in workers), "the workers' end")
    assert project.run("ls").returncode != 0
