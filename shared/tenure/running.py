"""The note that `tenure dev` leaves, so that commands and producers started in the same directory find its stack:
.tenure/<environment>.json.

It only counts while the process that wrote it is alive; a note that a killed one left behind is passed over.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = ".tenure"
REGION = "us-east-1"
ACCOUNT = "123456789012"
"""The account that moto answers for."""
CREDENTIALS = (ACCOUNT, "embedded")
"""Access key id and secret for the embedded stack. It takes any; these cannot be mistaken for somebody's."""
PATIENCE_SECONDS = 60
"""How long an answer of the embedded stack is waited for, by whoever holds no lease: it shares the machine with all of
its workers, and perhaps with a build, and is not down because it is slow."""
WORKER_PATIENCE_SECONDS = 10
"""The same for its workers, who hold leases (60 s by default): more than on AWS, and less than a lease."""


@dataclass(frozen=True, slots=True)
class Running:
    """An embedded stack that runs. `pid` is that of `tenure dev`."""

    endpoint_url: str
    pid: int
    app: str
    environment: str


def folder(directory: Path) -> Path:
    """Where notes and logs lie, below the project's directory; made, and hidden from git."""
    place = directory / FOLDER
    place.mkdir(exist_ok=True)
    ignore = place / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return place


def leave(directory: Path, running: Running) -> Path:
    """Write the note; it replaces one that a dead process left. Returns where it is."""
    path = folder(directory) / f"{running.environment}.json"
    path.write_text(json.dumps(asdict(running)), encoding="utf-8")
    return path


def find(directory: Path, environment: str) -> Running | None:
    """The embedded stack of this directory's project, if its process is alive."""
    try:
        told = json.loads((directory / FOLDER / f"{environment}.json").read_text(encoding="utf-8"))
        running = Running(**told)
        os.kill(running.pid, 0)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except (ValueError, TypeError):  # half written, or by another version
        return None
    except PermissionError:  # alive, and somebody else's
        return running
    return running
