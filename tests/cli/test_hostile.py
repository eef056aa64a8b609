"""What others wrote reaches a person's terminal as text: no markup, no escapes, no forged rows."""

from __future__ import annotations

import ast
import io
import json
import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from tenure.cli import render
from tenure.cli.screen import draw
from tenure.cli.visible import exact, in_line, visible
from tenure.core import machine
from tenure.core.task import ErrorRecord, Happening, Stored
from tenure.keys import Keys
from tenure.local.snapshot import Snapshot
from tenure.ports import Send
from tests.cli import states
from tests.cli.conftest import Shop
from tests.cli.test_screen import view_of
from tests.cli.test_watch import watched

CLI = Path(render.__file__).parent
ESCAPES = "\x1b[2J\x1b]52;c;cm0gLXJm\x07\x1b]0;pwned\x1b\\\x9b31m\x00\x7f\r\u202e\u2066\u200f\u2028\ufeff"
MARKUP = "[/srv/x] [red]r[/red] :bomb: [link=http://x]l"
EVIL = f"{MARKUP}{ESCAPES}\tt\nqueued  forged  row"
LONG = f"{EVIL}{'x' * 5000}"


def harmless(text: str) -> str:
    """The text, of which a terminal obeys nothing but line ends and tabs."""
    obeyed = {each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp", "Cs")} - {"\n", "\t"}
    assert not obeyed
    return text


def shown(result: Result, *codes: int) -> str:
    """What a command printed, both ways; it ended with one of the codes."""
    assert result.exit_code in (codes or (0,)), result.output
    assert not isinstance(result.exception, Exception)
    return harmless(result.output)


def joined(text: str) -> str:
    return re.sub(r"\s+", "", text)


def hostile(shop: Shop, text: str = EVIL) -> str:
    """A dead letter of which every field that others write is hostile."""
    task_id = shop.submit("render", {"month": text}, tenant="t")
    row = states.buried(shop, task_id)
    error = ErrorRecord(f"builtins.{text}", f"{text}", f"line\n{text}", "f1")
    states.put(
        shop,
        row,
        replace(
            row, tenant=text, worker=text, pool=text, error=error, cancel_reason=text, cancel_requested_at_ms=1,
            ordering_key=text, traceparent=text, reason=text, history=(*row.history, Happening(1, "note", 1, text)),
        ),
    )  # fmt: skip
    return task_id


@pytest.mark.parametrize("text", [EVIL, LONG], ids=["evil", "long"])
@pytest.mark.parametrize(
    "line",
    [["ls"], ["show", "ID"], ["why", "ID"], ["dead"], ["dead", "show", "ID"], ["replay"], ["discard"], ["queues"],
     ["wait", "ID"], ["wait", "ID", "ID"], ["cancel", "ID", "--reason", "r"], ["doctor"]],
    ids=" ".join,
)  # fmt: skip
def test_hostile_rows_are_shown_as_text(shop: Shop, line: list[str], text: str) -> None:
    """Every command that shows rows ends as ever, and prints nothing that rich or a terminal would obey."""
    task_id = hostile(shop, text)
    told = shown(shop.run(*(task_id if each == "ID" else each for each in line)), *range(6))
    if line[0] in ("ls", "show") or line == ["dead", "show", "ID"]:
        assert joined("[/srv/x] [red]r[/red] :bomb: [link=http://x]l\\x1b[2J\\x1b]52;") in joined(told)
    if line[0] in ("ls", "dead", "replay", "discard") and "show" not in line:
        assert not re.search("^queued  forged", told, re.MULTILINE)


def test_json_is_exact(shop: Shop) -> None:
    """A program reads what was written, to the last control character; its text harms no terminal either."""
    task_id = hostile(shop)
    told = json.loads(shown(shop.run("show", task_id, "-o", "json")))
    assert (told["tenant"], told["error"]["message"], told["payload"]) == (EVIL, EVIL, {"month": EVIL})
    for value in (EVIL, "\ud800", "\U000e0041\u200d\u200cä😀"):
        assert json.loads(harmless(re.sub("[\u200c\u200d]", "", exact(value)))) == re.sub("[\u200c\u200d]", "", value)
    assert "ä😀" in exact("ä😀")


def test_results_and_payloads(shop: Shop) -> None:
    """What `wait` prints is JSON that a program reads back; the same for several."""
    task_id = shop.submit("render", {"month": "a"})
    states.completed(shop, task_id, json.dumps(EVIL, ensure_ascii=False))
    assert json.loads(shown(shop.run("wait", task_id))) == EVIL
    assert json.loads(shown(shop.run("wait", task_id, task_id)).splitlines()[0].partition("  ")[2]) == EVIL


def test_hostile_reasons_and_callers(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause's and a replay's reason and caller, in every command that tells of them; the audit's lines."""
    monkeypatch.setattr("getpass.getuser", lambda: EVIL)
    shown(shop.run("pause", "reports", "--reason", EVIL))
    task_id = hostile(shop)
    for line in (["queues"], ["why", task_id], ["ls"], ["audit"], ["wait", task_id]):
        shown(shop.run(*line), *range(6))
    told = shown(shop.run("replay", f"id:{task_id}", "--reason", EVIL, "--yes", "--detach"))
    replay_id = told.split()[1].rstrip(":")
    assert joined("[red]r[/red]") in joined(told)
    over = [["replay", "status"], ["replay", "status", replay_id], ["audit"], ["resume", "reports", "--reason", "r"]]
    for line in (*over, ["replay", "abort", replay_id, "--reason", EVIL], ["cancel", task_id, "--reason", "r"]):
        shown(shop.run(*line), *range(6))
    assert "[red]r[/red]" in shown(shop.run("replay", "status"))
    assert not re.search("^queued  forged", shown(shop.run("audit")), re.MULTILINE)


def test_a_hostile_ordering_key(shop: Shop) -> None:
    """It stands in `keys` on its one line."""
    world = shop.world
    keys = Keys.of(shop.environment.topology, world.store, world.clock, world.entropy)
    head, waiting = (shop.submit("post", {"amount": n, "account": EVIL}) for n in (1, 2))
    keys.halt(states.row_of(shop, head))
    states.buried(shop, head, "bad iban")
    row = states.row_of(shop, waiting)
    assert keys.park(row, "1")
    states.put(shop, row, machine.park(row, states.stamp(shop), "its key is halted"))
    told = shown(shop.run("keys"))
    assert "[/srv/x] [red]r[/red]" in told
    assert in_line(EVIL) in told or "…" in told
    shown(shop.run("keys", "drain", "ledger", EVIL, "--reason", EVIL))


def test_hostile_letters_without_a_row(shop: Shop) -> None:
    """The reason of a letter quotes what stands in the message."""
    body = json.dumps({"tenure": EVIL, "id": EVIL, "task": EVIL})
    queue = shop.world.dead(shop.environment.topology.tier("media"))
    queue.send_many([Send(body=body, attributes={}), Send(body="[/srv/x] [red]x", attributes={})])
    assert "2 letters without a row" in shown(shop.run("dead", "foreign", "media"))


@pytest.mark.parametrize(
    "line",
    [["show", EVIL], ["why", EVIL], ["dead", "show", EVIL], ["wait", EVIL], ["wait", EVIL, "x"], ["ls", f"id:{EVIL}"],
     ["cancel", EVIL, "--reason", "r"], ["cancel", EVIL, "x", "--reason", "r"], ["ls", EVIL], ["ls", f"queue:{EVIL}"],
     ["replay", f"error:{EVIL}"], ["replay", "status", EVIL], ["replay", "abort", EVIL, "--reason", "r"],
     ["submit", EVIL], ["submit", "render", EVIL], ["submit", "render", "{}", "--queue", EVIL], ["pause", EVIL],
     ["submit", "render", json.dumps({EVIL: 1})], ["wait", "x", "--timeout", EVIL], ["audit", "--since", EVIL],
     ["pause", EVIL, "--reason", "r"], ["keys", "drain", "ledger", EVIL, "--reason", "r"], [EVIL], [f"--{EVIL}"],
     ["ls", "--limit", EVIL], ["ls", f"--{EVIL}"], ["ls", "-o", EVIL], ["ls", "--env", EVIL], ["ls", "--app", EVIL],
     ["ls", "--app", f"{EVIL}:app"], ["schema", EVIL], ["init", EVIL], ["init", "x", "--name", EVIL], ["dead", "show"],
     ["queues", EVIL], ["dead", "foreign", EVIL], ["submit", "render", "--priority", EVIL], ["discard", f"id:{EVIL}"]],
)  # fmt: skip
def test_errors_quote_without_obeying(shop: Shop, line: list[str]) -> None:
    """What is said of ids, filters, options and names that a person typed, or that a script passed on from others."""
    shown(shop.run(*(each.replace("\x00", "") for each in line)), *([0] if line == ["init", EVIL] else [1, 2, 3]))


def test_errors_of_others_are_told_without_obeying(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect's text, in words and as JSON that a program reads back."""

    def fails(*_: object) -> None:
        raise ValueError(EVIL)

    monkeypatch.setattr(type(shop.world.store), "get", fails, raising=False)
    monkeypatch.setattr("tenure.rows.Rows.get", fails)
    told = shown(shop.run("why", "x"), 1)
    assert "[red]r[/red] :bomb:" in " ".join(told.split())
    assert EVIL in json.loads(shown(shop.run("why", "x", "-o", "json"), 1))["message"]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_screen_of_dev_shows_text(shop: Shop, width: int) -> None:
    """A terminal gets rich's own colours and nothing of a row's or a note's; a line stays a line."""
    row = replace(states.row_of(shop, hostile(shop, LONG)), task=LONG)
    view = view_of(shop, Snapshot((row,)), notes=[LONG, EVIL], workers={"quick": EVIL}, width=width, endpoint_url=EVIL)
    out = io.StringIO()
    render.console().__class__(file=out, force_terminal=True, width=width, color_system="standard").print(draw(view))
    harmless(re.sub("\x1b\\[[0-9;]*m", "", out.getvalue()))
    assert not re.search("^queued  forged", out.getvalue(), re.MULTILINE)


@pytest.mark.parametrize("plain", [True, False])
def test_dev_tells_text(shop: Shop, capsys: pytest.CaptureFixture[str], plain: bool) -> None:
    """The screen and its plain lines, with hostile rows and a fault whose text is hostile."""
    task_id = hostile(shop)

    def fails() -> Snapshot:
        raise ValueError(EVIL)

    def sees() -> Snapshot:
        return Snapshot((states.row_of(shop, task_id),))

    watched(shop, fails, sees, plain=plain)
    told = capsys.readouterr()
    harmless(told.out + told.err)
    assert not plain or (MARKUP in told.out and MARKUP in told.err)  # a screen without a terminal is its last one only
    assert not re.search("^queued  forged", told.out, re.MULTILINE)


def test_what_a_person_reads_stays() -> None:
    """Letters of all scripts, joiners that spell, line ends and tabs are left; others are shown as one writes them."""
    plain = "ä 漢字 \u0645\u06cc\u200c\u062e \U0001f469\u200d\U0001f527 [x]\n\ty"
    assert visible(plain) == plain
    assert visible("\x1b\r\x9b\u202e\U000e0041\ud800") == "\\x1b\\r\\x9b\\u202e\\U000e0041\\ud800"
    assert in_line("a\n\tb") == "a\\n\\tb"


def test_there_is_one_way_to_the_terminal() -> None:
    """In the command line's modules, rich's and click's ways to print are named where text is made harmless only."""
    ways = {"echo": {"visible.py"}, "style": {"visible.py"}, "secho": set(), "print_json": set()}
    ways |= {name: {"render.py"} for name in ("Table", "Console", "Panel", "from_markup", "from_ansi")}
    for path in sorted(CLI.glob("*.py")):
        for call in (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            assert path.name in ways.get(name, {path.name}), f"{path.name}:{call.lineno} {name}"
            made = name in ("Text", "assemble") and (call.args or call.keywords)
            assert not made or path.name == "render.py", f"{path.name}:{call.lineno} {name}"


def test_a_stored_payload_is_shown_as_text(shop: Shop) -> None:
    """`show` prints the arguments and the result as JSON of which nothing is obeyed."""
    task_id = shop.submit("render", {"month": EVIL})
    text = json.dumps({"r": EVIL}, ensure_ascii=False)
    row = states.completed(shop, task_id, text)
    assert row.result == Stored("inline", text, len(text))
    assert "\\u202e" in shown(shop.run("show", task_id))
