"""`dead`, `replay`, `discard`, `reconcile`, `pause`, `resume`, `audit`: what an operator sees and does."""

import json

import pytest

from tenure.core import machine
from tenure.core.letter import quarantine_of
from tenure.maintenance.pause import read_pause
from tenure.ports import Send
from tests.cli import states
from tests.cli.conftest import Shop


def dead(shop: Shop, count: int, text: str = "page 3 has no width") -> list[str]:
    """So many dead letters of one cause."""
    ids = [shop.submit("render", {"month": f"2026-{n + 1:02d}"}) for n in range(count)]
    for task_id in ids:
        states.buried(shop, task_id, text)
    empty(shop)
    return ids


def empty(shop: Shop) -> None:
    """The workers have taken every message."""
    for tier in shop.environment.topology.tiers():
        queue = shop.world.queues(tier)
        while deliveries := queue.receive(10, 0):
            queue.delete_many([each.receipt for each in deliveries])


def test_dead_letters_are_shown_by_cause(shop: Shop) -> None:
    """Thousands of letters are a few causes: count, error, fingerprint, task, and what to do next."""
    ids = dead(shop, 12)
    result = shop.run("dead")
    assert result.exit_code == 0
    assert "12" in result.stdout
    assert "PDFError" in result.stdout
    assert "12 dead letters = 1 cause" in result.stderr
    assert any(task_id in result.stderr for task_id in ids)
    told = json.loads(shop.run("dead", "task:render", "-o", "json").stdout)
    assert told["count"] == 12
    assert told["causes"][0]["tasks"] == {"render": 12}


def test_no_dead_letters_is_exit_three(shop: Shop) -> None:
    """A script can tell that nothing matched."""
    assert shop.run("dead").exit_code == 3
    assert shop.run("replay").exit_code == 3
    assert shop.run("discard", "--reason", "x", "--yes").exit_code == 3


def test_one_dead_letter_in_full(shop: Shop) -> None:
    """Error, attempts, worker, version, first and last failure, where its letter lies, and the next commands."""
    (task_id,) = dead(shop, 1)
    result = shop.run("dead", "show", task_id)
    assert result.exit_code == 0
    for text in (
        "PDFError",
        "page 3 has no width",
        "1 failed",
        "version 1",
        "first failure",
        "shop-dev-reports-normal-dead",
    ):
        assert text in result.stdout
    assert f"tenure replay id:{task_id}" in result.stderr
    told = json.loads(shop.run("dead", "show", task_id, "-o", "json").stdout)
    assert told["letter_id"].startswith(task_id)


def test_a_replay_is_a_plan_until_it_is_confirmed(shop: Shop) -> None:
    """Without --yes nothing changes; with it, every matching task is queued again, with progress and numbers."""
    ids = dead(shop, 5)
    plan = shop.run("replay", "error:PDFError")
    assert plan.exit_code == 0
    assert "This is a plan" in plan.stderr
    assert {states.row_of(shop, task_id).state.value for task_id in ids} == {"dead_lettered"}
    refused = shop.run("replay", "error:PDFError", "--yes")
    assert refused.exit_code == 2
    assert "--reason" in refused.stderr
    result = shop.run("replay", "error:PDFError", "--yes", "--reason", "fixed", "--rate", "100", "-o", "json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert (told["phase"], told["replayed"], told["counts"]["left"]) == ("done", 5, 0)
    assert {states.row_of(shop, task_id).state.value for task_id in ids} == {"queued"}


def test_replays_are_listed_looked_at_and_aborted(shop: Shop) -> None:
    """A detached replay is a named object: status, list and abort find it."""
    dead(shop, 3)
    told = json.loads(shop.run("replay", "--yes", "--reason", "fixed", "--detach", "-o", "json").stdout)
    assert told["phase"] == "running"
    listed = json.loads(shop.run("replay", "status", "-o", "json").stdout)
    assert [each["id"] for each in listed["replays"]] == [told["id"]]
    aborted = shop.run("replay", "abort", told["id"], "--reason", "too early", "-o", "json")
    assert json.loads(aborted.stdout)["phase"] == "aborted"
    assert "too early" in shop.run("replay", "status", told["id"]).stdout
    unknown = shop.run("replay", "status", "nope")
    assert unknown.exit_code == 1
    assert "no replay 'nope'" in unknown.stderr


def test_a_detached_replay_is_gone_on_with(shop: Shop) -> None:
    """`replay run ID` goes on with it here."""
    dead(shop, 3)
    told = json.loads(shop.run("replay", "--yes", "--reason", "fixed", "--detach", "-o", "json").stdout)
    assert shop.run("replay", "run", told["id"]).exit_code == 0
    assert json.loads(shop.run("replay", "status", told["id"], "-o", "json").stdout)["replayed"] == 3


@pytest.mark.parametrize(
    ("payload", "says"),
    [('{"month": 7}', "`month` does not fit its type"), ("{}", "`month` is missing"), ("{", "not JSON")],
)
def test_an_edited_payload_that_does_not_fit_moves_nothing(shop: Shop, payload: str, says: str) -> None:
    """Refused with the field's name, before anything moves."""
    (task_id,) = dead(shop, 1)
    before = states.row_of(shop, task_id)
    result = shop.run("replay", f"id:{task_id}", "--payload", payload, "--reason", "typo", "--yes")
    assert result.exit_code == 2
    assert says in " ".join(result.stderr.split())
    assert states.row_of(shop, task_id) == before


def test_an_edited_payload_that_fits_is_taken(shop: Shop) -> None:
    """The corrected arguments travel with the replay."""
    (task_id,) = dead(shop, 1)
    result = shop.run("replay", f"id:{task_id}", "--payload", '{"month": "2027-01"}', "--reason", "typo", "--yes")
    assert result.exit_code == 0
    payload = states.row_of(shop, task_id).payload
    assert payload is not None
    assert json.loads(payload.value) == {"month": "2027-01"}


def test_discard_closes_with_a_reason(shop: Shop) -> None:
    """A plan first; then every matching letter is closed, with who and why."""
    ids = dead(shop, 4)
    assert "This is a plan" in shop.run("discard", "task:render").stderr
    assert shop.run("discard", "task:render", "--yes").exit_code == 2
    result = shop.run("discard", "task:render", "--yes", "--reason", "obsolete", "-o", "json")
    assert json.loads(result.stdout) == {"discarded": 4, "elsewhere": 0, "unknown": 0}
    disposition = states.row_of(shop, ids[0]).disposition
    assert disposition is not None
    assert (disposition.kind, disposition.reason) == ("discarded", "obsolete")
    assert shop.run("dead").exit_code == 3


def test_reconcile_says_what_it_did(shop: Shop) -> None:
    """A task whose message is lost is sent again, and the account says so."""
    task_id = shop.submit("render", {"month": "2026-01"})
    empty(shop)
    shop.world.advance(300)
    result = shop.run("reconcile", "--letters")
    assert result.exit_code == 0
    assert "1 resent" in result.stdout
    assert states.row_of(shop, task_id).sends == 2


def test_a_restore_is_marked_and_released_with_a_reason(shop: Shop) -> None:
    """After a recovery held tasks are named; released, they are sent."""
    task_id = shop.submit("render", {"month": "2026-01"})
    empty(shop)
    shop.world.advance(3600)
    assert shop.run("reconcile", "--restored-from", "30m").exit_code == 2
    held = json.loads(shop.run("reconcile", "--restored-from", "30m", "--reason", "PITR", "-o", "json").stdout)
    assert held["reconcile"]["held_ids"] == [task_id]
    shop.run("reconcile", "--release-held", "--reason", "none was done")
    shop.world.advance(3700)
    shop.run("reconcile")
    assert states.row_of(shop, task_id).sends == 2


def test_pause_and_resume(shop: Shop) -> None:
    """The pause is durable and named; an unknown queue is refused with those there are."""
    assert "paused" in shop.run("pause", "media", "--reason", "deploy").stderr
    assert read_pause(shop.world.store, "media").paused
    assert "media is paused" in shop.run("queues").stderr
    assert "already" in shop.run("pause", "media", "--reason", "deploy").stderr
    told = json.loads(shop.run("resume", "media", "--reason", "done", "-o", "json").stdout)
    assert told == {"queue": "media", "paused": False, "was_paused": True}
    unknown = shop.run("pause", "medai", "--reason", "x")
    assert unknown.exit_code == 2
    assert "media" in unknown.stderr


def test_everything_an_operator_did_is_audited(shop: Shop) -> None:
    """Who, what, why, counts before and after, latest first; filtered by action."""
    dead(shop, 2)
    shop.run("pause", "media", "--reason", "deploy")
    shop.world.advance(1)
    shop.run("discard", "--yes", "--reason", "obsolete")
    shop.run("replay", "--yes", "--reason", "nothing there")
    records = json.loads(shop.run("audit", "-o", "json").stdout)["records"]
    assert [(each["action"], each["phase"]) for each in records] == [
        ("discard", "ended"),
        ("discard", "begun"),
        ("pause", "ended"),
        ("pause", "begun"),
    ]
    assert (records[1]["counts"]["count"], records[0]["counts"]["discarded"]) == (2, 2)
    assert all(each["by"] for each in records)
    assert "deploy" in shop.run("audit", "--action", "pause").stdout
    assert shop.run("audit", "--action", "nothing").exit_code == 3


def test_foreign_letters_are_shown_and_put_back(shop: Shop) -> None:
    """Letters without a row are grouped by reason; --yes puts them back as they were."""
    tier = shop.environment.topology.tier("media")
    for n in range(3):
        letter = quarantine_of(f"hello {n}", {}, "", f"m{n}", "not a tenure envelope (text)")
        shop.world.dead(tier).send_many([Send(letter.body, attributes=letter.attributes)])
    assert "3 letters without a row" in shop.run("dead", "foreign", "media").stderr
    assert shop.run("dead", "foreign", "media", "--yes").exit_code == 2
    result = shop.run("dead", "foreign", "media", "--why", "text", "--yes", "--reason", "ours", "-o", "json")
    assert json.loads(result.stdout)["moved"] == 3
    assert len(shop.world.queues(tier).all()) == 3


def test_a_task_that_never_died_is_no_dead_letter(shop: Shop) -> None:
    """`dead show` of a running task says what it is."""
    task_id = shop.submit("render", {"month": "2026-01"})
    result = shop.run("dead", "show", task_id)
    assert result.exit_code == 2
    assert "never was a dead letter" in result.stderr
    row = states.row_of(shop, task_id)
    assert machine.taken_over_losses(row) == 0


@pytest.mark.parametrize("command", ["dead", "replay", "discard", "reconcile", "pause", "resume", "audit"])
def test_every_command_helps(shop: Shop, command: str) -> None:
    """--help tells what it does, without reaching for anything."""
    assert shop.run(command, "--help").exit_code == 0
    assert not shop.opened
