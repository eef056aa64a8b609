"""What the replay function is told, as documented JSON, and what it answers.

{"filter": "error:PDFError since:24h", "reason": "…", "by": "ann", "rate_per_second": 10, "limit": 0, "canary": 0,
 "dry_run": true}                                a plan; with "dry_run": false the replay is created and run
{"replay_id": "r…", "action": "status" | "run" | "abort", "by": "ann", "reason": "…"}
{"action": "list"}
{}, or a schedule's event                        go on with whatever is not over
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tenure.core.errors import UsageError
from tenure.maintenance.replay import Replays
from tenure.maintenance.replay_record import ReplaySpec

_SPEC = {each.name for each in fields(ReplaySpec)}
_OTHERS = {"dry_run", "replay_id", "action"}
FUNCTION = "the replay function's caller"
"""Who asks, where the event does not say: a function is not told who invokes it."""


def answer(replays: Replays, event: Mapping[str, Any], stop_at_ms: int | None) -> dict[str, Any]:
    """Do what the event says; the answer as JSON-like data. Raises UsageError for an event that cannot be meant,
    InvalidFilter, NothingMatched, ReplayNotFound and ServiceError."""
    if "replay_id" in event or "action" in event:
        return _act(replays, event, stop_at_ms)
    if "filter" not in event:
        return {"replays": [state.as_dict() for state in replays.run_all(stop_at_ms)]}
    unknown = sorted(set(event) - _SPEC - _OTHERS)
    if unknown:
        known = ", ".join(sorted(_SPEC | {"dry_run"}))
        raise UsageError(f"replay event: no field is called {unknown[0]!r}. Fields: {known}.")
    dry = bool(event.get("dry_run", True))
    told = {name: value for name, value in event.items() if name in _SPEC}
    spec = ReplaySpec(**{"by": FUNCTION, "reason": "a plan" if dry else "", **told})
    if dry:
        return {"dry_run": True, "plan": replays.plan(spec).as_dict()}
    state = replays.run(replays.create(spec).id, stop_at_ms)
    return {"dry_run": False, "replay": state.as_dict()}


def _act(replays: Replays, event: Mapping[str, Any], stop_at_ms: int | None) -> dict[str, Any]:
    action = event.get("action", "status")
    if action == "list":
        return {"replays": [state.as_dict() for state in replays.list()]}
    replay_id = str(event.get("replay_id", ""))
    if action == "status":
        return {"replay": replays.status(replay_id).as_dict()}
    if action == "run":
        return {"replay": replays.run(replay_id, stop_at_ms).as_dict()}
    if action == "abort":
        by, reason = str(event.get("by", FUNCTION)), str(event.get("reason", ""))
        if not reason.strip():
            raise UsageError("replay event: say why it is aborted, with `reason`.")
        return {"replay": replays.abort(replay_id, by, reason).as_dict()}
    raise UsageError(f"replay event: no action is called {action!r}. Actions: status, run, abort, list.")
