"""Pauses are durable, cached for a moment, and survive a table that cannot be read."""

from __future__ import annotations

from tenure.maintenance.pause import CACHE_SECONDS, Pause, Pauses, read_pause, set_pause
from tests.maintenance.kit import Kit


def pause(kit: Kit, paused: bool) -> Pause:
    """Pause or resume the queue; what was before."""
    return set_pause(kit.world.store, kit.world.entropy, Pause("media", paused, "ann", kit.now_ms, "why"))


def test_a_pause_is_seen_by_workers_within_its_cache() -> None:
    """A worker asks the table at most every CACHE_SECONDS, and obeys after that."""
    kit = Kit()
    workers = Pauses(kit.world.store, kit.world.clock)
    assert not workers.paused("media")
    assert not pause(kit, True).paused
    assert not workers.paused("media")
    kit.advance(CACHE_SECONDS)
    assert workers.paused("media")
    assert not workers.paused("ledger")
    assert pause(kit, False).paused
    kit.advance(CACHE_SECONDS)
    assert not workers.paused("media")


def test_a_pause_tells_who_and_why() -> None:
    """It is looked up with its author and reason."""
    kit = Kit()
    pause(kit, True)
    assert read_pause(kit.world.store, "media") == Pause("media", True, "ann", kit.now_ms, "why")


def test_what_was_known_holds_while_the_table_cannot_be_read() -> None:
    """A throttled read neither ends a pause nor stops a queue."""
    kit = Kit()
    workers = Pauses(kit.world.store, kit.world.clock)
    pause(kit, True)
    assert workers.paused("media")
    kit.world.faults = type(kit.world.faults)(store_read_fails=1.0)
    kit.advance(CACHE_SECONDS)
    assert workers.paused("media")
    assert not workers.paused("ledger")
