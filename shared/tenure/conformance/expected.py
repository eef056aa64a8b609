"""Where emulators are known to answer otherwise than AWS, by check, and why that is so.

The list is held strictly: a difference that is not listed turns a run red, and so does a listed one that is none (any
more). Looked at with the versions in EMULATORS; look again when one changes (docs/conformance.md).
"""

from __future__ import annotations

from collections.abc import Mapping

EMULATORS: Mapping[str, str] = {
    "moto": "moto 5.2.5, made atomic by tenure.local.atomic_moto (what `tenure dev` runs)",
    "ministack": "ministack 1.5.33",
}
"""Name -> what exactly was looked at."""

EXPECTED: Mapping[str, Mapping[str, str]] = {
    "moto": {
        "table-item-limit": "refuses items from 405,000 bytes on, before DynamoDB would",
        "visibility-from-receive": "counts the 12 h from the send, so a message that has waited cannot be held as long",
        "send-per-entry": "one entry over the queue's maximum fails the whole call (the adapter then sends one by one)",
        "characters": "stores characters that SQS refuses (the adapter refuses them before it sends)",
        "size-in-utf8-bytes": "counts characters, not bytes (the adapter counts bytes before it sends)",
        "size-with-attributes": "counts the body alone (the adapter counts attributes too)",
        "dead-letter-source": "has no DeadLetterQueueSourceArn",
        "fifo-dedup-after-delete": "forgets a deduplication id when its message is deleted",
        "fifo-stale-delete": "takes any receipt that it ever gave, for as long as the message is there",
        "fifo-lapsed-delete": "a receipt never lapses",
    },
    "ministack": {
        "visibility-bound": "takes any number of seconds",
        "visibility-total": "takes any number of seconds",
        "visibility-per-entry": "takes any number of seconds, so there is no entry to refuse",
        "standard-stale-delete": "knows the latest receipt only, and refuses others on standard queues too",
        "delay": "takes any number of seconds",
        "size-with-attributes": "counts the body alone",
        "fifo-lapsed-delete": "a receipt does not lapse before the message is received again",
    },
}
"""Name of the emulator -> check id -> what it does instead."""
