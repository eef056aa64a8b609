"""A bucket that nobody outside can see."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct


class PrivateBucket(Construct):
    """Private, TLS only, encrypted.

    No access log: only tenure's own roles read and write, and CloudTrail's data events are the audit of those; a log
    bucket would cost more than what it logs.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        removal: cdk.RemovalPolicy,
        key: kms.IKey | None = None,
        lifecycle: Sequence[s3.LifecycleRule] = (),
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
            lifecycle_rules=list(lifecycle),
        )
        cdk.Validations.of(self.bucket).acknowledge(
            cdk.Acknowledgment(
                id="AwsSolutions-S1",
                reason="Only tenure's own roles read and write here; CloudTrail data events are the audit, and an "
                "access-log bucket would cost more than it tells.",
            )
        )
