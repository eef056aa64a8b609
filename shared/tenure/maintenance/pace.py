"""A rate kept exactly: how many at once, and how long between, so that no second holds more than the rate."""

from __future__ import annotations

BATCH_MAX = 10
"""Tasks replayed together: one SendMessageBatch, and what is looked at again after a death."""


def batch_of(rate_per_second: float) -> int:
    """How many at once: the largest divisor of the whole rate that is at most BATCH_MAX; one for rates below one."""
    rate = int(rate_per_second)
    return max((size for size in range(1, BATCH_MAX + 1) if rate and rate % size == 0), default=1)


def interval_ms(rate_per_second: float) -> int:
    """Between the starts of two batches, rounded up."""
    return -int(-batch_of(rate_per_second) * 1000 // rate_per_second)
