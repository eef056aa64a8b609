"""R13: the last look at the clock is taken when nothing is left to wait for."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.application import App
from tenure.core.envelope import encode, envelope_of
from tenure.core.errors import ServiceError
from tenure.core.task import State, Stored
from tenure.ports import Send
from tenure.worker.settling import UNSURE_SECONDS
from tests.support.lab import Lab


def with_its_payload_beside_the_row() -> tuple[Lab, str]:
    """A lab with one task submitted, and its id."""
    app = App("lab")
    lab = Lab(app)

    @app.task(queue="work", name="work", lease="30s")
    def work() -> None:
        lab.effects.append("ran")

    task_id = lab.submit(send=False)
    place = Stored("item", f"{task_id}/P/w1", 2)
    lab.world.payloads.put(place, "{}", 0)
    lab.change(task_id, payload=place)
    lab.queue.send_many([Send(encode(envelope_of(lab.row(task_id), None)))])
    return lab, task_id


def test_a_lease_that_lapses_while_the_payload_is_fetched_starts_no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stall in the read of a payload beside the row: by its end another worker may have the task."""
    lab, task_id = with_its_payload_beside_the_row()
    fetch = lab.world.payloads.get

    def slow(place: Stored) -> str:
        lab.world.advance(100)
        return fetch(place)

    monkeypatch.setattr(lab.world.payloads, "get", slow)
    lab.work()
    assert lab.effects == []
    assert lab.row(task_id).state is State.LEASED
    assert lab.answers.deleted == []
    monkeypatch.setattr(lab.world.payloads, "get", fetch)
    lab.work_until_quiet()
    assert lab.effects == ["ran"]


def test_a_payload_that_cannot_be_read_now_is_not_asked_for_as_fast_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 is down: the task costs nothing and comes back after half a minute, not at once and over again."""
    lab, task_id = with_its_payload_beside_the_row()
    fetch = lab.world.payloads.get

    def fails(place: Stored) -> str:
        raise ServiceError("S3: 503 Slow Down")

    monkeypatch.setattr(lab.world.payloads, "get", fails)
    lab.work()
    row = lab.row(task_id)
    assert (row.state, row.attempt, row.failures, row.losses) == (State.QUEUED, 1, 0, 0)
    assert lab.answers.kept == [(task_id, UNSURE_SECONDS)]
    lab.world.advance(UNSURE_SECONDS - 1)
    assert lab.receive() == []
    monkeypatch.setattr(lab.world.payloads, "get", fetch)
    lab.world.advance(1)
    lab.work()
    assert lab.row(task_id).state is State.COMPLETED
    assert lab.effects == ["ran"]


def test_a_lease_that_lapsed_while_its_claim_was_answered_fetches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process stalled in its claim: another may have the task, and its payload is not even asked for."""
    lab, task_id = with_its_payload_beside_the_row()
    write_many = lab.world.store.write_many

    def stalled(writes: Any) -> Any:
        answers = write_many(writes)
        lab.world.advance(100)
        return answers

    fetched: list[Stored] = []
    monkeypatch.setattr(lab.world.store, "write_many", stalled)
    monkeypatch.setattr(lab.world.payloads, "get", lambda place: fetched.append(place) or "{}")
    lab.work()
    assert lab.row(task_id).state is State.LEASED
    assert (fetched, lab.effects, lab.answers.deleted) == ([], [], [])
