"""What a type checker knows of the producer's surface. Never run: `make types` reads it.

Each wrong line bears an ignore for the error that it must be; mypy (strict) fails on an ignore that ignores nothing,
so a line that is no longer refused is an error too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_type

import tenure
from tenure.application import AsyncTask, Task

app = tenure.App("restaurant")


@dataclass
class Photo:
    key: str


@app.task(queue="media", timeout="2m", retry=tenure.Retry(max_attempts=5, give_up_on=(ValueError,)))
def resize_photo(photo: Photo, restaurant_id: str, width: int = 100) -> list[str]:
    return [photo.key, restaurant_id]


@app.task(queue="media")
async def fetch(url: str) -> bytes:
    return url.encode()


@app.task(queue="ledger", ordered_by="account")
def post(amount: int, account: str) -> None: ...


def takes_task(
    task: Task[..., list[str]], other: AsyncTask[[str], bytes], function: Callable[[Photo, str], list[str]]
) -> None:
    """A task can be handed on as what it is, and as the function that it still is."""


def right(photo: Photo) -> None:
    """What is meant: the function's own signature, and its result in the handle."""
    assert_type(resize_photo(photo, "r7"), list[str])
    assert_type(resize_photo.submit(photo, restaurant_id="r7"), tenure.Handle[list[str]])
    assert_type(resize_photo.submit(photo, "r7").result(timeout="30s"), list[str])
    assert_type(resize_photo.options(tenant="r7", delay="20m").submit(photo, "r7"), tenure.Handle[list[str]])
    assert_type(resize_photo.bind(photo, "r7"), tenure.Bound[list[str]])
    assert_type(resize_photo.submit_many(resize_photo.bind(photo, "r7") for _ in range(3)), tenure.SubmitReport)
    assert_type(resize_photo.handle("k1"), tenure.Handle[list[str]])
    assert_type(fetch.submit("u"), tenure.Handle[bytes])
    assert_type(post.submit(5, "a").result(), None)
    takes_task(resize_photo, fetch, resize_photo)


async def awaited(photo: Photo) -> None:
    """The async forms."""
    assert_type(await resize_photo.asubmit(photo, "r7"), tenure.Handle[list[str]])
    assert_type(await fetch("u"), bytes)
    handle = await fetch.options(priority="high").asubmit("u")
    assert_type(await handle.aresult(), bytes)
    assert_type(await handle.astatus(), tenure.Status)
    assert_type(await handle.acancel("why"), tenure.Cancellation)


def wrong(photo: Photo) -> None:
    """What a checker refuses before anything runs."""
    resize_photo.submit("p1", "r7")  # type: ignore[arg-type] # a str is no Photo
    resize_photo.submit(photo, 7)  # type: ignore[arg-type] # an int is no str
    resize_photo.submit(photo)  # type: ignore[call-arg] # restaurant_id is missing
    resize_photo.submit(photo, "r7", height=5)  # type: ignore[call-arg] # there is no height
    resize_photo.bind(photo, restaurant=5)  # type: ignore[call-arg] # there is no restaurant
    resize_photo.options(tenant="r7").submit(photo, "r7", "wide")  # type: ignore[arg-type] # a str is no int
    resize_photo.options(priority="urgent")  # type: ignore[arg-type] # no such priority
    resize_photo.options(urgency="high")  # type: ignore[call-arg] # there is no such option
    tenure.Options(delay=b"5m")  # type: ignore[arg-type] # no duration
    resize_photo("p1", "r7")  # type: ignore[arg-type] # called, it is the function: the same is refused
    fetch.submit(5)  # type: ignore[arg-type] # of an async task too
    resize_photo.submit_many([photo])  # type: ignore[list-item] # not a call
    number: int = post.submit(5, "a").result()  # type: ignore[assignment] # it returns None
    app.task(queue="media", retries=5)  # type: ignore[call-arg] # there is no such option
    app.task("media")  # type: ignore[call-arg] # a queue is named
    assert number


async def wrong_awaited(photo: Photo) -> None:
    """The same for what is awaited."""
    await resize_photo.asubmit(photo)  # type: ignore[call-arg] # restaurant_id is missing
    resize_photo.asubmit(photo, "r7")  # type: ignore[unused-coroutine] # it must be awaited
