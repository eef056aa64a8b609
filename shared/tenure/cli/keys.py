"""`tenure keys`: halted ordering keys, and what a person decides about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from tenure.cli import render
from tenure.cli.errors import DONE, NOTHING
from tenure.cli.options import with_session
from tenure.cli.session import Session
from tenure.cli.upkeep import DefaultGroup, caller, parts_of, reason_option
from tenure.core.halting import KeyState
from tenure.maintenance.keys import HaltedKeys


@click.group(cls=DefaultGroup)
def keys() -> None:
    """Show halted ordering keys. Also: keys retry-head, skip-head, drain.

    A queue with on_bury = "halt" stops a key whose head was buried: what follows waits, off SQS and in order, until a
    person has decided about the head.

    \b
      tenure keys
      tenure keys retry-head ledger account-7 --reason "the iban is mended"
      tenure keys skip-head ledger account-7 --reason "not owed any more"
    """


@keys.default
@click.command()
@with_session
def listed(session: Session) -> None:
    """List the keys that are not open, the longest halted first."""
    reach = session.reach()
    states = HaltedKeys(parts_of(reach)).keys.listed()
    if session.wants_json:
        render.as_json({"keys": [_told(state) for state in states]})
    elif states:
        made = render.table("QUEUE", "KEY", "PHASE", "SINCE", "WAITING", "HEAD", right=("WAITING",), stretch="HEAD")
        now = reach.clock.now_ms()
        for state in states:
            waiting = f"{len(state.waiting) + len(state.released):,}"
            since = render.ago(state.since_ms, now)
            made.add_row(state.queue, state.key, state.phase.value, since, waiting, ", ".join(state.heads))
        session.console.print(made)
        session.note(f"{render.count(len(states), 'key')} not open. Look at a head: tenure dead show ID.")
    if not states:
        session.note("Every key is open.")
        raise click.exceptions.Exit(NOTHING)


def _told(state: KeyState) -> dict[str, Any]:
    return asdict(state) | {"phase": state.phase.value}


Decide = Callable[[HaltedKeys, str, str, str, str], int]


def _decide(session: Session, queue: str, key: str, reason: str, act: Decide) -> int:
    reach = session.reach()
    reach.topology.queue(queue)
    duty = HaltedKeys(parts_of(reach))
    done = act(duty, queue, key, caller(session, reach), reason)
    state = duty.keys.get(queue, key)
    if session.wants_json:
        render.as_json({"done": done, "key": _told(state) if state else None})
    return done


@keys.command(name="retry-head")
@click.argument("queue")
@click.argument("key")
@reason_option()
@with_session
def retry_head(session: Session, queue: str, key: str, reason: str) -> None:
    """Give a key's buried heads another budget. The key opens once they have completed."""
    done = _decide(session, queue, key, reason, HaltedKeys.retry_heads)
    _say(session, done, f"{render.count(done, 'head')} sent again. What waits follows once it has completed.")


@keys.command(name="skip-head")
@click.argument("queue")
@click.argument("key")
@reason_option()
@with_session
def skip_head(session: Session, queue: str, key: str, reason: str) -> None:
    """Discard a key's buried heads. What waits behind them runs, in order."""
    done = _decide(session, queue, key, reason, HaltedKeys.skip_heads)
    _say(session, done, f"{render.count(done, 'head')} discarded. What waits follows, within a minute or two.")


@keys.command()
@click.argument("queue")
@click.argument("key")
@reason_option()
@with_session
def drain(session: Session, queue: str, key: str, reason: str) -> None:
    """Cancel everything that waits behind a key's head. The head stays as it is."""
    done = _decide(session, queue, key, reason, HaltedKeys.drain)
    _say(session, done, f"{render.count(done, 'waiting task')} cancelled.")


def _say(session: Session, done: int, told: str) -> None:
    session.note(told if done else "There was nothing to decide about: its heads are being retried, or nothing waits.")
    raise click.exceptions.Exit(DONE if done else NOTHING)
