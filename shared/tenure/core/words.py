"""Words for sentences that people read."""

from __future__ import annotations


def an(noun: str) -> str:
    """The noun with its article, by its first letter: an int, a str, an Order."""
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"
