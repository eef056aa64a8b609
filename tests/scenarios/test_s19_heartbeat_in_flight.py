"""S19: a heartbeat is on the wire while its message is settled."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from tenure.application import App
from tenure.core.outcome import RetryAfter
from tenure.core.task import State
from tenure.ports import Done, NotDone
from tests.support.lab import Lab


class SlowVisibility:
    """A queue whose change of visibility waits on the wire until it is let go, and then answers as told."""

    def __init__(self, queue: Any, answer: NotDone | None) -> None:
        self._queue = queue
        self._answer = answer
        self.on_the_wire = threading.Event()
        self.let_go = threading.Event()
        self.calls: list[str] = []
        self.ordered, self.name = queue.ordered, queue.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def set_visibility_many(self, changes: Sequence[tuple[str, int]]) -> list[Done | NotDone]:
        self.calls.append("beat starts")
        self.on_the_wire.set()
        assert self.let_go.wait(10)
        done: list[Done | NotDone] = self._queue.set_visibility_many(changes)
        self.calls.append("beat ends")
        return [self._answer] if self._answer else done


ANSWERS = [
    None,
    NotDone(True, "ReceiptHandleIsInvalid", "The input receipt handle is invalid."),
    NotDone(True, "AWS.SimpleQueueService.MessageNotInflight", "Message is not in flight."),
    NotDone(True, "InvalidParameterValue", "Message does not exist or is not available for visibility timeout change."),
]


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda a: a.code if a else "done")
def test_settling_waits_for_the_beat_and_no_beat_starts_after_it(seed: int, answer: NotDone | None) -> None:
    """200 times: the delete or the backoff comes after the beat, whatever it answers; nothing escapes a thread."""
    fails = seed % 2 == 0
    app, effects = App("lab"), []
    in_handler, end = threading.Event(), threading.Event()

    def work() -> str:
        effects.append(1)
        in_handler.set()
        assert end.wait(10)
        if fails:
            raise RetryAfter("77s")
        return "done"

    app.task(queue="work", name="work", lease="30s")(work)
    it = Lab(app)
    slow = SlowVisibility(it.queue, answer)
    task_id = it.submit()
    engine = it.engine()
    inbox = type(it.inbox())(it.tier, slow, it.dead, it.answers)
    [unit] = engine.admit(inbox, it.receive())
    escaped: list[Any] = []
    before, hook = threading.active_count(), threading.excepthook
    threading.excepthook = escaped.append
    try:
        runner = threading.Thread(target=engine.run, args=(unit,))  # noqa: TID251 - two real threads, to cross on a wire
        runner.start()
        assert in_handler.wait(10)
        it.world.scheduler.now_ms += 11_000
        beater = threading.Thread(target=engine.holder.tick)  # noqa: TID251 - as above
        beater.start()
        assert slow.on_the_wire.wait(10)
        release_first = random.Random(seed).random() < 0.5
        if release_first:
            slow.let_go.set()
        end.set()
        slow.let_go.set()
        runner.join(10)
        beater.join(10)
    finally:
        threading.excepthook = hook
    it.world.scheduler.now_ms += 60_000
    engine.holder.tick()
    assert escaped == []
    assert threading.active_count() == before
    assert slow.calls == ["beat starts", "beat ends"], "and none started after the answer"
    row = it.row(task_id)
    if fails:
        assert row.state is State.RETRYING
        assert it.answers.kept == [(task_id, 77)], "the backoff stands"
        assert it.receive() == [], "and was not overwritten by the late beat: 60 s of 77 have passed"
    else:
        assert row.state is State.COMPLETED
        assert it.messages() == 0
