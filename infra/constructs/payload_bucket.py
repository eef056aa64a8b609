"""The bucket for payloads, results and checkpoints that are too large for the table."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tenure.core import limits

LIFE_DAYS = limits.ROW_LIFE_SECONDS_MIN // 86_400 + 366
"""Objects go a year after the shortest life of a final row: by then no row can name them."""


class PayloadBucket(Construct):
    """A private bucket, TLS only, whose objects pass away.

    No access log: every object is written and read by tenure's roles alone, and CloudTrail's data events are the audit
    of those; a log bucket would cost more than what it logs. No versions: an object's key holds the write id of the
    row write that names it, so it is written once and never over.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, removal: cdk.RemovalPolicy, key: kms.IKey | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            # One data key for the bucket rather than a call to KMS for each object.
            bucket_key_enabled=True if key else None,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            removal_policy=removal,
            auto_delete_objects=removal == cdk.RemovalPolicy.DESTROY,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="pass-away",
                    expiration=cdk.Duration.days(LIFE_DAYS),
                    abort_incomplete_multipart_upload_after=cdk.Duration.days(1),
                )
            ],
        )
        cdk.Validations.of(self.bucket).acknowledge(
            cdk.Acknowledgment(
                id="AwsSolutions-S1",
                reason="Only tenure's own roles read and write here; CloudTrail data events are the audit, and an "
                "access-log bucket would cost more than it tells.",
            )
        )
