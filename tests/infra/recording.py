"""What a role really asks of AWS, recorded as IAM sees it: (action, what kind of resource)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tenure.adapters.clients import Clients

Right = tuple[str, str]

_OWN_NAMES = {"SendMessageBatch": "SendMessage", "DeleteMessageBatch": "DeleteMessage"}
_OWN_NAMES |= {"ChangeMessageVisibilityBatch": "ChangeMessageVisibility", "HeadBucket": "ListBucket"}
"""Operations that IAM knows by another name (service authorization reference)."""


_FREE = "GetCallerIdentity"
"""STS answers it to everybody, even against an explicit deny (STS API reference, GetCallerIdentity)."""


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[Right]]:
    """The rights that every call needs which is made meanwhile through clients that tenure makes meanwhile."""
    rights: set[Right] = set()
    make = Clients._client

    def made(self: Clients, service: str, *args: Any, **options: Any) -> Any:
        client = make(self, service, *args, **options)
        client.meta.events.register("before-parameter-build", listen)
        return client

    def listen(params: Mapping[str, Any], model: Any, **_: Any) -> None:
        rights.update(_rights(model.service_model.endpoint_prefix, model.name, params))

    with monkeypatch.context() as patch:
        patch.setattr(Clients, "_client", made)
        yield rights


def _rights(service: str, operation: str, params: Mapping[str, Any]) -> Iterator[Right]:
    if operation == _FREE:
        return
    name = _OWN_NAMES.get(operation, operation)
    if operation == "TransactWriteItems":  # IAM asks for the single writes
        for item in params["TransactItems"]:
            yield from ((f"dynamodb:{kind}Item", "table") for kind in item)
        return
    yield f"{service}:{name}", _kind_asked(params)


def _kind_asked(params: Mapping[str, Any]) -> str:
    if "QueueUrl" in params:
        return "dead" if params["QueueUrl"].removesuffix(".fifo").endswith("-dead") else "main"
    if "IndexName" in params:
        return f"index {params['IndexName']}"
    if "TableName" in params or "RequestItems" in params or "TransactItems" in params:
        return "table"
    if "Key" in params:
        return "payloads" if str(params["Key"]).startswith("payloads/") else "object"
    if "Bucket" in params:
        return "bucket"
    return "parameters" if "Path" in params else "nothing named"


def granted(statements: Iterable[Mapping[str, Any]]) -> set[Right]:
    """The rights in the statements of a synthesized policy."""
    found: set[Right] = set()
    for statement in statements:
        assert statement["Effect"] == "Allow"
        for action in _many(statement["Action"]):
            found.update((action, _kind_granted(resource)) for resource in _many(statement["Resource"]))
    return found


def _kind_granted(resource: Any) -> str:
    text = json.dumps(resource)
    for kind, mark in (
        ("index due", "/index/due"),
        ("index dead", "/index/dead"),
        ("payloads", "/payloads/*"),
        ("parameters", ":parameter/tenure/"),
        ("tasks", ":task/"),
        ("table", "StateTable"),
        ("bucket", "StoresPayloadsBucket"),
        ("files", "FilesBucket"),
        ("key", "StoresKey"),
        ("logs", "Logs"),
        ("dead", "Dead"),
        ("main", "Main"),
        ("function", "Function"),
    ):
        if mark in text:
            return kind
    raise AssertionError(f"a resource that this test does not know: {text}")


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
