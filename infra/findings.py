"""cdk-nag's findings, and which of them are accepted for which reason.

A construct acknowledges its own findings where it stands, as cdk-nag would have it. That is not possible for stars in
policies: the finding's name holds the resource's, which across stacks is made up while the app is synthesized. Those
are accepted here, by pattern. Whatever is neither acknowledged nor accepted fails the synth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import aws_cdk as cdk
import jsii
from cdk_nag import AwsSolutionsChecks


@dataclass(frozen=True, slots=True)
class Accepted:
    """A finding that stands. `finding` and `path` are patterns, of its name and of the construct's path."""

    finding: str
    path: str
    reason: str


_STAR = "AwsSolutions-IAM5[[]Resource::"

ACCEPTED = (
    Accepted(
        f"{_STAR}*/payloads/[*]]",
        "*",
        "Objects are named by task and write id, which are made at run time. The star covers one prefix of one bucket.",
    ),
    Accepted(
        f"{_STAR}*:parameter/tenure/*/[*]]",
        "*/People/*",
        "Clients read what is published, one parameter a queue, by path; the star covers one environment's path.",
    ),
    Accepted(
        f"{_STAR}<*Files*.Arn>/[*]]",
        "*/Workers/*",
        "The bucket for the handlers' own files: what they call them is theirs to say. The star covers that bucket.",
    ),
    Accepted(
        f"{_STAR}*:task/<*Cluster*>/[*]]",
        "*/Workers/pool-*",
        "A task's name is made when it starts. The star covers the tasks of tenure's own cluster, and the right is "
        "only to be spared by scaling for a while.",
    ),
    Accepted(
        f"{_STAR}[*]]",
        "*/Workers/pool-*/Task/ExecutionRole/*",
        "ecr:GetAuthorizationToken takes no resource (AWS's service authorization reference for ECR): the star is its "
        "only form. It is ECS's role, never the task's.",
    ),
)


@jsii.implements(cdk.IPolicyValidationPlugin)
class Findings:
    """The AwsSolutions pack, less what is accepted. `accepted` tells afterwards which were met, by what."""

    def __init__(self) -> None:
        self.accepted: list[tuple[str, str, Accepted]] = []
        """(finding, path, why) of each that was met."""

    @property
    def name(self) -> str:
        """The plugin's name in the report: the pack's, so that acknowledgements need no other prefix."""
        return "AwsSolutions"

    @property
    def version(self) -> str | None:
        """Of this plugin: none of its own."""
        return None

    @property
    def rule_ids(self) -> list[str] | None:
        """Rules that it may report: the pack's."""
        return None

    def validate(self, context: Any) -> cdk.PolicyValidationPluginReport:
        """Called by the CDK when the app has been synthesized."""
        report = AwsSolutionsChecks().validate_scope(context.app_construct)
        left = [found for violation in report.violations if (found := self._left_of(violation))]
        return cdk.PolicyValidationPluginReport(success=not left, violations=left)

    def accepted_as_json(self) -> str:
        """What was met and is accepted: finding, construct, reason."""
        told = [
            {"finding": finding, "path": path, "accepted_as": each.finding, "reason": each.reason}
            for finding, path, each in self.accepted
        ]
        return json.dumps(told, indent=2) + "\n"

    def _left_of(self, violation: cdk.PolicyViolation) -> cdk.PolicyViolation | None:
        """The violation with those resources only for which it is not accepted; None if there are none."""
        left = [
            r for r in violation.violating_resources if not self._accepts(violation.rule_name, r.construct_path or "")
        ]
        if not left:
            return None
        return cdk.PolicyViolation(
            rule_name=violation.rule_name,
            description=violation.description,
            severity=violation.severity,
            violating_resources=left,
        )

    def _accepts(self, finding: str, path: str) -> bool:
        for each in ACCEPTED:
            if fnmatchcase(finding, each.finding) and fnmatchcase(path, each.path):
                self.accepted.append((finding, path, each))
                return True
        return False
