"""Scale-in protection, asked of a server on this machine that stands for the ECS agent."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tenure.adapters.clock import SystemThreads
from tenure.adapters.memory import World
from tenure.worker.protection import EXPIRES_MINUTES, LOOK_SECONDS, RENEW_SECONDS, Protection


class Agent:
    """Answers as the agent's endpoint does, with the status and body that a test sets."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.status, self.body = 200, {"protection": {"ProtectionEnabled": True}}
        agent = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                length = int(self.headers["Content-Length"])
                agent.asked.append((self.command, self.path, json.loads(self.rfile.read(length))))
                self.send_response(agent.status)
                self.end_headers()
                self.wfile.write(json.dumps(agent.body).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = SystemThreads().start("agent", self.server.serve_forever)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/api/f00"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def agent() -> Iterator[Agent]:
    made = Agent()
    yield made
    made.close()


def protection(world: World, uri: str, busy: list[int]) -> Protection:
    return Protection(uri, lambda: bool(busy), world.clock, world.threads, world.telemetry)


def test_a_busy_process_asks_as_the_agent_s_page_says(agent):
    world = World()
    protection(world, agent.uri, [1]).look()
    assert agent.asked == [
        (
            "PUT",
            "/api/f00/task-protection/v1/state",
            {"ProtectionEnabled": True, "ExpiresInMinutes": EXPIRES_MINUTES},
        )
    ]


def test_it_is_renewed_before_it_lapses_and_never_ended_for_a_sibling(agent):
    """Busy for ten minutes: a call a minute. Idle: none at all, and what was granted lapses by itself."""
    world, busy = World(), [1]
    asking = protection(world, agent.uri, busy)
    for _ in range(round(600 / LOOK_SECONDS)):
        asking.look()
        world.advance(LOOK_SECONDS)
    assert len(agent.asked) == 600 / RENEW_SECONDS
    assert RENEW_SECONDS * 2 < EXPIRES_MINUTES * 60
    busy.clear()
    for _ in range(100):
        world.advance(LOOK_SECONDS)
        asking.look()
    assert len(agent.asked) == 600 / RENEW_SECONDS
    assert all(body["ProtectionEnabled"] for _, _, body in agent.asked)


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, {}), (404, {"error": "no such path"}), (200, {"failure": {"Reason": "DEPLOYMENT_BLOCKED"}})],
)
def test_an_agent_that_refuses_is_told_once_and_asked_again_later(agent, status, body):
    world = World()
    agent.status, agent.body = status, body
    asking = protection(world, agent.uri, [1])
    for _ in range(5):
        asking.look()
        world.advance(RENEW_SECONDS)
    assert len(agent.asked) == 5
    assert world.telemetry.count("protection.failed") == 1
    agent.status, agent.body = 200, {"protection": {}}
    asking.look()
    agent.status = 500
    world.advance(RENEW_SECONDS)
    asking.look()
    assert world.telemetry.count("protection.failed") == 2


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1", "http://127.0.0.1:1/api", "", "not a uri", "http://[bad"])
def test_an_agent_that_is_not_there_never_matters(uri):
    world = World()
    protection(world, uri, [1]).look()
    assert world.telemetry.count("protection.failed") == 1


def test_its_thread_looks_by_itself_and_ends_when_told(agent):
    world, busy = World(), [1]
    done: list[int] = []
    before = set(threading.enumerate())

    def main() -> None:
        asking = protection(world, agent.uri, busy)
        asking.start()
        world.clock.sleep(LOOK_SECONDS + 1)
        asking.stop()
        done.append(1)

    with world:
        world.spawn("w", main)
        world.run(until=lambda: bool(done))
    assert len(agent.asked) == 1
    left = {thread for thread in set(threading.enumerate()) - before if thread.name != "agent"}
    assert not left, "its thread ended"
