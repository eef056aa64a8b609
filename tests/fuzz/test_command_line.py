"""Whatever is typed: an exit code of the six, a sentence where something is wrong, and never a traceback."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenure.cli.main import cli
from tenure.cli.registry import COMMANDS
from tests.cli import states
from tests.cli.conftest import Shop, shop  # noqa: F401 - the fixture

STARTERS = ("dev", "worker", "conformance")
"""They start processes, or go to AWS itself, so here they are only asked for help."""


def commands(group: click.Group, ctx: click.Context, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in group.list_commands(ctx):
        found = group.get_command(ctx, name)
        yield (*at, name)
        if isinstance(found, click.Group):
            yield from commands(found, ctx, (*at, name))


def options(path: tuple[str, ...]) -> list[str]:
    command: click.Command | None = cli
    for name in path:
        command = command.get_command(click.Context(command), name) if isinstance(command, click.Group) else None
    return [text for param in (command.params if command else ()) for text in param.opts if text.startswith("-")]


PATHS = [path for path in commands(cli, click.Context(cli)) if path[0] not in STARTERS]
OPTIONS = sorted({text for path in PATHS for text in options(path)} | {"--help", "--nothing", "--"})
VALUES = [
    *("dev", "shop", "shop_app:app", "nowhere:app", "json", "text", "media", "ledger", "reports", "prod"),
    *("resize", "render", "post", "0", "1", "-1", "9" * 30, "1e400", "nan", "24h", "0s", "soon", "ID", "{}", "[]", "{"),
    *('{"key":"a"}', '{"key":5,"width":"x"}', '{"month":"may"}', '{"amount":1,"account":"a"}', "state:dead_lettered"),
    *("task:*", "-queue:ledger", "since:24h", 'error:"', "id:", "high", "why not", "*", "é", "\udcff", "\n", "", "-"),
]
WORD = st.sampled_from(VALUES) | st.text(st.characters(exclude_characters="\x00"), max_size=12)


GOOD = [
    [
        "submit",
        "resize",
        '{"key":"a.jpg","width":5}',
        "--tenant",
        "acme",
        "--priority",
        "high",
        "--delay",
        "5s",
        "--key",
        "k",
    ],
    ["submit", "render", '{"month":"may"}', "--deadline", "2h", "--wait", "--timeout", "1s", "-o", "json"],
    ["submit", "post", '{"amount":1,"account":"a"}'],
    ["wait", "COMPLETED", "OPEN", "--timeout", "1s"],
    ["cancel", "OPEN", "--reason", "not needed"],
    ["ls", "state:dead_lettered", "since:24h", "-task:post", "--limit", "5"],
    ["show", "DEAD", "-o", "json"],
    ["why", "LEASED", "--env", "dev", "--app", "shop"],
    ["queues", "-o", "json"],
    ["pause", "media", "--reason", "a bad deploy"],
    ["resume", "media", "--reason", "mended"],
    ["dead", "task:*", "error:PDFError"],
    ["dead", "show", "DEAD"],
    ["dead", "foreign", "media", "--why", "sns", "--limit", "2", "--reason", "ours", "--yes"],
    [
        "replay",
        "task:render",
        "--canary",
        "1",
        "--canary-share",
        "0.5",
        "--rate",
        "5",
        "--limit",
        "3",
        "--max-replays",
        "2",
    ],
    [
        "replay",
        "id:DEAD",
        "--yes",
        "--reason",
        "mended",
        "--detach",
        "--canary-timeout",
        "5m",
        "--payload",
        '{"month":"x"}',
    ],
    ["replay", "status"],
    ["replay", "status", "r1"],
    ["replay", "run", "r1"],
    ["replay", "abort", "r1", "--reason", "no"],
    ["discard", "id:DEAD", "--reason", "not worth it", "--yes"],
    ["reconcile", "--letters", "--restored-from", "5m", "--reason", "restored", "-o", "json"],
    ["reconcile", "--release-held", "--reason", "decided"],
    ["audit", "--since", "24h", "--action", "replay", "--by", "ann", "--limit", "3"],
    ["schema", "resize", "-o", "json"],
    ["init", "made", "--name", "made"],
]
"""Lines that are right. DEAD and the like stand for the id of such a task."""


@st.composite
def near_misses(draw: st.DrawFn) -> list[str]:
    """A right line with up to three words replaced, dropped, doubled, or put in."""
    line = list(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(1, len(line)))
        how = draw(st.sampled_from(["replace", "replace", "drop", "double", "put in"]))
        if how == "put in" or at == len(line):
            line.insert(at, draw(WORD | st.sampled_from(OPTIONS)))
        elif how == "replace":
            line[at] = draw(WORD)
        elif how == "drop" and len(line) > 1:
            del line[at]
        else:
            line.insert(at, line[at])
    return line


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """Commands, options and values in any order."""
    path = draw(st.sampled_from(PATHS))
    words = st.sampled_from(options(path) or ["--help"]) | st.sampled_from(OPTIONS) | WORD
    return [*path, *draw(st.lists(words, max_size=6))]


@pytest.fixture
def busy(shop: Shop) -> Shop:  # noqa: F811 - the fixture
    """A shop with a task in each state that a line may name."""
    made = {name: shop.submit("render", {"month": name}) for name in ("OPEN", "LEASED", "COMPLETED", "DEAD", "DEAD2")}
    states.leased(shop, made["LEASED"])
    states.completed(shop, made["COMPLETED"])
    states.buried(shop, made["DEAD"])
    states.buried(shop, made["DEAD2"])
    IDS.update(made)
    return shop


IDS: dict[str, str] = {}


def named(word: str) -> str:
    for name, task_id in IDS.items():
        word = word.replace(name, task_id)
    return word


def check(made: Shop, line: list[str], typed: str = "") -> None:
    if line and line[0] in STARTERS and "--help" not in line:
        return
    typed_line = [named(word) for word in line if word != "--traceback"]
    result = CliRunner().invoke(cli, typed_line, obj=made, input=typed, terminal_width=100)
    assert result.exit_code in range(6), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    assert "This is a defect in tenure" not in result.output, result.output
    if result.exit_code in (1, 2):
        assert result.output.strip(), "something is wrong, and nothing was said"


many = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
TYPED = st.sampled_from(["", "y\n", "n\n", "{}"])


@many
@given(near_misses(), TYPED)
@example(["show", "\udcff"], "")
@example(["submit", "resize", '{"key":"\udcff"}'], "")
@example(["wait", ""], "")
def test_no_slip_ends_in_a_traceback(busy: Shop, line: list[str], typed: str) -> None:
    check(busy, line, typed)


@many
@given(lines(), TYPED)
def test_nor_does_nonsense(busy: Shop, line: list[str], typed: str) -> None:
    check(busy, line, typed)


@pytest.mark.parametrize("line", GOOD, ids=lambda line: " ".join(line[:2]))
def test_the_lines_that_slip_are_right(busy: Shop, line: list[str]) -> None:
    """Else all of the above would be refused for the same reason."""
    result = CliRunner().invoke(cli, [named(word) for word in line], obj=busy, terminal_width=100)
    assert result.exit_code != 2 or "r1" in line, result.output


def test_the_starters_have_their_help(shop: Shop) -> None:  # noqa: F811 - the fixture
    """And all the others are among those that are tried."""
    assert {path[0] for path in PATHS} == set(COMMANDS) - set(STARTERS)
    for name in STARTERS:
        check(shop, [name, "--help"])
