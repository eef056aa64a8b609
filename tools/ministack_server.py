"""ministack with stand-ins for the CloudFormation types that it lacks, so that the CDK app deploys as it is.

Run by ministack's own interpreter: `.venv-ministack/bin/python tools/ministack_server.py`. The stand-ins are recorded
and do nothing: scaling, composite alarms and alarms on metric math are asserted on the templates instead. They hang on
a table that is no public interface of ministack's, which is one reason why its version is pinned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ministack.services.cloudformation.provisioners as provisioners  # type: ignore[import-not-found] # its own venv
from ministack.app import main  # type: ignore[import-not-found] # its own venv

LACKING = (
    "AWS::ApplicationAutoScaling::ScalableTarget",
    "AWS::ApplicationAutoScaling::ScalingPolicy",
    "AWS::CloudWatch::CompositeAlarm",
    "AWS::EC2::SecurityGroupIngress",
    "AWS::ECS::ClusterCapacityProviderAssociations",
    # The CDK's function for it needs the JavaScript SDK; ministack deletes a bucket with all that is in it anyway.
    "Custom::S3AutoDeleteObjects",
)
Create = Callable[[str, Mapping[str, Any], str], tuple[str, dict[str, str]]]


def stand_in(kind: str) -> dict[str, Any]:
    """A provisioner that records a resource of this type and does nothing."""
    word = kind.rpartition("::")[2]

    def create(logical_id: str, properties: Mapping[str, Any], stack: str) -> tuple[str, dict[str, str]]:
        name = f"{stack}-{logical_id}"
        return name, {"Arn": f"arn:aws:stand-in:us-east-1:123456789012:{word}/{name}", "Id": name}

    def update(physical_id: str, *_: Any) -> tuple[str, dict[str, str]]:
        return physical_id, {"Arn": f"arn:aws:stand-in:us-east-1:123456789012:{word}/{physical_id}", "Id": physical_id}

    return {"create": create, "update": update, "delete": lambda physical_id, properties: None}


def without_math(alarms: Mapping[str, Any]) -> dict[str, Any]:
    """ministack's provisioner of alarms, with a stand-in for those on metric math."""
    real, substitute = dict(alarms), stand_in("AWS::CloudWatch::Alarm")

    def create(logical_id: str, properties: Mapping[str, Any], stack: str) -> tuple[str, dict[str, str]]:
        chosen: Create = substitute["create"] if "Metrics" in properties else real["create"]
        return chosen(logical_id, properties, stack)

    def update(physical_id: str, *rest: Any) -> Any:
        math = any(isinstance(each, Mapping) and "Metrics" in each for each in rest)
        return (substitute if math else real)["update"](physical_id, *rest)

    return {**real, "create": create, "update": update}


def install() -> None:
    """Add what is lacking; what ministack has by now is left alone."""
    table = provisioners._RESOURCE_HANDLERS
    for kind in LACKING:
        table.setdefault(kind, stand_in(kind))
    table["AWS::CloudWatch::Alarm"] = without_math(table["AWS::CloudWatch::Alarm"])


if __name__ == "__main__":
    install()
    main()
