"""Whether a poller's process is alive, told by a file that only an alive one keeps fresh.

The worst fault of a poller is to be up and to do nothing. So the file holds the time of the last *proof*, not that of
the last breath: each receiver must have come round (its poll answered, well or ill) or wait for a place while a
handler is really running; and, unless a handler is, SQS must have answered some poll well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from tenure.core.errors import UsageError

STALE_SECONDS = 120
"""A process without proof for so long is to be replaced. Four times the longest pause between polls, six long polls."""
WRITE_EVERY_SECONDS = 5
"""How often the file is written at the most; it lies on a disk that may be slow."""


class Receiving(Protocol):
    """What a receiver tells of itself."""

    turned_at_ms: int
    received_at_ms: int
    waiting: bool


def proof_at_ms(receivers: Sequence[Receiving], running_well: int, now_ms: int) -> int:
    """When this process was last proved alive. `running_well`: handlers that run within their time.

    Failed polls alone count only while nothing runs: replacing a process cannot mend a service that is down, and must
    not cost the tasks that it still runs.
    """
    if not receivers:
        return now_ms
    busy = running_well > 0
    turned = min(now_ms if busy and r.waiting else r.turned_at_ms for r in receivers)
    answered = now_ms if busy else max(r.received_at_ms for r in receivers)
    return min(turned, answered)


class LivenessFile:
    """The file that a container's health check reads. Its directory must exist."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written_at_ms = 0

    def write(self, proved_at_ms: int, now_ms: int) -> None:
        """Record the proof, unless it was recorded a moment ago. Raises OSError."""
        if now_ms - self._written_at_ms < WRITE_EVERY_SECONDS * 1000:
            return
        fresh = self.path.with_name(self.path.name + ".new")
        fresh.write_text(json.dumps({"proved_at_ms": proved_at_ms}) + "\n", encoding="utf-8")
        os.replace(fresh, self.path)
        self._written_at_ms = now_ms


def child_path(path: Path, index: int) -> Path:
    """The file of the index-th process under a supervisor."""
    return path.with_name(f"{path.name}.{index}")


def files_of(path: Path) -> list[Path]:
    """A poller's own file, or those of a supervisor's children, whichever there are."""
    children = sorted(p for p in path.parent.glob(path.name + ".*") if p.suffix[1:].isdigit())
    return children or ([path] if path.exists() else [])


def problems(paths: Iterable[Path], now_ms: int) -> list[str]:
    """Why the container should be replaced; nothing if it is well. One stale process is enough."""
    found = []
    any_path = False
    for path in paths:
        any_path = True
        try:
            age_seconds = (now_ms - _proved_at_ms(path)) / 1000
        except (OSError, UsageError) as error:
            found.append(f"{path}: {error}")
            continue
        if age_seconds > STALE_SECONDS:
            found.append(f"{path}: no sign of life for {age_seconds:.0f} s (at most {STALE_SECONDS} s are allowed)")
    return found if any_path else ["there is no liveness file: no poller has started, or it writes elsewhere"]


def _proved_at_ms(path: Path) -> int:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))["proved_at_ms"]
    except (ValueError, KeyError, TypeError):
        raise UsageError("it does not hold the time of a sign of life") from None
    if not isinstance(value, int):
        raise UsageError("it does not hold the time of a sign of life")
    return value
