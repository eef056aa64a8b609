"""`schema`: the payload's JSON Schema is that of the handler's parameters, and says yes and no as the worker would."""

import json

import pytest

from tenure.core.errors import InvalidPayload
from tests.cli.conftest import Shop


def test_a_tasks_schema_is_printed_for_programs(shop: Shop) -> None:
    """Types, defaults, what is required, the queue; no world is asked."""
    found = json.loads(shop.run("schema", "resize").stdout)
    resize = found["tasks"]["resize"]
    assert (found["app"], resize["queue"], resize["timeout_seconds"]) == ("shop", "media", 120)
    assert resize["payload"] == {
        "type": "object",
        "properties": {"key": {"type": "string"}, "width": {"type": "integer", "default": 100}},
        "required": ["key"],
        "additionalProperties": False,
    }
    assert resize["result"] == {"type": "string"}
    assert shop.opened == []


def test_all_tasks_are_a_table_for_people(shop: Shop) -> None:
    """One line each, with the arguments as they are declared."""
    result = shop.run("schema")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["TASK", "resize", "render", "post"]
    assert "key: str, width: int = 100" in result.stdout


def test_an_unknown_task_exits_3(shop: Shop) -> None:
    """Nothing matched, with the names there are."""
    result = shop.run("schema", "resise")
    assert result.exit_code == 3
    assert "resize, render, post" in result.stderr


@pytest.mark.parametrize("payload", ['{"width": 1}', '{"key": 1}', '{"key": "a", "x": 1}'])
def test_the_schema_and_the_decoder_refuse_the_same(shop: Shop, payload: str) -> None:
    """A producer that checks by the schema is not surprised by the worker."""
    import jsonschema
    import shop_app

    task = shop_app.app.tasks["resize"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(payload), task.codec.payload_schema())
    with pytest.raises(InvalidPayload):
        task.decode(payload)
