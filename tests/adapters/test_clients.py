"""Time-outs that fit a lease, and the service's clock by the Date of its answers (R13)."""

from __future__ import annotations

import random
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from tenure.adapters.clients import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    POLL_SECONDS,
    TABLE_SECONDS,
    TRIES,
    Clients,
    ServerTime,
)
from tenure.adapters.clock import SystemThreads
from tenure.core import limits
from tenure.rows import WRITE_TRIES
from tests.support.forks import exit_code_of_a_fork

NOW_MS = 1_800_000_000_000


class Machine:
    """A machine whose clock is off."""

    def __init__(self, off_ms: int) -> None:
        self.true_ms = NOW_MS + 123
        self.off_ms = off_ms

    def local_ms(self) -> int:
        return self.true_ms + self.off_ms

    def ask(self, server: ServerTime, there_ms: int, back_ms: int) -> None:
        """A call whose answer is stamped after `there_ms` and comes `back_ms` later."""
        sent = self.local_ms()
        self.true_ms += there_ms
        date_ms = self.true_ms // 1000 * 1000
        self.true_ms += back_ms
        server.observe(date_ms, sent, self.local_ms())


@pytest.mark.parametrize("off_ms", [0, 400, -400])
def test_a_good_clock_is_left_alone(off_ms: int):
    """Within what a Date can tell, nothing is corrected, so leases do not jitter by a second."""
    machine = Machine(off_ms)
    server = ServerTime(machine.local_ms)
    machine.true_ms = NOW_MS + 500
    machine.ask(server, there_ms=1, back_ms=1)
    assert server.offset_ms() == 0


@pytest.mark.parametrize("off_ms", [3_600_000, -3_600_000, 7_000, -90_000])
def test_a_wrong_clock_is_corrected_by_the_first_answer(off_ms: int):
    """To within a second and the way of the answer; no answer after makes it worse."""
    machine = Machine(off_ms)
    server = ServerTime(machine.local_ms)
    assert server.offset_ms() == 0
    chance = random.Random(7)
    for _ in range(200):
        machine.ask(server, there_ms=chance.randint(1, 40), back_ms=chance.randint(1, 40))
        machine.true_ms += chance.randint(0, 3000)
        assert abs(machine.off_ms + server.offset_ms()) <= 1000 + 80
    assert abs(machine.off_ms + server.offset_ms()) <= 500, "many answers narrow it down"


def test_a_long_poll_misleads_nobody():
    """Its answer is stamped twenty seconds after it was asked; only what that proves is believed."""
    machine = Machine(0)
    server = ServerTime(machine.local_ms)
    machine.ask(server, there_ms=20_000, back_ms=5)
    assert server.offset_ms() == 0


def test_an_answer_during_which_the_clock_was_set_is_not_believed():
    """It came before it was asked."""
    server = ServerTime(lambda: 0)
    server.observe(date_ms=NOW_MS, sent_ms=NOW_MS + 60_000, received_ms=NOW_MS)
    assert server.offset_ms() == 0


def answering(clients: Clients, *answers: tuple[int, dict[str, str]]) -> Any:
    """The DynamoDB client, answered by these (status, headers) instead of the network."""
    script = list(answers)

    def answer(request: Any, **_: Any) -> AWSResponse:
        status, headers = script.pop(0)
        response = AWSResponse(request.url, status, HTTPHeaders.from_dict(headers), None)
        response._content = b"{}"
        return response

    clients.dynamodb.meta.events.register("before-send.dynamodb", answer)
    return clients.dynamodb


def date(at_ms: int) -> dict[str, str]:
    return {"Date": formatdate(at_ms / 1000, usegmt=True)}


def test_the_offset_comes_from_the_answers_of_a_real_client():
    """By the SDK's own events; an error's Date counts too."""
    clients = Clients(lambda: NOW_MS, region="us-east-1")
    client = answering(clients, (200, date(NOW_MS + 90_000)), (400, date(NOW_MS + 95_000)))
    client.list_tables()
    assert clients.server_time.offset_ms() == 90_000
    with pytest.raises(client.exceptions.ClientError):
        client.list_tables()
    assert clients.server_time.offset_ms() == 95_000


@pytest.mark.parametrize("headers", [{}, {"Date": ""}, {"Date": "tomorrow"}, {"Date": "Thu, 99 Foo 2027 00:00:00 GMT"}])
def test_an_answer_without_a_readable_date_changes_nothing(headers: dict[str, str]):
    """Nor does it fail the call."""
    clients = Clients(lambda: NOW_MS, region="us-east-1")
    answering(clients, (200, headers)).list_tables()
    assert clients.server_time.offset_ms() == 0


def test_a_receive_may_wait_as_long_as_sqs_does_and_no_other_call_may():
    """A time-out below the longest wait would lose messages; a long one elsewhere would cost a lease."""
    clients = Clients(lambda: NOW_MS, region="us-east-1")
    assert limits.SQS_WAIT_SECONDS_MAX < POLL_SECONDS <= 60
    assert clients.sqs_polls.meta.config.read_timeout == POLL_SECONDS
    for client, seconds in (
        (clients.sqs, ANSWER_SECONDS),
        (clients.dynamodb, TABLE_SECONDS),
        (clients.ssm, ANSWER_SECONDS),
    ):
        config: Any = client.meta.config
        assert (config.connect_timeout, config.read_timeout) == (CONNECT_SECONDS, seconds)
        assert config.retries["total_max_attempts"] == TRIES
        assert config.tcp_keepalive
    assert clients.s3.meta.config.read_timeout < 60


def test_a_write_on_a_dead_network_is_given_up_within_its_lease():
    """All tries of the SDK's, each as long as it may take, with the longest pauses, as often as `rows` asks."""
    pauses = sum(2**n for n in range(TRIES - 1))
    assert WRITE_TRIES * (TRIES * TABLE_SECONDS + pauses) <= 60


def test_a_receive_is_never_repeated_by_the_sdk():
    """A receive that was not answered may have hidden messages: the one that asked is to ask again, and to tell."""
    clients = Clients(lambda: NOW_MS, region="us-east-1")
    tries = {each: each.meta.config.retries["total_max_attempts"] for each in (clients.sqs_polls, clients.sqs)}
    assert list(tries.values()) == [1, 3]


def test_the_region_is_what_is_said_then_aws_region_then_the_sdks_own(monkeypatch):
    """botocore reads AWS_DEFAULT_REGION only; Lambda and AWS's documentation say AWS_REGION."""
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert Clients(lambda: NOW_MS).sqs.meta.region_name == "us-east-1"
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert Clients(lambda: NOW_MS).sqs.meta.region_name == "eu-west-1"
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert Clients(lambda: NOW_MS).ssm.meta.region_name == "eu-west-1"
    assert Clients(lambda: NOW_MS, region="eu-north-1").sqs.meta.region_name == "eu-north-1"


def test_clients_are_made_once():
    """Making one takes a tenth of a second."""
    clients = Clients(lambda: NOW_MS, region="us-east-1", endpoint_url="http://127.0.0.1:1")
    assert clients.sqs is clients.sqs
    assert clients.sqs is not clients.sqs_polls
    assert clients.sqs.meta.endpoint_url == "http://127.0.0.1:1"


class Answers(BaseHTTPRequestHandler):
    """Says that there are no queues, over connections that are kept open, and remembers who asked."""

    protocol_version = "HTTP/1.1"
    asked_from: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        self.asked_from.append(self.client_address[1])
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def test_a_forked_process_opens_connections_of_its_own():
    """On its parent's the two would take each other's answers."""
    Answers.asked_from.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        serving = SystemThreads().start("server", server.serve_forever)
        url = f"http://127.0.0.1:{server.server_port}"
        clients = Clients(lambda: NOW_MS, region="us-east-1", endpoint_url=url, credentials=("1", "x"))
        clients.sqs.list_queues()
        clients.sqs.list_queues()
        assert exit_code_of_a_fork(lambda: bool(clients.sqs.list_queues() and clients.sqs.list_queues())) == 0
        clients.sqs.list_queues()
        clients.close()
        server.shutdown()
        serving.join()
    first, second, of_the_child, childs_second, last = Answers.asked_from
    assert first == second == last != of_the_child == childs_second
