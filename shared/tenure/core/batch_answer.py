"""What a Lambda function's answer to a batch of SQS messages means to the event source mapping that called it.

The table is that of lambda/latest/dg/services-sqs-errorhandling.html ("Success and failure conditions"), for a mapping
with ReportBatchItemFailures; that an empty text or list counts as an empty answer was recorded against the service.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def interpret(answer: Any, batch_ids: Sequence[str]) -> set[str]:
    """The ids of the batch that failed, and so stay in the queue; all others are deleted.

    None failed: an empty answer (null, "", [], {}), and `batchItemFailures` null or empty. All failed: any other
    answer without that member or not of that shape, and an `itemIdentifier` that is missing, null, empty or not of
    this batch.
    """
    everything = set(batch_ids)
    if answer is None or answer in ("", [], {}):
        return set()
    if not isinstance(answer, dict) or "batchItemFailures" not in answer:
        return everything
    failures = answer["batchItemFailures"]
    if failures is None:
        return set()
    if not isinstance(failures, list):
        return everything
    failed = {_identifier(failure) for failure in failures}
    return failed if failed <= everything else everything


def _identifier(failure: Any) -> str:
    """The message id of one failure; "" where it has none, which is no message's id."""
    identifier = failure.get("itemIdentifier") if isinstance(failure, dict) else None
    return identifier if isinstance(identifier, str) else ""
