"""Where texts lie that are too large for a row: in an item beside it, or in S3.

A place is named `<task id>/<kind>/<write id>`, kind being P (payload), S (result) or C (checkpoint), and holds the
write id of the row write that will name it. So two attempts never write to the same place, nothing is overwritten,
and what no row names is garbage that passes away: an item by its time to live, an object by its bucket's lifecycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from tenure.core import limits
from tenure.core.errors import PayloadMissing, ServiceError, TooLarge
from tenure.core.task import Stored
from tenure.ports import Item, Key, Refused, TaskStore, Write, Written

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PREFIX = "payloads/"
"""Of every object's key; what the bucket's lifecycle and the functions' permissions are written for."""

ITEM_TEXT_BYTES_MAX = 400_000
"""The longest text that an item takes. DynamoDB's 409,600 bytes hold its key (up to 3 KiB) and few names besides; moto
stops at 405,000."""

PUT_TRIES = 3
"""How often a text is put whose put was not answered, or which S3 refused because another put was under way."""

_TEXT = "x"


class Payloads:
    """ports.PayloadStore over sibling items and, where there is a bucket, S3.

    Without a bucket (`bucket` empty) items take whatever DynamoDB takes.
    """

    def __init__(self, store: TaskStore, s3: S3Client | None = None, bucket: str = "") -> None:
        if bucket and s3 is None:
            raise ValueError("a bucket without a client to reach it")
        self._store = store
        self._objects = _Objects(s3, bucket) if s3 is not None and bucket else None

    def kind_for(self, size_bytes: int) -> str:
        """See ports.PayloadStore: by size, as limits.py draws the lines."""
        if size_bytes <= limits.INLINE_BYTES_MAX:
            return "inline"
        if size_bytes <= limits.SIBLING_BYTES_MAX:
            return "item"
        if self._objects is not None:
            return "object"
        _refuse_beyond(size_bytes)
        return "item"

    def put(self, place: Stored, text: str, expires_at_s: int) -> None:
        """See ports.PayloadStore. Raises TooLarge if an item cannot take the text, ValueError for an inline place."""
        if place.kind == "object":
            self._bucket_of(place).put(place.value, text)
            return
        _refuse_beyond(len(text.encode("utf-8")))
        write = Write(_item(place, text, expires_at_s), expected=None)
        outcome = self._store.write_many([write])[0]
        for _ in range(PUT_TRIES - 1):
            if isinstance(outcome, Written | Refused):
                break
            outcome = self._store.write_many([write])[0]
        if not isinstance(outcome, Written | Refused):  # refused: it lies there already
            raise ServiceError(f"{place.value} was not stored: {outcome.error}")

    def get(self, place: Stored) -> str:
        """See ports.PayloadStore. Raises ValueError for an inline place, whose value is the text itself."""
        if place.kind == "object":
            return self._bucket_of(place).get(place.value)
        item = self._store.get_many([_key(place)])[0]
        if item is None:
            raise PayloadMissing(f"{place.value} does not lie beside its row; it may have passed its time to live")
        text: str = item.data[_TEXT]
        return text

    def _bucket_of(self, place: Stored) -> _Objects:
        if self._objects is None:
            raise PayloadMissing(
                f"{place.value} lies in S3, and this process knows no bucket. Give it the environment's bucket."
            )
        return self._objects


class _Objects:
    """Texts as objects of one bucket."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, name: str, text: str) -> None:
        """Put if absent. S3 answers 412 if it lies there, and 409 while another put of it is under way."""
        for tried in range(1, PUT_TRIES + 1):
            try:
                self._client.put_object(
                    Bucket=self._bucket,
                    Key=PREFIX + name,
                    Body=text.encode("utf-8"),
                    ContentType="application/json",
                    IfNoneMatch="*",
                )
                return
            except (ClientError, BotoCoreError) as error:
                code = _code(error)
                if code in ("PreconditionFailed", "412"):
                    return
                if code != "ConditionalRequestConflict" or tried == PUT_TRIES:
                    raise ServiceError(f"{name} was not stored in bucket {self._bucket}: {error}") from error

    def get(self, name: str) -> str:
        """The text. Raises PayloadMissing, ServiceError."""
        try:
            body = self._client.get_object(Bucket=self._bucket, Key=PREFIX + name)["Body"]
            with body:
                return body.read().decode("utf-8")
        except (ClientError, BotoCoreError) as error:
            if _code(error) in ("NoSuchKey", "404"):
                raise PayloadMissing(
                    f"{name} is not in bucket {self._bucket}; its lifecycle may have ended it"
                ) from error
            raise ServiceError(f"{name} was not read from bucket {self._bucket}: {error}") from error


def _item(place: Stored, text: str, expires_at_s: int) -> Item:
    key = _key(place)
    return Item(key, version=1, write_id=key.sk, data={_TEXT: text}, expires_at_s=expires_at_s)


def _key(place: Stored) -> Key:
    """Beside the row. Task ids may hold slashes; kinds and write ids do not."""
    if place.kind != "item":
        raise ValueError(f"{place.kind} texts do not lie in an item of their own")
    task_id, kind, write_id = place.value.rsplit("/", 2)
    return Key(f"T#{task_id}", f"{kind}#{write_id}")


def _refuse_beyond(size_bytes: int) -> None:
    if size_bytes > ITEM_TEXT_BYTES_MAX:
        raise TooLarge(
            "the text",
            size_bytes,
            ITEM_TEXT_BYTES_MAX,
            "Give the environment a payload bucket, or pass a reference to where the data lies.",
        )


def _code(error: ClientError | BotoCoreError) -> str:
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
