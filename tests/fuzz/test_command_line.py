"""Whatever is typed: an exit code of the five, a sentence where something is wrong, and never a traceback."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenure.cli.main import cli
from tenure.cli.registry import COMMANDS
from tests.cli.conftest import Shop, shop  # noqa: F401 - the fixture

STARTERS = ("dev", "worker")
"""They start processes, so here they are only asked for help."""


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


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """A command with options of its own and values, mostly; and some that are neither."""
    path = draw(st.sampled_from(PATHS))
    mine = options(path) or ["--help"]
    words = st.sampled_from(mine).flatmap(lambda option: st.tuples(st.just(option), WORD)).map(list)
    parts = draw(
        st.lists(words | WORD.map(lambda word: [word]) | st.sampled_from(OPTIONS).map(lambda o: [o]), max_size=6)
    )
    line = [*path, *(word for part in parts for word in part)]
    if draw(st.integers(0, 9)) == 0:
        del line[draw(st.integers(0, len(line) - 1))]
    return [word for word in line if word not in STARTERS and word != "--traceback"]


def check(made: Shop, line: list[str], typed: str = "") -> None:
    result = CliRunner().invoke(cli, line, obj=made, input=typed, terminal_width=100)
    assert result.exit_code in range(5), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    assert "This is a defect in tenure" not in result.output, result.output
    if result.exit_code in (1, 2):
        assert result.output.strip(), "something is wrong, and nothing was said"


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(lines(), st.sampled_from(["", "y\n", "n\n", "{}"]))
@example(["show", "\udcff"], "")
@example(["submit", "resize", '{"key":"\udcff"}'], "")
@example(["wait", ""], "")
def test_no_line_ends_in_a_traceback(shop: Shop, line: list[str], typed: str) -> None:  # noqa: F811 - the fixture
    check(shop, line, typed)


def test_the_starters_have_their_help(shop: Shop) -> None:  # noqa: F811 - the fixture
    """And all the others are among those that are tried."""
    assert {path[0] for path in PATHS} == set(COMMANDS) - set(STARTERS)
    for name in STARTERS:
        check(shop, [name, "--help"])
