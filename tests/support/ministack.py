"""ministack, the AWS emulator that runs as a server of its own, in an environment of its own."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.adapters.clock import SystemClock

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / ".venv-ministack" / "bin" / "ministack"

READY_SECONDS = 60
"""Until it must answer. It takes one or two on a quiet machine."""


@contextmanager
def running() -> Iterator[str]:
    """A server on a free loopback port; its URL. It ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        port = _free_port()
        settings = (
            f"GATEWAY_PORT={port}",
            "BIND_HOST=127.0.0.1",
            "LOG_LEVEL=WARNING",
            "IOT_MTLS_ENABLED=0",  # these two would open fixed ports
            "SFTP_ENABLED=0",
        )
        with log.open("wb") as output:
            server = subprocess.Popen(["env", *settings, PROGRAM], cwd=folder, stdout=output, stderr=subprocess.STDOUT)
            try:
                _wait_until_it_answers(server, port, log)
                yield f"http://127.0.0.1:{port}"
            finally:
                server.terminate()
                try:
                    server.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    server.kill()
                    server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    clock = SystemClock()
    end_ms = clock.now_ms() + READY_SECONDS * 1000
    while clock.now_ms() < end_ms and server.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        clock.sleep(0.05)
    raise RuntimeError(f"ministack did not start (exit {server.poll()}):\n{log.read_text(errors='replace')[-2000:]}")
