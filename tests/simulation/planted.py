"""Which defect stands for which rule of the protocol, and by which rule of the auditor it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation import defects


@dataclass(frozen=True)
class Planted:
    """A rule in our own words, the defect that leaves it out, and who finds it: the auditor's rule in a setting."""

    rule: str
    defect: Callable[[], Any]
    setting: str
    found_by: str


PLANTED: tuple[Planted, ...] = (
    Planted(
        "a write stands only on the version it was decided on",
        defects.every_write_stands,
        "rough",
        "fence did not rise",
    ),
    Planted(
        "an own write whose reply is lost is known again",
        defects.own_writes_are_not_known_again,
        "replies",
        "innocent charged",
    ),
    Planted(
        "own writes are known by their id, never by equal values",
        defects.own_writes_are_known_by_their_values,
        "lapses",
        "one fence started twice",
    ),
    Planted(
        "writes and deliveries of another life are refused",
        defects.lives_are_not_told_apart,
        "lives",
        "life overwritten",
    ),
    Planted(
        "each attempt's result has a place of its own",
        defects.results_of_all_attempts_share_a_place,
        "lives",
        "wrong result",
    ),
    Planted(
        "each submit's payload has a place of its own",
        defects.payloads_of_all_submits_share_a_place,
        "lives",
        "wrong payload",
    ),
    Planted(
        "final rows outlive their messages", defects.final_rows_are_forgotten_at_once, "replies", "forgotten too early"
    ),
    Planted("each claim raises the fence", defects.the_fence_does_not_rise, "deadly", "one fence started twice"),
    Planted("a live lease is respected", defects.a_live_lease_is_taken, "rough", "live lease taken"),
    Planted("a loss in company is nobody's", defects.company_is_charged, "deadly", "innocent charged"),
    Planted("suspects run alone", defects.suspects_run_in_company, "deadly", "taken over in company"),
    Planted(
        "budgets count failures and losses, not claims",
        defects.budgets_count_claims,
        "quiet",
        "buried with budget left",
    ),
    Planted(
        "a holder knows its lease by its token", defects.any_leased_row_is_adopted, "lapses", "settled by a stranger"
    ),
    Planted(
        "the clock is looked at right before the start",
        defects.the_clock_is_not_looked_at_before_the_start,
        "services",
        "started on",
    ),
    Planted("a lost lease deletes nothing", defects.a_lost_lease_deletes, "storm", "deleted too early"),
    Planted("row, then message", defects.the_message_goes_before_the_row, "keys", "deleted too early"),
    Planted("releases are bounded", defects.releases_are_free, "drained", "attempt cost nothing"),
    Planted("a waiting row has its place in the due index", defects.nobody_looks_after_a_retry, "quiet", "unfinished"),
    Planted("what has ended never runs again", defects.what_has_ended_runs_again, "replies", "ran after its end"),
    Planted("what is not due is handed back", defects.due_times_are_ignored, "replies", "ran too early"),
    Planted("deadlines and cancels end a task", defects.deadlines_and_cancels_are_ignored, "storm", "ran "),
    Planted(
        "a task that was asked to stop runs no more",
        defects.cancels_are_forgotten_by_who_settles,
        "storm",
        "ran though",
    ),
    Planted("a successor waits for its head's end", defects.successors_do_not_wait, "keys", "out of order"),
    Planted("any ending but a final one holds the rest", defects.only_a_failure_holds_the_rest, "keys", "out of order"),
    Planted(
        "the rest of a group goes back at once",
        defects.the_rest_of_a_group_is_not_given_back,
        "decided",
        "kept waiting",
    ),
    Planted(
        "ordered tasks wait within the queue", defects.ordered_tasks_leave_the_queue_to_wait, "keys", "out of order"
    ),
    Planted(
        "each send has a deduplication id of its own",
        defects.sends_share_a_deduplication_id,
        "decided",
        "send swallowed",
    ),
    Planted("a buried head halts its key", defects.keys_are_not_halted, "halted", "out of order"),
    Planted(
        "a retried head passes those that wait",
        defects.released_tasks_stay_in_their_group,
        "decided",
        "unfinished",
    ),
    Planted("a buried task has a letter", defects.no_letter_is_sent, "rough", "deleted before its letter"),
    Planted(
        "each burial's letter has a deduplication id of its own",
        defects.letters_share_a_deduplication_id,
        "decided",
        "burial without a letter",
    ),
    Planted(
        "what SQS moved by itself goes back to work",
        defects.what_sqs_moved_is_buried,
        "moved",
        "buried with budget left",
    ),
    Planted("missing letters are sent", defects.nobody_sends_missing_letters, "moved", "dead without a letter"),
    Planted("one letter that is met twice stays", defects.a_letter_met_twice_is_two_letters, "moved", "letter lost"),
)

NOT_BUILT = {
    "a task without a row carries its payload into the claim": "Every task has its row from its submit on; lean "
    "tracking is refused by name (NotBuilt).",
    "a task without a row can be cancelled": "The same: there is no task without a row.",
}
"""Rules of the protocol that have nothing to be planted in, and why."""
