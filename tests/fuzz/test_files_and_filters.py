"""What people write, and what deployments publish: read, or refused in one paragraph that says what to mend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenure.core import published
from tenure.core.environment import Environment, environment_of
from tenure.core.errors import InvalidFilter, InvalidTopology
from tenure.core.filters import FIELDS, TIMES, parse
from tenure.core.task import State
from tenure.environment_file import read_environment
from tests.core.building import T0, dead, in_state
from tests.core.test_published import DEPLOYED, facts
from tests.fuzz.junk import TEXT, damaged, mutated

VALID = """
name = "shop"
app = "shop_app:app"
requirements = "requirements.txt"

[pools.quick]
kind = "lambda"
memory_mb = 512
[pools.steady]
kind = "fargate"
tasks_max = 4

[queues.media]
pool = "quick"
tiers = ["high", "normal"]
[queues.ledger]
pool = "quick"
ordered = true
owner = "payments"

[deploy]
alarms = true
"""
CONTENT: dict[str, Any] = {
    "name": "shop",
    "app": "shop_app:app",
    "pools": {"quick": {"kind": "lambda", "memory_mb": 512}},
    "queues": {"media": {"pool": "quick", "tiers": ["high", "normal"]}, "ledger": {"pool": "quick", "ordered": True}},
    "deploy": {"alarms": True},
}
reused = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(error: Exception, place: str = "") -> None:
    """One paragraph: some text that names the place, no blank line in it, and nothing of Python's own."""
    said = str(error)
    assert said.strip()
    assert place in said
    assert "\n\n" not in said
    assert not any(word in said for word in ("Traceback", "errors.pydantic.dev", "ValidationError"))


# ---- environment files ---------------------------------------------------------------------------------------------
def read(path: Path, data: bytes) -> Environment | None:
    path.write_bytes(data)
    try:
        return read_environment(path)
    except InvalidTopology as error:
        check(error, str(path))
        return None


@reused
@given(
    st.binary(max_size=200)
    | TEXT.map(lambda text: text.encode("utf-8", "replace"))
    | damaged(VALID).map(lambda text: text.encode("utf-8", "replace"))
)
@example(b"\xff\xfe")
@example(b"a = " + b"[" * 5000)
@example(b"a = " + b"9" * 5000)
@example(b'name = "shop"\napp = 1979-05-27\n')
def test_any_file_is_an_environment_or_a_named_refusal(tmp_path: Path, data: bytes) -> None:
    read(tmp_path / "dev.toml", data)


def test_the_file_that_is_damaged_here_is_a_good_one(tmp_path: Path) -> None:
    """Else all of the above would be refused for the same reason."""
    assert read(tmp_path / "dev.toml", VALID.encode()) is not None


@settings(max_examples=300)
@given(mutated(CONTENT).filter(lambda each: isinstance(each, dict)))
def test_any_content_is_an_environment_or_a_named_refusal(content: dict[str, Any]) -> None:
    """Well-formed TOML with some places of another kind, missing, or unknown."""
    try:
        environment_of("dev", content, "dev.toml")
    except InvalidTopology as error:
        check(error)


# ---- what is published ---------------------------------------------------------------------------------------------
PUBLISHED = published.parameters(DEPLOYED, facts())


@settings(max_examples=300)
@given(st.data())
def test_whatever_is_published_is_a_topology_or_a_named_refusal(data: st.DataObject) -> None:
    """Parameters that somebody edited by hand, or cut, or that another version wrote."""
    name = data.draw(st.sampled_from(sorted(PUBLISHED)))
    document = json.loads(PUBLISHED[name])
    text = data.draw(mutated(document).map(json.dumps) | damaged(PUBLISHED[name]) | TEXT)
    values = {**PUBLISHED, name: text}
    for read_back in (published.topology_of, published.tasks_of):
        try:
            read_back("shop", "test", values)
        except InvalidTopology as error:
            check(error, "shop/test")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "5", '{"tenure":1}', '{"tenure":1,"queue":5,"pool":5,"urls":5,"tasks":5}', "[" * 100_000],
    ids=lambda text: text[:20],
)
def test_a_parameter_that_cannot_be_read_is_named(text: str) -> None:
    name = next(name for name in sorted(PUBLISHED) if "/queues/" in name)
    with pytest.raises(InvalidTopology, match=r"/tenure/shop/test.*"):
        published.topology_of("shop", "test", {**PUBLISHED, name: text})


# ---- filters -------------------------------------------------------------------------------------------------------
WORDS = st.tuples(
    st.sampled_from(["", "-"]),
    st.sampled_from([*FIELDS, *TIMES, "states", ""]),
    st.sampled_from([":", "", "::"]),
    st.lists(
        st.sampled_from(
            [*(state.value for state in State), "24h", "1d2h3m4s", "1.5s", "0.0001ms", "*", "[", "a b", '"']
        )
        | TEXT,
        max_size=3,
    ).map(",".join),
).map("".join)
FILTERS = st.lists(WORDS | TEXT, max_size=4)
ROWS = [in_state(state) for state in State] + [dead()]


@settings(max_examples=300)
@given(FILTERS)
@example(["since:1d2h3m4s"])
@example(["since:1.5s", "before:250.5ms"])
@example(["since:" + "9" * 300 + "s"])
def test_any_filter_picks_or_is_refused(texts: list[str]) -> None:
    """Whatever is typed. What parses picks rows without a fault, and its own text is the same filter again: it is what
    a replay's plan shows, and what its audit record keeps."""
    try:
        made = parse(texts)
    except InvalidFilter as error:
        check(error)
        return
    for row in ROWS:
        assert made.matches(row, T0) in (True, False)
    assert parse(made.text) == made
