"""The wire between one process and AWS: every HTTP request that its SDK clients make, and one that it is cut at."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from botocore.exceptions import ReadTimeoutError

from tenure.adapters.clients import Clients

REQUEST_SECONDS = 0.005
"""What a request takes, of the time that a test lets pass."""


class Crash(BaseException):
    """The process ends here. No Exception: nothing may handle it."""


class How(Enum):
    """What happens at a request."""

    BEFORE = "the process dies before the request is sent"
    AFTER = "the process dies when the request has been applied, before its answer is read"
    REPLY_LOST = "the request is applied and its answer lost on the way; the SDK tries again where it may"


class Moment:
    """A clock that moves only when it is told to, or by requests: ports.Clock, and moto's own."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def set(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def sleep(self, seconds: float) -> None:
        self._now_ms += max(0, round(seconds * 1000))


class Wire:
    """The requests of one process. Once it is cut, none gets through: neither from a thread of the same process nor
    from a handler that swallowed the Crash.

    The clients are made once and serve one process after the other, since nothing of a process lives in them (making
    them takes a hundred times as long as a request).
    """

    def __init__(self, clock: Moment) -> None:
        self.clients = Clients(clock.now_ms)
        self._clock = clock
        self._lock = threading.Lock()
        for client in (self.clients.dynamodb, self.clients.sqs, self.clients.sqs_polls, self.clients.s3):
            self._listen(client)
        self.arm()

    def arm(self, at: int = 0, how: How = How.BEFORE, of: str = "") -> None:
        """A new process begins. `at`: the request at which it happens, counted from 1 (of the operation `of`, if one is
        named); 0: at none."""
        self._at, self._how, self._of = at, how, of
        self.sent: list[str] = []
        """The operations of the requests so far, an SDK's repetitions among them."""
        self.reached = False
        self.cut = False

    def _listen(self, client: Any) -> None:
        endpoint = client._endpoint
        answer = endpoint._do_get_response  # one HTTP request and its parsed answer; retries are above it
        endpoint._do_get_response = lambda request, model, context: self._request(
            model.name, request.url, partial(answer, request, model, context)
        )

    def _request(self, operation: str, url: str, send: Callable[[], Any]) -> Any:
        here = self._begin(operation)
        if self.cut or (here and self._how is How.BEFORE):
            self.cut = True
            raise Crash
        answer = send()
        if self.cut or (here and self._how is How.AFTER):
            self.cut = True
            raise Crash
        return (None, ReadTimeoutError(endpoint_url=url)) if here else answer

    def _begin(self, operation: str) -> bool:
        """Count the request; whether it is the one."""
        with self._lock:
            if self.cut:
                return False
            self.sent.append(operation)
            self._clock.sleep(REQUEST_SECONDS)
            counted = self.sent.count(self._of) if self._of else len(self.sent)
            here = not self.reached and self._at == counted
            self.reached = self.reached or here
            return here
