"""What clients, the CLI and the console read to find an environment: one SSM parameter a queue, one for the stores."""

from __future__ import annotations

import re
from collections.abc import Iterable

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from tenure.core import published
from tenure.core.submission import TaskFacts
from tenure.core.topology import Topology

_URL = "https://sqs.ap-southeast-1.amazonaws.com/123456789012/"
"""As long as the beginning of a queue's URL gets."""


class PublishedTopology(Construct):
    """The deployed topology and its tasks as SSM parameters, in the words of `tenure.core.published`."""

    def __init__(
        self, scope: Construct, construct_id: str, *, topology: Topology, tasks: Iterable[TaskFacts] = ()
    ) -> None:
        """`topology` as deployed: URLs, table and bucket may be tokens. Raises InvalidTopology if 4 KB are too few."""
        super().__init__(scope, construct_id)
        root = published.path(topology.app, topology.environment)
        for name, value in _parameters(topology, tasks).items():
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


def at_full_length(topology: Topology) -> tuple[Topology, dict[str, str]]:
    """The topology with URLs as long as they will be, and what each stands for: a token is much shorter than what it
    becomes, so sizes are judged by these."""
    long = {f"{t.queue}/{t.tier}": (_URL + t.name, _URL + t.dead_name) for t in topology.tiers()}
    stand_ins = {
        place: real for key, pair in long.items() for place, real in zip(pair, topology.urls[key], strict=True)
    }
    return topology.model_copy(update={"urls": long}), stand_ins


def _parameters(topology: Topology, tasks: Iterable[TaskFacts]) -> dict[str, str]:
    """The parameters, judged at full length, with tokens where URLs will stand."""
    full, stand_ins = at_full_length(topology)
    found = published.parameters(full, tasks)
    for name, value in found.items():
        # Longest first: a queue's URL may be the beginning of another's.
        for place in sorted(stand_ins, key=len, reverse=True):
            value = value.replace(place, stand_ins[place])
        found[name] = value
    return found
