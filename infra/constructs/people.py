"""What producers and people are given: managed policies, to be attached to whatever roles an organisation has.

Policies and not roles: who may assume a role, and how (single sign-on, a pipeline, a service), is not ours to know.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import roles
from infra.constructs.stores import Stores


class People(Construct):
    """The producer's policy, and the operators': one that looks, one that acts."""

    def __init__(self, scope: Construct, construct_id: str, *, stores: Stores) -> None:
        super().__init__(scope, construct_id)
        reads = roles.operator_reads(stores)
        self.producer = self._policy("Producer", "submit, follow and cancel tasks", roles.producer(stores))
        self.reads = self._policy("OperatorReadOnly", "look at everything, change nothing", reads)
        self.acts = self._policy(
            "OperatorActing",
            "cancel, replay, discard, pause, reconcile; attach it together with the read-only one",
            roles.operator_acts(stores),
        )

    def _policy(self, name: str, may: str, statements: roles.Statements) -> iam.ManagedPolicy:
        policy = iam.ManagedPolicy(self, name, description=f"tenure: {may}", statements=statements)
        cdk.CfnOutput(self, f"{name}Arn", value=policy.managed_policy_arn, description=f"May {may}")
        return policy
