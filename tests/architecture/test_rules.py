"""Every rule of the protocol is told in ARCHITECTURE.md, with a test that exists."""

from __future__ import annotations

import re

from tests.architecture import repository

RULES = [f"R{number}" for number in range(1, 28)]


def test_every_rule_is_told_and_names_the_tests_that_hold_it() -> None:
    text = (repository.ROOT / "ARCHITECTURE.md").read_text("utf-8")
    for rule in RULES:
        assert re.search(rf"- \*\*{rule}\b", text), f"{rule} is not told"
        row = re.search(rf"^\| {rule} \|.*$", text, re.MULTILINE)
        assert row, f"{rule} has no row in the table of what holds it"
        assert re.findall(r"\]\((tests/[^)]+)\)", row[0]), f"{rule} names no test"


def test_every_place_that_a_document_points_to_exists() -> None:
    for document in ("ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"):
        text = (repository.ROOT / document).read_text("utf-8")
        for place in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (repository.ROOT / place).exists(), f"{document} points to {place}"
