"""Whatever a handler raises becomes one of a closed set of outcomes, recorded in bounded size."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenure
from tenure.core import limits, outcome
from tenure.core.errors import IllegalTransition, UsageError
from tenure.core.outcome import Failed, GiveUp, LeaseLost, Lost, RetryAfter, Snooze, Snoozed, describe, of_exception
from tenure.core.retry import Retry

ANYTHING = Retry()


def raised(error: BaseException) -> BaseException:
    """The error as it arrives: with the place where it was raised."""
    try:
        raise error
    except BaseException as caught:
        return caught


class Explodes(Exception):
    """Its text cannot be read, in the way that `how` says."""

    def __init__(self, how: BaseException | object) -> None:
        self.how = how

    def __str__(self) -> str:
        if isinstance(self.how, BaseException):
            raise self.how
        return self.how  # type: ignore[return-value] # a text that is none


# ---- which outcome ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), MemoryError(), RecursionError()],
    ids=lambda each: type(each).__name__,
)
def test_what_ends_a_process_is_a_task_s_failure_like_any_other(error: BaseException) -> None:
    ended = of_exception(raised(error), ANYTHING)
    assert isinstance(ended, Failed)
    assert ended.retriable
    assert ended.error.type.endswith(type(error).__name__)


def test_a_handler_s_own_signals() -> None:
    assert of_exception(LeaseLost(), ANYTHING) == Lost()
    assert of_exception(Snooze("1m", "not yet"), ANYTHING) == Snoozed(60.0, "not yet")
    later = of_exception(RetryAfter("5m", "throttled"), Retry(give_up_on=(Exception,)))
    assert isinstance(later, Failed)
    assert (later.retriable, later.delay_seconds, later.reason) == (True, 300.0, "throttled")
    never = of_exception(GiveUp("bad iban"), ANYTHING)
    assert isinstance(never, Failed)
    assert (never.retriable, never.delay_seconds, never.reason) == (False, None, "bad iban")
    assert never.error.message == "bad iban"


def test_tenure_s_own_errors_are_named_as_users_write_them() -> None:
    """`tenure.GiveUp`, in type, traceback and fingerprint; and no name is promised that `tenure` does not export."""
    told = describe(raised(GiveUp("no")))
    assert told.type == "tenure.GiveUp"
    assert told.traceback.endswith("tenure.GiveUp: no")
    assert told.fingerprint == outcome.fingerprint("tenure.GiveUp", "test_outcome.py:raised")
    assert describe(IllegalTransition("no")).type == "tenure.core.errors.IllegalTransition"
    public = {name for name in tenure.__all__ if isinstance(getattr(tenure, name), type)}
    assert {name for name in public if issubclass(getattr(tenure, name), BaseException)} == outcome.EXPORTED


def test_signals_have_words_of_their_own() -> None:
    assert (GiveUp().reason, RetryAfter(1).reason, Snooze(1).reason) == (
        "the handler gave up",
        "the handler asked for a later retry",
        "snoozed by the handler",
    )


@pytest.mark.parametrize("signal", [RetryAfter, Snooze])
def test_a_wait_that_is_none_is_the_handler_s_mistake(signal: Any) -> None:
    """It is raised where it was made, and so becomes an ordinary failure that says what was wrong."""
    with pytest.raises(UsageError, match=signal.__name__):
        signal("soon")


def test_the_task_s_policy_decides_about_the_rest() -> None:
    policy = Retry(give_up_on=(KeyError,))
    ended = of_exception(raised(KeyError("x")), policy)
    assert isinstance(ended, Failed)
    assert not ended.retriable
    assert of_exception(raised(ValueError()), policy) == Failed(describe(raised(ValueError())), True)


# ---- how it is recorded ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("how", "said"),
    [
        (ValueError("no"), "ValueError"),
        (SystemExit(), "SystemExit"),
        (RecursionError(), "RecursionError"),
        (7, "TypeError"),
        (None, "TypeError"),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, str) else each,
)
def test_an_error_whose_own_text_explodes_is_told_all_the_same(how: object, said: str) -> None:
    record = describe(raised(Explodes(how)))
    assert record.message == f"<the error's own text could not be read: {said}>"
    assert record.type.endswith("Explodes")
    assert record.traceback.endswith(record.message)


def test_a_message_of_50_mb_is_cut_to_its_head() -> None:
    record = describe(raised(ValueError("x" * 50_000_000)))
    assert len(record.message.encode()) <= limits.ERROR_MESSAGE_BYTES_MAX
    assert record.message.startswith("xxx")
    assert record.message.endswith("…")
    assert len(record.traceback.encode()) <= limits.TRACEBACK_BYTES_MAX


def test_a_deep_traceback_is_cut_to_its_end() -> None:
    """The end is where it happened. (Two functions, since a traceback tells of one that calls itself only once.)"""

    def down(levels: int) -> None:
        if levels == 0:
            raise ValueError("at the bottom " * 30)
        further_down(levels - 1)

    def further_down(levels: int) -> None:
        down(levels)

    with pytest.raises(ValueError, match="bottom") as caught:
        down(200)
    record = describe(caught.value)
    assert record.traceback.startswith("…")
    assert record.traceback.endswith("at the bottom ")
    assert record.traceback.count('File "') <= 20
    assert len(record.traceback.encode()) <= limits.TRACEBACK_BYTES_MAX


def test_an_error_that_was_never_raised_has_no_place() -> None:
    record = describe(ValueError("x"))
    assert record.traceback == "ValueError: x"
    assert record.fingerprint == outcome.fingerprint("ValueError", "")


@given(st.text(st.characters(), max_size=2000))
def test_any_text_can_be_recorded(text: str) -> None:
    """Lone surrogates too: the row is UTF-8."""
    record = describe(raised(RuntimeError(text)))
    for part in (record.message, record.traceback):
        part.encode("utf-8")
    assert len(record.message.encode()) <= limits.ERROR_MESSAGE_BYTES_MAX


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=300), bytes_max=st.integers(4, 200))
def test_head_and_tail_keep_what_fits_and_mark_what_was_cut(text: str, bytes_max: int) -> None:
    for kept, end in ((outcome.head(text, bytes_max), False), (outcome.tail(text, bytes_max), True)):
        assert len(kept.encode()) <= bytes_max
        if len(text.encode()) <= bytes_max:
            assert kept == text
        else:
            rest = kept[1:] if end else kept[:-1]
            assert (kept[0] if end else kept[-1]) == "…"
            assert text.endswith(rest) if end else text.startswith(rest)
            assert len(kept.encode()) > bytes_max - 4, "no more is cut than must be"


# ---- fingerprints ----------------------------------------------------------------------------------------------
def fails_here(message: str, *, otherwise: bool = False) -> None:
    if otherwise:
        raise ValueError(message)
    raise ValueError(message)


def fails_there(message: str) -> None:
    raise ValueError(message)


def caught_from(function: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(Exception) as caught:
        function(*args, **kwargs)
    return describe(caught.value).fingerprint


def test_a_fingerprint_is_the_class_and_the_place_whatever_the_message_or_line() -> None:
    """So that ten thousand failures are one line for the operator, and an edit above it makes no new kind."""
    one = caught_from(fails_here, "a")
    assert len(one) == 10
    assert one == caught_from(fails_here, "b", otherwise=True)
    assert one != caught_from(fails_there, "a")
    assert one != caught_from(int, "a")


def test_errors_without_an_exception_have_fingerprints_too() -> None:
    record = outcome.named("WorkerLost", "x" * 5000)
    assert (record.type, record.traceback) == ("WorkerLost", "")
    assert len(record.message.encode()) <= limits.ERROR_MESSAGE_BYTES_MAX
    assert record.fingerprint == outcome.named("WorkerLost", "other words").fingerprint


def test_an_error_s_type_is_named_with_its_module_unless_it_is_built_in() -> None:
    assert describe(ValueError()).type == "ValueError"
    assert describe(asyncio.CancelledError()).type == "asyncio.exceptions.CancelledError"
