"""The console script without its extra."""

from __future__ import annotations

import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from tenure.cli import start
from tenure.cli.main import cli
from tests.architecture.repository import ROOT


@pytest.mark.parametrize("absent", start.NEEDS)
def test_without_the_extra_one_sentence_says_what_to_install(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1 and the command that mends it, instead of a traceback."""
    monkeypatch.setitem(sys.modules, absent, None)
    monkeypatch.delitem(sys.modules, "tenure.cli.main", raising=False)
    with pytest.raises(SystemExit) as left:
        start.main()
    # sys.exit(text) prints the text to stderr and exits with 1.
    assert left.value.code == "the command line needs its extra: pip install 'tenure[cli]'"


def test_another_missing_module_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the extra's own packages are explained away; a defect of ours stays a traceback."""
    monkeypatch.setitem(sys.modules, "tenure.cli.registry", None)
    monkeypatch.delitem(sys.modules, "tenure.cli.main", raising=False)
    with pytest.raises(ModuleNotFoundError, match="registry"):
        start.main()


def test_the_console_script_is_the_one_tested_here() -> None:
    """pyproject's entry point names this door and it exists."""
    module, _, name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["tenure"].partition(
        ":"
    )
    assert getattr(import_module(module), name) is start.main


def test_what_init_prints_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with a blank is quoted for the shell."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["init", "My Shop"])
    assert result.exit_code == 0
    assert "  cd 'My Shop'\n" in result.output
    assert "\n  cd plain\n" in CliRunner().invoke(cli, ["init", "plain"]).output
