"""The filter grammar: what it picks, what it refuses, and that a filter's own text means the same filter."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.errors import InvalidFilter
from tenure.core.filters import FIELDS, Filter, Term, happened_at_ms, parse
from tenure.core.task import ErrorRecord, Row, State

HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS


def row(**changes: object) -> Row:
    values = {
        "id": "t1",
        "birth": "b",
        "task": "render_menu",
        "queue": "media",
        "tenant": "acme",
        "state": State.DEAD_LETTERED,
        "submitted_at_ms": NOW_MS - 10 * HOUR_MS,
        "ended_at_ms": NOW_MS - 2 * HOUR_MS,
        "error": ErrorRecord("shop.render.PDFError", "bad page", "", "0a1b2c3d4e"),
        "reason": "attempts used up",
    }
    return Row(**{**values, **changes})  # type: ignore[arg-type] # values by name


@pytest.mark.parametrize(
    ("text", "picked"),
    [
        ("", True),
        ("state:dead_lettered", True),
        ("state:queued", False),
        ("state:queued,dead_lettered", True),
        ("task:render_*", True),
        ("task:render", False),
        ("error:PDFError", True),
        ("error:shop.render.PDFError", True),
        ("error:Error", False),
        ("-tenant:acme", False),
        ("-tenant:globex", True),
        ("tenant:globex -tenant:acme", False),
        ('reason:"attempts used up"', True),
        ("since:24h", True),
        ("since:1h", False),
        ("before:1h", True),
        ("before:24h", False),
        ("since:3h before:1h queue:media id:t*", True),
        ("fingerprint:0a1b2c3d4e", True),
    ],
)
def test_a_filter_picks_what_its_terms_say(text: str, picked: bool) -> None:
    """Each field, exclusion, alternatives, wildcards, quotes and times decide as the grammar's docstring says."""
    assert parse(text).matches(row(), NOW_MS) is picked


def test_terms_may_come_in_one_text_or_in_several() -> None:
    """A shell splits what it hands over and an SDK does not: both mean the same filter."""
    assert parse("state:queued task:a") == parse(["state:queued", "task:a"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stat:queued", "'state'"),
        ("state:dead", "'dead_lettered'"),
        ("render", "task:render"),
        ("task:", "empty value"),
        ("task:a,,b", "empty value"),
        ('error:"bad image', "never closed"),
        ("since:yesterday", '"20m"'),
        ("-since:2h", "before"),
        ("since:1h,2h", "one duration"),
        (":x", "no field is called ''"),
    ],
)
def test_a_wrong_filter_is_refused_with_what_to_write(text: str, says: str) -> None:
    """No typo quietly picks everything or nothing, and the error names the mend."""
    with pytest.raises(InvalidFilter) as caught:
        parse(text)
    assert says in str(caught.value)


def test_a_time_counts_from_the_last_thing_that_happened() -> None:
    """A task that runs is as young as its last start, and one that only waits as old as its submission."""
    waiting = row(state=State.QUEUED, ended_at_ms=0)
    assert happened_at_ms(waiting) == NOW_MS - 10 * HOUR_MS
    assert happened_at_ms(row(ended_at_ms=0, last_started_at_ms=5)) == 5


def test_admits_never_rules_out_a_value_that_could_match() -> None:
    """`admits` spares reads: it may be too generous, but must refuse what the terms refuse for sure."""
    picked = parse("queue:media,ledger -queue:ledger")
    assert picked.admits("queue", "media")
    assert not picked.admits("queue", "ledger")
    assert picked.admits("state", "queued")


_VALUES = st.text(st.characters(blacklist_characters='"', blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=12)
_TERMS = st.builds(
    Term,
    st.sampled_from(sorted(set(FIELDS) - {"state"})),
    st.lists(_VALUES, min_size=1, max_size=3).map(tuple),
    st.booleans(),
)


@given(st.lists(_TERMS, max_size=4), st.sampled_from([None, 0.25, 90.0, 86_400.0]))
def test_a_filters_text_parses_back_to_the_same_filter(terms: list[Term], since: float | None) -> None:
    """A replay's plan shows the filter that will run: its text must not mean another one."""
    wanted = Filter(tuple(terms), since)
    assert parse(wanted.text) == wanted


@given(st.text(max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    """Whatever is typed is either a filter or an InvalidFilter, never another exception."""
    with contextlib.suppress(InvalidFilter):
        parse(text)
