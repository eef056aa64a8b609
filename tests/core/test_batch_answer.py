"""A function's answer to a batch, as the event source mapping reads it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.batch_answer import interpret

IDS = ["m1", "m2", "m3"]


@pytest.mark.parametrize("answer", [None, "", [], {}, {"batchItemFailures": []}, {"batchItemFailures": None}])
def test_an_empty_answer_means_that_all_succeeded(answer):
    assert interpret(answer, IDS) == set()


def test_named_messages_failed_and_the_others_did_not():
    answer = {"batchItemFailures": [{"itemIdentifier": "m3"}, {"itemIdentifier": "m1"}, {"itemIdentifier": "m3"}]}
    assert interpret(answer, IDS) == {"m1", "m3"}


@pytest.mark.parametrize(
    "answer",
    [
        0,
        False,
        "done",
        ["m1"],
        {"statusCode": 200},
        {"batchItemFailure": []},
        {"batchItemFailures": "m1"},
        {"batchItemFailures": {"itemIdentifier": "m1"}},
        {"batchItemFailures": ["m1"]},
        {"batchItemFailures": [None]},
        {"batchItemFailures": [{}]},
        {"batchItemFailures": [{"itemIdentifier": ""}]},
        {"batchItemFailures": [{"itemIdentifier": None}]},
        {"batchItemFailures": [{"itemIdentifier": 1}]},
        {"batchItemFailures": [{"itemIdentifier": ["m1"]}]},
        {"batchItemFailures": [{"id": "m1"}]},
        {"batchItemFailures": [{"itemIdentifier": "m1"}, {"itemIdentifier": "unknown"}]},
    ],
)
def test_an_answer_that_cannot_be_read_means_that_all_failed(answer):
    assert interpret(answer, IDS) == set(IDS)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
def test_whatever_json_comes_the_answer_is_a_part_of_the_batch(answer):
    assert interpret(json.loads(json.dumps(answer)), IDS) in (set(), set(IDS))
