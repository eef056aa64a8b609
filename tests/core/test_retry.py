"""When a failure is retried, and after how long."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core import limits
from tenure.core.errors import InvalidTask, UsageError
from tenure.core.retry import Retry, fits_visibility


@given(
    failures=st.integers(0, 10_000),
    fraction=st.floats(0, 1, exclude_max=True),
    base=st.floats(0.1, 100),
    cap=st.floats(100, 10**6),
)
def test_a_wait_is_never_below_zero_nor_above_its_cap(failures: int, fraction: float, base: float, cap: float) -> None:
    """Whatever the count of failures: no overflow, no endless wait."""
    assert 0 <= Retry(base=base, cap=cap).delay_seconds(failures, fraction) <= cap


def test_ceilings_double_up_to_the_cap() -> None:
    """Those that the docstring tells."""
    retry = Retry()
    assert [retry.delay_seconds(n, 1.0) for n in (1, 2, 3, 4, 10, 11)] == [2, 4, 8, 16, 600, 600]


def test_the_jitter_is_full() -> None:
    """From nothing to all of the ceiling, so that those who failed together do not come back together."""
    retry = Retry(base=10, cap=100)
    assert [retry.delay_seconds(2, fraction) for fraction in (0.0, 0.5, 0.99)] == [0, 10, 19.8]


@pytest.mark.parametrize(
    ("retry", "error", "retriable"),
    [
        (Retry(), RuntimeError(), True),
        (Retry(), KeyboardInterrupt(), True),
        (Retry(give_up_on=(LookupError,)), KeyError(), False),
        (Retry(give_up_on=(KeyError,)), LookupError(), True),
        (Retry(retry_on=(OSError,)), TimeoutError(), True),
        (Retry(retry_on=(OSError,)), ValueError(), False),
        (Retry(retry_on=(Exception,), give_up_on=(KeyError,)), KeyError(), False),
    ],
)
def test_which_errors_are_retried(retry: Retry, error: BaseException, retriable: bool) -> None:
    assert retry.retriable(error) is retriable


@pytest.mark.parametrize("value", [0, 101, -1, True, 2.0, "5", None])
def test_attempts_are_a_number_from_1_to_100(value: Any) -> None:
    with pytest.raises(InvalidTask, match="a whole number from 1 to 100"):
        Retry(max_attempts=value)


@pytest.mark.parametrize("name", ["retry_on", "give_up_on"])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ((ValueError("x"),), "is not an exception class"),
        ((str,), "is not an exception class"),
        (ValueError, r"a tuple of exception classes, such as \(ValueError,\)"),
        ([ValueError], "a tuple of exception classes"),
    ],
)
def test_errors_are_a_tuple_of_classes(name: str, value: Any, said: str) -> None:
    """A single class without its comma is what people write first."""
    with pytest.raises(InvalidTask, match=rf"Retry\({name}=.*{said}"):
        Retry(**{name: value})


@pytest.mark.parametrize("options", [{"base": 0}, {"base": "1m", "cap": "30s"}])
def test_base_and_cap_must_make_sense(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match="base must be above zero and cap at least base"):
        Retry(**options)


def test_durations_are_read_as_people_write_them() -> None:
    retry = Retry(base="500ms", cap="10m", deadline="6h")
    assert (retry.base_seconds, retry.cap_seconds, retry.deadline_seconds) == (0.5, 600, 21_600)
    assert Retry().deadline_seconds is None
    with pytest.raises(UsageError, match=r"Retry\(deadline\)"):
        Retry(deadline="soon")


@pytest.mark.parametrize("ordered", [True, False])
def test_only_short_waits_or_ordered_ones_stay_in_sqs(ordered: bool) -> None:
    assert fits_visibility(limits.SQS_DELAY_SECONDS_MAX, ordered=ordered)
    assert fits_visibility(limits.SQS_DELAY_SECONDS_MAX + 1, ordered=ordered) is ordered
