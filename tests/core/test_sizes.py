"""Sizes are counted as AWS counts them: UTF-8 bytes, with everything that goes along."""

from tenure.core.sizes import message_bytes, text_bytes


def test_message_bytes_counts_utf8_of_body_names_types_and_values() -> None:
    """S03: what the service counts, not characters, and not the body alone."""
    assert message_bytes("é😀", {"ab": "ü", "n": "12"}, {"n": "Number"}) == (2 + 4) + (2 + 6 + 2) + (1 + 6 + 2)


def test_a_lone_surrogate_counts_as_the_bytes_it_would_be() -> None:
    assert text_bytes("\ud800") == 3
