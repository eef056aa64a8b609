"""Replays: plans, creates, runs, aborts; and each minute goes on with whatever is not over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.wiring.maintenance import Duties, LambdaContext

DUTIES = Duties.from_environment()


def handler(event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Do what the event says (docs/operations.md)."""
    return DUTIES.replay(event, context)
