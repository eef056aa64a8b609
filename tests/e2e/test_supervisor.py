"""The supervisor with real processes and real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SECONDS_MAX = 60.0
"""When a test gives up waiting for a condition."""


class Supervised:
    def __init__(self, folder: Path, mode: str, count: int, window_seconds: float = 50) -> None:
        self.log = folder / "log"
        self.log.touch()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.supervised", mode, str(self.log), str(count), str(window_seconds)],
            stdout=subprocess.PIPE,
            text=True,
        )

    def lines(self, word: str) -> list[tuple[str, int]]:
        """(index, process id) of each line that a child wrote with this word."""
        found = [line.split() for line in self.log.read_text().splitlines()]
        return [(line[0], int(line[1])) for line in found if line[-1] == word]

    def wait(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not holds():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def end(self) -> tuple[int, list[dict[str, Any]]]:
        """Its exit code, and what it told."""
        out, _ = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    made: list[Supervised] = []

    def make(*args: Any, **options: Any) -> Supervised:
        made.append(Supervised(tmp_path, *args, **options))
        return made[-1]

    yield make
    for each in made:
        each.process.kill()
        for _, pid in each.lines("start"):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        each.process.communicate()  # only now: whoever is left holds its standard output open


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on_and_it_ends_when_all_have_drained(start, number):
    """Three children, one signal to the parent: each gets one SIGTERM, all end, exit code 0, nobody is restarted."""
    it = start("steady", 3)
    it.wait(lambda: len(it.lines("start")) == 3)
    it.process.send_signal(number)
    code, told = it.end()
    assert (code, told) == (0, [])
    assert sorted(index for index, _ in it.lines("term")) == ["0", "1", "2"]
    assert len(it.lines("start")) == 3


def test_a_second_signal_is_passed_on_too(start):
    it = start("patient", 1)
    it.wait(lambda: len(it.lines("start")) == 1)
    it.process.send_signal(signal.SIGTERM)
    it.wait(lambda: len(it.lines("term")) == 1)
    it.process.send_signal(signal.SIGTERM)
    assert it.end()[0] == 0
    assert len(it.lines("term")) == 2


@pytest.mark.parametrize(("mode", "how"), [("crashing", "exit code 3"), ("killed", "killed by signal 9")])
def test_a_child_that_dies_is_started_again_ever_more_slowly(start, mode, how):
    """Told each time with its reason; the pauses double."""
    it = start(mode, 1)
    it.wait(lambda: len(it.lines("start")) == 4)
    it.process.send_signal(signal.SIGTERM)
    code, told = it.end()
    assert code == 0
    assert {each["why"] for each in told} == {how}
    pauses = [each["restart_seconds"] for each in told][:3]
    assert pauses == [0.2, 0.4, 0.8]


def test_one_that_dies_does_not_disturb_its_siblings(start):
    it = start("steady", 3)
    it.wait(lambda: len(it.lines("start")) == 3)
    victim = dict(it.lines("start"))["1"]
    os.kill(victim, signal.SIGKILL)
    it.wait(lambda: len(it.lines("start")) == 4)
    assert it.lines("start")[-1][0] == "1"
    assert it.lines("term") == []
    it.process.send_signal(signal.SIGTERM)
    assert it.end()[0] == 0


def test_what_does_not_end_is_killed_when_the_window_is_over(start):
    it = start("stubborn", 2, window_seconds=0.5)
    it.wait(lambda: len(it.lines("start")) == 2)
    it.process.send_signal(signal.SIGTERM)
    code, told = it.end()
    assert code == 1
    assert [each["event"] for each in told] == ["worker.killed"]
    assert not any(alive(pid) for _, pid in it.lines("start"))


def test_orphans_are_reaped(start):
    """A grandchild whose parent is gone becomes the supervisor's when that is a container's first process."""
    it = start("leaving", 1)
    orphans = it.log.with_name(it.log.name + ".orphans")
    it.wait(lambda: orphans.exists() and orphans.read_text().strip() != "")
    pid = int(orphans.read_text().split()[0])
    it.wait(lambda: not alive(pid))  # a zombie would still have its entry
    it.process.send_signal(signal.SIGTERM)
    assert it.end()[0] == 0


def test_children_are_out_of_reach_of_the_terminal(start):
    """A session of their own: Ctrl-C reaches the supervisor alone, which passes it on once."""
    it = start("steady", 1)
    it.wait(lambda: len(it.lines("start")) == 1)
    (_, pid) = it.lines("start")[0]
    assert os.getsid(pid) != os.getsid(it.process.pid)
    it.process.send_signal(signal.SIGTERM)
    assert it.end()[0] == 0
