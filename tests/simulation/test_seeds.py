"""Seeds that once broke a rule, each with what was wrong. A seed is a run only together with the code and the workload
of its day, so what was wrong also has a test of its own, named here."""

import pytest

from tests.simulation.verdict import judge

SEEDS = [
    (
        20,
        "keys",
        "A task on an ordered queue that killed its worker was taken over in company for ever, in a process with "
        "several threads: never charged, so never buried. See tests/worker/test_engine_company.py.",
    ),
    (
        128,
        "services",
        "A task that another worker took and lost while this one's claim was slow was taken over in company. "
        "See tests/worker/test_engine_company.py.",
    ),
    (
        100168,
        "crowd",
        "The auditor's own fault: a message that its row no longer needed may be deleted late, after a newer was sent.",
    ),
    (
        2,
        "quiet",
        "An async handler that did not heed its cancel was left running, beside a task that was to be alone. "
        "See tests/worker/test_coroutines.py.",
    ),
    (
        297,
        "halted",
        "A task was parked on a key that had opened since its worker had seen it halted: it waited for ever. "
        "See tests/core/test_halting.py.",
    ),
    (
        167,
        "halted",
        "An older message of a released task made it wait again, and those released behind it ran first. "
        "See tests/core/test_halting.py.",
    ),
    (
        6147,
        "natives",
        "A message of another language's that SQS moved to the DLQ before any worker took it stayed there as foreign: "
        "no row, no ending. See tests/maintenance/test_ingest.py.",
    ),
    (
        5915,
        "moved",
        "The same. See tests/maintenance/test_ingest.py.",
    ),
    (
        7747,
        "halted",
        "The auditor's own fault: a dead letter that a person discarded before its letter was sent needs none.",
    ),
    (
        278,
        "deadly",
        "In Lambda's batches those that had lost a worker waited behind others that killed theirs, time and again, for "
        "as long as the function may run: a task of 8 s took 11 minutes. See tests/worker/test_lambda_runtime.py.",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "setting", "what_was_wrong"), SEEDS, ids=lambda value: str(value)[:8])
def test_a_seed_that_broke_a_rule_breaks_none(seed, setting, what_was_wrong):
    verdict = judge(seed, setting)
    assert not verdict.faults, f"{what_was_wrong}\n{verdict.text}"
