"""S21: SQS does not take an answer about a message. The worker goes on, and the row says what became of the task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tenure.application import App
from tenure.core.retry import Retry
from tenure.core.task import State
from tenure.ports import Done, NotDone
from tenure.worker.acks import DirectAck
from tests.support.lab import Lab
from tests.support.runtimes import Function, serve

ANSWERS: dict[str, Any] = {
    "receipt invalid": NotDone(True, "ReceiptHandleIsInvalid", "The input receipt handle is invalid."),
    "receipt expired": NotDone(True, "InvalidParameterValue", "The receipt handle has expired"),
    "not in flight": NotDone(True, "MessageNotInflight", ""),
    "queue deleted": NotDone(True, "NonExistentQueue", "The specified queue does not exist."),
    "no answer": NotDone(False, "EndpointConnectionError", ""),
    "an adapter's bug": RuntimeError("a bug of ours"),
}


class Deaf:
    """A queue that does not take one kind of answer, about the first `times` messages it is asked about."""

    def __init__(self, lab: Lab, method: str, answer: Any, times: int = 1) -> None:
        self._queue, self._method, self._answer, self._times = lab.queue, method, answer, times

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._queue, name)
        if name != self._method:
            return real

        def call(entries: Sequence[Any]) -> list[Done | NotDone]:
            if self._times > 0:
                self._times -= len(entries)
                if isinstance(self._answer, Exception):
                    raise self._answer
                return [self._answer] * len(entries)
            answers: list[Done | NotDone] = real(entries)
            return answers

        return call


def lab() -> Lab:
    app = App("lab")
    made = Lab(app)

    def work(key: str = "") -> str:
        made.effects.append(key)
        if key.startswith("fails"):
            raise ValueError(key)
        return key

    app.task(queue="work", name="work", retry=Retry(max_attempts=2, base="10s"))(work)
    return made


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_delete_that_fails_changes_nothing_of_what_the_handler_earned(kind):
    """Completed, told once with task and queue; the message comes again, meets its row and goes without a run."""
    it = lab()
    first = it.submit(args={"key": "a"})
    serve(it, queue=Deaf(it, "delete_many", ANSWERS[kind]))  # type: ignore[arg-type] - a queue by delegation
    it.world.run(seconds=5)
    second = it.submit(args={"key": "b"})
    it.world.run(seconds=200)
    assert it.effects == ["a", "b"]
    assert [it.row(task_id).state for task_id in (first, second)] == [State.COMPLETED] * 2
    told = it.events("ack.failed")
    assert [(each["task_id"], each["queue"], each["what"]) for each in told] == [(first, it.tier.name, "delete")]
    assert it.messages() == 0


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_visibility_that_cannot_be_set_after_a_failure_only_changes_when_it_comes_back(kind):
    it = lab()
    task_id = it.submit(args={"key": "fails"})
    serve(it, queue=Deaf(it, "set_visibility_many", ANSWERS[kind]))  # type: ignore[arg-type] - a queue by delegation
    it.world.run(seconds=5)
    assert it.row(task_id).state is State.RETRYING
    it.submit(args={"key": "b"})
    it.world.run(seconds=300)
    assert it.effects.count("fails") == 2
    assert "b" in it.effects
    assert it.row(task_id).state is State.DEAD_LETTERED
    assert [each["what"] for each in it.events("ack.failed")] == ["visibility"]


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_give_back_that_fails_delays_a_message_and_loses_none(kind):
    """At SIGTERM visibility 0 is refused: the process still ends well, and the message comes after its visibility."""
    it = lab()
    app_clock = it.world.clock
    it.app.task(queue="work", name="long")(lambda: app_clock.sleep(20))
    it.submit("long")
    served = serve(it, queue=Deaf(it, "set_visibility_many", ANSWERS[kind], times=3))  # type: ignore[arg-type] - as above
    it.world.run(seconds=1)
    served.poller.drain()
    it.world.run(seconds=1)
    waiting = it.submit(args={"key": "b"})
    it.world.run(until=lambda: served.ended)
    assert served.codes == [0]
    it.work_until_quiet(step_seconds=61)
    assert it.row(waiting).state is State.COMPLETED
    assert it.effects == ["b"]


def test_on_fifo_a_handler_that_outlives_its_visibility_has_a_dead_receipt():
    """No fault injected: a FIFO queue that hides for a second, a handler of 1.5 s, and no beat yet. The delete is
    refused, the task is completed, and its redelivery goes without a run."""
    app = App("lab")
    it = Lab(app, "ledger")
    it.queue.visibility_seconds = 1

    def work(key: str) -> str:
        it.effects.append(key)
        it.world.clock.sleep(1.5)
        return key

    app.task(queue="ledger", name="work", ordered_by="key")(work)
    task_id = it.submit(args={"key": "a"}, ordering_key="a")
    serve(it)
    it.world.run(seconds=60)
    assert it.effects == ["a"]
    assert it.row(task_id).state is State.COMPLETED
    told = it.events("ack.failed")
    assert [(each["task_id"], each["what"]) for each in told] == [(task_id, "delete")]
    assert it.messages() == 0


def test_one_failed_entry_of_three_is_told_alone():
    """A batch give-back of three: the one that SQS did not take is named, and no other."""
    it = lab()
    ids = [it.submit(args={"key": str(number)}) for number in range(3)]
    deliveries = it.receive()
    real = it.queue.set_visibility_many

    def one_refused(changes: Sequence[Any]) -> list[Done | NotDone]:
        taken: list[Done | NotDone] = list(real([changes[0], changes[2]]))
        return [taken[0], NotDone(True, "MessageNotInflight", ""), taken[1]]

    it.queue.set_visibility_many = one_refused  # type: ignore[method-assign] - the fault
    DirectAck(it.queue, it.world.telemetry).keep_many(deliveries, 0)
    assert [each["task_id"] for each in it.events("ack.failed")] == [ids[1]]
    assert len(it.receive()) == 2


@pytest.mark.parametrize("kind", ANSWERS)
def test_on_lambda_a_retry_whose_visibility_cannot_be_set_is_listed_all_the_same(kind):
    it = lab()
    it.submit(args={"key": "fails"})
    it.submit(args={"key": "a"})
    it.queue = Deaf(it, "set_visibility_many", ANSWERS[kind])  # type: ignore[assignment] - a queue by delegation
    function = Function(it)
    event = function.event()
    assert function.invoke(event) == [event["Records"][0]["messageId"]]
    assert it.effects == ["fails", "a"]
