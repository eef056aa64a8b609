"""Asks ECS not to scale in a container that is at work (task scale-in protection).

A courtesy, never a need: without it a task that outlasts the stop window is handed over, or taken over after its
lease. So no failure of the agent's endpoint matters, and nothing waits for it.

Protection is only ever asked for, for a short while, and left to lapse: a container may hold several worker processes,
and one that is idle must not end the protection that another needs.
(AmazonECS/latest/developerguide/task-scale-in-protection-endpoint.html: PUT ${ECS_AGENT_URI}/task-protection/v1/state.)
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from urllib.parse import urlsplit

from tenure.ports import Clock, Signal, Telemetry, Thread, Threads

EXPIRES_MINUTES = 3
"""How long one call protects. The agent takes whole minutes, 1 to 2880."""
RENEW_SECONDS = 60.0
"""How often it is asked again while busy: two calls may fail before the protection lapses."""
LOOK_SECONDS = 5.0
"""How often it is looked whether the process is busy. Shorter tasks than this seldom need protection at all."""
TIMEOUT_SECONDS = 4.0
"""For the call: the agent is on the same host."""


class Protection:
    """A thread that keeps the container protected while `busy()` holds. `agent_uri`: ECS_AGENT_URI of the container."""

    def __init__(
        self, agent_uri: str, busy: Callable[[], bool], clock: Clock, threads: Threads, telemetry: Telemetry
    ) -> None:
        self._agent_uri = agent_uri
        self._busy = busy
        self._clock = clock
        self._threads = threads
        self._telemetry = telemetry
        self._stop: Signal = threads.signal()
        self._thread: Thread | None = None
        self._asked_at_ms: int | None = None
        self._failed = False

    def start(self) -> None:
        """Begin to look after it."""
        self._thread = self._threads.start("tenure-protection", self._loop)

    def stop(self) -> None:
        """Ask no more; what was granted lapses by itself."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(TIMEOUT_SECONDS)

    def _loop(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Ask for protection if the process is busy and the last asking is old. Never raises."""
        now = self._clock.now_ms()
        if self._asked_at_ms is not None and now - self._asked_at_ms < RENEW_SECONDS * 1000:
            return
        if not self._busy():
            return
        self._asked_at_ms = now
        try:
            ask(self._agent_uri)
        except Exception as error:  # whatever the agent does or is: this is a courtesy
            if not self._failed:  # told once, so that an agent without the endpoint does not fill the log
                self._telemetry.emit("protection.failed", error=repr(error))
            self._failed = True
        else:
            self._failed = False


def ask(agent_uri: str) -> None:
    """Ask the agent to protect this container's task for EXPIRES_MINUTES. Raises OSError, or HTTPException."""
    parts = urlsplit(agent_uri)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=TIMEOUT_SECONDS)
    try:
        body = json.dumps({"ProtectionEnabled": True, "ExpiresInMinutes": EXPIRES_MINUTES})
        path = parts.path.rstrip("/") + "/task-protection/v1/state"
        connection.request("PUT", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read(2048)
        if answer.status != 200 or b'"failure"' in said:
            raise OSError(f"the ECS agent answered {answer.status}: {said.decode('utf-8', 'replace')}")
    finally:
        connection.close()
