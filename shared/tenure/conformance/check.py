"""One check: what AWS documents, where, and how it is looked at; and what comes of having looked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from tenure.conformance.sandbox import Sandbox, Unseen
from tenure.core.errors import TenureError

SQS_API = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_"
SQS_GUIDE = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/"
DYNAMODB_API = "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_"
DYNAMODB_GUIDE = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/"
S3_GUIDE = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/"
KNOWLEDGE_CENTER = "https://repost.aws/knowledge-center/"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen, in a few words, and whether that is what AWS documents."""

    holds: bool
    text: str


@dataclass(frozen=True, slots=True)
class Check:
    """`documented`: what AWS says, in our words; `page`: where it says so; `look`: sees what this back end does."""

    id: str
    documented: str
    page: str
    look: Callable[[Sandbox], Seen]


class Verdict(StrEnum):
    """How a check came out. The last two turn the run red."""

    AS_DOCUMENTED = "as documented"
    EXPECTED = "expected difference"
    DIFFERENT = "DIFFERENT"
    NO_DIFFERENCE = "NOT DIFFERENT"
    """It is listed as a difference of this back end, and is none: the list is wrong, or of another version."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A check with its outcome. `reason`: why a difference is expected; "" where none is."""

    check: Check
    seen: Seen
    reason: str = ""

    @property
    def verdict(self) -> Verdict:
        """What to think of it."""
        if self.seen.holds:
            return Verdict.NO_DIFFERENCE if self.reason else Verdict.AS_DOCUMENTED
        return Verdict.EXPECTED if self.reason else Verdict.DIFFERENT

    @property
    def good(self) -> bool:
        """Whether it is as documented, or different as listed."""
        return self.verdict in (Verdict.AS_DOCUMENTED, Verdict.EXPECTED)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "id": self.check.id,
            "documented": self.check.documented,
            "page": self.check.page,
            "seen": self.seen.text,
            "verdict": self.verdict.value.lower(),
            "reason": self.reason,
        }


def run(checks: Iterable[Check], sandbox: Sandbox, expected: Mapping[str, str]) -> Iterator[Finding]:
    """Look at each, one after another. expected: check id -> why this back end answers otherwise.

    A call that the back end refuses or leaves unanswered is a finding of its check. Raises BotoCoreError where nothing
    can be seen at all: no credentials, nobody at the endpoint.
    """
    for check in checks:
        yield Finding(check, _look(check, sandbox), expected.get(check.id, ""))


def _look(check: Check, sandbox: Sandbox) -> Seen:
    try:
        return check.look(sandbox)
    except Unseen as unseen:
        return Seen(False, str(unseen))
    except ClientError as error:
        told = error.response.get("Error", {})
        return Seen(False, f"{error.operation_name} refused: {told.get('Code')}, {str(told.get('Message'))[:120]}")
    except (TenureError, ReadTimeoutError, ConnectionClosedError) as error:
        return Seen(False, f"{type(error).__name__}: {str(error)[:160]}")
