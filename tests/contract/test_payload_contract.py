"""ports.PayloadStore, held against every adapter, with a bucket and without."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.core import limits
from tenure.core.errors import PayloadMissing, ServiceError, TooLarge
from tenure.core.task import Stored
from tests.support.backends import Backend

TEXT = '{"dish":"Käsespätzle 🧀"}'


def item(name: str = "r1/P/w1") -> Stored:
    return Stored("item", name, len(TEXT.encode()))


def an_object(name: str = "r1/P/w1") -> Stored:
    return Stored("object", name, len(TEXT.encode()))


PLACES = pytest.mark.parametrize("place", [item(), an_object()], ids=["item", "object"])


@PLACES
def test_a_text_is_read_as_it_was_put(backend: Backend, place: Stored):
    """In whatever script."""
    payloads = backend.payloads()
    payloads.put(place, TEXT, 4_000_000_000)
    assert payloads.get(place) == TEXT


@PLACES
def test_kinds_and_tries_lie_apart(backend: Backend, place: Stored):
    """Payload, result and checkpoint of one task, and the same of two attempts, never touch each other (R4)."""
    payloads = backend.payloads()
    names = ["r1/P/w1", "r1/S/w1", "r1/C/w1", "r1/C/w2", "r2/P/w1", "a/b/P/w1"]
    for name in names:
        payloads.put(replace(place, value=name), f"text of {name}", 0)
    assert [payloads.get(replace(place, value=name)) for name in names] == [f"text of {name}" for name in names]


@PLACES
def test_a_text_is_put_once_and_never_overwritten(backend: Backend, place: Stored):
    """A put whose answer was lost is put again, without an error; what lies there stays (R4)."""
    payloads = backend.payloads()
    payloads.put(place, TEXT, 0)
    payloads.put(place, "another", 0)
    assert payloads.get(place) == TEXT


@PLACES
def test_what_is_not_there_is_a_named_error(backend: Backend, place: Stored):
    """The row names a text that has passed away: told as such, and an error of the service to those who retry."""
    with pytest.raises(PayloadMissing, match="r1/P/w1") as raised:
        backend.payloads().get(place)
    assert isinstance(raised.value, ServiceError)


def test_a_text_beside_its_row_passes_away_with_it(backend: Backend):
    """An unnamed one is garbage that nobody has to collect."""
    payloads = backend.payloads()
    payloads.put(item(), TEXT, backend.clock.now_ms() // 1000 - 5)
    with pytest.raises(PayloadMissing):
        payloads.get(item())


def test_a_text_belongs_where_its_size_is_cheapest(backend: Backend):
    """In the row up to 1 KiB, beside it up to 8 KiB, in S3 above."""
    payloads = backend.payloads()
    sizes = (0, limits.INLINE_BYTES_MAX, limits.INLINE_BYTES_MAX + 1, limits.SIBLING_BYTES_MAX)
    assert [payloads.kind_for(size) for size in sizes] == ["inline", "inline", "item", "item"]
    assert [payloads.kind_for(size) for size in (limits.SIBLING_BYTES_MAX + 1, 500_000)] == ["object", "object"]


def test_half_a_megabyte_fits_where_there_is_a_bucket(backend: Backend):
    """S03 c, e: more than any item takes."""
    payloads, text = backend.payloads(), "x" * 500_000
    payloads.put(an_object(), text, 0)
    assert payloads.get(an_object()) == text


def test_without_a_bucket_an_item_takes_what_dynamodb_takes(backend: Backend):
    """The largest text that is said to belong beside its row can be put there and read."""
    payloads = backend.payloads(bucket=False)
    with pytest.raises(TooLarge) as raised:
        payloads.kind_for(410_000)
    most = raised.value.limit_bytes
    assert limits.SIBLING_BYTES_MAX < most < limits.DYNAMODB_ITEM_BYTES_MAX
    assert payloads.kind_for(most) == "item"
    text = "é" * (most // 2)
    payloads.put(item(), text, 4_000_000_000)
    assert payloads.get(item()) == text


def test_what_nothing_takes_is_refused_with_its_size(backend: Backend):
    """S03 c without a bucket: 410,000 bytes, named with the limit and the mend, before anything is written."""
    payloads = backend.payloads(bucket=False)
    with pytest.raises(TooLarge, match=r"410,000 bytes.*bucket") as raised:
        payloads.kind_for(410_000)
    assert raised.value.size_bytes == 410_000
    with pytest.raises(TooLarge):
        payloads.put(item(), "é" * 205_000, 0)
    with pytest.raises(PayloadMissing):
        payloads.get(item())


def test_without_a_bucket_an_object_is_a_named_error(backend: Backend):
    """A worker that was not given the bucket says so, rather than that the text is lost."""
    with pytest.raises(PayloadMissing, match="bucket"):
        backend.payloads(bucket=False).get(an_object())


@pytest.mark.parametrize("act", ["put", "get"])
def test_an_inline_text_has_no_place_here(backend: Backend, act: str):
    """It lies in the row: a caller's defect."""
    payloads = backend.payloads()
    place = Stored("inline", TEXT, 1)
    with pytest.raises(ValueError):
        payloads.put(place, TEXT, 0) if act == "put" else payloads.get(place)
