"""The app as a person synthesizes it: `app.py` in a process of its own, without a network, read back as templates."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ("dev", "staging", "prod")
PARTS = ("data", "compute", "operations")

Resource = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Template:
    """A synthesized template."""

    name: str
    content: Mapping[str, Any]

    def resources(self, kind: str) -> dict[str, Resource]:
        """Logical id -> resource, of one CloudFormation type."""
        return {name: each for name, each in self.content["Resources"].items() if each["Type"] == kind}

    def properties(self, kind: str) -> dict[str, Mapping[str, Any]]:
        """Logical id -> properties, of one CloudFormation type."""
        return {name: each.get("Properties", {}) for name, each in self.resources(kind).items()}


@dataclass(frozen=True, slots=True)
class Assembly:
    """A synthesized app."""

    path: Path

    def template(self, environment: str, part: str) -> Template:
        """One stack's template."""
        name = f"restaurant-{environment}-{part}"
        return Template(name, json.loads((self.path / f"{name}.template.json").read_text(encoding="utf-8")))

    def templates(self) -> Iterator[Template]:
        """All of them."""
        for environment in ENVIRONMENTS:
            for part in PARTS:
                yield self.template(environment, part)

    def manifest(self) -> Mapping[str, Any]:
        """What the assembly says of its stacks."""
        content: Mapping[str, Any] = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        return content


def stand_in_bundle(place: Path) -> Path:
    """A directory in place of a bundle: templates do not depend on what a function's code is."""
    for name in ("worker/handler.py", "poller/Dockerfile"):
        path = place / "functions" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# stands in for the real one\n", encoding="utf-8")
    return place


def synthesize(place: Path, **context: str) -> subprocess.CompletedProcess[str]:
    """Run `app.py` into `place` with this context besides cdk.json's own."""
    flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    variables = {
        "CDK_OUTDIR": str(place),
        "CDK_CONTEXT_JSON": json.dumps({**flags, **context}),
    }
    settings = [f"{name}={value}" for name, value in variables.items()]
    loud = ("END_OF_LIFE_NODE_VERSION", "UNTESTED_NODE_VERSION")  # app.py itself keeps jsii quiet, whoever starts it
    unset = [part for name in loud for part in ("-u", f"JSII_SILENCE_WARNING_{name}")]
    command = [*without_network(), "env", *unset, *settings, sys.executable, "app.py"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def without_network() -> list[str]:
    """A prefix that runs a command in a network namespace of its own, where there is nothing; empty where the machine
    does not allow that."""
    unshare = shutil.which("unshare")
    if unshare and subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode == 0:
        return [unshare, "-rn"]
    return []
