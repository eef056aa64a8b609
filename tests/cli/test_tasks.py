"""`submit`, `wait`, `cancel`: what they do to tasks, what they print, and their exit codes."""

import json

import pytest

from tenure.core.errors import ServiceError
from tenure.handle import Cancellation, Handle
from tests.cli import states
from tests.cli.conftest import Shop


def test_submit_prints_the_id_alone(shop: Shop) -> None:
    """`ID=$(tenure submit ...)` works, and the task is queued with its options."""
    result = shop.run("submit", "resize", '{"key": "p1.jpg"}', "--tenant", "acme", "--priority", "high")
    assert result.exit_code == 0
    row = states.row_of(shop, result.stdout.strip())
    assert (row.task, row.tenant, row.tier, row.state.value) == ("resize", "acme", "high", "queued")


def test_submit_reads_a_payload_from_standard_input(shop: Shop) -> None:
    """A payload too long for a command line comes through a pipe."""
    result = shop.run("submit", "resize", "-", "-o", "json", input='{"key": "p1.jpg", "width": 7}')
    row = states.row_of(shop, json.loads(result.stdout)["id"])
    assert row.payload is not None
    assert json.loads(row.payload.value) == {"key": "p1.jpg", "width": 7}


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ('{"key": ', "the payload is not JSON"),
        ("[1]", "a JSON list"),
        ('{"key": 7}', "`key` does not fit its type"),
        ('{"key": "a", "widht": 7}', "no parameter 'widht'"),
        ("{}", "`key` is missing"),
        ('{"key": "a", "key": "b"}', "the member 'key' stands twice"),
        ('{"key": NaN}', "NaN is not JSON"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_before_anything_exists(shop: Shop, payload: str, says: str) -> None:
    """Exit 2, the reason by name, no row and no message."""
    result = shop.run("submit", "resize", payload)
    assert result.exit_code == 2
    assert says in " ".join(result.stderr.split())
    assert shop.world.store.all() == []


def test_an_unknown_task_is_refused_with_those_there_are(shop: Shop) -> None:
    """A misspelt name is a usage error, not a message that nobody can run."""
    result = shop.run("submit", "rezise", "{}")
    assert result.exit_code == 2
    assert "resize" in result.stderr


def test_the_same_key_finds_the_same_task(shop: Shop) -> None:
    """Submitted twice with one idempotency key: one task, said so; with another payload: refused."""
    first = shop.run("submit", "resize", '{"key": "p1.jpg"}', "--key", "k")
    again = shop.run("submit", "resize", '{"key": "p1.jpg"}', "--key", "k")
    assert again.stdout == first.stdout
    assert "nothing new was submitted" in again.stderr
    assert shop.run("submit", "resize", '{"key": "p2.jpg"}', "--key", "k").exit_code == 2


def test_wait_prints_the_result(shop: Shop) -> None:
    """Of one task the result alone, as JSON."""
    task_id = shop.submit("render", {"month": "2026-09"})
    states.completed(shop, task_id)
    result = shop.run("wait", task_id)
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"pages": 12})


def test_wait_for_several_exits_4_when_only_some_completed(shop: Shop) -> None:
    """0 all, 1 none, 4 some; each task's end is told."""
    done, dead = shop.submit("render", {"month": "a"}), shop.submit("render", {"month": "b"})
    states.completed(shop, done)
    states.buried(shop, dead)
    both = shop.run("wait", done, dead)
    assert both.exit_code == 4
    assert f'{done}  {{"pages": 12}}' in both.stdout
    assert "dead_lettered" in both.stderr
    assert shop.run("wait", dead).exit_code == 1
    assert json.loads(shop.run("wait", dead, "-o", "json").stdout)["error"]["type"].endswith("PDFError")


def test_wait_gives_up_after_its_timeout(shop: Shop) -> None:
    """A task that nobody runs: its state, that it goes on and how to wait again; its exit code is no failure's."""
    task_id = shop.submit("render", {"month": "a"})
    result = shop.run("wait", task_id, "--timeout", "3s")
    assert result.exit_code == 5
    assert result.stderr == (
        f"Not yet: task {task_id} is still queued after 3s, and goes on. Wait again: tenure wait {task_id}\n"
    )
    submitted = shop.run("submit", "render", '{"month": "a"}', "--wait", "--timeout", "3s", "-o", "json")
    assert (submitted.exit_code, json.loads(submitted.stdout)["state"]) == (5, "queued")


def test_ctrl_c_ends_the_wait_and_not_the_task(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and how to wait again."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(shop.world.clock), "sleep", interrupted)
    for line in (["submit", "render", '{"month": "a"}', "--wait"], ["wait", shop.submit("render", {"month": "b"})]):
        result = shop.run(*line)
        assert result.exit_code == 5
        task_id = result.stderr.split()[-1]
        assert f"nothing else stopped. Wait again: tenure wait {task_id}" in result.stderr
        assert states.row_of(shop, task_id).state.value == "queued"


def test_ctrl_c_while_it_is_sent_tells_the_id(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the row and the answer nobody knows whether it was submitted: its id is told, in JSON too; exit 1."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(shop.world.queues(shop.environment.topology.tier("reports"))), "send_many", interrupted)
    for number, more in enumerate(([], ["--wait"], ["-o", "json"]), 1):
        result = shop.run("submit", "render", '{"month": "a"}', *more)
        assert (result.exit_code, result.stdout) == (1, "")
        told = json.loads(result.stderr)["message"] if more == ["-o", "json"] else " ".join(result.stderr.split())
        task_id = told.partition("not known whether task ")[2].split()[0]
        assert states.row_of(shop, task_id).task == "render"
        assert "tenure show" in told
        assert len(shop.world.store.all()) == number


def test_ctrl_c_before_anything_was_sent_says_so(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it connects, say: nothing was submitted, exit 1."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Shop, "open", interrupted)
    result = shop.run("submit", "render", '{"month": "a"}')
    assert (result.exit_code, result.stderr) == (1, "Error: you stopped it; nothing was submitted.\n")
    assert shop.world.store.all() == []


@pytest.mark.parametrize("option", ["--timeout", "--delay", "--deadline"])
def test_every_option_is_looked_at_before_anything_is_submitted(shop: Shop, option: str) -> None:
    """A duration that is none is exit 2 with the option's name, in JSON for who asked for it, and no task."""
    line = ["submit", "render", '{"month": "a"}', "--wait", option, "1 parsec"]
    result = shop.run(*line)
    assert (result.exit_code, f"{option}: '1 parsec' is not a duration" in result.stderr) == (2, True)
    as_json = shop.run(*line, "-o", "json")
    assert json.loads(as_json.stderr)["message"].startswith(option)
    assert (shop.world.store.all(), shop.opened) == ([], [])


def test_wait_looks_at_every_id(shop: Shop) -> None:
    """One that is not there is told as that, the others as ever; 4 where some completed, 3 where none is there."""
    done, waiting = shop.submit("render", {"month": "a"}), shop.submit("render", {"month": "b"})
    states.completed(shop, done)
    some = shop.run("wait", "nope", done)
    assert some.exit_code == 4
    assert "no task 'nope'" in some.stderr
    assert f'{done}  {{"pages": 12}}' in some.stdout
    told = json.loads(shop.run("wait", "nope", done, "-o", "json").stdout)
    assert [(one["id"], one["state"]) for one in told] == [("nope", "not_found"), (done, "completed")]
    assert shop.run("wait", "nope", "neither").exit_code == 3
    assert shop.run("wait", "nope", waiting, "--timeout", "1s").exit_code == 5


def test_cancel_ends_what_waits_and_asks_what_runs(shop: Shop) -> None:
    """Both count as done; the reason stands with the task."""
    waiting, running = shop.submit("render", {"month": "a"}), shop.submit("render", {"month": "b"})
    states.leased(shop, running)
    result = shop.run("cancel", waiting, running, "--reason", "wrong month", "-o", "json")
    assert result.exit_code == 0
    assert [one["outcome"] for one in json.loads(result.stdout)] == ["cancelled", "requested"]
    assert states.row_of(shop, waiting).reason == "wrong month"
    assert states.row_of(shop, running).cancel_reason == "wrong month"


def test_cancel_too_late_is_told_by_the_exit_code(shop: Shop) -> None:
    """1 if nothing was cancelled, 4 if some; a blank reason is refused."""
    done, waiting = shop.submit("render", {"month": "a"}), shop.submit("render", {"month": "b"})
    states.completed(shop, done)
    assert shop.run("cancel", done, "--reason", "late").exit_code == 1
    assert shop.run("cancel", done, waiting, "--reason", "late").exit_code == 4
    assert shop.run("cancel", waiting, "--reason", " ").exit_code == 2
    assert shop.run("cancel", waiting).exit_code == 2


def test_cancel_looks_at_every_id(shop: Shop) -> None:
    """A line for each, in the order given; 4 where some were cancelled, 3 where none is there, 1 for the rest."""
    first, last = shop.submit("render", {"month": "a"}), shop.submit("render", {"month": "b"})
    result = shop.run("cancel", first, "nope", last, "--reason", "wrong month")
    assert result.exit_code == 4
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        [first, "cancelled"],
        ["nope", "no"],
        [last, "cancelled"],
    ]
    assert {states.row_of(shop, each).state.value for each in (first, last)} == {"cancelled"}
    told = json.loads(shop.run("cancel", "nope", first, "--reason", "again", "-o", "json").stdout)
    assert [(one["id"], one["outcome"]) for one in told] == [("nope", "not_found"), (first, "too_late")]
    assert shop.run("cancel", "nope", first, "--reason", "again").exit_code == 1
    assert shop.run("cancel", "nope", "neither", "--reason", "again").exit_code == 3


def test_what_is_no_id_is_refused_before_any_is_cancelled(shop: Shop) -> None:
    """An empty variable in a script: exit 2, and the id before it stands."""
    task_id = shop.submit("render", {"month": "a"})
    assert shop.run("cancel", task_id, "", "--reason", "wrong month").exit_code == 2
    assert states.row_of(shop, task_id).state.value == "queued"


def test_trouble_with_one_id_leaves_no_other(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table does not answer for one of three: that is told, and the others are cancelled."""
    ids = [shop.submit("render", {"month": month}) for month in "abc"]
    cancel = Handle.cancel

    def flaky(self: Handle[object], reason: str) -> Cancellation:
        if self.id == ids[1]:
            raise ServiceError("the table gave no answer")
        return cancel(self, reason)

    monkeypatch.setattr(Handle, "cancel", flaky)
    result = shop.run("cancel", *ids, "--reason", "wrong month")
    assert result.exit_code == 4
    assert f"{ids[1]}  the table gave no answer" in result.stdout
    assert [states.row_of(shop, each).state.value for each in ids] == ["cancelled", "queued", "cancelled"]


def test_a_slip_in_the_tasks_name_is_answered_with_the_nearest(shop: Shop) -> None:
    """ "Did you mean", and the option it names instead exists: --queue takes the task at the caller's word."""
    result = shop.run("submit", "resiz", '{"key": "a.jpg"}')
    assert (result.exit_code, "Did you mean 'resize'?" in result.stderr) == (2, True)
    taken = shop.run("submit", "resiz", '{"key": "a.jpg"}', "--queue", "media")
    assert (taken.exit_code, states.row_of(shop, taken.stdout.strip()).queue) == (0, "media")
