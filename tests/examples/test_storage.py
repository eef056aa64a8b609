"""The example's store refuses a late writer, in a directory and in a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from examples.restaurant.storage import BucketStore, DirectoryStore, NoSuchFile, StaleFence, Store, open_store


@pytest.fixture(params=["directory", "bucket"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "directory":
        yield open_store(str(tmp_path / "files"))
        return
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="kitchen")
        yield open_store("s3://kitchen/some/prefix")


def test_a_file_is_read_as_it_was_written(any_store: Store) -> None:
    any_store.write("a/b.bin", b"\x00\xff")
    any_store.write("a/b.bin", b"again")
    assert any_store.read("a/b.bin") == b"again"


def test_a_file_that_is_not_there_is_a_named_error(any_store: Store) -> None:
    with pytest.raises(NoSuchFile, match="a/b"):
        any_store.read("a/b")


def test_keys_are_those_of_one_folder_in_order(any_store: Store) -> None:
    for key in ("reports/r1/2.json", "reports/r1/1.json", "reports/r10/1.json", "other/x"):
        any_store.write(key, b"", fence=3)
    assert any_store.keys("reports/r1") == ["reports/r1/1.json", "reports/r1/2.json"]
    assert any_store.keys("nothing") == []


def test_a_lower_fence_is_refused_and_changes_nothing(any_store: Store) -> None:
    any_store.write("out", b"of the second", fence=2)
    with pytest.raises(StaleFence, match="fence 2; this attempt has 1"):
        any_store.write("out", b"of the first", fence=1)
    assert any_store.read("out") == b"of the second"


def test_the_same_and_a_higher_fence_may_write(any_store: Store) -> None:
    for fence in (1, 1, 10, 11):
        any_store.write("out", b"%d" % fence, fence=fence)
    with pytest.raises(StaleFence):
        any_store.write("out", b"", fence=9)
    assert any_store.read("out") == b"11"


@pytest.mark.parametrize("key", ["", "/etc/passwd", "../up", "a/../../b", "a/.hidden", ".fences/a"])
def test_a_key_cannot_leave_its_store(any_store: Store, key: str) -> None:
    with pytest.raises(ValueError, match="is no key"):
        any_store.write(key, b"")


def test_of_many_writers_at_once_the_highest_fence_wins(tmp_path: Path) -> None:
    """Content and fence stay one: whoever is refused, the file is the highest fence's."""
    stores = [DirectoryStore(tmp_path) for _ in range(4)]

    def write(fence: int) -> bool:
        try:
            stores[fence % 4].write("out", b"%d" % fence, fence=fence)
        except StaleFence:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        stands = list(pool.map(write, [n * 37 % 101 for n in range(101)]))
    assert stands.count(True) >= 1
    assert DirectoryStore(tmp_path).read("out") == b"100"


@pytest.mark.parametrize("there_before", [False, True])
@mock_aws
def test_a_bucket_s_writer_that_was_overtaken_looks_again(there_before: bool) -> None:
    """Between the look at the fence and the write another attempt writes: S3's condition catches it."""
    boto3.client("s3").create_bucket(Bucket="kitchen")
    late = BucketStore("kitchen", "")
    if there_before:
        late.write("out", b"of the fifth", fence=5)
    look = late._guard

    def look_and_be_overtaken(key: str) -> tuple[int, dict[str, str]]:
        seen = look(key)
        if seen[0] < 7:
            BucketStore("kitchen", "").write(key, b"of the seventh", fence=7)
        return seen

    late._guard = look_and_be_overtaken  # type: ignore[method-assign] # the moment that cannot be hit by chance
    with pytest.raises(StaleFence):
        late.write("out", b"of the sixth", fence=6)
    assert late.read("out") == b"of the seventh"
