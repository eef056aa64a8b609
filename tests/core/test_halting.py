"""What a key's item says of who may run (R24), where two of its tasks pass each other on their way off SQS and back."""

from __future__ import annotations

from tenure.core import halting
from tenure.core.halting import KeyPhase, KeyState, Waiting
from tenure.core.task import Row, State

FIRST, SECOND, THIRD = (Waiting(f"{number:020}", f"t{number}") for number in (1, 2, 3))
OPEN = KeyState(queue="ledger", key="k", since_ms=5)


def test_a_task_parked_on_a_key_that_has_just_opened_is_released() -> None:
    """Its worker saw the key halted; nobody looks at open keys, so one that keeps a task waiting must not be open."""
    parked = halting.park(OPEN, FIRST.id, FIRST.sequence)
    assert parked.phase is KeyPhase.DRAINING
    assert halting.advance(parked, {FIRST.id: _row()}).released == (FIRST,)


def test_a_released_task_that_waits_again_is_not_passed() -> None:
    """An older message of it came out of its turn. Those behind it wait, whether released before it or after."""
    draining = KeyState(queue="ledger", key="k", phase=KeyPhase.DRAINING, released=(FIRST, SECOND, THIRD))
    parked = halting.park(draining, FIRST.id, "9" * 20)
    assert not halting.may_run(parked, SECOND.id, {})
    again = halting.advance(parked, {each.id: _row() for each in (FIRST, SECOND, THIRD)})
    assert again.released == (FIRST, SECOND, THIRD)
    assert again.before(THIRD.id) == (FIRST.id, SECOND.id)


def _row() -> Row:
    return Row(id="t", birth="b", task="post", queue="ledger", state=State.WAITING)
