"""`keys`: what is halted, and what a person decides."""

import json

from tenure.core import machine
from tenure.keys import Keys
from tests.cli import states
from tests.cli.conftest import Shop


def halted_key(shop: Shop, key: str = "a1") -> tuple[str, str]:
    """A key whose head was buried and behind which one task waits, as workers leave it: (head, waiting)."""
    world = shop.world
    keys = Keys.of(shop.environment.topology, world.store, world.clock, world.entropy)
    head, waiting = (shop.submit("post", {"amount": n, "account": key}) for n in (1, 2))
    keys.halt(states.row_of(shop, head))
    states.buried(shop, head, "bad iban")
    row = states.row_of(shop, waiting)
    assert keys.park(row, "1")
    states.put(shop, row, machine.park(row, states.stamp(shop), "its key is halted"))
    queue = world.queues(shop.environment.topology.tier("ledger"))
    while deliveries := queue.receive(10, 0):
        queue.delete_many([each.receipt for each in deliveries])
    return head, waiting


def test_halted_keys_are_listed(shop: Shop) -> None:
    """Queue, key, since when, how many wait, and the head to look at; exit 3 when every key is open."""
    assert shop.run("keys").exit_code == 3
    head, waiting = halted_key(shop)
    result = shop.run("keys")
    assert result.exit_code == 0
    assert "a1" in result.stdout
    assert head in result.stdout
    (told,) = json.loads(shop.run("keys", "-o", "json").stdout)["keys"]
    assert (told["phase"], told["heads"], told["waiting"]) == ("halted", [head], [{"sequence": "1", "id": waiting}])


def test_a_head_is_retried(shop: Shop) -> None:
    """It is queued again with a new budget; its key stays halted until it has completed."""
    head, waiting = halted_key(shop)
    assert shop.run("keys", "retry-head", "ledger", "a1", "--reason", "mended").exit_code == 0
    assert states.row_of(shop, head).state.value == "queued"
    assert states.row_of(shop, waiting).state.value == "waiting"
    again = shop.run("keys", "retry-head", "ledger", "a1", "--reason", "mended")
    assert again.exit_code == 3


def test_a_head_is_skipped(shop: Shop) -> None:
    """Its letter is closed, and what waits is sent."""
    head, waiting = halted_key(shop)
    assert shop.run("keys", "skip-head", "ledger", "a1", "--reason", "not owed").exit_code == 0
    disposition = states.row_of(shop, head).disposition
    assert disposition is not None
    assert disposition.reason == "not owed"
    assert states.row_of(shop, waiting).state.value == "queued"


def test_what_waits_is_cancelled(shop: Shop) -> None:
    """Drain ends it with the reason; the head stays."""
    head, waiting = halted_key(shop)
    told = json.loads(shop.run("keys", "drain", "ledger", "a1", "--reason", "closed", "-o", "json").stdout)
    assert (told["done"], told["key"]["waiting"]) == (1, [])
    assert states.row_of(shop, waiting).state.value == "cancelled"
    assert states.row_of(shop, head).state.value == "dead_lettered"


def test_what_is_not_halted_is_refused_by_name(shop: Shop) -> None:
    """An open key, a queue that skips, an unknown queue: each with what it is."""
    for queue, key, says in (("ledger", "x", "is open"), ("media", "x", "does not halt"), ("legder", "x", "ledger")):
        result = shop.run("keys", "skip-head", queue, key, "--reason", "r")
        assert result.exit_code in (1, 2)
        assert says in " ".join(result.stderr.split())


def test_decisions_are_audited(shop: Shop) -> None:
    """Who decided about a key, why, and how much waited."""
    halted_key(shop)
    shop.run("keys", "drain", "ledger", "a1", "--reason", "closed")
    begun = json.loads(shop.run("audit", "-o", "json").stdout)["records"][-1]
    assert (begun["action"], begun["target"], begun["reason"]) == ("keys.drain", "ledger/a1", "closed")
    assert begun["counts"] == {"heads": 1, "waiting": 1}
