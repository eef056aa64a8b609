"""How many bytes AWS will count, counted before it is asked. Always UTF-8, never characters."""

from __future__ import annotations

from collections.abc import Mapping


def text_bytes(text: str) -> int:
    """The size of a text. A lone surrogate, which no service takes, counts as the three bytes it would be."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def message_bytes(body: str, attributes: Mapping[str, str], types: Mapping[str, str] | None = None) -> int:
    """What SQS counts of a message: its body, and each attribute's name, type ("String" by default) and value.

    A binary attribute is counted as the base64 it is kept in, a third more than SQS counts.
    """
    kinds = types or {}
    extras = sum(text_bytes(part) for k, v in attributes.items() for part in (k, kinds.get(k, "String"), v))
    return text_bytes(body) + extras
