"""Lambda's Runtime API for one function, as its runtime client sees it: it fetches an event and posts the answer.

(lambda/latest/dg/runtimes-api.html. The real emulator of it, aws-lambda-rie, is tried too where it can be had.)
"""

from __future__ import annotations

import json
import queue
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

VERSION = "/2018-06-01/runtime"
ANSWER_SECONDS = 60


class FunctionFailed(Exception):
    """The function raised, or could not start; the text is what its runtime client said of it."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a function that is stopped breaks off its wait for the next event."""


class RuntimeApi:
    """A context manager; `address` is what AWS_LAMBDA_RUNTIME_API holds."""

    def __init__(self, timeout_seconds: int) -> None:
        self._timeout_seconds = timeout_seconds
        self._events: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self._answers: queue.Queue[tuple[bool, bytes]] = queue.Queue()
        self._count = 0
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                request_id, event = api._events.get()
                self.send_response(200)
                self.send_header("Lambda-Runtime-Aws-Request-Id", request_id)
                deadline_ms = round(time.time() * 1000) + api._timeout_seconds * 1000
                self.send_header("Lambda-Runtime-Deadline-Ms", str(deadline_ms))
                arn = "arn:aws:lambda:us-east-1:123456789012:function:bundle"
                self.send_header("Lambda-Runtime-Invoked-Function-Arn", arn)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(event)))
                self.end_headers()
                self.wfile.write(event)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                api._answers.put((self.path.endswith("/response"), body))
                self.send_response(202)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="runtime-api", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def invoke(self, event: dict[str, Any]) -> Any:
        """Hand over an event; the function's answer. Raises FunctionFailed."""
        self._count += 1
        self._events.put((f"request-{self._count}", json.dumps(event).encode()))
        try:
            well, body = self._answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise FunctionFailed(f"no answer within {ANSWER_SECONDS} s") from None
        if not well:
            raise FunctionFailed(body.decode())
        return json.loads(body)
