"""Lease arithmetic: its holder stops before anyone else may begin, and SQS is never asked for what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core import lease, limits
from tests.core.building import T0


@given(end=st.integers(0, 10**15), now=st.integers(0, 10**15))
def test_no_moment_belongs_to_two_workers(end: int, now: int) -> None:
    """Even if their clocks differ by as much as is allowed."""
    if lease.lapsed(end, now):
        assert lease.ended(end, now - limits.SKEW_SECONDS * 1000)


@pytest.mark.parametrize(
    ("after_ms", "ended", "lapsed"),
    [(-1, False, False), (0, True, False), (5000, True, False), (5001, True, True)],
)
def test_the_edges_of_a_lease(after_ms: int, ended: bool, lapsed: bool) -> None:
    assert (lease.ended(T0, T0 + after_ms), lease.lapsed(T0, T0 + after_ms)) == (ended, lapsed)


@given(seconds=st.floats(0.001, 43_200), now=st.integers(0, 10**13))
def test_two_beats_may_be_lost_before_a_lease_lapses(seconds: float, now: int) -> None:
    every = lease.beat_every_ms(seconds)
    assert every >= 1
    assert now + 3 * every <= lease.lease_end_at_ms(now, seconds) + 3


@given(until=st.integers(0, 10**13), now=st.integers(0, 10**13))
def test_a_rest_is_never_too_short(until: int, now: int) -> None:
    """Rounded up to whole seconds: a message that comes back early would only be handed back again."""
    rest = lease.rest_seconds(until, now)
    assert rest >= 0
    assert now + rest * 1000 >= until
    assert rest == 0 or now + (rest - 1) * 1000 < until


@given(wanted=st.floats(-100, 10**6), since=st.integers(0, 10**8))
def test_a_visibility_is_what_sqs_takes(wanted: float, since: int) -> None:
    """Whole, from 0, and within 12 hours of the receive: SQS refuses more, it does not clamp."""
    seconds = lease.visibility_seconds(wanted, T0, T0 + since)
    assert isinstance(seconds, int)
    assert seconds >= 0
    assert seconds == 0 or since / 1000 + seconds <= limits.SQS_VISIBILITY_SECONDS_MAX - 60
    assert seconds >= wanted or since / 1000 + seconds > limits.SQS_VISIBILITY_SECONDS_MAX - 62 or seconds == 0


@pytest.mark.parametrize(("wanted", "seconds"), [(0, 0), (0.1, 1), (1, 1), (1.5, 2), (-3, 0), (50_000, 43_140)])
def test_a_visibility_is_rounded_up(wanted: float, seconds: int) -> None:
    assert lease.visibility_seconds(wanted, T0, T0) == seconds


def test_past_the_cap_only_the_row_is_beaten() -> None:
    """R18."""
    last = T0 + lease.VISIBILITY_CAP_MS
    assert not lease.beyond_cap(T0, last - 1)
    assert lease.beyond_cap(T0, last)
    assert lease.visibility_seconds(60, T0, last) == 0
