"""R13: the last look at the clock is taken when nothing is left to wait for."""

from __future__ import annotations

import pytest

from tenure.application import App
from tenure.core.envelope import encode, envelope_of
from tenure.core.task import State, Stored
from tenure.ports import Send
from tests.support.lab import Lab


def test_a_lease_that_lapses_while_the_payload_is_fetched_starts_no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stall in the read of a payload beside the row: by its end another worker may have the task."""
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
