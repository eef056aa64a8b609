"""How SQS says no, in its own words as far as they are known."""

from __future__ import annotations

from tenure.core import limits
from tenure.ports import NotDone, NotSent

HELD_BACK = NotSent(False, "HeldBack", "an earlier message of its group may not have been sent; it must not overtake")
"""As the adapter of SQS does it: entries of a FIFO group that follow one whose outcome is unknown are not sent."""

UNANSWERED = NotDone(gone=False, code="ServiceUnavailable", message="no answer came")
"""It may have been done or not."""


def invalid(text: str) -> NotDone:
    """It never was a receipt of this queue."""
    return NotDone(True, "ReceiptHandleIsInvalid", f"The input receipt handle {text!r} is invalid.")


def expired() -> NotDone:
    """FIFO: the message was received again, or its invisibility has lapsed."""
    return NotDone(
        True,
        "InvalidParameterValue",
        "Value for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
    )


def not_available() -> NotDone:
    """The message was deleted."""
    return NotDone(
        True,
        "InvalidParameterValue",
        "Reason: Message does not exist or is not available for visibility timeout change.",
    )


def beyond_cap(seconds: int) -> NotDone:
    """The visibility would end later than 12 h after the receive."""
    return NotDone(
        False,
        "InvalidParameterValue",
        f"Value {seconds} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message "
        f"is beyond the limit [{limits.SQS_VISIBILITY_SECONDS_MAX} seconds]",
    )
