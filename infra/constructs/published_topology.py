"""What clients, the CLI and the console read to find an environment: one SSM parameter a queue, one for the stores."""

from __future__ import annotations

import re

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from tenure.core import published
from tenure.core.topology import Topology


class PublishedTopology(Construct):
    """The deployed topology as SSM parameters, in the words of `tenure.core.published`."""

    def __init__(self, scope: Construct, construct_id: str, *, topology: Topology) -> None:
        """`topology` as deployed: its URLs, table and bucket may be tokens."""
        super().__init__(scope, construct_id)
        root = published.path(topology.app, topology.environment)
        for name, value in published.parameters(topology).items():
            words = re.split(r"[^a-z0-9]+", name.removeprefix(root))
            ssm.StringParameter(
                self,
                "".join(word.capitalize() for word in words),
                parameter_name=name,
                string_value=value,
                description="Read by tenure's clients to find this environment; written by the deployment only",
            )

    @staticmethod
    def arns(scope: Construct, topology: Topology) -> list[str]:
        """What a reader must be allowed: the path itself, for GetParametersByPath, and what lies below it."""
        root = published.path(topology.app, topology.environment).removeprefix("/")
        stack = cdk.Stack.of(scope)
        return [
            stack.format_arn(service="ssm", resource="parameter", resource_name=root),
            stack.format_arn(service="ssm", resource="parameter", resource_name=f"{root}/*"),
        ]
