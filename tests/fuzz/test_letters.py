"""Whatever lies in a DLQ is read as one of the three kinds of letter, and ingest decides about it."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import example, given
from hypothesis import strategies as st

from tenure.core.envelope import LETTER_ATTRIBUTE, REASON_ATTRIBUTE
from tenure.core.ingest import Ingestion, burial, ingest
from tenure.core.letter import letter_of, quarantine_of, read_letter
from tenure.core.topology import Tier
from tests.core.building import PAYLOAD, dead, in_state, leased, queued, stamp
from tests.core.test_envelope import ANYTHING
from tests.fuzz.junk import TEXT, damaged, mutated
from tests.support.lab import topology

LETTER = letter_of(dead(), PAYLOAD)
BODIES = ANYTHING | damaged(LETTER.body)
ATTRIBUTES = st.dictionaries(st.sampled_from([LETTER_ATTRIBUTE, REASON_ATTRIBUTE]) | TEXT, TEXT) | st.just(
    LETTER.attributes
)
TIERS = topology().tiers()
ROWS = [None, queued(), leased(), dead(), *(in_state(state) for state in type(queued().state))]


@given(BODIES, ATTRIBUTES, st.sampled_from(ROWS), st.sampled_from(TIERS))
@example(LETTER.body, {LETTER_ATTRIBUTE: f"t1:b1:{'9' * 5000}:1"}, dead(), TIERS[0])
def test_any_letter_is_read_and_decided_about(body: str, attributes: Any, row: Any, tier: Tier) -> None:
    """A scan reads ten letters together: one that raised would keep the others from being read."""
    letter = read_letter(body, attributes)
    assert letter.kind in ("buried", "moved", "quarantined")
    assert (letter.envelope is None) <= (letter.kind == "quarantined")
    assert isinstance(ingest(row, letter, stamp(100), tier, sent_at_ms=0), get_args(Ingestion))


@given(TEXT | mutated("t:b:1:2").map(str) | st.tuples(TEXT, TEXT, TEXT).map(":".join))
@example(f"t1:b1:{'9' * 5000}:1")
@example("t1:b1:²:1")
def test_any_letter_id_names_a_burial_or_none(letter_id: str) -> None:
    replays, fence = burial(letter_id)
    assert replays >= 0
    assert fence >= 0


@given(BODIES, st.dictionaries(TEXT, TEXT, max_size=12), TEXT, TEXT, st.text(max_size=400))
def test_whatever_is_set_aside_can_be_read_again(body: str, attributes: Any, group: str, id_: str, why: str) -> None:
    """Quarantined with a reason: its body untouched, and the reason comes out."""
    letter = quarantine_of(body, attributes, group, id_, why)
    assert letter.body == body
    again = read_letter(letter.body, letter.attributes)
    assert again.kind == "quarantined"
    assert again.reason
