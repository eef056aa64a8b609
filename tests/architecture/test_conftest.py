"""The guards around every test do guard."""

import socket

import boto3
import pytest


def test_the_network_is_out_of_reach():
    with socket.socket() as client, pytest.raises(pytest.fail.Exception, match="reached for the network"):
        client.connect(("192.0.2.1", 80))


def test_this_machine_is_within_reach():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())


def test_no_profile_of_a_person_is_seen():
    session = boto3.Session()
    assert session.get_credentials().secret_key == "test"
    assert session.available_profiles == []


@pytest.mark.honest_on("ministack")
@pytest.mark.parametrize("backend", ["ministack"])
def test_an_honest_backend_is_not_skipped(backend):
    assert backend == "ministack"
