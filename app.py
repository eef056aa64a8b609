"""The CDK app: `cdk deploy -c env=prod --all`.

Context (`-c name=value`):
    env           the environment, or several with commas between; dev if not given
    environments  the directory of the environment files; infra/environments if not given
    bundle        a bundle that is there already (made by an earlier job, say); made anew if not given

Synth asks neither AWS nor docker, and needs no account.
"""

import infra.quiet  # isort: skip  # noqa: F401 - before aws_cdk, which starts Node

import sys
from pathlib import Path

import aws_cdk as cdk

from infra.bundle import Bundle
from infra.environment import read_settings
from infra.findings import Findings
from infra.stage import add_stage
from tenure.core.errors import UsageError

ACCEPTED_FILE = "accepted-findings.json"
"""In the assembly: what cdk-nag found and is accepted, where and why. For auditors, and for a test."""


def build(app: cdk.App) -> Findings:
    """Put the environments that the context names into `app`; what will be found out about them when it is synthesized.

    Raises UsageError for a file that cannot be deployed.
    """
    directory = Path(app.node.try_get_context("environments") or "infra/environments")
    ready = app.node.try_get_context("bundle")
    program = Bundle(Path(ready).resolve(), Path(ready).resolve().name) if ready else None
    for name in str(app.node.try_get_context("env") or "dev").split(","):
        add_stage(app, read_settings(directory / f"{name}.toml"), program)
    findings = Findings()
    cdk.Validations.of(app).add_plugins(findings)
    return findings


def main() -> None:
    """Synthesize. What a person got wrong in a file is told in lines, not as a traceback."""
    app = cdk.App()
    try:
        findings = build(app)
    except UsageError as error:
        sys.exit(f"{error}\n")
    assembly = app.synth()
    (Path(assembly.directory) / ACCEPTED_FILE).write_text(findings.accepted_as_json(), encoding="utf-8")


if __name__ == "__main__":
    main()
