"""S05: somebody else's messages in our queue, through Lambda and through the poller."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenure.application import App
from tenure.core.task import State
from tenure.ports import Delivery, NotSent, Send
from tests.support.lab import Lab
from tests.support.runtimes import Function, record_of, serve

FOREIGN = {
    "s3": json.dumps({"Records": [{"eventSource": "aws:s3", "s3": {"object": {"key": "k"}}}]}),
    "s3-test": json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}),
    "sns": json.dumps({"Type": "Notification", "Message": '{"tenure": 1, "id": "x", "task": "work", "payload": {}}'}),
    "eventbridge": json.dumps({"version": "0", "detail-type": "x", "detail": {}}),
    "text": "hello",
    "another's json": json.dumps({"id": "x", "task": "work", "payload": {}}),
    "a list": "[1]",
    "half an envelope": json.dumps({"tenure": 1, "id": "x"}),
}


def lab() -> Lab:
    app = App("lab")
    made = Lab(app)

    def work(key: str) -> str:
        made.effects.append(key)
        return key

    app.task(queue="work", name="work")(work)
    return made


def send_all(it: Lab) -> list[str]:
    """A good task, everything foreign, another good task."""
    first = it.submit(args={"key": "A"})
    it.queue.send_many([Send(body) for body in FOREIGN.values()])
    return [first, it.submit(args={"key": "B"})]


def check(it: Lab, ids: list[str], foreign: list[str]) -> None:
    """What holds whichever runtime it was: A and B once, the rest in the DLQ with a reason, nothing else written."""
    assert sorted(it.effects) == ["A", "B"]
    assert all(it.row(task_id).state is State.COMPLETED for task_id in ids)
    letters = it.letters()
    assert sorted(letter.body for letter in letters) == sorted(foreign)
    assert all(letter.attributes["tenure-reason"] for letter in letters)
    assert it.messages() == 0
    assert len(it.world.store.all()) == 2
    told = it.events("message.quarantined")
    assert len(told) == len(foreign)
    assert all(each["message_id"] and each["queue"] for each in told)
    assert not any("hello" in json.dumps(each, default=str) for each in told)


def test_on_lambda_foreign_messages_go_to_the_dlq_and_their_neighbours_run():
    it = lab()
    ids = send_all(it)
    function = Function(it)
    assert function.invoke(function.event()) == []
    check(it, ids, list(FOREIGN.values()))


def test_an_empty_body_which_sqs_refuses_but_an_event_may_hold():
    """It cannot be sent to the DLQ, which takes no empty message either, so it stays listed; its neighbours run."""
    it = lab()
    it.submit(args={"key": "A"})
    function = Function(it)
    event = function.event()
    empty = record_of(Delivery("m-empty", "r-empty", "", 1, 0, 0), it.tier.name)
    event["Records"].append(empty)
    assert function.invoke(event) in ([], ["m-empty"])
    assert it.effects == ["A"]


@pytest.mark.parametrize("threads", [1, 4])
def test_through_the_poller_as_well_and_it_goes_on_polling(threads):
    it = lab()
    ids = send_all(it)
    serve(it, threads_count=threads)
    it.world.run(seconds=120)
    check(it, ids, list(FOREIGN.values()))
    it.submit(args={"key": "C"})
    it.world.run(seconds=30)
    assert it.effects[-1] == "C"


def test_if_the_dlq_does_not_take_it_the_message_is_kept_and_listed():
    """Never deleted before it lies where somebody finds it."""
    it = lab()
    it.queue.send_many([Send("hello")])
    original = it.dead.send_many

    def down(sends: Any) -> Any:
        return [NotSent(False, "ServiceUnavailable", "")] * len(sends)

    it.dead.send_many = down  # type: ignore[method-assign] - the fault
    function = Function(it)
    event = function.event()
    assert function.invoke(event) == [event["Records"][0]["messageId"]]
    assert it.messages() == 1
    it.dead.send_many = original  # type: ignore[method-assign] - and it is over
    it.world.advance(400)
    assert function.invoke(function.event()) == []
    assert [letter.body for letter in it.letters()] == ["hello"]
