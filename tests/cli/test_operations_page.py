"""Every command of docs/operations.md, run as written."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tenure.core.letter import quarantine_of
from tenure.ports import Send
from tests.cli import states
from tests.cli.conftest import Shop
from tests.cli.test_keys import halted_key

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


def commands() -> list[str]:
    """The page's commands, without their comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def in_trouble(shop: Shop) -> dict[str, str]:
    """A shop with something for every command; placeholder -> what it stands for."""
    dead = [shop.submit("render", {"month": f"2026-0{n + 1}"}) for n in range(3)]
    for task_id in dead:
        states.buried(shop, task_id)
    states.leased(shop, shop.submit("render", {"month": "2026-09"}))
    waiting = shop.submit("resize", {"key": "a.jpg"})
    letter = quarantine_of('{"tenure": 2}', {}, "", "m1", "envelope version 2")
    tier = shop.environment.topology.tier("media")
    shop.world.dead(tier).send_many([Send(letter.body, attributes=letter.attributes)])
    halted_key(shop)
    error = states.row_of(shop, dead[0]).error
    assert error is not None
    detached = shop.run("replay", f"id:{dead[2]}", "--detach", "--reason", "later", "--yes", "-o", "json")
    return {
        "FINGERPRINT": error.fingerprint,
        "REPLAY": json.loads(detached.stdout)["id"],
        "QUEUE": "media",
        "cancel ID": f"cancel {waiting}",
        "ID": dead[0],
    }


def test_the_page_has_commands() -> None:
    """The page is found, and read as it is meant."""
    assert len(commands()) > 20
    assert all(command.startswith("tenure ") for command in commands())


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_page_runs_as_written(shop: Shop, command: str) -> None:
    """None is refused as wrongly used, and none fails; some find nothing here (3), or stop at their canary (4)."""
    for name, value in in_trouble(shop).items():
        command = re.sub(rf"\b{name}\b", value, command)
    result = shop.run(*shlex.split(command)[1:])
    assert result.exit_code in (0, 3, 4), result.output
    if result.exit_code == 4:
        assert "--canary" in command


def test_every_alarm_of_tenures_own_is_on_the_page() -> None:
    """An alarm that nobody explains is noise at night."""
    text = PAGE.read_text(encoding="utf-8")
    for name in ("OwnBuried", "OwnQuarantined", "OwnLeaseLost", "OwnResent", "OwnWorkerCrashed", "OwnReconcileFailed"):
        assert name in text
