"""The bucket for payloads, results and checkpoints that are too large for the table."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.constructs.private_bucket import PrivateBucket
from tenure.adapters.payloads import PREFIX
from tenure.core import limits

LIFE_DAYS = limits.ROW_LIFE_SECONDS_MIN // 86_400 + 366
"""Objects go a year after the shortest life of a final row: by then no row names them."""


class PayloadBucket(PrivateBucket):
    """A private bucket whose objects pass away.

    No versions: an object's key holds the write id of the row write that names it, so it is written once, never over.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, removal: cdk.RemovalPolicy, key: kms.IKey | None = None
    ) -> None:
        rule = s3.LifecycleRule(
            id="pass-away",
            prefix=PREFIX,
            expiration=cdk.Duration.days(LIFE_DAYS),
            abort_incomplete_multipart_upload_after=cdk.Duration.days(1),
        )
        super().__init__(scope, construct_id, removal=removal, key=key, lifecycle=[rule])
