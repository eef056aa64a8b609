"""Whatever invokes the function: a named error, or an answer that speaks of the event's own messages and no others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.application import App
from tenure.core.task import State
from tenure.worker.lambda_runtime import NotAnSqsEvent
from tests.fuzz.junk import ANY, mutated
from tests.support.lab import Lab
from tests.support.runtimes import Context, Function


def fresh() -> tuple[Lab, Function]:
    app = App("lab")
    made = Lab(app)
    app.task(queue="work", name="work")(lambda key="": made.effects.append(key))
    return made, Function(made)


def a_batch(made: Lab, function: Function, count: int = 3) -> tuple[list[str], dict[str, Any]]:
    ids = [made.submit(args={"key": str(number)}) for number in range(count)]
    return ids, function.event()


def check(function: Function, made: Lab, event: Any) -> list[str]:
    """The ids listed, of a well-formed answer."""
    answer = function.runtime.handle(event, Context(made))
    assert set(answer) == {"batchItemFailures"}
    listed = [each["itemIdentifier"] for each in answer["batchItemFailures"]]
    assert all(set(each) == {"itemIdentifier"} for each in answer["batchItemFailures"])
    assert set(listed) <= {record["messageId"] for record in event["Records"]}
    assert len(set(listed)) == len(listed)
    return listed


EVENTS = (
    ANY
    | st.dictionaries(st.sampled_from(["Records", "records", "Event", "detail"]), ANY)
    | st.lists(
        st.dictionaries(
            st.sampled_from(
                ["messageId", "body", "attributes", "messageAttributes", "eventSourceARN", "receiptHandle"]
            ),
            ANY | st.text(min_size=1, max_size=5),
        ),
        max_size=4,
    ).map(lambda records: {"Records": records})
)


@given(EVENTS)
def test_any_event_is_refused_by_name_or_answered_about_itself(event: Any) -> None:
    """Nothing was sent that this worker could have run, so nothing of it is called done."""
    made, function = fresh()
    try:
        listed = check(function, made, event)
    except NotAnSqsEvent:
        return
    assert set(listed) == {record["messageId"] for record in event["Records"]}
    assert made.effects == []


@settings(max_examples=60)
@given(st.data())
def test_one_damaged_record_hinders_no_neighbour(data: st.DataObject) -> None:
    """Any one record, damaged anywhere but in its id: the others run once and are done."""
    made, function = fresh()
    ids, event = a_batch(made, function)
    at = data.draw(st.integers(0, 2))
    record = event["Records"][at]
    changed = data.draw(mutated({name: value for name, value in record.items() if name != "messageId"}))
    event["Records"][at] = {**(changed if isinstance(changed, dict) else {}), "messageId": record["messageId"]}
    listed = check(function, made, event)
    others = [n for n in range(3) if n != at]
    assert set(listed) <= {record["messageId"]}
    assert [made.row(ids[n]).state for n in others] == [State.COMPLETED] * 2
    assert sorted(key for key in made.effects if key != str(at)) == [str(n) for n in others]


ODD: list[dict[str, Any]] = [
    {"attributes": "x"},
    {"attributes": [1]},
    {"attributes": {"ApproximateReceiveCount": float("inf")}},
    {"attributes": {"SentTimestamp": "9" * 5000}},
    {"messageAttributes": [1]},
    {"messageAttributes": "x"},
    {"messageAttributes": {"a": 1}},
    {"body": {"tenure": 1}},
    {"body": None},
    {"receiptHandle": 5},
    {"eventSourceARN": ["x"]},
]


@pytest.mark.parametrize("change", ODD, ids=repr)
def test_what_was_found_stays_found(change: dict[str, Any]) -> None:
    """Members of another kind than AWS sends: read as the least they can mean, and the others are done."""
    made, function = fresh()
    ids, event = a_batch(made, function)
    event["Records"][1] |= change
    assert set(check(function, made, event)) <= {event["Records"][1]["messageId"]}
    assert [made.row(ids[n]).state for n in (0, 2)] == [State.COMPLETED] * 2
