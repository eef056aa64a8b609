"""Errors of an app's own code: told as the app's, with the place, by every command that imports it."""

from __future__ import annotations

import json

import pytest

from tenure.cli.errors import explain, sentence
from tests.cli.conftest import APP, Shop

LINE = len(APP.splitlines()) + 1

BROKEN = [
    ("def broken(:", "SyntaxError: invalid syntax: def broken(:"),
    ("1 / 0", "ZeroDivisionError: division by zero."),
    ("import os; os.environ['DB_URL']", "KeyError: 'DB_URL'."),
    ("@app.task(queue='media', retyr=3)", "Did you mean 'retry'? So"),
    ("raise SystemExit('need DB_URL')", "SystemExit: need DB_URL."),
    ("raise SystemExit", "SystemExit."),
    ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'. Install it beside tenure"),
    ("import json; json.loads('{')", "JSONDecodeError: Expecting property name"),
    ("app.task(queue='media')(lambda: None)", "has no name of its own"),
    ("raise KeyError", "KeyError."),
]


@pytest.mark.parametrize(("code", "says"), BROKEN, ids=[code for code, _ in BROKEN])
@pytest.mark.parametrize("command", ["dev", "schema", "submit"])
def test_an_error_of_the_apps_code_is_told_as_that(shop: Shop, code: str, says: str, command: str) -> None:
    """File and line of the last frame in the project, what was raised, exit 2, and no word of a defect in tenure."""
    more = "\ndef late() -> None: ...\n" if code.startswith("@") else "\n"
    (shop.directory / "shop_app.py").write_text(APP + code + more)
    forget()
    result = shop.run(command, *(["resize", "{}"] if command == "submit" else []))
    told = " ".join(result.stderr.split())
    assert result.exit_code == 2, told
    assert f"shop_app.py:{LINE}: " in told
    assert says in told
    assert "shop_app:app could not be imported" in told
    assert "defect" not in told
    assert "?." not in told


def test_the_place_is_the_last_one_in_the_project(shop: Shop) -> None:
    """A helper that the app imports is named, not the import, nor the library in which it came to an end."""
    (shop.directory / "shop_helper.py").write_text("import json\n\n\ndef load():\n    json.loads('{')\n")
    (shop.directory / "shop_app.py").write_text("import shop_helper\nshop_helper.load()\n")
    forget()
    assert "shop_helper.py:5: JSONDecodeError" in shop.run("schema").stderr


def test_doctor_goes_on_after_a_broken_app(shop: Shop) -> None:
    """✗ for the app, with the place; what does not need the app is still looked at."""
    (shop.directory / "shop_app.py").write_text("import sys\nsys.exit('need DB_URL')\n")
    forget()
    result = shop.run("doctor", "-o", "json")
    checks = {each["check"]: each for each in json.loads(result.stdout)["checks"]}
    assert result.exit_code == 1
    assert checks["app"]["outcome"] == "failed"
    assert checks["app"]["message"].startswith("shop_app.py:2: SystemExit: need DB_URL.")
    assert list(checks)[2:] == ["credentials", "deployed", "queues", "table", "bucket", "clock"]


@pytest.mark.parametrize("line", [["ls"], ["conformance"], ["worker"]])
def test_an_address_that_is_none_is_named(shop: Shop, monkeypatch: pytest.MonkeyPatch, line: list[str]) -> None:
    """AWS_ENDPOINT_URL=foo is a slip of whoever set it: exit 2, and what to write."""
    from click.testing import CliRunner

    from tenure.cli.main import cli

    monkeypatch.setenv("AWS_ENDPOINT_URL", "foo")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    result = CliRunner().invoke(cli, line)
    told = " ".join(result.stderr.split())
    assert result.exit_code == 2, told
    assert "Invalid endpoint: foo. Write a whole address, such as http://127.0.0.1:4566, in AWS_ENDPOINT_URL" in told


def test_a_defect_is_told_in_whole_sentences() -> None:
    """No full stop after a question mark."""
    assert "Did you mean 'x'? This is a defect" in explain(TypeError("no. Did you mean 'x'?"))[1]
    assert (sentence("a"), sentence("a."), sentence("a?")) == ("a.", "a.", "a?")


def forget() -> None:
    """The fixture has imported the sound app."""
    import sys

    for name in ("shop_app", "shop_helper"):
        sys.modules.pop(name, None)
