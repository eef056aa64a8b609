"""The demo where it cannot work."""

from __future__ import annotations

import sys

import pytest
from botocore.exceptions import ReadTimeoutError

from examples.restaurant import demo
from tenure.core.errors import ServiceError
from tenure.local import stack


def test_a_stack_that_cannot_start_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An emulator that does not answer in time ends the demo with exit code 2 and no traceback."""

    def unanswered(*_: object) -> None:
        raise ReadTimeoutError(endpoint_url="http://127.0.0.1:1/")

    monkeypatch.setattr(stack, "provision", unanswered)
    monkeypatch.setattr(sys, "argv", ["demo", "--days", "1"])
    with pytest.raises(SystemExit) as ended:
        demo.main()
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert told.startswith("The embedded stack could not be started: Read timeout")
    assert "too busy" in told
    assert told.count("\n") == 1


def test_a_stack_that_fails_in_the_midst_of_it_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A submit that the embedded stack does not take ends the demo with exit code 2 and no traceback."""

    def fails(*_: object) -> bool:
        raise ServiceError("DynamoDB table restaurant-dev: no answer")

    monkeypatch.setattr(demo, "run", fails)
    monkeypatch.setattr(sys, "argv", ["demo"])
    with pytest.raises(SystemExit) as ended:
        demo.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "The demo ended early: DynamoDB table restaurant-dev: no answer\n"
