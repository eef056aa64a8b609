"""python -m tools.permissions: writes docs/permissions.md from the templates of production, as they are synthesized.

The page is what a person reads before a deployment is approved; a test holds it against the templates.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.infra.assembly import ROOT, Assembly, Template, stand_in_bundle, synthesize

PAGE = ROOT / "docs" / "permissions.md"
ENVIRONMENT = "prod"
HEAD = """# Who may do what

Made by `make permissions` from the templates of `infra/environments/prod.toml`; do not edit. Each statement is named
after what it is for. `tests/infra/test_least_privilege.py` records what each role really asks for and holds it against
these statements; a right that is never asked for has its reason there. No action is a star. The stars in resources are
those that `infra/findings.py` accepts, each with its reason.
"""
TITLES = {
    "WorkersqueuemediaWorkerRole": "Worker of queue media (Lambda)",
    "WorkersqueueledgerWorkerRole": "Worker of queue ledger (Lambda)",
    "WorkersqueuepartnersWorkerRole": "Worker of queue partners (Lambda)",
    "WorkerspoolheavyRole": "Workers of pool heavy (Fargate): the task role",
    "WorkerspoolheavyTaskExecutionRole": "Workers of pool heavy (Fargate): ECS itself, to start a task",
    "WorkersdutyreconcileDutyRole": "Reconcile",
    "WorkersdutyreconcileClock": "Reconcile's schedule",
    "WorkersdutyingestDutyRole": "Ingest of dead letters",
    "WorkersdutyingestClock": "Ingest's schedule",
    "WorkersdutyreplayDutyRole": "Replay",
    "WorkersdutyreplayClock": "Replay's schedule",
    "PeopleProducer": "Producer: a managed policy, to be attached to whatever submits tasks",
    "PeopleOperatorReadOnly": "Operator, read-only: a managed policy",
    "PeopleOperatorActing": "Operator, acting: a managed policy, attached together with the read-only one",
}
"""Beginning of a policy's logical id -> how the page calls it, in the page's order."""


def page(assembly: Assembly) -> str:
    """The page's text."""
    data = assembly.template(ENVIRONMENT, "data")
    policies = [
        (name, properties["PolicyDocument"]["Statement"], template)
        for part in ("compute", "operations")
        for template in [assembly.template(ENVIRONMENT, part)]
        for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
        for name, properties in template.properties(kind).items()
    ]
    sections = []
    for begins, title in TITLES.items():
        found = [each for each in policies if each[0].startswith(begins)]
        if len(found) != 1:
            raise SystemExit(f"{len(found)} policies begin with {begins}: correct tools/permissions.py")
        policies.remove(found[0])
        _, statements, template = found[0]
        sections.append(f"## {title}\n\n" + "\n".join(_table(statements, template, data)))
    if policies:
        raise SystemExit(f"no title for {[name for name, *_ in policies]}: add them to tools/permissions.py")
    return HEAD + "\n" + "\n\n".join(sections) + "\n"


def _table(statements: list[Mapping[str, Any]], template: Template, data: Template) -> Iterator[str]:
    yield "| for | actions | on |"
    yield "|---|---|---|"
    for statement in statements:
        actions = "<br>".join(f"`{action}`" for action in _many(statement["Action"]))
        resources = "<br>".join(_resource(each, template, data) for each in _many(statement["Resource"]))
        yield f"| {statement.get('Sid', '(the CDK)')} | {actions} | {resources} |"


def _resource(resource: Any, template: Template, data: Template) -> str:
    """A resource as a person calls it."""
    if isinstance(resource, str):
        return f"`{resource}`"
    if "Fn::Join" in resource:
        pieces = [p if isinstance(p, str) else _reference(p, template, data) for p in resource["Fn::Join"][1]]
        text = "".join(pieces)
        return text if " " in text else f"`{text}`"
    return _reference(resource, template, data)


def _reference(reference: Mapping[str, Any], template: Template, data: Template) -> str:
    if "Fn::GetStackOutput" in reference:
        output = data.content["Outputs"][reference["Fn::GetStackOutput"]["OutputName"]]["Value"]
        return _reference(output, data, data)
    if "Fn::Sub" in reference:
        return str(reference["Fn::Sub"]).replace("${", "<").replace("}", ">").replace("AWS::", "")
    if "Ref" in reference and reference["Ref"].startswith("AWS::"):
        return f"<{reference['Ref'].removeprefix('AWS::')}>"
    logical_id = reference["Fn::GetAtt"][0] if "Fn::GetAtt" in reference else reference["Ref"]
    return _called(template.content["Resources"][logical_id])


def _called(resource: Mapping[str, Any]) -> str:
    kind, properties = resource["Type"], resource.get("Properties", {})
    if kind == "AWS::SQS::Queue":
        return f"queue `{properties['QueueName']}`"
    names = {
        "AWS::DynamoDB::Table": "the table",
        "AWS::S3::Bucket": "the handlers' own bucket"
        if "LifecycleConfiguration" not in properties
        else "the payload bucket",
        "AWS::KMS::Key": "the key",
        "AWS::Logs::LogGroup": "its own log group",
        "AWS::Lambda::Function": "its function",
        "AWS::ECS::Cluster": "<the cluster>",
    }
    return names[kind]


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bundle = stand_in_bundle(place / "bundle")
        done = synthesize(place / "out", env=ENVIRONMENT, bundle=str(bundle))
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        PAGE.write_text(page(Assembly(place / "out")), encoding="utf-8")
    lines = PAGE.read_text(encoding="utf-8").count("\n")
    print(json.dumps({"written": str(PAGE.relative_to(ROOT)), "lines": lines}))


if __name__ == "__main__":
    main()
