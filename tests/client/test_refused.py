"""A submit that SQS refuses for certain: taken back, opened again, and what another submit of its key may count on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenure.core import limits, machine
from tenure.core.errors import SubmitRefused
from tenure.core.task import State
from tests.client.tasks import resize
from tests.support.shop import REFUSED, Shop


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_a_definite_refusal_takes_the_row_back_and_raises(shop: Shop) -> None:
    """SQS said no: the error says why, and the row is cancelled, so that nothing can ever run."""
    shop.queue().answers = [REFUSED]
    with pytest.raises(SubmitRefused, match="NonExistentQueue") as caught:
        resize(shop).submit("p1")
    row = shop.row(caught.value.task_id)
    assert (row.state, row.reason, row.check_at_ms) == (State.CANCELLED, machine.REFUSED, 0)
    assert shop.messages() == []
    assert shop.world.telemetry.count("task.refused") == 1


def test_a_refused_key_is_opened_again_by_the_next_submit(shop: Shop) -> None:
    """The key's task runs once SQS takes it, under the same id, and its row's versions go on."""
    shop.queue().answers = [REFUSED]
    task = resize(shop).options(idempotency_key="k")
    with pytest.raises(SubmitRefused) as caught:
        task.submit("p1")
    handle = task.submit("p1")
    assert handle.id == caught.value.task_id
    assert shop.row(handle.id).version > 2
    shop.work()
    assert shop.effects == [("p1", 100)]
    assert shop.world.telemetry.count("task.reopened") == 1


def test_a_key_refused_twice_can_be_opened_a_third_time(shop: Shop) -> None:
    """A row that was opened again and refused again is taken back like the first time."""
    shop.queue().answers = [REFUSED, REFUSED]
    task = resize(shop).options(idempotency_key="k")
    for _ in range(2):
        with pytest.raises(SubmitRefused) as caught:
            task.submit("p1")
        assert shop.row(caught.value.task_id).state is State.CANCELLED
    task.submit("p1")
    shop.work()
    assert shop.effects == [("p1", 100)]


def test_a_task_cancelled_as_refused_stays_cancelled(shop: Shop) -> None:
    """Whatever word a person gives as the reason: the key's task was cancelled, and no later submit runs it."""
    task = resize(shop).options(idempotency_key="k")
    task.submit("p1").cancel("refused")
    assert task.submit("p1").found
    shop.work()
    assert shop.effects == []


def test_a_refused_key_is_opened_again_with_a_payload_beside_the_row(shop: Shop) -> None:
    """The new submit's payload is the one that is named and read."""
    shop.queue().answers = [REFUSED]
    task = resize(shop).options(idempotency_key="k")
    with pytest.raises(SubmitRefused):
        task.submit("p" * 60_000)
    handle = task.submit("p" * 60_000)
    shop.work()
    assert shop.effects == [("p" * 60_000, 100)]
    assert handle.result("0s") == "p" * 60_000


def test_a_refusal_that_comes_too_late_is_none(shop: Shop) -> None:
    """If somebody has moved the row meanwhile, the task lives: it is not taken back, and the submit succeeds."""
    shop.queue().answers = [REFUSED]
    real = shop.queue().send_many

    def claimed_meanwhile(sends: Any) -> Any:
        shop.claim(json.loads(sends[0].body)["id"])
        return real(sends)

    shop.queue().send_many = claimed_meanwhile  # type: ignore[method-assign] # the moment between send and answer
    handle = resize(shop).submit("p1")
    assert shop.row(handle.id).state is State.LEASED


@pytest.mark.parametrize("slow_seconds", [0, limits.RESUBMIT_GRACE_SECONDS, limits.TAKE_BACK_SECONDS + 1])
@pytest.mark.parametrize("opened_again", [False, True])
def test_a_submit_that_returned_is_not_taken_back_by_another(shop: Shop, slow_seconds: int, opened_again: bool) -> None:
    """A's message is refused while B submits the same key: B's task runs, and A is told that it stands."""
    task = resize(shop).options(idempotency_key="k")
    if opened_again:
        shop.queue().answers = [REFUSED]
        with pytest.raises(SubmitRefused):
            task.submit("p1")
    real, others = shop.queue().send_many, []

    def refused_slowly(sends: Any) -> Any:
        shop.queue().send_many = real  # type: ignore[method-assign] # A's call only
        shop.world.advance(slow_seconds)
        others.append(task.submit("p1"))
        return [REFUSED] * len(sends)

    shop.queue().send_many = refused_slowly  # type: ignore[method-assign] # the moment between row and refusal
    mine = task.submit("p1")
    assert (others[0].found, mine.id) == (True, others[0].id)
    assert shop.row(mine.id).state is State.QUEUED
    assert len(shop.messages()) == int(slow_seconds > 0), "the young row's own message is left to reconcile"


def test_a_refusal_after_a_long_time_takes_nothing_back(shop: Shop) -> None:
    """By then another submit of the key may have counted on the row without a word to anybody."""
    real = shop.queue().send_many

    def refused_late(sends: Any) -> Any:
        shop.world.advance(limits.TAKE_BACK_SECONDS)
        return real(sends)

    shop.queue().answers = [REFUSED]
    shop.queue().send_many = refused_late  # type: ignore[method-assign] # a call of two minutes
    assert shop.row(resize(shop).submit("p1").id).state is State.QUEUED
