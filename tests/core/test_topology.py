"""Queues, pools and their names: what contradicts itself is refused with the mend, and names fit AWS."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tenure.core import limits
from tenure.core.errors import InvalidTopology, NotBuilt
from tenure.core.topology import (
    PRIORITIES,
    Pool,
    Queue,
    Topology,
    dead_name,
    group_id,
    queue_name_on_sqs,
    refuse_unbuilt,
    shard_of,
)

LAMBDA = Pool(name="small", longest_runtime_seconds=120)
FARGATE = Pool(name="big", kind="fargate", longest_runtime_seconds=7200)
MEDIA = Queue(name="media", pool="small", tiers=("low", "high", "normal"))
LEDGER = Queue(name="ledger", pool="big", ordered=True)


def topology(**changes: Any) -> Topology:
    made: dict[str, Any] = {
        "app": "shop",
        "environment": "dev",
        "queues": (MEDIA, LEDGER),
        "pools": (LAMBDA, FARGATE),
    }
    return Topology(**(made | changes))


def test_names_are_those_of_the_convention() -> None:
    made = topology()
    assert (made.tier("media").name, made.tier("media").dead_name) == (
        "shop-dev-media-normal",
        "shop-dev-media-normal-dead",
    )
    ledger = made.tier("ledger")
    assert (ledger.name, ledger.dead_name) == ("shop-dev-ledger-normal.fifo", "shop-dev-ledger-normal-dead.fifo")
    assert (ledger.ordered, ledger.url) == (True, "")
    assert (made.table_name, made.bucket_name) == ("shop-dev-tasks", "")


def test_what_is_deployed_is_known_by_its_address() -> None:
    made = topology(urls={"media/high": ("https://q", "https://d")}, table="T", bucket="B")
    assert (made.tier("media", "high").url, made.tier("media", "high").dead_url) == ("https://q", "https://d")
    assert (made.table_name, made.bucket_name) == ("T", "B")


def test_tiers_come_in_the_order_in_which_a_worker_prefers_them() -> None:
    assert [(t.queue, t.tier) for t in topology().tiers("small")] == [("media", tier) for tier in PRIORITIES]
    assert {(t.queue, t.tier) for t in topology().tiers()} == {
        ("ledger", "normal"),
        *(("media", tier) for tier in PRIORITIES),
    }
    assert topology().tiers("nobody") == ()


def test_visibility_is_derived_from_what_serves_the_queue() -> None:
    """R16: on Lambda at least the function's timeout, or AWS refuses the mapping."""
    assert topology().visibility_seconds("media") >= LAMBDA.longest_runtime_seconds
    assert topology().visibility_seconds("ledger") == 60


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda t: t.queue("x"), r"no queue 'x' in environment 'dev' of app 'shop'. Declared queues: media, ledger"),
        (lambda t: t.pool("x"), "no pool 'x'"),
        (lambda t: t.tier("media", "x"), r"queue 'media' has no tier 'x': its tiers are low, high, normal"),
        (lambda t: t.tier("ledger", "high"), "queue 'ledger' has no tier 'high': it is ordered"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(ask: Any, said: str) -> None:
    with pytest.raises(InvalidTopology, match=said):
        ask(topology())


def test_an_environment_without_queues_says_so() -> None:
    with pytest.raises(InvalidTopology, match="Declared queues: none"):
        topology(queues=()).queue("media")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"queues": (MEDIA, MEDIA)}, "queue 'media' is declared twice"),
        ({"pools": (LAMBDA, FARGATE, LAMBDA)}, "pool 'small' is declared twice"),
        ({"pools": (LAMBDA,)}, "queue 'ledger': no pool is called 'big'. Pools: small"),
        ({"pools": ()}, "Pools: none"),
        ({"app": "Shop"}, "app"),
        ({"environment": "d" * 31, "app": "a" * 31}, "exceeds 80 characters"),
    ],
)
def test_a_topology_that_contradicts_itself_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        topology(**changes)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tiers": ("high",)}, 'and "normal" among them'),
        ({"tiers": ("normal", "normal")}, "each tier once"),
        ({"ordered": True, "tiers": ("high", "normal")}, "order and priority exclude each other"),
        ({"on_bury": "halt"}, "needs ordered = true"),
        ({"retention_seconds": 59}, "retention_seconds"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_queue_that_contradicts_itself_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Queue(name="media", pool="small", **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"longest_runtime_seconds": 901},
            'a Lambda pool runs at most 900 s, not 901. Lower it, or set kind = "fargate"',
        ),
        ({"memory_mb": 10_241}, "Lambda has at most 10240 MiB"),
        ({"tasks_min": 5, "tasks_max": 4}, r"tasks_max \(4\) is below tasks_min \(5\)"),
        ({"threads": 0}, "threads"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Pool(name="small", **options)


def test_a_fargate_pool_may_run_for_longer_and_with_more() -> None:
    assert Pool(name="big", kind="fargate", longest_runtime_seconds=86_400, memory_mb=61_440).memory_mb == 61_440


def test_what_is_not_built_is_refused_by_name() -> None:
    with pytest.raises(NotBuilt, match=r'media.*"lean" is not built yet'):
        refuse_unbuilt(Queue(name="media", pool="small", tracking="lean"))
    refuse_unbuilt(MEDIA)


NAMES = st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=15)


@given(app=NAMES, environment=NAMES, queue=NAMES, tier=st.sampled_from(PRIORITIES), ordered=st.booleans())
def test_a_queue_and_its_dlq_never_share_a_name(
    app: str, environment: str, queue: str, tier: str, ordered: bool
) -> None:
    name, dead = (f(app, environment, queue, tier, ordered) for f in (queue_name_on_sqs, dead_name))
    assert name != dead
    assert name.endswith(".fifo") == dead.endswith(".fifo") == ordered


SQS_TAKES = set(string.ascii_letters + string.digits + "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


@given(st.text(min_size=1, max_size=200))
def test_a_group_id_is_always_one_that_sqs_takes(value: str) -> None:
    """Whatever a tenant or an ordering key is called."""
    group = group_id(value)
    assert 1 <= len(group) <= limits.SQS_GROUP_ID_CHARS_MAX
    assert set(group) <= SQS_TAKES
    assert group == value or group.startswith("h:")


@pytest.mark.parametrize("value", ["r7\n", "\n", "Café Olé", "h:abc", "a b", "x" * 129, "\ud800", ""])
def test_what_sqs_would_refuse_or_confuse_is_hashed(value: str) -> None:
    """A newline at the end, which a `$` would let pass; and what looks like a hash already."""
    assert group_id(value).startswith("h:")
    assert len(group_id(value)) == 42


def test_group_ids_differ_where_values_do() -> None:
    assert group_id("r7") == "r7"
    assert len({group_id(v) for v in ("a b", "a  b", "a\tb", "a b ", group_id("a b"))}) == 5


def test_shards_are_stable_and_even() -> None:
    counts = [0] * limits.DUE_SHARDS
    for n in range(8000):
        counts[shard_of(f"task-{n}")] += 1
    assert min(counts) > 800
    assert shard_of("task-1") == shard_of("task-1")
