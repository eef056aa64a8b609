"""Files by key, each written under a fence: a write that bears a lower fence than the file's own is refused.

That is what makes a task safe to run twice. An attempt that lost its lease may still be running and may still write;
whoever took the task over has a higher fence, and the late write bounces off.

A fence only compares within one task. A file is therefore written by one task: submit it with an idempotency key that
names what it writes, and its fences rise for as long as the file lives.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from examples.restaurant import settings


class NoSuchFile(LookupError):
    """Nothing lies under this key."""


class StaleFence(Exception):
    """The file was written under a higher fence: this attempt is late, and its output is not wanted."""

    def __init__(self, key: str, fence: int, found: int) -> None:
        super().__init__(f"{key} was written under fence {found}; this attempt has {fence} and comes too late")


class Store(Protocol):
    """Where files are kept. A key is a relative path with `/` between its parts."""

    def read(self, key: str) -> bytes:
        """The file's content. Raises NoSuchFile."""
        ...

    def write(self, key: str, data: bytes, *, fence: int = 0) -> None:
        """Write the file whole, or not at all. Raises StaleFence if it bears a higher fence; an equal one is the same
        attempt trying again, and may."""
        ...

    def keys(self, prefix: str) -> list[str]:
        """The keys under the folder `prefix`, sorted."""
        ...


def open_store(address: str | None = None) -> Store:
    """The store at `address` (a directory, or `s3://bucket/prefix`); None: the one that the settings name."""
    address = address or settings.store_address()
    if address.startswith("s3://"):
        bucket, _, prefix = address.removeprefix("s3://").partition("/")
        return BucketStore(bucket, prefix.strip("/"))
    return DirectoryStore(Path(address))


def _parts(key: str) -> tuple[str, ...]:
    """The key's parts. Raises ValueError for a key that would leave its store: keys are made of what callers send."""
    parts = PurePosixPath(key).parts
    if not parts or key.startswith("/") or any(part.startswith(".") for part in parts):
        raise ValueError(f"{key!r} is no key: a relative path whose parts do not begin with a dot")
    return parts


class DirectoryStore:
    """A directory on one machine; its writers may be many processes. Fences lie beside, under `.fences`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, key: str) -> bytes:
        path = self._root.joinpath(*_parts(key))
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise NoSuchFile(f"{key}: no such file in {self._root}") from None

    def write(self, key: str, data: bytes, *, fence: int = 0) -> None:
        path = self._root.joinpath(*_parts(key))
        mark = self._root.joinpath(".fences", *_parts(key))
        for folder in (path.parent, mark.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with mark.open("ab+", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # let go when the file is closed, by a crash too
            file.seek(0)
            found = int(file.read() or b"0")
            if fence < found:
                raise StaleFence(key, fence, found)
            # The fence first: if this process dies in between, the file is old and its next writer's fence is higher.
            file.truncate(0)
            file.write(b"%d" % fence)
            part = path.with_name(f".{path.name}.part")
            part.write_bytes(data)
            os.replace(part, path)

    def keys(self, prefix: str) -> list[str]:
        folder = self._root.joinpath(*_parts(prefix))
        files = [path.relative_to(self._root) for path in folder.rglob("*") if path.is_file()]
        return sorted(file.as_posix() for file in files if not file.name.startswith("."))


class BucketStore:
    """A prefix in an S3 bucket. The fence is the object's metadata; the guard is S3's own conditional write."""

    TRIES = 8

    def __init__(self, bucket: str, prefix: str) -> None:
        import boto3  # half a second, which a worker with a directory does not pay

        self._s3: Any = boto3.client("s3")
        self._bucket = bucket
        self._prefix = prefix

    def _place(self, key: str) -> dict[str, str]:
        path = "/".join((self._prefix, *_parts(key))) if self._prefix else "/".join(_parts(key))
        return {"Bucket": self._bucket, "Key": path}

    def read(self, key: str) -> bytes:
        try:
            answer = self._s3.get_object(**self._place(key))
        except self._s3.exceptions.NoSuchKey:
            raise NoSuchFile(f"{key}: no such object in s3://{self._bucket}/{self._prefix}") from None
        with closing(answer["Body"]) as body:
            content: bytes = body.read()
        return content

    def write(self, key: str, data: bytes, *, fence: int = 0) -> None:
        for _ in range(self.TRIES):
            found, guard = self._guard(key)
            if fence < found:
                raise StaleFence(key, fence, found)
            try:
                self._s3.put_object(**self._place(key), Body=data, Metadata={"fence": str(fence)}, **guard)
                return
            except self._s3.exceptions.ClientError as error:
                if error.response["Error"]["Code"] not in ("PreconditionFailed", "ConditionalRequestConflict"):
                    raise
        raise OSError(f"{key}: {self.TRIES} others wrote it in between; try again")

    def _guard(self, key: str) -> tuple[int, dict[str, str]]:
        """The fence that the object bears (0: there is none), and the condition that it has not changed since."""
        try:
            head = self._s3.head_object(**self._place(key))
        except self._s3.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in ("404", "NoSuchKey"):
                raise
            return 0, {"IfNoneMatch": "*"}
        return int(head["Metadata"].get("fence", "0")), {"IfMatch": head["ETag"]}

    def keys(self, prefix: str) -> list[str]:
        pages = self._s3.get_paginator("list_objects_v2")
        folder = self._place(prefix)
        found = []
        for page in pages.paginate(Bucket=folder["Bucket"], Prefix=folder["Key"] + "/"):
            found += [entry["Key"] for entry in page.get("Contents", ())]
        start = len(self._prefix) + 1 if self._prefix else 0
        return sorted(key[start:] for key in found)
