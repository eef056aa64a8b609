"""Letters that a person moves back in SQS's console (R27): each opens its task once, and what may not run keeps its
letter."""

from __future__ import annotations

import pytest

from tenure.core import machine
from tenure.core.replaying import REPLAYS_MAX
from tenure.core.retry import Retry
from tenure.core.task import State
from tenure.ports import NotDone, NotSent
from tests.support.lab import Lab, lab, raising


def buried(queue: str = "work") -> tuple[Lab, str]:
    """A task whose one attempt failed; its letter lies in the DLQ."""
    made = lab(raising(ValueError("no")), queue, retry=Retry(max_attempts=1))
    task_id = made.submit(ordering_key="k" if queue == "ledger" else "", args={"key": "k"} if queue == "ledger" else {})
    made.work_until_quiet()
    assert (made.row(task_id).state, made.row(task_id).letter_confirmed) == (State.DEAD_LETTERED, True)
    return made, task_id


@pytest.mark.parametrize("fault", ["no letter is taken", "no delete is answered"])
def test_one_redrive_is_one_replay(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message that a redriven letter became is met again after each fault, and never replays its task again."""
    made, task_id = buried()
    assert made.dead.redrive_to(made.queue) == 1
    if fault == "no letter is taken":
        lost = NotSent(False, "InternalError", "down")
        monkeypatch.setattr(made.dead, "send_many", lambda sends: [lost] * len(sends))
    else:
        failed = NotDone(False, "InternalError", "down")
        monkeypatch.setattr(made.queue, "delete_many", lambda receipts: [failed] * len(receipts))
    for _ in range(20):
        made.work()
        made.world.advance(120)
    assert (len(made.effects), made.row(task_id).replays) == (2, 1)
    monkeypatch.undo()
    made.work_until_quiet()
    assert (len(made.effects), made.row(task_id).letter_confirmed, len(made.letters())) == (2, True, 1)


def test_a_redriven_letter_whose_task_was_discarded_goes_and_tells() -> None:
    """A person said that it needs nothing more; the letter that ingest had not drained yet runs nothing."""
    made, task_id = buried()
    row = made.row(task_id)
    made.rows.replace(row, machine.discard(row, made.stamp(), "the customer left"))
    made.dead.redrive_to(made.queue)
    made.work_until_quiet()
    assert (len(made.effects), made.letters()) == (1, [])
    assert [told["why"] for told in made.events("message.dropped")] == ["its dead letter was discarded"]


@pytest.mark.parametrize("queue", ["work", "ledger"])
def test_what_may_not_be_replayed_any_more_keeps_its_letter(queue: str) -> None:
    """Past the bound of replays nothing runs; the letter is back in the DLQ, a FIFO one too, within its five
    minutes of deduplication."""
    made, task_id = buried(queue)
    for _ in range(REPLAYS_MAX + 1):
        assert made.dead.redrive_to(made.queue) == 1
        made.work_until_quiet(step_seconds=1)
    assert (len(made.effects), made.row(task_id).replays) == (1 + REPLAYS_MAX, REPLAYS_MAX)
    (letter,) = made.letters()
    assert letter.attributes["tenure-letter"] == made.row(task_id).letter_id
    assert f"replayed {REPLAYS_MAX} times already" in made.events("message.dropped")[0]["why"]
