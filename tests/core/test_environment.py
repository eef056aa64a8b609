"""An environment file's content becomes a topology; each mistake is told by field, rule and mend, all at once."""

import pytest

from tenure.core.environment import environment_of
from tenure.core.errors import InvalidTopology
from tenure.environment_file import read_environment

GOOD = {
    "name": "shop",
    "app": "shop.tasks:app",
    "pools": {"quick": {}, "slow": {"kind": "fargate", "longest_runtime_seconds": 7200}},
    "queues": {"mail": {"pool": "quick", "tiers": ["high", "normal"]}, "ledger": {"pool": "slow", "ordered": True}},
    "deploy": {"anything": [1]},
}


def test_queues_and_pools_take_their_names_from_their_sections():
    made = environment_of("dev", GOOD, "dev.toml")
    assert made.name == "dev"
    assert [queue.name for queue in made.topology.queues] == ["mail", "ledger"]
    assert made.topology.pool("slow").longest_runtime_seconds == 7200
    assert made.topology.tier("ledger").name == "shop-dev-ledger-normal.fifo"


def test_the_deployments_part_is_handed_on_unread():
    assert environment_of("dev", GOOD, "dev.toml").deploy == {"anything": [1]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": None}, "name: is missing. Add it."),
        ({"name": "Shop"}, "name: must be a name: a lower-case letter"),
        ({"app": "shop.tasks"}, "app: must be module:attribute, not 'shop.tasks'. Write for example"),
        ({"queue": {}}, "queue: is not a field here. Did you mean queues?"),
        ({"pools": {}}, "pools: there is none. Write at least one [pools.<name>] section."),
        ({"queues": {"mail": 3}}, "queues.mail: must be a table. Write a [queues.mail] section."),
        ({"queues": {"mail": {"name": "mail", "pool": "quick"}}}, "queues.mail.name: is the section's title already."),
        ({"queues": {"mail": {"pool": "fast"}}}, "queue 'mail': no pool is called 'fast'. Pools: quick, slow."),
        (
            {"queues": {"mail": {"pool": "quick", "tier": []}}},
            "queues.mail.tier: is not a field here. Did you mean tiers",
        ),
        ({"pools": {"quick": {"memory_mb": 64}}}, "pools.quick.memory_mb: must be at least 128, not 64."),
        ({"pools": {"quick": {"spot": "x"}}}, "pools.quick.spot: must be true or false, not 'x'."),
        ({"pools": {"quick": {"memory_mb": "x"}}}, "pools.quick.memory_mb: must be a whole number, not 'x'."),
        ({"pools": {"quick": {"longest_runtime_seconds": 1000}}}, "a Lambda pool runs at most 900 s, not 1000."),
        ({"deploy": 3}, "deploy: must be a table."),
        ({"pools": {"quick": {"concurrency": "4"}}}, "pools.quick.concurrency: must be a whole number, not '4'."),
        ({"pools": {"quick": {"concurrency": 4.0}}}, "pools.quick.concurrency: must be a whole number, not 4.0."),
        ({"pools": {"quick": {"threads": True}}}, "pools.quick.threads: must be a whole number, not True."),
        ({"pools": {"quick": {"spot": "yes"}}}, "pools.quick.spot: must be true or false, not 'yes'."),
        ({"pools": {"quick": {"spot": 1}}}, "pools.quick.spot: must be true or false, not 1."),
        (
            {"queues": {"mail": {"pool": "quick", "ordered": "true"}}},
            "queues.mail.ordered: must be true or false, not 'true'.",
        ),
        (
            {"queues": {"mail": {"pool": "quick", "tiers": "normal"}}},
            "queues.mail.tiers: must be a list, not 'normal'.",
        ),
        ({"queues": {"mail": {"pool": "quick", "owner": 3}}}, "queues.mail.owner: must be text, not 3."),
    ],
)
def test_each_mistake_has_its_line(change, told):
    content = {**GOOD, **change}
    with pytest.raises(InvalidTopology) as raised:
        environment_of("dev", {key: value for key, value in content.items() if value is not None}, "dev.toml")
    assert str(raised.value).startswith("dev.toml has ")
    assert told in str(raised.value)


def test_all_mistakes_are_told_at_once():
    with pytest.raises(InvalidTopology, match=r"dev.toml has 4 problems:"):
        environment_of("dev", {}, "dev.toml")


def test_what_is_wrong_with_the_deployments_part_is_told_with_the_rest():
    """By whoever reads it: one run, all mistakes, those in the queues' own table and between queues and pools too."""
    bad = {**GOOD, "queues": {"mail": {"pool": "fast"}}}
    with pytest.raises(
        InvalidTopology, match=r"dev.toml has 2 problems:\n.*no pool is called 'fast'.*\n  deploy.x: no"
    ):
        environment_of("dev", bad, "dev.toml", lambda deploy: ["deploy.x: no"])


def test_a_missing_file_names_those_there_are(tmp_path):
    (tmp_path / "dev.toml").write_text("", encoding="utf-8")
    with pytest.raises(InvalidTopology, match=r"there is no environment 'prod'.*Environments there: dev\."):
        read_environment(tmp_path / "prod.toml")


def test_a_broken_file_names_the_line(tmp_path):
    (tmp_path / "dev.toml").write_text('name = "shop"\napp = \n', encoding="utf-8")
    with pytest.raises(InvalidTopology, match=r"dev.toml is not TOML: .*line 2"):
        read_environment(tmp_path / "dev.toml")
