"""What may go wrong in a world, and how often. Chances are per call, from 0 (never) to 1 (always)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Chances of each fault. The default is a quiet world, in which every answer is the plain one.

    Every fault here is one that AWS documents or that was recorded against it; emulators show none of them.
    """

    # the table
    store_unanswered: float = 0.0
    """A write without an answer (throttled, timed out, 5xx); half of them applied. DynamoDB, Programming.Errors."""
    store_reply_lost: float = 0.0
    """An applied write whose reply is lost; the SDK tries again and is refused by its own first try."""
    store_read_fails: float = 0.0
    """A read that raises ServiceError. DynamoDB, Programming.Errors."""
    index_lag_seconds: float = 0.0
    """An index shows a write up to this late. DynamoDB, GSI.html: "eventually consistent"."""

    # the queue
    send_unanswered: float = 0.0
    """A send without an answer; half of them were stored."""
    send_reply_lost: float = 0.0
    """A stored message whose reply is lost; the SDK sends again: two messages, or one where FIFO knows its id."""
    receive_fails: float = 0.0
    """A receive that raises ServiceError; half of them had handed out messages, which then are in flight unseen."""
    receive_empty: float = 0.0
    """An empty answer although there are messages: a short poll asks some of the servers. SQS, short polling."""
    receive_partial: float = 0.0
    """Fewer messages than there are. SQS, ReceiveMessage."""
    duplicate: float = 0.0
    """A standard message stays visible though it was handed out. SQS, standard queues: at-least-once delivery."""
    revived: float = 0.0
    """A deleted standard message comes back once, later. SQS, DeleteMessage: "even after you delete it"."""
    reorder: float = 0.0
    """A standard receive that takes messages from anywhere. SQS, standard queues: best-effort ordering."""
    stale_takes_effect: float = 0.0
    """A receipt that is no longer the message's own still deletes or hides it. SQS, DeleteMessage: "might not"."""
    change_unanswered: float = 0.0
    """A delete or change of visibility without an answer; half of them were applied."""
    depth_error: float = 0.0
    """A count of messages that is off, by up to itself. SQS: "Approximate"."""

    # the payload store
    payload_fails: float = 0.0
    """A put or get that raises ServiceError; half of the puts were stored."""

    # the wire
    late_seconds: float = 0.0
    """In a simulation: a request whose caller died at it or got no answer may be carried out up to this much later."""

    # time
    slow_call: float = 0.0
    """A call in a scheduled world that takes up to `slow_call_seconds`."""
    slow_call_seconds: float = 90.0

    @classmethod
    def none(cls) -> Faults:
        """Nothing goes wrong."""
        return cls()

    @classmethod
    def rough(cls, chance: float = 0.03) -> Faults:
        """Everything goes wrong now and then."""
        return cls(
            store_unanswered=chance,
            store_reply_lost=chance * 2,
            store_read_fails=chance,
            index_lag_seconds=5.0,
            send_unanswered=chance,
            send_reply_lost=chance,
            receive_fails=chance,
            receive_empty=chance * 2,
            receive_partial=chance * 4,
            duplicate=chance * 2,
            revived=chance * 2,
            reorder=0.5,
            stale_takes_effect=0.5,
            change_unanswered=chance,
            depth_error=0.3,
            payload_fails=chance / 2,
            late_seconds=120.0,
            slow_call=chance / 3,
        )
