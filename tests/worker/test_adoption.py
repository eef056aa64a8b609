"""A task that another language's producer put on the queue as a message alone runs like any other (R10)."""

from __future__ import annotations

import json
from typing import Any

import tenure
from tenure.core.task import State
from tenure.ports import Send
from tests.support.lab import Lab


def lab(seen: list[int], *, fail: bool = False) -> Lab:
    app = tenure.App("lab")

    @app.task(queue="work", retry=tenure.Retry(max_attempts=2))
    def count(n: int) -> int:
        seen.append(n)
        if fail:
            raise ValueError("no good")
        return n + 1

    return Lab(app)


def send(it: Lab, **members: Any) -> None:
    body = {"tenure": 1, "id": "other-1", "task": "count", "payload": {"n": 41}} | members
    it.queue.send_many([Send(json.dumps(body))])


def test_it_is_run_and_recorded() -> None:
    seen: list[int] = []
    it = lab(seen)
    send(it)
    it.work()
    row = it.row("other-1")
    assert (seen, row.state, row.failures) == ([41], State.COMPLETED, 0)
    assert row.result is not None
    assert row.result.value == "42"
    assert it.messages() == 0


def test_sent_twice_it_is_one_task() -> None:
    """Both at once, and a third time after it has ended."""
    seen: list[int] = []
    it = lab(seen)
    send(it)
    send(it)
    it.work_until_quiet()
    send(it)
    it.work_until_quiet()
    assert seen == [41]
    assert it.messages() == 0


def test_it_is_retried_and_buried_by_its_task_s_own_policy() -> None:
    seen: list[int] = []
    it = lab(seen, fail=True)
    send(it, max_attempts=50)
    it.work_until_quiet()
    row = it.row("other-1")
    assert (seen, row.state, row.reason) == ([41, 41], State.DEAD_LETTERED, "attempts_used_up")
    assert [json.loads(letter.body)["letter"]["id"] for letter in it.letters()] == [row.letter_id]


def test_a_payload_that_its_handler_cannot_take_is_buried_with_the_cause() -> None:
    it = lab([])
    send(it, payload={"n": "forty-one"})
    it.work_until_quiet()
    row = it.row("other-1")
    assert row.state is State.DEAD_LETTERED
    assert row.error is not None
    assert "`n`" in row.error.message
