"""Every error of tenure: one family, the tree that its page draws, and texts that say what to do."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tenure.core import errors
from tenure.core.errors import TenureError

TREE = re.compile(r"^(?P<indent>[ │├└─]+)(?P<name>[A-Z]\w+)", re.MULTILINE)


def test_the_tree_in_the_docstring_is_the_one_that_there_is() -> None:
    """Whoever catches by family reads it there."""
    drawn: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in TREE.finditer(errors.__doc__ or ""):
        depth, name = len(line["indent"]), line["name"]
        path = [each for each in path if each[0] < depth]
        if path:
            drawn[name] = path[-1][1]
        path.append((depth, name))
    real = {
        name: each.__mro__[1].__name__
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, TenureError)
    }
    assert drawn == real


@pytest.mark.parametrize(
    ("error", "said", "carries"),
    [
        (
            errors.TooLarge("the payload", 2_000_000, 1_048_576, "Send a reference."),
            "the payload is 2,000,000 bytes; the limit is 1,048,576 bytes. Send a reference.",
            {"size_bytes": 2_000_000, "limit_bytes": 1_048_576},
        ),
        (
            errors.KeyConflict("k1", "completed"),
            "the idempotency key of task k1 (state completed) was used with another payload.",
            {"task_id": "k1", "state": "completed"},
        ),
        (
            errors.SubmitRefused("t1", "AccessDenied"),
            "task t1 was not submitted: AccessDenied",
            {"task_id": "t1", "reason": "AccessDenied"},
        ),
        (
            errors.TaskFailed("t1", "expired", "deadline"),
            "task t1 ended expired: deadline",
            {"task_id": "t1", "state": "expired"},
        ),
        (errors.ForeignMessage("sns", "x"), "not a tenure envelope (sns): x", {"kind": "sns"}),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, TenureError) else "",
)
def test_an_error_says_what_was_wrong_and_carries_it(error: Any, said: str, carries: dict[str, Any]) -> None:
    assert str(error).startswith(said)
    assert {name: getattr(error, name) for name in carries} == carries
