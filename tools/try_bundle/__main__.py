"""python -m tools.try_bundle: the bundle for this machine runs a task as Lambda would; the one for arm64 is examined.

Prints the asset's size and how long it takes to import. Exit code 0 if all is well.
"""

from __future__ import annotations

import http.client
import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import boto3

from examples.restaurant.app import app, photos
from examples.restaurant.storage import open_store
from examples.restaurant.uploads import photograph
from infra.bundle import Bundle, bundle
from infra.constructs.task_executor import ingredients
from infra.environment import Settings, read_settings
from tenure.adapters.clock import SystemClock
from tenure.core.task import State
from tenure.core.topology import Tier, Topology
from tenure.local.emulator import Emulator
from tenure.local.provision import provision
from tenure.wiring.producer import client_of
from tools.deploy_local import machine
from tools.try_bundle.runtime_api import RuntimeApi

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".work" / "try-bundle"
HANDLER = "functions.worker.handler.handler"
ZIPPED_BYTES_MAX, UNPACKED_BYTES_MAX = 50_000_000, 250_000_000
"""Of a function's code: the first as it is uploaded directly, the second in any case. gettingstarted-limits.html"""
MACHINES = {"arm64": 183, "x86_64": 62}
"""ELF's numbers: EM_AARCH64, EM_X86_64."""
RIE_WHEEL = "aws-sam-cli==1.170.0"
"""AWS's own tool carries the runtime interface emulator as a program."""


class Wrong(Exception):
    """Something is not as it must be."""


def must(holds: bool, what: str) -> None:
    """Say that it holds. Raises Wrong."""
    if not holds:
        raise Wrong(what)
    print(f"  ok  {what}")


def settings_for(python_version: str, architecture: str, *, prune: bool = True) -> Settings:
    """The settings of environment `local`, for another Python and machine."""
    settings = read_settings(ROOT / "infra" / "environments" / "local.toml")
    changes: dict[str, object] = {"python_version": python_version, "architecture": architecture}
    if not prune:
        changes["services"] = ()
    return Settings(settings.environment, settings.deployment.model_copy(update=changes))


# ---- what it weighs ------------------------------------------------------------------------------------------------
def zipped_bytes(path: Path) -> int:
    """What is uploaded."""
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for each in sorted(path.rglob("*")):
                archive.write(each, each.relative_to(path))
        return file.tell()


def weigh(made: Bundle, what: str) -> None:
    """Print sizes and hold them against Lambda's limits."""
    unpacked = sum(each.stat().st_size for each in made.path.rglob("*") if each.is_file())
    zipped = zipped_bytes(made.path)
    must(
        zipped < ZIPPED_BYTES_MAX and unpacked < UNPACKED_BYTES_MAX,
        f"{what}: {zipped / 1e6:.1f} MB zipped, {unpacked / 1e6:.1f} MB unpacked",
    )


def examine_natives(made: Bundle, architecture: str, python_version: str) -> None:
    """Every native file is for that machine, and every extension module for that Python."""
    natives = [path for path in made.path.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    wrong = [path.name for path in natives if elf_machine(path) != MACHINES[architecture]]
    must(
        bool(natives) and not wrong,
        f"{len(natives)} native files, all for {architecture}" + f" (not {wrong})" * bool(wrong),
    )
    tag = f"cpython-{python_version.replace('.', '')}-"
    modules = [path.name for path in natives if ".cpython-" in path.name]
    strangers = [name for name in modules if tag not in name]
    must(bool(modules) and not strangers, f"{len(modules)} extension modules, all for Python {python_version}")


def elf_machine(path: Path) -> int:
    """The machine that an ELF file is for."""
    number: int = struct.unpack_from("<H", path.read_bytes(), 18)[0]
    return number


# ---- how it runs ---------------------------------------------------------------------------------------------------
def bare(program: Path, *more: Path) -> tuple[list[str], dict[str, str]]:
    """A Python that has nothing but the standard library and these directories: its command, and its variables."""
    path = os.pathsep.join(str(each) for each in (program, *more))
    return [machine.bare_python(), "-S"], {"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def import_seconds(made: Bundle, what: str) -> float:
    """How much processor time a cold start's import takes: the best of three."""
    python, variables = bare(made.path)
    text = f"import time; began = time.process_time(); import {what}; print(time.process_time() - began)"
    times = []
    for _ in range(3):
        done = subprocess.run(
            [*python, "-c", text], env=variables, cwd=FOLDER, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Wrong(f"import {what} fails in an interpreter that has nothing but the bundle:\n{done.stderr}")
        times.append(float(done.stdout))
    return min(times)


def runtime_client() -> Path:
    """A directory with awslambdaric, at the version that the project pins, and what it needs itself."""
    place = FOLDER / "runtime-client"
    names = [f"{name}=={version(name)}" for name in ("awslambdaric", "snapshot-restore-py", "simplejson")]
    install(place, names)
    return place


def install(place: Path, names: Sequence[str]) -> None:
    """Unpack packages into a directory. Raises CalledProcessError."""
    if place.is_dir():
        return
    command = [
        str(Path(sys.executable).with_name("uv")),
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(place),
    ]
    subprocess.run([*command, "--python", str(machine.PYTHON), *names], check=True, capture_output=True, text=True)


def emulator_of_the_runtime() -> Path | None:
    """aws-lambda-rie, or None where it cannot be had."""
    place = FOLDER / "sam"
    try:
        install(place, [RIE_WHEEL])
    except subprocess.CalledProcessError:
        return None
    word = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    found = list(place.glob(f"samcli/local/rapid/aws-lambda-rie-{word}"))
    if not found:
        return None
    found[0].chmod(0o755)
    return found[0]


@contextmanager
def function(command: Sequence[str], variables: dict[str, str], made: Bundle) -> Iterator[None]:
    """The function's process, as long as the block lasts; what it said is shown if the block fails."""
    with (FOLDER / "function.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=made.path, env=variables, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
        except Exception:
            print((FOLDER / "function.log").read_text(encoding="utf-8", errors="replace")[-4000:])
            raise
        finally:
            process.terminate()
            process.wait(10)


def event_of(sqs: Any, tier: Tier) -> dict[str, Any]:
    """A batch as Lambda's poller receives and passes it on."""
    received = sqs.receive_message(
        QueueUrl=tier.url, MaxNumberOfMessages=10, WaitTimeSeconds=5, MessageSystemAttributeNames=["All"]
    )
    records = [
        {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{tier.name}",
        }
        for message in received["Messages"]
    ]
    return {"Records": records}


def run_under_the_client(made: Bundle, world: World, client: Path) -> None:
    """awslambdaric, served by our own Runtime API."""
    handle, event = world.submit()
    python, variables = bare(made.path, client)
    with RuntimeApi(timeout_seconds=60) as api:
        variables |= {**world.variables(), "AWS_LAMBDA_RUNTIME_API": api.address, "LAMBDA_TASK_ROOT": str(made.path)}
        began = time.monotonic()
        with function([*python, "-m", "awslambdaric", HANDLER], variables, made):
            answer = api.invoke(event)
    world.judge(
        handle, answer, f"awslambdaric {version('awslambdaric')} ran a task, cold, in {time.monotonic() - began:.1f} s"
    )


def run_under_the_emulator(made: Bundle, world: World, client: Path, rie: Path) -> None:
    """awslambdaric, served by AWS's runtime interface emulator."""
    handle, event = world.submit()
    python, variables = bare(made.path, client)
    port, inner = machine.free_port(), machine.free_port()
    variables |= {**world.variables(), "LAMBDA_TASK_ROOT": str(made.path), "AWS_LAMBDA_FUNCTION_TIMEOUT": "60"}
    own = ["--runtime-interface-emulator-address", f"127.0.0.1:{port}", "--runtime-api-address", f"127.0.0.1:{inner}"]
    with function([str(rie), *own, *python, "-m", "awslambdaric", HANDLER], variables, made):
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/2015-03-31/functions/function/invocations", json.dumps(event))
        answer = json.loads(connection.getresponse().read())
    world.judge(handle, answer, "AWS's runtime interface emulator ran a task")


class World:
    """An emulated environment with a photograph in its store."""

    def __init__(self, cleanup: ExitStack, settings: Settings) -> None:
        emulator = cleanup.enter_context(Emulator())
        self._variables = dict(emulator.environment())
        os.environ.update(self._variables)
        self.topology: Topology = provision(settings.topology, emulator.clients(SystemClock().now_ms))
        self.store = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tenure-bundle-"))
        self._sqs = boto3.client("sqs")
        open_store(self.store).write("uploads/r1/coffee.png", photograph("coffee.png"))
        app.connect(client=client_of(self.topology, emulator.clients(SystemClock().now_ms), {}))

    def variables(self) -> dict[str, str]:
        """The function's variables, as its deployment would set them."""
        return {
            **self._variables,
            "TENURE_APP": "examples.restaurant.app:app",
            "TENURE_ENVIRONMENT": self.topology.environment,
            "TENURE_POOL": "quick",
            "TENURE_TOPOLOGY": self.topology.model_dump_json(),
            "RESTAURANT_STORE": self.store,
        }

    def submit(self) -> tuple[Any, dict[str, Any]]:
        """Submit a task; its handle, and the event that brings it to the function."""
        handle = photos.resize_photo.submit(photos.Photo(key="uploads/r1/coffee.png"), restaurant_id="r1")
        return handle, event_of(self._sqs, self.topology.tier("media"))

    def judge(self, handle: Any, answer: object, what: str) -> None:
        """The task ended well and its message may go. Raises Wrong."""
        must(answer == {"batchItemFailures": []} and handle.status().state is State.COMPLETED, what)


def try_all() -> None:
    """The whole of it."""
    here = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    own = machine.python_version()
    print(f"for this machine: Python {own}, {here}")
    settings = settings_for(own, here)
    made = bundle(ingredients(settings))
    weigh(made, "with the models of the services that are named")
    weigh(bundle(ingredients(settings_for(own, here, prune=False))), "with the models of every AWS service")
    examine_natives(made, here, own)
    for what in ("tenure.wiring.worker, tenure.worker.lambda_runtime", "examples.restaurant.app"):
        milliseconds = import_seconds(made, what) * 1000
        print(f"      import {what}: {milliseconds:.0f} ms of processor time, nothing compiled before")
    client = runtime_client()
    rie = emulator_of_the_runtime()
    with ExitStack() as cleanup:
        world = World(cleanup, settings)
        run_under_the_client(made, world, client)
        if rie:
            run_under_the_emulator(made, world, client, rie)
        else:
            print("  --  AWS's runtime interface emulator cannot be had here; not tried")
    prod = read_settings(ROOT / "infra" / "environments" / "prod.toml")
    print(f"for production: Python {prod.deployment.python_version}, {prod.deployment.architecture}")
    made = bundle(ingredients(prod))
    weigh(made, "the asset")
    examine_natives(made, prod.deployment.architecture, prod.deployment.python_version)


def main() -> int:
    """The program."""
    shutil.rmtree(FOLDER / "function.log", ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        try_all()
    except Wrong as wrong:
        print(f"  NO  {wrong}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
