"""Faults of the network and of the service, put before a real boto3 client: what no emulator shows by itself.

    faults = Faults(client, seed=7)
    faults.next("UpdateItem", Fault.REPLY_LOST)             # the next try of this operation
    faults.sometimes("SendMessageBatch", Fault.THROTTLED, chance=0.2)

A fault meets one try of the SDK's, not one call: with retries on, REPLY_LOST applies the call, loses the answer, and
lets the SDK try again. HALF meets a whole batch call.
"""

from __future__ import annotations

import random
from collections import defaultdict
from enum import Enum
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError


class Fault(Enum):
    """What may happen to a try."""

    REPLY_LOST = "the call takes effect, and its answer is lost"
    UNREACHED = "the call takes no effect, and no answer comes"
    THROTTLED = "refused, for there were too many"
    BROKEN = "a 500, without effect"
    HALF = "the second half of a batch is left undone, as the answer tells"


_ANSWERS = {Fault.THROTTLED: ("ThrottlingException", 400), Fault.BROKEN: ("InternalServerError", 500)}


class Faults:
    """Faults before one client, from a seed: the same calls in the same order meet the same faults."""

    def __init__(self, client: Any, seed: int = 0) -> None:
        self.tries: list[str] = []
        """The operation of every try that was made, in order."""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        """(operation, parameters) of every call that was made, in order."""
        self._random = random.Random(seed)
        self._next: dict[str, list[Fault | None]] = defaultdict(list)
        self._chances: dict[str, tuple[Fault, float]] = {}
        self._endpoint = client._endpoint
        self._answer = self._endpoint._do_get_response
        self._endpoint._do_get_response = self._try
        client.meta.events.register("provide-client-params.*", self._before_call)
        client.meta.events.register("after-call.*", self._after_call)

    def next(self, operation: str, *faults: Fault | None) -> None:
        """What the next tries (HALF: calls) of an operation meet, one each; None: nothing."""
        self._next[operation] += faults

    def sometimes(self, operation: str, fault: Fault, chance: float) -> None:
        """What any try of an operation meets that `next` does not speak for, by chance."""
        self._chances[operation] = (fault, chance)

    def _draw(self, operation: str, *, of_call: bool) -> Fault | None:
        script = self._next[operation]
        if script:
            return script.pop(0) if (script[0] is Fault.HALF) == of_call else None
        fault, chance = self._chances.get(operation, (None, 0.0))
        if fault is None or (fault is Fault.HALF) != of_call:
            return None
        return fault if self._random.random() < chance else None

    # ---- a try -----------------------------------------------------------------------------------------------------
    def _try(self, request: Any, operation_model: Any, context: Any) -> Any:
        operation = operation_model.name
        self.tries.append(operation)
        fault = self._draw(operation, of_call=False)
        if fault is None:
            return self._answer(request, operation_model, context)
        if fault is Fault.REPLY_LOST:
            self._answer(request, operation_model, context)
            return None, ReadTimeoutError(endpoint_url=request.url)
        if fault is Fault.UNREACHED:
            return None, ConnectTimeoutError(endpoint_url=request.url)
        code, status = _ANSWERS[fault]
        metadata = {"HTTPStatusCode": status, "HTTPHeaders": {}}
        error = {"Error": {"Code": code, "Message": fault.value}, "ResponseMetadata": metadata}
        response = AWSResponse(request.url, status, HTTPHeaders(), None)
        response._content = b"{}"  # as if it had been read; there is no stream to read from
        return (response, error), None

    # ---- a batch ---------------------------------------------------------------------------------------------------
    def _before_call(self, params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.requests.append((model.name, params))
        if self._draw(model.name, of_call=True) is not Fault.HALF:
            return params
        if model.name == "BatchGetItem":
            ((table, asked),) = params["RequestItems"].items()
            kept, left = _halves(asked["Keys"])
            context["left"] = {table: {**asked, "Keys": left}}
            return {**params, "RequestItems": {table: {**asked, "Keys": kept}}}
        kept, context["left"] = _halves(params["Entries"])
        return {**params, "Entries": kept}

    def _after_call(self, parsed: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        left = context.pop("left", None)
        if left is None:
            return
        if model.name == "BatchGetItem":
            parsed["UnprocessedKeys"] = left
            return
        failed = [{"Id": e["Id"], "SenderFault": False, "Code": "InternalError", "Message": "half"} for e in left]
        parsed["Failed"] = [*parsed.get("Failed", ()), *failed]


def _halves(entries: list[Any]) -> tuple[list[Any], list[Any]]:
    """The first half, rounded up, since SQS takes no empty batch; and the rest."""
    middle = (len(entries) + 1) // 2
    return entries[:middle], entries[middle:]


def retry_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the SDK's standard retries not pause."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda self, context: 0)
