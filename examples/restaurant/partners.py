"""Telling a delivery partner that an order is ready: a downstream that throttles, fails and forgets."""

from __future__ import annotations

import http.client
import json
from urllib.parse import quote, urlsplit

import tenure
from examples.restaurant import settings
from examples.restaurant.base import app

PATIENCE_SECONDS = 10.0
"""How long one call may take. The partner promises an answer within a second."""


class PartnerFailed(Exception):
    """The partner answered with an error of its own, or not at all. It may do better next time."""


@app.task(
    queue="partners",
    timeout="30s",
    lease="30s",
    retry=tenure.Retry(max_attempts=20, base="1s", cap="1m", deadline="6h"),
)
def notify_partner(order_id: str, ready_in_minutes: int = 0) -> str:
    """Announce an order to the partner; returns the partner's receipt. Safe to repeat: the partner goes by order id.

    Raises RetryAfter when throttled (for as long as the partner asks), GiveUp for an order that the partner does not
    know, PartnerFailed for the rest.
    """
    ctx = tenure.context()
    status, headers, body = _post(
        f"/orders/{quote(order_id, safe='')}/ready",
        {"ready_in_minutes": ready_in_minutes},
        {"Idempotency-Key": order_id, "Fence": str(ctx.fence)},
        min(PATIENCE_SECONDS, ctx.remaining()),
    )
    if status == http.client.TOO_MANY_REQUESTS:
        raise tenure.RetryAfter(_seconds(headers.get("Retry-After")), "the partner is throttling us")
    if status == http.client.NOT_FOUND:
        raise tenure.GiveUp(f"the partner knows no order {order_id}")
    if status != http.client.OK:
        raise PartnerFailed(f"the partner answered {status} to order {order_id}: {body[:200]!r}")
    receipt: str = json.loads(body)["receipt"]
    return receipt


def _post(path: str, content: object, headers: dict[str, str], seconds: float) -> tuple[int, dict[str, str], bytes]:
    url = urlsplit(settings.partners_url())
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=seconds)
    try:
        own = {"Content-Type": "application/json", **headers}
        connection.request("POST", url.path.rstrip("/") + path, json.dumps(content).encode(), own)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise PartnerFailed(f"no answer from the partner: {type(error).__name__}: {error}") from error
    finally:
        connection.close()


def _seconds(header: str | None) -> float:
    """Retry-After in seconds; a second where the partner names no number (the header may also be a date)."""
    try:
        return max(float(header or 1), 0.0)
    except ValueError:
        return 1.0
