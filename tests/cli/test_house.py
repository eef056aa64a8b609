"""How the audit's counts read."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.cli.house import counts_text


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({"replayed": 1200, "skipped": 0, "phase": "done"}, "1,200 replayed, phase done"),
        ({"paused": True}, "paused"),
        ({"paused": False}, "not paused"),
        ({"restored": {"from_ms": 5, "by": "ann"}}, "restored: 5 from ms, by ann"),
        ({"restored": None}, "nothing"),
        ({"held_ids": ["a", "b"]}, "held ids: a, b"),
        ({}, ""),
    ],
)
def test_counts_read_as_words(counts: dict[str, Any], text: str) -> None:
    """No Python literals, no zeros, underscores as blanks."""
    assert counts_text(counts) == text
