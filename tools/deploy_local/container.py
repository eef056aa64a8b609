"""The Fargate pool's container, played: its entry point as process 1 of a namespace, from the very bundle that the
image is built on, with the variables of the deployed task definition and nothing else.

The image itself is not built: there is no docker here, and the emulator takes any image as published.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.deploy_local.machine import bare_python

STOP_SECONDS = 30


@dataclass
class Container:
    """A running container. `exit_code` once it has ended; `pid` as this machine sees it."""

    process: subprocess.Popen[bytes]
    pid: int
    is_pid_1: bool
    exit_code: int | None = None


def variables_of(ecs: Any, family: str) -> dict[str, str]:
    """The variables of the only container in the newest task definition whose name begins so."""
    arns = ecs.list_task_definitions(sort="DESC")["taskDefinitionArns"]
    arn = next(each for each in arns if family in each)
    (container,) = ecs.describe_task_definition(taskDefinition=arn)["taskDefinition"]["containerDefinitions"]
    return {each["name"]: each["value"] for each in container["environment"]}


@contextmanager
def running(bundle: Path, variables: Mapping[str, str], folder: Path) -> Iterator[Container]:
    """The container, until the block ends: then it is stopped as ECS would, by SIGTERM to its first process."""
    command = [bare_python(), "-m", "functions.poller"]
    unshare = namespace()
    clean = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(bundle),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "TENURE_LIVENESS_FILE": str(folder / "liveness"),
        "HOSTNAME": "container",
        **variables,
    }
    with (folder / "container.log").open("wb") as log:
        process = subprocess.Popen([*unshare, *command], cwd=folder, env=clean, stdout=log, stderr=subprocess.STDOUT)
        container = Container(process, process.pid, is_pid_1=bool(unshare))
        try:
            if unshare:
                container.pid = _child_of(process.pid)
            yield container
        finally:
            _stop(container)


def namespace() -> list[str]:
    """The command that runs a program as process 1 of its own namespace; empty where the machine does not allow it."""
    unshare = shutil.which("unshare")
    command = [unshare or "", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if unshare and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
        return command
    return []


def _child_of(pid: int) -> int:
    """The first process in the namespace, by the number that it has outside."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for _ in range(200):
        found = children.read_text(encoding="ascii").split()
        if found:
            return int(found[0])
        time.sleep(0.05)
    raise RuntimeError("the container's first process did not start")


def _stop(container: Container) -> None:
    if container.process.poll() is None:
        subprocess.run(["kill", f"-{signal.SIGTERM.name.removeprefix('SIG')}", str(container.pid)], check=False)
    try:
        container.exit_code = container.process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        container.process.kill()
        container.process.wait()
