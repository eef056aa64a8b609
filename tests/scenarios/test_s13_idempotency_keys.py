"""S13: two different tasks with one key, or one task with two keys.

A key stands for one task of one name and tenant, in every state, and for one payload; nothing blank is ever a key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure.core import limits, machine
from tenure.core.draft import task_id
from tenure.core.errors import KeyConflict, UsageError
from tenure.core.outcome import named
from tenure.core.submission import Options
from tenure.core.task import Row, State
from tests.support.shop import Shop


class Till(Shop):
    """A shop with one task that takes anything and notes that it ran."""

    def __init__(self) -> None:
        super().__init__()

        @self.app.task(queue="media")
        def charge(order: Any) -> None:
            self.effects.append(order)

        @self.app.task(queue="media")
        def refund(order: Any) -> None:
            self.effects.append(("refund", order))

        self.charge, self.refund = charge, refund

    def submit(self, order: Any, key: str | None, tenant: str = "") -> str:
        return self.charge.options(idempotency_key=key, tenant=tenant).submit(order).id


def error() -> Any:
    return named("Broken", "it broke")


STATES: dict[State, Callable[[Till, str], Any]] = {
    State.QUEUED: lambda till, task_id: None,
    State.LEASED: lambda till, task_id: till.claim(task_id),
    State.RETRYING: lambda till, task_id: (
        till.claim(task_id),
        till.change(task_id, lambda row, s: machine.retry(row, s, error(), s.now_ms + 9000, message_held=True)),
    ),
    State.COMPLETED: lambda till, task_id: till.work(),
    State.DEAD_LETTERED: lambda till, task_id: till.change(
        task_id, lambda row, s: machine.bury(row, s, error(), "gave_up")
    ),
    State.CANCELLED: lambda till, task_id: till.change(
        task_id, lambda row, s: machine.cancel(row, s, "changed my mind")
    ),
    State.EXPIRED: lambda till, task_id: till.change(task_id, machine.expire),
}


def test_without_a_key_every_submit_is_a_task_of_its_own() -> None:
    """Two equal submits without a key make two tasks, and both run."""
    till = Till()
    assert till.submit(1, None) != till.submit(1, None)
    till.work()
    assert till.effects == [1, 1]


def test_the_same_key_and_payload_is_the_same_task() -> None:
    """A second submit finds the first one's task: one row, one message, one effect."""
    till = Till()
    first = till.charge.options(idempotency_key="p-42").submit({"a": 1, "b": 2})
    second = till.charge.options(idempotency_key="p-42").submit({"b": 2, "a": 1})
    assert (first.id, first.found, second.found) == (second.id, False, True)
    assert len(till.messages()) == 1
    till.work(rounds=2)
    assert till.effects == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("state", STATES)
def test_a_key_finds_its_task_in_every_state(state: State) -> None:
    """Whatever has become of the task, the key finds it and makes no other; nothing runs because of that."""
    till = Till()
    found = till.submit(1, "p-42")
    STATES[state](till, found)
    till.world.advance(limits.RELY_SECONDS)  # before, a row that its submit left is written so that it stays
    before, messages = till.row(found), len(till.messages()) + int(state is State.QUEUED)
    assert before.state is state
    assert till.submit(1, "p-42") == found
    assert till.row(found) == before
    assert len(till.messages()) == messages


@pytest.mark.parametrize("state", STATES)
def test_another_payload_under_the_key_is_an_error_in_every_state(state: State) -> None:
    """The payload is compared on every hit, and the error names the task and its state."""
    till = Till()
    found = till.submit(1, "p-42")
    STATES[state](till, found)
    before = till.row(found)
    with pytest.raises(KeyConflict, match=f"{found} .state {state}. was used with another payload"):
        till.submit(2, "p-42")
    assert till.row(found) == before


def test_a_scheduled_task_is_found_and_compared_too() -> None:
    """A task that is due in an hour has no message; its key finds it all the same."""
    till = Till()
    later = till.charge.options(idempotency_key="p-42", delay="1h")
    found = later.submit(1)
    assert till.row(found.id).state is State.SCHEDULED
    assert later.submit(1).id == found.id
    with pytest.raises(KeyConflict):
        later.submit(2)
    assert till.messages() == []


def test_members_in_another_order_are_the_same_payload() -> None:
    """The order in which an object was written is no part of it; the order of a list is."""
    till = Till()
    found = till.submit({"a": 1, "b": {"c": 2, "d": 3}}, "k")
    assert till.submit({"b": {"d": 3, "c": 2}, "a": 1}, "k") == found
    till.submit([1, 2], "list")
    with pytest.raises(KeyConflict):
        till.submit([2, 1], "list")


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, "1"), (1, True), (1, 1.0), (0.0, -0.0), (None, "null"), ({"a": "b:c"}, {"a:b": "c"}), ("\u00e9", "e\u0301")],
)
def test_values_of_different_kinds_are_different_payloads(one: Any, other: Any) -> None:
    """1, "1", True and 1.0 are four payloads, and texts are compared as they are written, composed or not."""
    till = Till()
    till.submit(one, "k")
    with pytest.raises(KeyConflict):
        till.submit(other, "k")


def test_a_key_is_its_tasks_and_its_tenants_own() -> None:
    """The same key under another task or tenant is another task; no two of the parts can be mistaken for each other."""
    till = Till()
    ids = {
        till.submit(1, "k"),
        till.submit(1, "k", tenant="r7"),
        till.refund.options(idempotency_key="k").submit(1).id,
        till.submit(1, "k "),
        till.submit(1, "K"),
        till.submit(1, "\u00e9"),
        till.submit(1, "e\u0301"),
    }
    assert len(ids) == 7
    assert task_id("a", "b:c", "d") != task_id("a:b", "c", "d") != task_id("a", "b", "c:d")


@pytest.mark.parametrize("key", ["", "  ", "\t\n", 0, 5, b"k", {"user": None, "order": None}, [], "\ud800", "k" * 3000])
def test_what_cannot_be_a_key_is_refused_before_anything_is_written(key: Any) -> None:
    """Blank, missing in disguise, not a text, or longer than its limit: an error, never a key that strangers share."""
    till = Till()
    with pytest.raises(UsageError, match="idempotency_key"):
        till.submit(1, key)
    assert till.nothing_exists()


def test_the_longest_key_is_taken() -> None:
    """A key may have 1,024 bytes; the task's id stays short, so no key of DynamoDB can be too long."""
    till = Till()
    assert len(till.submit(1, "k" * 1024)) == 41


def test_a_new_life_of_a_key_starts_above_the_fences_of_the_old_one() -> None:
    """Once a row has passed its time to live, its key makes a new task, of another birth and with higher fences."""
    till = Till()
    old = till.row(till.submit(1, "k"))
    till.work()
    last = till.row(old.id)
    till.world.advance(30 * 86_400)
    new = till.row(till.submit(2, "k"))
    assert new.id == old.id
    assert new.birth != old.birth
    assert new.fence_floor > last.fence
    assert new.fence == new.fence_floor


def test_keyed_and_unkeyed_tasks_have_ids_that_cannot_meet() -> None:
    """An id drawn by chance never has the form of a key's."""
    till = Till()
    row: Row = till.row(till.submit(1, None))
    assert row.fence_floor == 0
    assert len(row.id) != 41
    assert Options().idempotency_key is None
