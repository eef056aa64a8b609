"""Watching the embedded stack: what is told, and that a fault of the screen is no end of the stack."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from tenure import running
from tenure.cli import screen
from tenure.cli.edits import Edits
from tenure.cli.session import Opener, Session
from tenure.cli.watch import Watch
from tenure.core.task import Happening
from tenure.local.snapshot import Snapshot
from tenure.local.stack import EmbeddedStack
from tests.cli import states
from tests.cli.conftest import Shop


@dataclass
class Emulator:
    url: str = "http://127.0.0.1:40123"


@dataclass
class Stack:
    """Of an embedded stack what is watched; each look is the next of `looks`, and the last one stays."""

    shop: Shop
    looks: list[Callable[[], Snapshot]]
    notes: deque[tuple[int, str, str]] = field(default_factory=deque)
    emulator: Emulator = field(default_factory=Emulator)
    drains: int = 0

    @property
    def topology(self) -> Any:
        return self.shop.environment.topology

    @property
    def drained(self) -> bool:
        return self.drains > 0

    def workers(self) -> dict[str, str]:
        return {}

    def note(self, what: str, detail: str) -> None:
        self.notes.append((self.shop.world.clock.now_ms(), what, detail))

    def snapshot(self) -> Snapshot:
        look = self.looks.pop(0) if self.looks else stop_at_once
        return look()

    def drain(self) -> None:
        self.drains += 1


def stop_at_once() -> Snapshot:
    os.kill(os.getpid(), signal.SIGINT)
    return Snapshot(())


def watched(shop: Shop, *looks: Callable[[], Snapshot], edits: Edits | None = None, plain: bool = True) -> Stack:
    """Watch until the looks are over, then Ctrl-C."""
    (running.folder(shop.directory) / "logs").mkdir(exist_ok=True)
    stack = Stack(shop, list(looks))
    session = Session("dev", None, wants_json=False, opener=Opener(), directory=shop.directory)
    watch = Watch(session, cast(EmbeddedStack, stack), shop.world.clock, edits or Edits([]))
    with watch.signals():
        watch.run(plain=plain)
    return stack


def failing() -> Snapshot:
    raise ZeroDivisionError("a defect")


@pytest.mark.parametrize("plain", [True, False])
def test_a_fault_of_the_screen_ends_nothing(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    """It is said once, its traceback is in a file, and the next look is shown as ever."""
    task_id = shop.submit("render", {"month": "b"})
    monkeypatch.setenv("COLUMNS", "120")
    good = Snapshot((states.row_of(shop, task_id),))
    stack = watched(shop, failing, failing, lambda: good, plain=plain)
    told = "".join(capsys.readouterr())
    assert stack.drains == 1
    assert "ZeroDivisionError: a defect" in (shop.directory / ".tenure/logs/screen.log").read_text()
    if plain:
        assert told.count("ZeroDivisionError: a defect") == 1
        assert task_id in told


@pytest.mark.parametrize("odd", [None, 7, {"a": 1}, ["x"]], ids=repr)
@pytest.mark.parametrize("field", ["at_ms", "event", "fence", "detail"])
def test_an_odd_row_costs_no_other_its_lines(
    shop: Shop, capsys: pytest.CaptureFixture[str], field: str, odd: Any
) -> None:
    """A history with None or anything else in it is told as it is, and whatever else happens is told too."""
    first, other = shop.submit("render", {"month": "b"}), shop.submit("render", {"month": "c"})
    row = states.leased(shop, first)
    happening = Happening(**({"at_ms": 1, "event": "succeed", "fence": 1, "detail": "d"} | {field: odd}))
    snapshot = Snapshot((replace(row, history=(*row.history, happening)), states.row_of(shop, other)))
    watched(shop, lambda: snapshot, lambda: snapshot)
    told = capsys.readouterr()
    assert [line.split()[2:4] for line in told.out.splitlines() if other in line] == [["render", "submit"]]
    assert len([line for line in told.out.splitlines() if first in line]) == 3
    assert "failed" not in told.err


def test_ctrl_c_is_answered_at_once(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is waited for, and what a second one does."""
    watched(shop)
    assert screen.DRAINING in capsys.readouterr().err


def test_an_edit_is_told_once(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """The app's file was written while its workers run: they go on with what they loaded, and that is said."""
    file = shop.directory / "shop_app.py"

    def edited() -> Snapshot:
        file.write_text(file.read_text() + "\n")
        return Snapshot(())

    watched(shop, edited, lambda: Snapshot(()), edited, lambda: Snapshot(()), edits=Edits.of_project(shop.directory))
    told = capsys.readouterr().out
    assert told.count("shop_app.py has changed") == 1
    assert "restart tenure dev to take it up" in told


def test_what_is_installed_in_the_project_is_no_code_of_the_app(tmp_path: Path) -> None:
    """A virtual environment in the project's directory is not looked through at every look."""
    own, installed = tmp_path / "app.py", tmp_path / ".venv" / "lib" / "site-packages" / "other.py"
    for path in (own, installed):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    modules = {path.stem: type("M", (), {"__file__": str(path)}) for path in (own, installed)}
    edits = Edits.of_project(tmp_path, [tmp_path / "dev.toml"], cast(Any, modules))
    installed.write_text("x = 1")
    assert edits.first() is None
    (tmp_path / "dev.toml").write_text("x = 1")
    assert edits.first() == tmp_path / "dev.toml"
