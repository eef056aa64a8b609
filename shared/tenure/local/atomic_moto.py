"""moto, made atomic: each API call happens wholly before or wholly after every other, as on AWS.

moto evaluates a condition and then writes, with nothing in between to keep another thread out: two writers win the
same conditional write, and messages vanish from queues. So every call goes through one lock. A long poll gives the
lock back between two looks, else nobody could send what it waits for.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tenure.adapters.clock import SystemClock

LOOK_SECONDS = 0.02
"""Between two looks of a long poll: short enough to be woken, long enough to leave the lock to others."""

HURRY = threading.Event()
"""While it is set, long polls answer at once, so that whoever waits in one can be stopped without waiting for it."""

LOCK = threading.RLock()
"""What every API call holds."""
_INSTALLED: list[bool] = []


def install() -> None:
    """Wrap moto's entry points, for as long as this process lives; a second time does nothing."""
    with LOCK:
        if _INSTALLED:
            return
        _INSTALLED.append(True)
    from moto.core.responses import BaseResponse
    from moto.s3.responses import S3Response
    from moto.sqs.models import SQSBackend

    # S3 has its own ways in, by the shape of the path.
    for owner, name in ((BaseResponse, "call_action"), (S3Response, "bucket_response"), (S3Response, "key_response")):
        setattr(owner, name, _locked(getattr(owner, name)))
    SQSBackend.receive_message = _patient(SQSBackend.receive_message)  # type: ignore[method-assign] # that is the point


def _locked(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def one_at_a_time(*args: Any, **kwargs: Any) -> Any:
        with LOCK:
            return call(*args, **kwargs)

    return one_at_a_time


def _patient(look: Callable[..., Any]) -> Callable[..., Any]:
    """receive_message as many short polls, with the lock free in between."""
    clock = SystemClock()

    @functools.wraps(look)
    def receive_message(backend: Any, queue_name: str, count: int, wait_seconds: int, *rest: Any, **named: Any) -> Any:
        end_ms = clock.now_ms() + 1000 * (wait_seconds or 0)
        while True:
            with LOCK, _one_moment():
                _reopen_groups(backend.get_queue(queue_name))
                messages = look(backend, queue_name, count, 0, *rest, **named)
            if messages or clock.now_ms() >= end_ms or HURRY.is_set():
                return messages
            _rest(clock)

    return receive_message


@contextmanager
def _one_moment() -> Iterator[None]:
    """Let moto's queues see one and the same time for as long as this lasts: it reads the clock anew for each message,
    so that visibility which lapses while it looks brings a group's tail without its head."""
    models: Any = importlib.import_module("moto.sqs.models")
    read = models.unix_time_millis
    moment = read()
    models.unix_time_millis = lambda: moment
    try:
        yield
    finally:
        models.unix_time_millis = read


def _reopen_groups(queue: Any) -> None:
    """Let go of every message whose visibility has lapsed. moto does it one by one as it looks, so that a group's tail
    still closes the group when its head is looked at, and comes first."""
    for message in [each for each in queue.pending_messages if each.visible]:
        queue.pending_messages.discard(message)


def _rest(clock: SystemClock) -> None:
    """Let others in for a moment. The calling thread holds the lock once if an API call brought it here, else not."""
    held = _is_held()
    if held:
        LOCK.release()
    try:
        clock.sleep(LOOK_SECONDS)
    finally:
        if held:
            LOCK.acquire()


def _is_held() -> bool:
    try:
        LOCK.release()
    except RuntimeError:  # what RLock raises to a thread that does not hold it
        return False
    LOCK.acquire()
    return True
