"""What the stacks of an environment have in common."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from infra.environment import Settings


class EnvironmentStack(cdk.Stack):
    """A stack of one environment: named, tagged, bounded and protected as its settings say."""

    def __init__(self, scope: Construct, part: str, *, settings: Settings, keeps_data: bool = False) -> None:
        """`part` is the last word of the stack's name. `keeps_data`: protected from deletion where data is retained."""
        deployment = settings.deployment
        boundary = deployment.permissions_boundary
        super().__init__(
            scope,
            f"{settings.prefix}-{part}",
            env=cdk.Environment(account=deployment.account or None, region=deployment.region or None),
            description=f"tenure: {part} of {settings.prefix}",
            termination_protection=keeps_data and deployment.removal == "retain",
            permissions_boundary=cdk.PermissionsBoundary.from_name(boundary) if boundary else None,
            tags={"tenure:app": settings.topology.app, "tenure:environment": settings.topology.environment},
        )
        for finding, reason in deployment.acknowledged.items():
            cdk.Validations.of(self).acknowledge(cdk.Acknowledgment(id=finding, reason=reason))
