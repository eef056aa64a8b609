"""AWS on a loopback port of this process: moto behind an HTTP server, made atomic, with nobody's credentials.

Other processes reach it through the variables that `environment()` names; they need not know that it is not AWS.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from moto.core.base_backend import BackendDict
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from tenure import running
from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemThreads
from tenure.core.errors import UsageError
from tenure.local import atomic_moto
from tenure.ports import Thread, Threads

REGION = running.REGION
ACCOUNT = running.ACCOUNT
CREDENTIALS = running.CREDENTIALS


class _Requests(MotoRequestHandler):
    """No access log on the terminal."""

    disable_nagle_algorithm = True

    def log(self, type: str, message: str, *args: Any) -> None:
        logging.getLogger("tenure.local.emulator").debug(message, *args)


class Emulator:
    """A context manager; two at once in a process share their state, since moto keeps it in module globals.

    port: 0 takes a free one, which `url` then tells.
    """

    def __init__(self, *, port: int = 0, threads: Threads | None = None) -> None:
        self._port = port
        self._threads = threads or SystemThreads()
        self._server: BaseWSGIServer | None = None
        self._thread: Thread | None = None

    @property
    def url(self) -> str:
        """Where it answers, for example http://127.0.0.1:40123. Only while it runs."""
        if self._server is None:
            raise RuntimeError("the emulator is not running: call start() first")
        return f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"

    def start(self) -> None:
        """Bind the port and answer from now on. Raises UsageError where the port is taken."""
        atomic_moto.install()
        atomic_moto.HURRY.clear()
        app = DomainDispatcherApplication(create_backend_app)
        with self._bound() as bound:  # by us, since werkzeug ends the process where a port is taken
            self._server = make_server(
                "127.0.0.1", self._port, app, threaded=True, request_handler=_Requests, fd=bound.fileno()
            )
        self._thread = self._threads.start("emulator", self._server.serve_forever)

    def _bound(self) -> socket.socket:
        try:
            return socket.create_server(("127.0.0.1", self._port))
        except OSError as error:
            raise UsageError(
                f"port {self._port} cannot be had ({error.strerror}). Choose another, or 0 for any that is free."
            ) from None

    def hurry(self) -> None:
        """Let long polls answer at once from now on: whoever is to be stopped would else wait for them."""
        atomic_moto.HURRY.set()

    def stop(self) -> None:
        """Answer no more, and forget everything. Does nothing if it does not run."""
        server, self._server = self._server, None
        if server is None or self._thread is None:
            return
        server.shutdown()
        server.server_close()
        self._thread.join()
        BackendDict.reset()

    def environment(self) -> Mapping[str, str]:
        """What another process needs in its environment to find this and not AWS; the user's profiles are hidden."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": CREDENTIALS[0],
            "AWS_SECRET_ACCESS_KEY": CREDENTIALS[1],
            "AWS_SESSION_TOKEN": "",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def clients(self, local_ms: Callable[[], int]) -> Clients:
        """The clients that producers and workers use, of it. local_ms: the machine's clock, epoch milliseconds."""
        return Clients(
            local_ms,
            region=REGION,
            endpoint_url=self.url,
            credentials=CREDENTIALS,
            patience_seconds=running.PATIENCE_SECONDS,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
