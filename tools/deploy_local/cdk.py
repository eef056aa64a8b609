"""The CDK's command line, as a person would use it."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.deploy_local.machine import ACCOUNT, REGION, ROOT, run

CDK = ROOT / "node_modules" / ".bin" / "cdk"
QUIET = {
    "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "18,20",
    "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
    "CDK_DISABLE_CLI_TELEMETRY": "1",
    # The app is started as `python app.py`: by the environment that this program runs in.
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
}


class CdkFailed(Exception):
    """A command of the CDK's ended with an error; the text is the end of what it said."""


@dataclass(frozen=True)
class Cdk:
    """The CDK against the emulator. `environments`: where the environment files are. `bundle`: what functions run.
    `folder`: for assembly and log."""

    variables: dict[str, str]
    environments: Path
    bundle: Path
    folder: Path

    def bootstrap(self) -> None:
        """`cdk bootstrap`, from a directory without an app: it needs none."""
        self._run("bootstrap", f"aws://{ACCOUNT}/{REGION}", cwd=self.folder)

    def synth(self, name: str) -> Path:
        """`cdk synth`; the assembly."""
        place = self.folder / name
        values = {"env": "local", "environments": self.environments, "bundle": self.bundle}
        context = [part for key, value in values.items() for part in ("-c", f"{key}={value}")]
        self._run("synth", "--quiet", *context, "--output", str(place))
        return place

    def deploy(self, assembly: Path) -> None:
        """`cdk deploy --all` of an assembly."""
        self._run("deploy", "--all", "--require-approval", "never", "--app", str(assembly))

    def diff(self, assembly: Path) -> int:
        """`cdk diff` of an assembly against what is deployed; the number of stacks with differences."""
        said = self._run("diff", "--app", str(assembly))
        found = re.search(r"Number of stacks with differences: (\d+)", said)
        if not found:
            raise CdkFailed(f"cdk diff did not tell the number of differences:\n{said[-2000:]}")
        return int(found[1])

    def destroy(self, assembly: Path) -> None:
        """`cdk destroy --all`."""
        self._run("destroy", "--all", "--force", "--app", str(assembly))

    def _run(self, *words: str, cwd: Path = ROOT) -> str:
        command = [str(CDK), *words, "--no-notices", "--no-color"]
        done = run(command, {**self.variables, **QUIET}, cwd=cwd, log=self.folder / "cdk.log")
        if done.returncode:
            raise CdkFailed(f"cdk {words[0]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
        return done.stdout + done.stderr
