"""Lease arithmetic: how long a lease and a message's invisibility last, and when a worker beats. Milliseconds."""

from __future__ import annotations

from tenure.core import limits

VISIBILITY_CAP_MS = (limits.SQS_VISIBILITY_SECONDS_MAX - 60) * 1000
"""SQS counts its 12 h from the receive and refuses more; a minute is kept back for clocks and the wire."""


def lease_end_at_ms(now_ms: int, lease_seconds: float) -> int:
    """When a lease that is taken or beaten now lapses."""
    return now_ms + round(lease_seconds * 1000)


def beat_every_ms(lease_seconds: float) -> int:
    """A third of the lease: two beats may be lost before it lapses, and a task shorter than this never pays for one."""
    return max(1, round(lease_seconds * 1000 / 3))


def lapsed(lease_end: int, now_ms: int) -> bool:
    """Whether another worker may take the lease over: past its end by more than clocks can differ."""
    return now_ms > lease_end + limits.SKEW_SECONDS * 1000


def ended(lease_end: int, now_ms: int) -> bool:
    """Whether its own holder must stop: at the end itself, before anyone else may begin."""
    return now_ms >= lease_end


HANDED_BACK_SECONDS = limits.SKEW_SECONDS + 6
"""A message that SQS shows at the lease's very end is handed back once: for the skew, a second, and up to 5 of jitter
(core/decide.py)."""


def back_at_ms(lease_end: int, claimed_at_ms: int, *, beaten: bool, hidden_seconds: int) -> int:
    """By when the message of a task whose worker died lies before the next worker, reconcile left aside.

    Each beat hides the message for as long as the lease, so after one it comes back with the lease's end. Before the
    first, it is hidden for the queue's own time, `hidden_seconds`, since it was received: on Lambda, where AWS demands
    it, longer than the function may run (R16).
    """
    with_the_lease = lease_end + HANDED_BACK_SECONDS * 1000
    return with_the_lease if beaten else max(with_the_lease, claimed_at_ms + hidden_seconds * 1000)


def rest_seconds(until_ms: int, now_ms: int) -> int:
    """Whole seconds from now until then, rounded up, never below zero."""
    return max(0, -((now_ms - until_ms) // 1000))


def visibility_seconds(wanted_seconds: float, received_at_ms: int, now_ms: int) -> int:
    """`wanted_seconds` as SQS takes it: whole, not negative, and within 12 h of the receive. 0 once past the cap."""
    left_ms = received_at_ms + VISIBILITY_CAP_MS - now_ms
    return max(0, min(-int(-wanted_seconds // 1), left_ms // 1000))


def beyond_cap(received_at_ms: int, now_ms: int) -> bool:
    """Whether the message can be hidden no longer, so that only the row is beaten."""
    return now_ms >= received_at_ms + VISIBILITY_CAP_MS
