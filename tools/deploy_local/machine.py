"""The emulator as a process, and the settings by which everything finds it instead of AWS."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-ministack" / "bin" / "python"
ACCOUNT, REGION = "123456789012", "us-east-1"
READY_SECONDS = 60
STOP_SECONDS = 10


def settings(url: str) -> dict[str, str]:
    """The SDK's variables for the emulator at `url`. To it a key of twelve digits is the account's number."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": ACCOUNT,
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


@contextmanager
def emulator(folder: Path) -> Iterator[str]:
    """ministack on a free port of this machine only; its URL. Its log and its state lie in `folder`."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    # The last two would open fixed ports.
    own = {"GATEWAY_PORT": str(port), "BIND_HOST": "127.0.0.1", "IOT_MTLS_ENABLED": "0", "SFTP_ENABLED": "0"}
    with (folder / "emulator.log").open("wb") as log:
        command = [str(PYTHON), str(ROOT / "tools" / "ministack_server.py")]
        server = subprocess.Popen(command, cwd=folder, env={**os.environ, **own}, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_until_it_answers(server, port)
            yield url
        finally:
            stop(server)


def stop(process: subprocess.Popen[bytes], seconds: int = STOP_SECONDS) -> int:
    """Ask a process to end; end it if it does not. Its exit code."""
    process.terminate()
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def python_version() -> str:
    """The Python that the emulator runs functions on, for example 3.13."""
    return _ask("import sys; print('%d.%d' % sys.version_info[:2])")


def bare_python() -> str:
    """The interpreter under the emulator's environment: it has nothing but the standard library."""
    return _ask("import sys; print(sys._base_executable)")


def _ask(program: str) -> str:
    return subprocess.run([str(PYTHON), "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def run(
    command: Sequence[str], variables: Mapping[str, str], *, cwd: Path = ROOT, log: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with these variables besides our own; all it says goes into `log` too."""
    done = subprocess.run(
        list(command), cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if log is not None:
        with log.open("a", encoding="utf-8") as out:
            out.write(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}\nexit {done.returncode}\n\n")
    return done


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end and server.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the emulator did not start (exit {server.poll()}); see its log")
