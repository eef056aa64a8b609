"""The sign of life, as a health check reads it. What makes it go stale is in scenario S23."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tenure.worker.liveness import (
    STALE_SECONDS,
    WRITE_EVERY_SECONDS,
    LivenessFile,
    child_path,
    files_of,
    problems,
    proof_at_ms,
)

NOW = 1_800_000_000_000


def test_fresh_until_the_documented_time_and_stale_after_it(tmp_path):
    path = tmp_path / "alive"
    LivenessFile(path).write(NOW, NOW)
    assert problems([path], NOW + STALE_SECONDS * 1000) == []
    assert "no sign of life" in problems([path], NOW + STALE_SECONDS * 1000 + 1)[0]


@dataclass
class Seen:
    """A receiver, as it tells of itself."""

    turned_at_ms: int
    received_at_ms: int
    waiting: bool = False


def test_one_receiver_that_does_not_come_round_is_no_proof_of_life():
    """Though SQS answers all the others, and a handler runs."""
    others = [Seen(NOW, NOW), Seen(NOW, NOW, waiting=True)]
    assert proof_at_ms(others, 0, NOW) == NOW
    for running in (0, 1):
        assert proof_at_ms([*others, Seen(NOW - 99_000, NOW - 99_000)], running, NOW) == NOW - 99_000


def test_it_is_not_written_at_every_look(tmp_path):
    path = tmp_path / "alive"
    file = LivenessFile(path)
    file.write(NOW, NOW)
    before = path.stat().st_mtime_ns, path.read_text()
    file.write(NOW + 1000, NOW + 1000)
    assert (path.stat().st_mtime_ns, path.read_text()) == before
    file.write(NOW + WRITE_EVERY_SECONDS * 1000, NOW + WRITE_EVERY_SECONDS * 1000)
    assert path.read_text() != before[1]


def test_one_stale_process_of_several_is_enough(tmp_path):
    path = tmp_path / "alive"
    for index, at in enumerate((NOW, NOW - STALE_SECONDS * 2000)):
        LivenessFile(child_path(path, index)).write(at, NOW)
    found = problems(files_of(path), NOW)
    assert len(found) == 1
    assert "alive.1" in found[0]


@pytest.mark.parametrize("text", ["", "{}", "hello", '{"proved_at_ms": "soon"}', "[]", "null"])
def test_a_file_that_tells_nothing_is_a_problem_and_no_crash(tmp_path, text):
    path = tmp_path / "alive"
    path.write_text(text)
    assert "sign of life" in problems([path], NOW)[0]


def test_no_file_is_a_problem(tmp_path):
    assert "no liveness file" in problems(files_of(tmp_path / "alive"), NOW)[0]
    assert problems([Path("/nowhere/at/all")], NOW)


def test_half_written_files_are_not_read(tmp_path):
    """The next content is written beside the file and takes its place at once."""
    path = tmp_path / "alive"
    child_path(path, 0).with_name("alive.0.new").write_text("half")
    LivenessFile(child_path(path, 0)).write(NOW, NOW)
    assert [p.name for p in files_of(path)] == ["alive.0"]
