"""What holds for every test: a clean environment, no network, and a green run that says what it proves.

Emulator fixtures do not live here: they stand beside the tests that need them.
"""

import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]
IN_CI = os.environ.get("CI", "").lower() in ("1", "true")

# Nobody's account: what a test sends must be unable to reach AWS, and must not depend on a developer's profile.
# Twelve digits as the key, because ministack takes such a key for the account's number.
NOWHERE = {
    "AWS_ACCESS_KEY_ID": "123456789012",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}

# No deadline: a shared machine stalls, and time is not what properties are about. CI draws the same examples each
# run, so that a red build is the commit's; a person's runs explore.
hypothesis.settings.register_profile("person", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
# For tools/sabotage.py, to which it only matters that a test is red, and always the same one.
hypothesis.settings.register_profile(
    "sabotage",
    deadline=None,
    derandomize=True,
    database=None,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
hypothesis.settings.load_profile("ci" if IN_CI else "person")


def pytest_configure() -> None:
    """Before any module is imported: some read the environment as they load."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "TENURE_")):
            del os.environ[name]
    os.environ.update(NOWHERE)


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Each test finds the environment as the session began, whatever the one before did to it."""
    before = dict(os.environ)
    yield
    # pytest keeps the running test's name in the environment, and minds if it is gone.
    for name in set(os.environ) - set(before) - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]
    os.environ.update({name: value for name, value in before.items() if name != "PYTEST_CURRENT_TEST"})


@pytest.fixture(autouse=True, scope="session")
def loopback_only() -> Iterator[None]:
    """Only this machine can be reached: a test that would call AWS fails at once and says so."""
    patch = pytest.MonkeyPatch()
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(original: Any) -> Any:
        def call(self: socket.socket, address: Any) -> Any:
            if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
                pytest.fail(f"a test reached for the network: {address[0]}:{address[1]}")
            return original(self, address)

        return call

    patch.setattr(socket.socket, "connect", guarded(connect))
    patch.setattr(socket.socket, "connect_ex", guarded(connect_ex))
    yield
    patch.undo()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def pytest_runtest_setup(item: pytest.Item) -> None:
    _needs_ministack(item)
    _honest_on(item)


def _needs_ministack(item: pytest.Item) -> None:
    """A missing emulator is a laptop's excuse, never CI's: there a skip would be a hole that nobody sees."""
    if item.get_closest_marker("ministack") and not (ROOT / ".venv-ministack" / "bin" / "ministack").exists():
        if IN_CI:
            pytest.fail("ministack is not set up: make setup-ministack", pytrace=False)
        pytest.skip("ministack is not set up: make setup-ministack")


def _honest_on(item: pytest.Item) -> None:
    """Skip where the emulator's answer would mean nothing. The backend is the value of the parameter `backend`."""
    marker = item.get_closest_marker("honest_on")
    callspec = getattr(item, "callspec", None)
    if marker is None or callspec is None or "backend" not in callspec.params:
        return
    backend = callspec.params["backend"]
    name = backend if isinstance(backend, str) else backend.name
    if name not in marker.args:
        pytest.skip(f"honest only on {', '.join(marker.args)}: {name} is known to answer otherwise than AWS")
