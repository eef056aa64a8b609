"""S09: the reply that Lambda reads. What it does not list is deleted, so it lists whatever is not done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenure.adapters.memory.telemetry import MemoryTelemetry
from tenure.application import App
from tenure.core.errors import ServiceError
from tenure.core.task import State
from tenure.ports import Unanswered, Write, WriteOutcome
from tenure.rows import to_row
from tenure.telemetry import LogTelemetry
from tenure.worker.lambda_runtime import NotAnSqsEvent
from tests.support.lab import Lab
from tests.support.runtimes import Context, Function


def lab(fails: str = "") -> Lab:
    app = App("lab")
    made = Lab(app)

    def work(key: str = "") -> str:
        made.effects.append(key)
        if key and key == fails:
            raise ValueError(key)
        return key

    app.task(queue="work", name="work")(work)
    return made


def submit(it: Lab, count: int) -> list[str]:
    return [it.submit(args={"key": str(number)}) for number in range(1, count + 1)]


def test_only_ids_of_this_event_are_listed_each_once_and_nothing_else_is_said():
    """(f) The reply is JSON of one member, with itemIdentifier texts that are message ids of the event."""
    it = lab(fails="2")
    function = Function(it)
    submit(it, 3)
    event = function.event()
    answer = json.loads(json.dumps(function.runtime.handle(event, Context(it))))
    assert list(answer) == ["batchItemFailures"]
    assert answer["batchItemFailures"] == [{"itemIdentifier": event["Records"][1]["messageId"]}]


@pytest.mark.parametrize("answered", [0, 1, 2, 3, 4])
def test_when_the_table_falls_silent_what_is_not_known_to_be_done_is_listed(answered):
    """(b) From some write on the table gives no answer: what was settled before is not listed, all else is, and nothing
    is deleted unrun."""
    it = lab()
    function = Function(it)
    ids = submit(it, 5)
    event = function.event()
    original, settled = it.world.store.write_many, []

    def write_many(writes: list[Write]) -> list[WriteOutcome]:
        if all(to_row(write.item).state is State.COMPLETED for write in writes):
            if len(settled) >= answered:
                return [Unanswered("EndpointConnectionError")] * len(writes)
            settled.extend(writes)
        return original(writes)

    it.world.store.write_many = write_many  # type: ignore[method-assign] - the fault
    listed = function.invoke(event)
    assert listed == [record["messageId"] for record in event["Records"][answered:]]
    it.world.store.write_many = original  # type: ignore[method-assign] - and it is over
    assert [it.row(task_id).state for task_id in ids[:answered]] == [State.COMPLETED] * answered


def test_when_the_table_cannot_be_reached_at_all_everything_is_listed():
    it = lab()
    function = Function(it)
    submit(it, 3)
    event = function.event()

    def down(*_: Any) -> Any:
        raise ServiceError("EndpointConnectionError")

    it.world.store.write_many = it.world.store.get_many = down  # type: ignore[method-assign] - the fault
    assert len(function.invoke(event)) == 3
    assert it.effects == []
    assert it.messages() == 3


def test_a_logger_that_raises_changes_nothing():
    """(c) The same batch with telemetry whose every sink raises gives the same reply and the same rows."""
    outcomes = []
    for broken in (False, True):
        it = lab(fails="2")
        if broken:

            def raises(*_: Any) -> None:
                raise RuntimeError("the log is full")

            it.world.telemetry = LogTelemetry(raises)  # type: ignore[assignment] - it is what workers use
        function = Function(it)
        ids = submit(it, 3)
        event = function.event()
        listed = function.invoke(event)
        outcomes.append(
            (
                [record["messageId"] in listed for record in event["Records"]],
                [it.row(task_id).state for task_id in ids],
            )
        )
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == [False, True, False]


def test_an_engine_that_breaks_its_word_costs_nothing_either():
    """A defect of ours in mid-batch: what was done before it is done, the rest is listed, and no exception hides it."""
    it = lab()
    function = Function(it)
    submit(it, 3)
    event = function.event()
    original, count = function.engine.run, [0]

    def run(unit: Any, **options: Any) -> None:
        count[0] += 1
        if count[0] == 2:
            raise RuntimeError("a defect")
        original(unit, **options)

    function.engine.run = run  # type: ignore[method-assign] - the fault
    assert function.invoke(event) == [event["Records"][1]["messageId"]]
    assert it.effects == ["1", "3"]


def test_no_records_is_an_empty_list():
    """(d)"""
    it = lab()
    assert Function(it).runtime.handle({"Records": []}, Context(it)) == {"batchItemFailures": []}


@pytest.mark.parametrize(
    "event",
    [{}, None, [], "text", {"Records": None}, {"Records": {}}, {"Records": [{}]}, {"Records": [{"messageId": ""}]}],
    ids=repr,
)
def test_what_is_no_batch_of_messages_is_a_clear_error(event):
    """(e) Never a silent success: a reply without ids would tell Lambda that all is done."""
    it = lab()
    with pytest.raises(NotAnSqsEvent, match=r"Records|messageId"):
        Function(it).runtime.handle(event, Context(it))


def test_an_id_that_comes_twice_in_one_event_is_listed_unless_both_are_done():
    """SQS may deliver a message twice, even in one batch; the copy that is still open must keep it."""
    it = lab(fails="1")
    function = Function(it)
    submit(it, 1)
    event = function.event()
    event["Records"].append(dict(event["Records"][0]))
    answer = function.runtime.handle(event, Context(it))
    assert answer["batchItemFailures"] == [{"itemIdentifier": event["Records"][0]["messageId"]}]


def test_an_id_that_came_twice_is_not_deleted_while_one_of_the_two_is_open():
    """The first copy is claimed and done, the second was handed back at its live lease: only the row may end it."""
    it = lab()
    function = Function(it)
    submit(it, 1)
    event = function.event()
    event["Records"].append(dict(event["Records"][0]))
    answer = function.runtime.handle(event, Context(it))
    assert it.effects == ["1"]
    assert answer["batchItemFailures"] == [{"itemIdentifier": event["Records"][0]["messageId"]}]


@pytest.mark.parametrize("count", ["7", "abc", None, "", "-3", 7])
def test_odd_receive_counts_are_tolerated(count):
    """Missing, not a number, or far above max_attempts: SQS's count is no count of attempts, and the task runs."""
    it = lab()
    function = Function(it)
    submit(it, 1)
    event = function.event()
    if count is None:
        del event["Records"][0]["attributes"]["ApproximateReceiveCount"]
    else:
        event["Records"][0]["attributes"]["ApproximateReceiveCount"] = count
    assert function.invoke(event) == []
    assert it.effects == ["1"]


def test_records_stripped_to_the_bone_do_not_crash():
    """No attributes, no receipt: what can be told is told, nothing else happens."""
    it = lab()
    function = Function(it)
    submit(it, 1)
    event = function.event()
    bare = {"messageId": "m-1", "eventSourceARN": event["Records"][0]["eventSourceARN"]}
    listed = [
        each["itemIdentifier"]
        for each in function.runtime.handle({"Records": [bare, *event["Records"]]}, Context(it))["batchItemFailures"]
    ]
    assert it.effects == ["1"]
    assert listed in ([], ["m-1"])


def test_a_message_of_a_queue_that_this_function_does_not_serve_is_listed_and_told():
    """A mapping that somebody made by hand: its messages are neither run nor deleted, and somebody hears of it."""
    it = lab()
    function = Function(it)
    submit(it, 2)
    event = function.event()
    event["Records"][0]["eventSourceARN"] = "arn:aws:sqs:us-east-1:123456789012:somebody-elses"
    assert function.invoke(event) == [event["Records"][0]["messageId"]]
    assert isinstance(it.world.telemetry, MemoryTelemetry)
    assert it.world.telemetry.named("message.misrouted")[0]["queue"] == "somebody-elses"
    assert it.effects == ["2"]
