"""`tenure doctor`: what stands between this machine and a task that runs, looked at one thing after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from rich.text import Text

from tenure.cli import render
from tenure.cli.errors import DONE, FAILED, explain
from tenure.cli.options import with_session
from tenure.cli.session import Session
from tenure.core import limits
from tenure.core.durations import text_of
from tenure.core.topology import Tier, Topology

if TYPE_CHECKING:
    from tenure.adapters.clients import Clients


class Wrong(Exception):
    """A check's finding: what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check came to. skipped: it could not be made, because an earlier one failed."""

    name: str
    outcome: str
    """ "ok", "failed" or "skipped"."""
    told: str


@click.command()
@with_session
def doctor(session: Session) -> None:
    """Check what stands between this machine and a task that runs.

    The project, credentials, what is deployed, queues, table, bucket, and this machine's clock.
    """
    findings: list[Finding] = []
    for finding in _Examination(session).findings():
        findings.append(finding)
        if not session.wants_json:
            session.console.print(_line(finding))
    failed = sum(finding.outcome == "failed" for finding in findings)
    if session.wants_json:
        render.as_json({"ok": not failed, "checks": [_as_json(finding) for finding in findings]})
    raise click.exceptions.Exit(FAILED if failed else DONE)


_MARKS = {"ok": ("✓", "green"), "failed": ("✗", "bold red"), "skipped": ("-", "dim")}


def _line(finding: Finding) -> Text:
    mark, style = _MARKS[finding.outcome]
    return render.assembled((mark, style), " ", (finding.name.ljust(12), "bold"), finding.told)


def _as_json(finding: Finding) -> dict[str, str]:
    return {"check": finding.name, "outcome": finding.outcome, "message": finding.told}


class _Examination:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._where = ""
        self._is_read = False
        """Whether the project could be read: without it, nothing tells what to look for."""
        self._clients: Clients | None = None
        self._topology: Topology | None = None

    def findings(self) -> Iterator[Finding]:
        """One after the other, as they are made."""
        yield self._check("project", self._project)
        yield self._check("app", self._app, self._is_read)
        yield self._check("credentials", self._credentials)
        yield self._check("deployed", self._deployed, self._clients and self._is_read)
        yield self._check("queues", self._queues, self._topology)
        yield self._check("table", self._table, self._topology)
        yield self._check("bucket", self._bucket, self._topology)
        yield self._check("clock", self._clock, self._topology)

    def _check(self, name: str, look: Callable[[], str], needs: object = True) -> Finding:
        if not needs:
            return Finding(name, "skipped", "needs what failed above")
        try:
            return Finding(name, "ok", look())
        except Wrong as wrong:
            return Finding(name, "failed", str(wrong))
        except Exception as error:  # told as everywhere; what comes next is looked at all the same
            return Finding(name, "failed", explain(error)[1])

    # ---- the project -----------------------------------------------------------------------------------------------
    def _project(self) -> str:
        if self._session.file is None and not self._session.names_app:
            self._session.project()
        if self._session.file is None:
            self._is_read = True
            return f"no environment file here; app {self._session.app_name!r} by name"
        topology = self._session.file.topology
        self._is_read = True
        return (
            f"{self._session.file_path.relative_to(self._session.directory)}: app {topology.app}, "
            f"{render.count(len(topology.queues), 'queue')}, {render.count(len(topology.pools), 'pool')}"
        )

    def _app(self) -> str:
        if self._session.file is None:
            return "not looked for without an environment file"
        app = self._session.fitting_app(self._session.file.topology)
        return f"{self._session.app_path}: {render.count(len(app.tasks), 'task')}, all fit their queues"

    # ---- what answers ----------------------------------------------------------------------------------------------
    def _credentials(self) -> str:
        from tenure.cli.connect import clients_for, reaching
        from tenure.wiring.producer import embedded_stack

        with reaching(self._session):
            clients, self._where = clients_for(self._session)
            is_embedded = embedded_stack(self._session.directory, self._session.environment) is not None
            told = self._where if is_embedded else f"{self._where}, {_identity(clients)}"
        self._clients = clients
        return told

    def _deployed(self) -> str:
        from tenure.wiring.producer import read_published

        if self._clients is None:
            raise Wrong("no clients")
        topology, tasks = read_published(self._session.app_name, self._session.environment, self._clients.ssm)
        self._topology = topology
        queues, known = render.count(len(topology.queues), "queue"), render.count(len(tasks), "task")
        return f"environment {topology.environment}: {queues}, {known} published"

    def _queues(self) -> str:
        topology, clients = self._both()
        tiers = topology.tiers()
        for tier in tiers:
            _examine_queue(topology, tier, clients)
        return f"{render.count(len(tiers), 'SQS queue and its DLQ answer', 'SQS queues and their DLQs answer')}"

    def _table(self) -> str:
        topology, clients = self._both()
        described = clients.dynamodb.describe_table(TableName=topology.table_name)["Table"]
        indexes = {index["IndexName"] for index in described.get("GlobalSecondaryIndexes", [])}
        if not {"due", "dead"} <= indexes:
            raise Wrong(f"table {topology.table_name} lacks an index (has {sorted(indexes)}). Deploy it again.")
        ttl = clients.dynamodb.describe_time_to_live(TableName=topology.table_name)["TimeToLiveDescription"]
        if ttl.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
            raise Wrong(f"table {topology.table_name}: time to live is off, so rows would pile up. Deploy it again.")
        return f"{topology.table_name}: indexes and time to live are there"

    def _bucket(self) -> str:
        topology, clients = self._both()
        if not topology.bucket_name:
            return "none; payloads stay in the table"
        clients.s3.head_bucket(Bucket=topology.bucket_name)
        return f"{topology.bucket_name} answers"

    def _clock(self) -> str:
        _, clients = self._both()
        offset = clients.server_time.offset_ms() / 1000
        if abs(offset) > limits.SKEW_SECONDS:
            raise Wrong(
                f"this machine's clock is off by {text_of(abs(offset))}. Workers correct theirs by AWS's answers, but "
                "signatures fail at 5 minutes. Set the clock (NTP)."
            )
        return f"off by {text_of(abs(offset))}" if offset else "agrees with the service's to the second"

    def _both(self) -> tuple[Topology, Clients]:
        if self._topology is None or self._clients is None:
            raise Wrong("needs what failed above")
        return self._topology, self._clients


def _identity(clients: Clients) -> str:
    """Who the SDK's credentials are, as AWS says. Raises ClientError, BotoCoreError."""
    account, arn = clients.identity()
    return f"account {account}, {arn.rpartition(':')[2]}"


def _examine_queue(topology: Topology, tier: Tier, clients: Clients) -> None:
    """Raise Wrong for a queue that does not fit the topology."""
    found = clients.sqs.get_queue_attributes(QueueUrl=tier.url, AttributeNames=["All"])["Attributes"]
    clients.sqs.get_queue_attributes(QueueUrl=tier.dead_url, AttributeNames=["QueueArn"])
    wanted = topology.visibility_seconds(tier.queue)
    if int(found["VisibilityTimeout"]) < wanted:
        raise Wrong(
            f"queue {tier.name} hides messages for {found['VisibilityTimeout']} s; its pool needs {wanted} s. Somebody "
            "changed it by hand: deploy it again."
        )
    if "RedrivePolicy" not in found:
        raise Wrong(f"queue {tier.name} has no redrive policy, so it has no backstop. Deploy it again.")
