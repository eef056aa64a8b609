"""`ls`, `show`, `why`, `queues`: what they show of tasks in every state, as text and as JSON, and their exit codes."""

import json

import pytest

from tests.cli import states
from tests.cli.conftest import Shop


@pytest.fixture
def ids(shop: Shop) -> dict[str, str]:
    """A task in each state that is listed, and one that is done."""
    found = {
        "queued": shop.submit("resize", {"key": "p1.jpg"}, tenant="acme", priority="high"),
        "leased": shop.submit("render", {"month": "2026-10"}),
        "retrying": shop.submit("render", {"month": "2026-11"}, tenant="globex"),
        "buried": shop.submit("render", {"month": "2026-12"}),
        "completed": shop.submit("render", {"month": "2026-09"}),
        "scheduled": shop.submit("render", {"month": "2027-01"}, delay="3h"),
    }
    states.leased(shop, found["leased"])
    states.retrying(shop, found["retrying"])
    states.buried(shop, found["buried"])
    states.completed(shop, found["completed"])
    return found


def test_ls_shows_all_that_is_not_done_and_the_open_dead_letters(shop: Shop, ids: dict[str, str]) -> None:
    """Every listed state is there with what a person asks next; what is completed is not."""
    result = shop.run("ls")
    assert result.exit_code == 0
    for name, task_id in ids.items():
        assert (task_id in result.stdout) is (name != "completed")
    line = next(line for line in result.stdout.splitlines() if ids["retrying"] in line)
    assert line.split()[1:6] == ["retrying", "render", "reports", "globex", "2/2"]
    assert "due in 38s; last PDFError: page 3 has no width" in line
    assert "5 tasks: 1 scheduled, 1 queued, 1 leased, 1 retrying, 1 dead_lettered." in result.stderr


def test_ls_takes_the_filter_grammar(shop: Shop, ids: dict[str, str]) -> None:
    """Terms in one argument or in several, exclusions as they are typed."""
    for arguments in (
        ["state:dead_lettered,retrying", "error:PDFError", "-tenant:globex"],
        ["error:PDFError state:dead*"],
    ):
        result = shop.run("ls", "-o", "json", *arguments)
        assert [task["id"] for task in json.loads(result.stdout)["tasks"]] == [ids["buried"]]


def test_ls_that_finds_nothing_exits_3_and_says_what_it_looked_for(shop: Shop, ids: dict[str, str]) -> None:
    """A script can tell "none" from "failed"; JSON stays JSON."""
    result = shop.run("ls", "tenant:nobody")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "No tasks match 'tenant:nobody'." in result.stderr
    as_json = shop.run("ls", "tenant:nobody", "-o", "json")
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (3, {"tasks": [], "more": False})


def test_ls_says_that_it_cut_the_list(shop: Shop, ids: dict[str, str]) -> None:
    """What was left out is told, in both outputs, latest first."""
    result = shop.run("ls", "--limit", "2")
    assert "There are more; narrow it, or raise --limit." in result.stderr
    found = json.loads(shop.run("ls", "--limit", "2", "-o", "json").stdout)
    assert found["more"] is True
    assert len(found["tasks"]) == 2


def test_ls_refuses_states_that_no_index_holds(shop: Shop) -> None:
    """An empty list of completed tasks would be a lie."""
    result = shop.run("ls", "state:completed")
    assert result.exit_code == 2
    assert "ask for one by its id" in " ".join(result.stderr.split())


@pytest.mark.parametrize("arguments", [["ls", "stat:x"], ["ls", "render"], ["ls", "since:yesterday"]])
def test_a_wrong_filter_is_a_usage_error(shop: Shop, arguments: list[str]) -> None:
    """Exit 2, a paragraph, and the world is not even asked."""
    result = shop.run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: filter")
    assert shop.opened == []


def test_show_tells_everything_about_a_dead_letter(shop: Shop, ids: dict[str, str]) -> None:
    """State, attempts, payload, error with its traceback, history and disposition."""
    told = shop.run("show", ids["buried"]).stdout
    for expected in ("dead_lettered", "1 of 2 (1 failure)", "gave_up", "disposition  open", '"month": "2026-12"'):
        assert expected in told
    assert "raise PDFError(text)" in told
    assert [line.split()[1] for line in told[told.index("History") :].splitlines()[1:]] == ["submit", "claim", "bury"]


def test_show_as_json_has_payload_and_result_as_json(shop: Shop, ids: dict[str, str]) -> None:
    """A program reads values, not texts of values."""
    found = json.loads(shop.run("show", ids["completed"], "-o", "json").stdout)
    assert (found["state"], found["payload"], found["result"]) == ("completed", {"month": "2026-09"}, {"pages": 12})


@pytest.mark.parametrize("command", ["show", "why", "wait"])
def test_an_unknown_id_exits_3(shop: Shop, command: str) -> None:
    """Nothing matched; the paragraph says where was looked, and JSON errors are JSON."""
    result = shop.run(command, "nope")
    assert result.exit_code == 3
    assert "no task 'nope' in environment 'dev' of app 'shop' (a world in memory)" in " ".join(result.stderr.split())
    as_json = shop.run(command, "nope", "-o", "json")
    assert json.loads(as_json.stderr)["error"] == "TaskNotFound"


def test_why_says_who_holds_a_task_and_until_when(shop: Shop, ids: dict[str, str]) -> None:
    """The lease's holder and its end, in words."""
    told = shop.run("why", ids["leased"]).stdout
    assert "Worker heavy/ip-10-0-0-7/1 began attempt 1 of 2" in told
    assert "the lease ends in 58s" in told


def test_queues_counts_messages_by_tier(shop: Shop, ids: dict[str, str]) -> None:
    """Ready messages stand with their queue and priority."""
    found = json.loads(shop.run("queues", "-o", "json").stdout)["queues"]
    ready = {(one["queue"], one["priority"]): one["ready"] for one in found}
    assert ready == {("media", "high"): 1, ("media", "normal"): 0, ("reports", "normal"): 4, ("ledger", "normal"): 0}
    line = next(line for line in shop.run("queues").stdout.splitlines() if line.startswith("ledger"))
    assert line.split() == ["ledger", "normal", "quick", "0", "0", "0", "0", "by", "key"]


def test_what_is_piped_has_no_colour_and_no_wrapped_table(shop: Shop, ids: dict[str, str]) -> None:
    """Without a terminal the tables are plain text, a task to a line."""
    result = shop.run("ls")
    assert "\x1b" not in result.stdout
    assert len(result.stdout.splitlines()) == 6


def test_why_and_wait_say_that_the_queue_is_paused(shop: Shop, ids: dict[str, str]) -> None:
    """What keeps a task from running is said where a person asks about the task; not of one that has ended."""
    shop.run("pause", "media", "--reason", "the disk is full")
    handle = shop.client.submit("resize", {"key": "a.jpg"})
    told = shop.run("why", handle.id).stdout
    assert "Queue media is paused" in told
    assert "the disk is full. Resume: tenure resume media" in told
    waited = shop.run("wait", handle.id, "--timeout", "1s")
    assert (waited.exit_code, "Queue media is paused" in waited.stderr) == (5, True)
    assert "paused" in json.loads(shop.run("why", handle.id, "-o", "json").stdout)
    shop.client.handle(handle.id).cancel("enough")
    assert "paused" not in shop.run("why", handle.id).stdout


def test_resume_says_when_messages_come_back(shop: Shop) -> None:
    """A paused queue's messages are hidden for up to two minutes: nobody should wonder why nothing starts."""
    shop.run("pause", "media", "--reason", "repair")
    assert "come back within two minutes" in shop.run("resume", "media", "--reason", "done").stderr


@pytest.mark.parametrize("command", ["ls", "queues", "show"])
def test_piped_lines_end_without_blanks(shop: Shop, ids: dict[str, str], command: str) -> None:
    """Plain output is for tools and for pasting: no line is filled up."""
    lines = shop.run(command, *([ids["leased"]] if command == "show" else [])).stdout.splitlines()
    assert len(lines) > 3
    assert [line for line in lines if line != line.rstrip()] == []


def test_an_app_that_is_not_there_is_named_and_no_empty_app_is_shown(shop: Shop) -> None:
    """A slip in --app is exit code 2 with its name, for commands too that need no code."""
    for slip, said in (("no_such_app:app", "no module 'no_such_app'"), ("shop_app:ap", "shop_app:ap does not exist")):
        result = shop.run("queues", "--app", slip)
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in " ".join(result.stderr.split())


def test_why_names_the_pause_first(shop: Shop, ids: dict[str, str]) -> None:
    """What holds a task comes before where it is; of one that runs, which goes on, after. `ls` says it below."""
    shop.run("pause", "media", "--reason", "the disk is full")
    shop.run("pause", "reports", "--reason", "a bad deploy")
    assert shop.run("why", ids["queued"]).stdout.startswith("Queue media is paused")
    running = shop.run("why", ids["leased"]).stdout
    assert running.startswith(f"Task {ids['leased']}")
    assert "Queue reports is paused" in running
    listed = shop.run("ls", "queue:media").stderr
    assert "Queue media is paused (now) by" in listed
    assert "reports" not in listed


@pytest.mark.parametrize(
    ("term", "says"),
    [
        ("queue:medai", "There is no queue 'medai'. Did you mean 'media'?"),
        ("queue:nosuch", "There is no queue 'nosuch'. Known: media, reports, ledger."),
        ("task:rend", "No task is published as 'rend'. Did you mean 'render'?"),
        ("task:flak,post", "No task is published as 'flak'."),
        ("pool:qick", "There is no pool 'qick'. Did you mean 'quick'?"),
        ("id:nope", "Task nope is not known here."),
    ],
)
@pytest.mark.parametrize("command", [["ls"], ["dead"], ["replay"], ["discard"], ["replay", "--yes", "--reason", "r"]])
def test_a_filter_that_finds_nothing_says_what_in_it_is_unknown(
    shop: Shop, command: list[str], term: str, says: str
) -> None:
    """Queues, pools, tasks and ids: the slip with the nearest name, and the filter, wherever one is taken."""
    result = shop.run(*command, term)
    assert (result.exit_code, result.stdout) == (3, "")
    assert says in result.stderr
    assert f"{term!r}" in result.stderr


def test_names_that_are_there_are_no_slips(shop: Shop) -> None:
    """Patterns that fit, exclusions, and fields of which nobody knows all values: no hint."""
    result = shop.run("ls", "task:ren*", "-queue:nosuch", "tenant:x", "queue:media")
    assert len(result.stderr.splitlines()) == 1


def test_an_id_that_is_no_open_letter_is_told_with_its_state(shop: Shop, ids: dict[str, str]) -> None:
    """A replay of what is queued or done does nothing, and says why; so does a list."""
    for name, says in (
        ("queued", "is queued, so it is no open dead letter"),
        ("completed", "is completed, so it is no open dead letter"),
    ):
        told = shop.run("replay", f"id:{ids[name]}").stderr
        assert f"Nothing to replay: no open dead letter matches 'id:{ids[name]}'." in told
        assert f"Task {ids[name]} {says}" in told
    shop.run("discard", f"id:{ids['buried']}", "--yes", "--reason", "not owed")
    assert "its dead letter was discarded" in shop.run("discard", f"id:{ids['buried']}").stderr
    assert "is completed, and such tasks are not listed" in shop.run("ls", f"id:{ids['completed']}").stderr
    assert "is queued: another term leaves it out" in shop.run("ls", f"id:{ids['queued']}", "tenant:x").stderr
