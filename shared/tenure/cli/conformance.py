"""`tenure conformance`: does this back end answer as AWS documents?"""

from __future__ import annotations

import fnmatch
import ipaddress
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import click

from tenure.adapters.clients import Clients
from tenure.adapters.clock import SystemClock, SystemEntropy
from tenure.cli import render
from tenure.cli.errors import DONE, FAILED
from tenure.cli.options import with_session
from tenure.cli.session import Session
from tenure.conformance.check import Check, Finding, Verdict, run
from tenure.conformance.expected import EMULATORS, EXPECTED
from tenure.conformance.sandbox import PREFIX, Sandbox
from tenure.conformance.suite import CHECKS
from tenure.core.errors import UsageError
from tenure.running import CREDENTIALS

COST = (
    "About 300 requests to SQS, DynamoDB and S3, some fifty of them creating and deleting: less than one US cent at "
    "list prices. It takes about three minutes, most of them waiting for AWS."
)

ANSWER_SECONDS = 60
"""Of a call: an emulator that has just started, or a busy machine, is slow and not different."""


@click.command()
@click.option("--profile", metavar="NAME", help="The AWS profile. [default: as the SDK is configured]")
@click.option("--region", metavar="NAME", help="The region. [default: as the SDK is configured]")
@click.option("--endpoint-url", metavar="URL", help="An emulator instead of AWS.")
@click.option(
    "--expect", type=click.Choice(sorted(EXPECTED)), help="The emulator whose known differences are no failures."
)
@click.option("--only", "patterns", metavar="ID", multiple=True, help="Only these checks, such as 'fifo-*'.")
@click.option("--yes", "confirmed", is_flag=True, help="Do it. Without this, nothing is made on a real account.")
@with_session
def conformance(
    session: Session, expect: str | None, patterns: tuple[str, ...], confirmed: bool, **place: str | None
) -> None:
    """See whether a back end answers as AWS documents.

    Makes queues, a table and a bucket of its own, looks at each semantic that tenure stands on, and removes them
    again, on Ctrl-C too. Exit code 0 only if all is as documented, or differs as listed for --expect.
    """
    checks = _chosen(patterns)
    clients = _clients(**place)
    real = _is_real(clients)
    where = _where(clients)
    if real and not confirmed:
        raise UsageError(_plan(checks, where, place["profile"]))
    sandbox = Sandbox(clients, SystemClock(), SystemEntropy(), real=real)
    session.note(f"Looking at {where}: {render.count(len(checks), 'check')}. Names begin with {sandbox.prefix}.")
    findings: list[Finding] = []
    with _Interruptible(session) as interruptible:
        try:
            for finding in run(checks, sandbox, EXPECTED.get(expect or "", {})):
                findings.append(finding)
                if real:
                    session.note(f"{len(findings)}/{len(checks)} {finding.check.id}: {finding.verdict.value}")
        finally:
            interruptible.removing = True
            left = sandbox.remove()
            for each in left:
                session.complain(f"{each}. Remove it by hand.")
    _tell(session, where, expect, findings, left)
    raise click.exceptions.Exit(FAILED if left or not all(each.good for each in findings) else DONE)


class _Interruptible:
    """Ctrl-C and SIGTERM end the checks, once; while things are removed they only say so."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.removing = False
        self._signals = render.Restored({number: self._stop for number in (signal.SIGINT, signal.SIGTERM)})

    def __enter__(self) -> _Interruptible:
        self._signals.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._signals.__exit__(*exception)

    def _stop(self, *_: object) -> None:
        if not self.removing:
            self.removing = True
            raise KeyboardInterrupt
        self._session.note("Removing what was made; this takes a moment.")


def _chosen(patterns: Sequence[str]) -> list[Check]:
    chosen = [each for each in CHECKS if not patterns or any(fnmatch.fnmatchcase(each.id, p) for p in patterns)]
    if not chosen:
        raise UsageError(f"--only {' '.join(patterns)}: no check is called so. There are: {', '.join(_ids())}.")
    return chosen


def _ids() -> Iterator[str]:
    return (each.id for each in CHECKS)


def _clients(profile: str | None, region: str | None, endpoint_url: str | None) -> Clients:
    """As the SDK is configured; but an emulator on this machine is never shown anybody's credentials."""
    credentials = None
    if endpoint_url and not profile and _is_here(endpoint_url):
        region, credentials = region or "us-east-1", CREDENTIALS
    return Clients(
        SystemClock().now_ms,
        region=region,
        endpoint_url=endpoint_url,
        credentials=credentials,
        profile=profile,
        patience_seconds=ANSWER_SECONDS,
    )


def _endpoints(clients: Clients) -> list[str]:
    return [client.meta.endpoint_url for client in (clients.sqs, clients.dynamodb, clients.s3)]


def _is_real(clients: Clients) -> bool:
    """Whether any of the endpoints is not on this machine: an emulator elsewhere is treated as an account."""
    return not all(_is_here(each) for each in _endpoints(clients))


def _is_here(endpoint_url: str) -> bool:
    host = urlsplit(endpoint_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _where(clients: Clients) -> str:
    endpoints = dict.fromkeys(_endpoints(clients))
    if all(".amazonaws." in each for each in endpoints):
        return f"AWS {clients.sqs.meta.region_name}"
    return ", ".join(endpoints)


def _plan(checks: Sequence[Check], where: str, profile: str | None) -> str:
    whose = f" (profile {profile})" if profile else ""
    return (
        f"nothing was run. With --yes this makes queues, a table and a bucket in {where}{whose}, all named {PREFIX}…, "
        f"makes {render.count(len(checks), 'check')} with them, and removes them again. {COST} "
        "It needs the permissions listed in docs/conformance.md."
    )


def _tell(session: Session, where: str, expect: str | None, findings: Sequence[Finding], left: Sequence[str]) -> None:
    counts = Counter(each.verdict for each in findings)
    if session.wants_json:
        told: dict[str, Any] = {
            "where": where,
            "expected": EMULATORS[expect] if expect else None,
            "counts": {verdict.value.lower(): counts[verdict] for verdict in Verdict},
            "checks": [each.as_dict() for each in findings],
            "left": list(left),
        }
        render.as_json(told)
        return
    table = render.table("CHECK", "AWS DOCUMENTED", "SEEN", "VERDICT", stretch="AWS DOCUMENTED")
    table.columns[2].no_wrap, table.columns[2].overflow = False, "fold"
    for each in findings:
        table.add_row(each.check.id, each.check.documented, each.seen.text, each.verdict.value)
    session.console.print(table)
    for each in findings:
        if not each.good:
            why = f" It is listed: {each.reason}." if each.reason else ""
            session.complain(f"{each.check.id}: {each.seen.text}. AWS: {each.check.documented}.{why} {each.check.page}")
    session.note(", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]))
