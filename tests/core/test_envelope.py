"""The envelope: what goes in comes out, a snapshot is the row it was made from, and foreign bytes are told apart."""

from __future__ import annotations

import contextlib
import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core import limits, machine
from tenure.core.envelope import Envelope, canonical, decode, digest_of, encode, envelope_of, snapshot
from tenure.core.errors import DecodeError, ForeignMessage, UnsupportedVersion
from tenure.core.task import Row, State, Stored
from tests.core.building import PAYLOAD, T0, blank, envelope, leased, queued, stamp

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
COUNT = st.integers(0, 2**53 - 1)
PLACE = st.builds(Stored, st.sampled_from(["item", "object"]), TEXT.filter(bool), COUNT)


@st.composite
def envelopes(draw: st.DrawFn) -> Envelope:
    payload = draw(st.none() | JSON.map(canonical))
    place = draw(PLACE if payload is None else st.none() | PLACE)
    counts = ("task_version", "row_version", "sends", "submitted_at_ms", "due_at_ms", "deadline_at_ms")
    drawn: dict[str, Any] = {name: draw(COUNT) for name in counts}
    drawn |= {name: draw(TEXT) for name in ("birth", "tenant", "key", "tier", "write_id", "traceparent")}
    return Envelope(
        id=draw(st.text(string.ascii_letters + string.digits, min_size=1, max_size=60)),
        task=draw(TEXT.filter(bool)),
        digest=draw(st.text("0123456789abcdef", min_size=32, max_size=32)),
        payload=payload,
        payload_at=place,
        max_attempts=draw(COUNT),
        fence_floor=draw(COUNT),
        depth=draw(COUNT),
        **drawn,
    )


@given(envelopes())
def test_an_envelope_comes_out_as_it_went_in(one: Envelope) -> None:
    text = encode(one)
    assert decode(text) == one
    assert encode(decode(text)) == text
    assert json.loads(text)["tenure"] == 1


def test_members_at_their_default_are_left_out() -> None:
    """An envelope is billed by the byte."""
    assert set(json.loads(encode(envelope()))) == {
        *("tenure", "id", "task", "birth", "digest", "write_id"),
        *("row_version", "submitted_at_ms", "payload"),
    }


def test_the_least_that_another_language_must_write() -> None:
    got = decode('{"tenure": 1, "id": "a", "task": "work", "payload": {"n": 1}}')
    assert got == Envelope(
        id="a", birth="", task="work", row_version=0, digest=digest_of(PAYLOAD), payload=PAYLOAD, submitted_at_ms=0
    )


def test_a_payload_is_the_same_text_however_it_was_written() -> None:
    """So that the same call has the same digest from every producer."""
    one = decode('{"tenure":1,"id":"a","task":"t","payload":{"b":[1, 2.50],"a":"\\u00e9"}}')
    two = decode('{"payload" : {"a":"é", "b":[1,2.5]}, "task":"t","id":"a","tenure":1}')
    assert one == two
    assert one.payload == '{"a":"é","b":[1,2.5]}'


def test_members_that_are_unknown_are_read_past() -> None:
    """A newer tenure may add some; a letter has one of its own."""
    assert decode(encode(envelope())[:-1] + ',"letter":{"x":1},"more":null}') == envelope()


# ---- the snapshot ----------------------------------------------------------------------------------------------
FIELDS = st.fixed_dictionaries(
    {
        **{name: TEXT for name in ("tenant", "ordering_key", "tier", "traceparent")},
        **{name: st.integers(1, 10**6) for name in ("task_version", "max_attempts", "depth", "fence_floor")},
        "due_at_ms": st.just(0) | st.integers(T0 + 1, T0 + 900_000),
        "deadline_at_ms": st.sampled_from([0, T0 + 10**9]),
    }
)


@given(payload=JSON.map(canonical), beside=st.booleans(), fields=FIELDS)
def test_a_first_message_tells_the_whole_row(payload: str, beside: bool, fields: dict[str, Any]) -> None:
    """R9: a claim replaces the row whole, so what the snapshot misses would be lost by the first claim."""
    size = len(payload.encode())
    place = Stored("item", "t1/P/w-0", size) if beside else Stored("inline", payload, size)
    fresh = blank(payload=place, digest=digest_of(payload), **fields)
    row = machine.submitted(fresh, stamp(0, "w-0"))
    assert snapshot(decode(encode(envelope_of(row, payload))), "media") == row
    if beside:
        assert snapshot(decode(encode(envelope_of(row, None))), "media") == row


@pytest.mark.parametrize("row", [machine.send(queued(), stamp(9)), leased()], ids=["sent again", "claimed"])
def test_a_later_message_tells_no_row(row: Row) -> None:
    """Something may have happened since; it must be read."""
    assert snapshot(envelope_of(row, PAYLOAD), "media") is None


def test_a_message_without_a_row_tells_none() -> None:
    assert snapshot(decode('{"tenure":1,"id":"a","task":"t","payload":{}}'), "media") is None


def test_a_payload_beside_the_row_travels_with_its_place() -> None:
    place = Stored("object", "t1/P/w-0", 20_000)
    row = queued(payload=place)
    assert envelope_of(row, None).payload_at == place
    assert envelope_of(row, PAYLOAD).payload_at == place, "else a claim by snapshot would forget where it lies"
    assert envelope_of(queued(), PAYLOAD).payload_at is None


# ---- foreign bytes ---------------------------------------------------------------------------------------------
S3 = {"Records": [{"eventSource": "aws:s3", "s3": {"object": {"key": "x"}}}]}
FOREIGN = {
    "empty": "",
    "empty ": " \n",
    "text": "hello",
    "text nan": '{"tenure":1,"id":"a","task":"t","payload":NaN}',
    "text infinite": '{"tenure":1,"id":"a","task":"t","payload":1e999}',
    "text surrogate": '{"tenure":1,"id":"a","task":"t","payload":"\\ud800"}',
    "text deep": "[" * 100_000,
    "text digits": "1" * 5000,
    "json": "[]",
    "json number": "3",
    "json object": '{"a":1}',
    "s3": json.dumps(S3),
    "s3-test": '{"Service":"Amazon S3","Event":"s3:TestEvent"}',
    "dynamodb": '{"Records":[{"eventSource":"aws:dynamodb"}]}',
    "records": '{"Records":[{}]}',
    "sns": '{"Type":"Notification","Message":"x"}',
    "sns confirm": '{"Type":"SubscriptionConfirmation"}',
    "eventbridge": '{"detail-type":"x","detail":{}}',
    "json records": '{"Records":[]}',
    "envelope": '{"tenure":1,"task":"t","payload":{}}',
    "envelope id": '{"tenure":1,"id":"","task":"t","payload":{}}',
    "envelope id number": '{"tenure":1,"id":7,"task":"t","payload":{}}',
    "envelope task": '{"tenure":1,"id":"a","payload":{}}',
    "envelope payload": '{"tenure":1,"id":"a","task":"t"}',
    "envelope ref": '{"tenure":1,"id":"a","task":"t","payload_ref":{"kind":"inline","key":"k","bytes":1}}',
    "envelope ref size": '{"tenure":1,"id":"a","task":"t","payload_ref":{"kind":"item","key":"k","bytes":true}}',
    "envelope ref key": '{"tenure":1,"id":"a","task":"t","payload_ref":{"kind":"item","key":"","bytes":1}}',
    "envelope ref kind": '{"tenure":1,"id":"a","task":"t","payload_ref":{"kind":["item"],"key":"k","bytes":1}}',
    "envelope ref text": '{"tenure":1,"id":"a","task":"t","payload_ref":"k"}',
    "envelope number": '{"tenure":1,"id":"a","task":"t","payload":{},"sends":true}',
    "envelope number below": '{"tenure":1,"id":"a","task":"t","payload":{},"sends":-1}',
    "envelope number broken": '{"tenure":1,"id":"a","task":"t","payload":{},"sends":1.5}',
    "envelope number large": '{"tenure":1,"id":"a","task":"t","payload":{},"sends":9007199254740992}',
    "envelope text": '{"tenure":1,"id":"a","task":"t","payload":{},"tenant":null}',
    "envelope long": json.dumps({"tenure": 1, "id": "a" * 2048, "task": "t", "payload": {}}),
    "json version": '{"tenure":true,"id":"a","task":"t","payload":{}}',
    "json version text": '{"tenure":"1","id":"a","task":"t","payload":{}}',
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_tenure_did_not_write_is_told_by_its_kind(name: str) -> None:
    with pytest.raises(ForeignMessage) as foreign:
        decode(FOREIGN[name])
    assert foreign.value.kind == name.split(" ")[0]
    assert str(foreign.value).startswith("not a tenure envelope")


def test_a_newer_envelope_is_named_apart() -> None:
    """It may wait for a deployment that can read it."""
    with pytest.raises(UnsupportedVersion, match="version 2; this worker reads version 1"):
        decode('{"tenure":2}')


def test_an_id_that_no_table_can_hold_is_foreign() -> None:
    """Else one such message would fail the read of every batch that it comes in."""
    longest = "a" * (limits.DYNAMODB_KEY_BYTES_MAX - len("T#"))
    assert decode(encode(envelope(id=longest))).id == longest
    with pytest.raises(ForeignMessage):
        decode(encode(envelope(id=longest + "a")))


ANYTHING = (
    st.text()
    | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))
    | JSON.map(json.dumps)
    | st.dictionaries(
        st.sampled_from(["tenure", "id", "task", "payload", "payload_ref", "sends", "tenant", "Records", "Type"]),
        JSON | st.just(1) | st.just("a"),
    ).map(json.dumps)
)


@given(ANYTHING)
def test_whatever_the_bytes_only_decode_errors_come_out(body: str) -> None:
    try:
        one = decode(body)
    except DecodeError as error:
        said = str(error)
    else:
        assert decode(encode(one)) == one
        return
    assert said.encode(), "it can be written down"


@given(st.data())
def test_an_envelope_that_was_damaged_is_an_envelope_or_foreign(data: st.DataObject) -> None:
    text = list(encode(data.draw(envelopes())))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at] = data.draw(st.characters())
    with contextlib.suppress(DecodeError):
        decode("".join(text))


# ---- canonical text --------------------------------------------------------------------------------------------
@given(JSON)
def test_canonical_text_is_stable(value: Any) -> None:
    text = canonical(value)
    assert canonical(json.loads(text)) == text
    assert len(digest_of(text)) == 32


@pytest.mark.parametrize(
    ("value", "error"), [(float("nan"), ValueError), (float("inf"), ValueError), ({1, 2}, TypeError)]
)
def test_canonical_text_refuses_what_json_is_not(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        canonical(value)


def test_a_snapshot_is_a_queued_row() -> None:
    row = snapshot(envelope(), "media")
    assert row is not None
    assert row.state is State.QUEUED
