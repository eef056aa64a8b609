"""Environment files: what a person gets wrong is told by field, rule and mend, never as a traceback."""

import tomllib

import pytest

from infra.environment import settings_of
from tenure.core.environment import environment_of
from tenure.core.errors import InvalidTopology, UsageError
from tests.infra.assembly import stand_in_bundle, synthesize

GOOD = """
name = "shop"
app = "shop.tasks:app"
[pools.quick]
[queues.mail]
pool = "quick"
[deploy]
removal = "destroy"
"""


def settings(text=GOOD, **deploy):
    content = tomllib.loads(text)
    content["deploy"] = {**content.get("deploy", {}), **deploy}
    return settings_of(environment_of("dev", content, "dev.toml"), "dev.toml")


def refusal(**deploy):
    with pytest.raises(UsageError) as raised:
        settings(**deploy)
    return str(raised.value)


def test_a_short_file_is_enough():
    made = settings()
    assert made.prefix == "shop-dev"
    assert made.deployment.architecture == "arm64"
    assert made.oldest_seconds(made.topology.queue("mail")) == 900


def test_whether_data_outlives_the_stack_must_be_said():
    text = GOOD.replace('removal = "destroy"', "")
    with pytest.raises(InvalidTopology, match=r"dev.toml has a problem:\n  deploy.removal: is missing. Add it."):
        settings(text)


@pytest.mark.parametrize(
    ("deploy", "told"),
    [
        ({"removel": "retain"}, "deploy.removel: is not a field here. Did you mean removal?"),
        ({"removal": "keep"}, "deploy.removal: must be 'retain' or 'destroy', not 'keep'. Choose one of these."),
        ({"python_version": "3.9"}, "deploy.python_version: must be '3.11', '3.12', '3.13' or '3.14', not '3.9'"),
        ({"log_retention_days": 31}, "deploy.log_retention_days: must be 1, 7, 14"),
        ({"account": "12345"}, "deploy.account: must match"),
        ({"alarms": {"addresses": ["nobody"]}}, "deploy.alarms.addresses.0: must match"),
        ({"alarms": {"oldest": 3}}, "deploy.alarms.oldest: is not a field here. Did you mean oldest_seconds"),
        (
            {"alarms": {"oldest_seconds_of": {"post": 60}}},
            "deploy.alarms.oldest_seconds_of.post: there is no queue 'post'",
        ),
        ({"submits": {"mail": ["post"]}}, "deploy.submits.mail: there is no queue 'post'. Queues: mail."),
        ({"backlog_per_task": "many"}, "deploy.backlog_per_task: must be a whole number, not 'many'. Write it without"),
        ({"network": {"kind": "existing"}}, "needs vpc_id, availability_zones and subnet_ids. Add them."),
        ({"network": {"vpc_id": "vpc-1"}}, 'are read with kind = "existing" only'),
        ({"variables": {"DB_PASSWORD": "x"}}, "DB_PASSWORD looks like a secret"),
        ({"variables": {"AWS_REGION": "x"}}, "'AWS_REGION' is no name for a handler's variable"),
        ({"files_variable": "TENURE_FILES"}, "'TENURE_FILES' is no name for a handler's variable"),
    ],
)
def test_each_mistake_is_told_by_field_rule_and_mend(deploy, told):
    said = refusal(**deploy)
    assert said.startswith("dev.toml has a problem:\n")
    assert told in said
    assert "pydantic" not in said
    assert "https://" not in said


@pytest.mark.parametrize("wrong", [{"backlog_per_task": "5"}, {"customer_key": "yes"}, {"services": "s3"}])
def test_a_text_is_no_number_and_no_switch(wrong):
    (field,) = wrong
    assert f"deploy.{field}: must be " in refusal(**wrong)


def test_all_mistakes_are_told_at_once():
    said = refusal(removal="keep", account="1", backlog_per_task=0)
    assert said.startswith("dev.toml has 3 problems:\n")


def test_the_command_line_shows_the_mistake_and_no_traceback(tmp_path):
    """Through app.py itself, as `cdk deploy` runs it."""
    text = GOOD.replace('"destroy"', '"keep"').replace("shop", "Shop Two", 1)
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    wrong = synthesize(tmp_path / "out", env="mine", environments=str(tmp_path))
    assert wrong.returncode == 1
    first, *lines = wrong.stderr.splitlines()
    assert first.endswith("mine.toml has 2 problems:"), "and nothing of jsii's about Node stands before it"
    assert [line.split(":")[0].strip() for line in lines if line] == ["name", "deploy.removal"]
    (tmp_path / "dev.toml").write_text(GOOD.replace("shop.tasks", "no.such.module"), encoding="utf-8")
    bundle = stand_in_bundle(tmp_path / "bundle")
    done = synthesize(tmp_path / "out", env="dev", environments=str(tmp_path), bundle=str(bundle))
    assert done.returncode == 1
    assert "No module named 'no'" in done.stderr
    assert "Traceback" not in done.stderr
    missing = synthesize(tmp_path / "out", env="prd", environments=str(tmp_path), bundle=str(bundle))
    assert missing.returncode == 1
    assert "there is no environment 'prd'" in missing.stderr
    assert "Environments there: dev" in missing.stderr
