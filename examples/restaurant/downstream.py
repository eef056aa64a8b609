"""The delivery partner, played: a small HTTP server that throttles by a token bucket, fails at times, and knows only
the orders that it was told of.

    python -m examples.restaurant.downstream --port 8090 --rate 5 --burst 10 --faults 0.05

It tells its address on its first line of output, and at `GET /stats` what it has seen. It stands for what the
restaurant does not control; nothing of it is deployed.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

from examples.restaurant.books import RESTAURANTS, orders
from examples.restaurant.storage import open_store


class TokenBucket:
    """So many calls a second in the long run, and so many at once. `now` tells the time in seconds."""

    def __init__(self, rate_per_second: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate_per_second
        self._burst = burst
        self._now = now
        self._tokens = float(burst)
        self._at = now()

    def wait_seconds(self) -> float:
        """0 and a token is taken; else how long until there is one, and none is taken."""
        now = self._now()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate


@dataclass
class Partner:
    """What the partner does with an announcement, apart from HTTP. `faults`: the share of calls that end in a 500."""

    bucket: TokenBucket
    known: Container[str] | None = None
    """Order ids; None: every order is known."""
    faults: float = 0.0
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    receipts: dict[str, str] = field(default_factory=dict)
    answers: Counter[int] = field(default_factory=Counter)
    repeats: int = 0
    """Announcements of an order that had been taken already."""

    def announce(self, order_id: str) -> tuple[int, dict[str, str], dict[str, Any]]:
        """(status, headers, body)."""
        answer = self._answer(order_id)
        self.answers[answer[0]] += 1
        return answer

    def _answer(self, order_id: str) -> tuple[int, dict[str, str], dict[str, Any]]:
        wait = self.bucket.wait_seconds()
        if wait:
            return 429, {"Retry-After": str(math.ceil(wait))}, {"error": "slow down"}
        if self.known is not None and order_id not in self.known:
            return 404, {}, {"error": f"no order {order_id}"}
        if self.rng.random() < self.faults:
            return 500, {}, {"error": "something broke here"}
        self.repeats += order_id in self.receipts
        receipt = self.receipts.setdefault(order_id, f"receipt-{len(self.receipts) + 1:05d}")
        return 200, {}, {"receipt": receipt}

    def stats(self) -> dict[str, Any]:
        """What it has seen, for people and for tests."""
        return {"taken": len(self.receipts), "repeats": self.repeats, "answers": dict(self.answers)}


class Downstream:
    """The partner behind HTTP on this machine, in threads of its own. A context manager."""

    def __init__(self, partner: Partner, port: int = 0) -> None:
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                place = self.path.split("/")
                if len(place) == 4 and (place[1], place[3]) == ("orders", "ready"):
                    with lock:
                        answer = partner.announce(unquote(place[2]))
                    self._reply(*answer)
                else:
                    self._reply(400, {}, {"error": "POST /orders/<id>/ready"})

            def do_GET(self) -> None:
                with lock:
                    stats = partner.stats()
                self._reply(200, {}, stats)

            def _reply(self, status: int, headers: dict[str, str], body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: the demo's terminal belongs to the demo."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="downstream", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self) -> None:
        """Answer in this thread until interrupted."""
        try:
            self._server.serve_forever()
        except KeyboardInterrupt:
            self._server.server_close()


def _main() -> None:
    parser = argparse.ArgumentParser(description="Play the delivery partner.")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--rate", type=float, default=5.0, help="calls a second in the long run")
    parser.add_argument("--burst", type=int, default=10, help="calls at once")
    parser.add_argument("--faults", type=float, default=0.05, help="share of calls answered with 500")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--all-known", action="store_true", help="know every order, rather than those of the books")
    options = parser.parse_args()
    known = None
    if not options.all_known:
        store = open_store()
        known = {order.order_id for restaurant in RESTAURANTS for order in orders(store, restaurant.id)}
    bucket = TokenBucket(options.rate, options.burst)
    downstream = Downstream(Partner(bucket, known, options.faults, random.Random(options.seed)), options.port)
    print(downstream.url, flush=True)
    downstream.serve()


if __name__ == "__main__":
    _main()
