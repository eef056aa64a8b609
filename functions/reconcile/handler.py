"""Reconcile, each minute: what nothing else has moved in time is sent again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.wiring.maintenance import Duties, LambdaContext

DUTIES = Duties.from_environment()


def handler(event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Do a run; its counts are the answer."""
    return DUTIES.reconcile(context)
