"""moto in this process, made atomic, with the SDK's retries on: what the faults of tests/support/faults.py need."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from tenure.local import atomic_moto
from tests.support.backends import Aws
from tests.support.faults import retry_at_once

THREE_TRIES = Config(retries={"mode": "standard", "total_max_attempts": 3}, max_pool_connections=32)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """tenure's adapters on moto; three tries a call, without pauses."""
    atomic_moto.install()
    retry_at_once(monkeypatch)
    with mock_aws():
        yield Aws("moto", config=THREE_TRIES)


@pytest.fixture(scope="session")
def session() -> boto3.session.Session:
    """For clients that a Stubber answers."""
    return boto3.session.Session(aws_access_key_id="1", aws_secret_access_key="x", region_name="us-east-1")
