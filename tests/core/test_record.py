"""A row as it is stored: every field has a short name of its own, and comes back as it went."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.errors import UnsupportedVersion
from tenure.core.record import CODES, from_data, to_data
from tenure.core.task import Disposition, ErrorRecord, Happening, Row, State, Stored
from tests.core.building import ERROR, in_state, leased, queued

TEXT = st.text(max_size=20)
COUNT = st.integers(0, 2**53)
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXT,
    "int": COUNT,
    "bool": st.booleans(),
    "State": st.sampled_from(State),
    "Stored | None": st.none() | st.builds(Stored, st.sampled_from(["inline", "item", "object"]), TEXT, COUNT),
    "ErrorRecord | None": st.none() | st.builds(ErrorRecord, TEXT, TEXT, TEXT, TEXT),
    "Disposition | None": st.none()
    | st.builds(Disposition, st.sampled_from(["open", "replayed", "discarded"]), TEXT, COUNT, TEXT),
    "tuple[Happening, ...]": st.lists(st.builds(Happening, COUNT, TEXT, COUNT, TEXT), max_size=12).map(tuple),
}
ROWS = st.fixed_dictionaries({f.name: BY_TYPE[str(f.type)] for f in fields(Row)}).map(lambda values: Row(**values))


def test_every_field_has_a_name_and_no_two_share_one() -> None:
    """A field without a name would be lost by the first write; two with one would be mixed up."""
    assert set(CODES) == {f.name for f in fields(Row)}
    assert len(set(CODES.values())) == len(CODES)


@given(ROWS)
def test_any_row_comes_back_as_it_went(row: Row) -> None:
    """By way of JSON, so that nothing depends on what only Python can hold."""
    assert from_data(json.loads(json.dumps(to_data(row)))) == row


@pytest.mark.parametrize("state", State)
def test_a_row_in_each_state_comes_back(state: State) -> None:
    assert from_data(to_data(in_state(state))) == in_state(state)


def test_what_is_at_its_default_is_not_stored() -> None:
    """DynamoDB bills every write by the whole item, names too."""
    data = to_data(queued())
    required = {CODES[f.name] for f in fields(Row) if f.default is MISSING}
    assert set(data) == required | {CODES[name] for name in ("write_id", "submitted_at_ms", "check_at_ms")} | {
        CODES[name] for name in ("digest", "payload", "history")
    }


def test_the_common_row_stays_within_one_write_unit() -> None:
    """R1: under 1 KB, of which the item's keys and index entries take some 150 bytes."""
    row = leased(
        id="k" + "0" * 40,
        birth="b" * 24,
        tenant="restaurant-7",
        worker="w" * 24,
        lease_token="t" * 24,
        write_id="w" * 24,
    )
    assert len(json.dumps(to_data(row), separators=(",", ":"))) < 850


def test_what_a_newer_worker_added_is_read_past() -> None:
    assert from_data({**to_data(queued()), "zz": [1]}) == queued()


def test_an_error_and_a_disposition_are_whole_again() -> None:
    row = leased(error=ERROR, disposition=Disposition("discarded", "ada", 5, "why"))
    again = from_data(to_data(row))
    assert (again.error, again.disposition) == (ERROR, row.disposition)


NEWER: list[dict[str, Any]] = [
    {"st": "halted"},
    {"pa": ["inline", "{}", 2, "zstd"]},
    {"er": ["ValueError", "no", "", "f", "more"]},
    {"ds": ["open", "", 0, "", "more"]},
    {"hi": [[1, "claim", 1, "", "more"]]},
    {"hi": 5},
]


@pytest.mark.parametrize("change", NEWER, ids=lambda each: next(iter(each)))
def test_what_a_newer_worker_changed_is_named(change: dict[str, Any]) -> None:
    """A state or a shape that this version has never heard of: nothing is guessed, and the error says who wrote it."""
    with pytest.raises(UnsupportedVersion, match=r"task t1 was written by a newer tenure.*Upgrade tenure here"):
        from_data({**to_data(queued()), **change})


@pytest.mark.parametrize("code", [CODES[f.name] for f in fields(Row) if f.default is MISSING])
def test_a_row_that_lacks_what_every_row_has_is_named_too(code: str) -> None:
    data = to_data(queued())
    del data[code]
    with pytest.raises(UnsupportedVersion):
        from_data(data)
