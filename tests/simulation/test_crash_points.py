"""Every operation of the protocol, stopped between any two of its calls: nothing is lost, nothing is done twice that
was known to be done. `pytest -s` shows the table."""

import pytest

from tests.simulation.crash import OPERATIONS, stop_everywhere
from tests.simulation.defects import the_message_goes_before_the_row


@pytest.fixture(scope="module")
def table():
    rows: list[tuple[str, str, int, int, int, int]] = []
    yield rows
    print(f"\n{'operation':36} {'':7} {'points':>6} {'lost':>5} {'doubled':>8} {'other':>6} {'ran again':>10}")
    for name, how, points, lost, doubled, other, again in rows:
        print(f"{name:36} {how:7} {points:6} {lost:5} {doubled:8} {other:6} {again:10}")


LOST = ("lost", "unfinished", "message left", "dead without a letter")
DOUBLED = ("ran after its end", "second ending", "one fence started twice", "late effect accepted", "doubled submit")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["dies", "stalls"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_stopped_anywhere_nothing_is_lost_and_nothing_finished_runs_again(operation, how, table):
    """At least once: what had its effect but not its row runs again, and only that; it is counted as `ran again`."""
    points = stop_everywhere(operation, how)
    lost = sum(any(fault.rule in LOST for fault in point.faults) for point in points)
    doubled = sum(any(fault.rule in DOUBLED for fault in point.faults) for point in points)
    other = sum(bool(point.faults) for point in points) - lost - doubled
    again = sum(point.ran_again for point in points)
    table.append((operation.name, how, len(points), lost, doubled, other, again))
    assert points, "the operation makes no call, so this proves nothing"
    assert not any(point.faults for point in points), "\n\n".join(point.text for point in points if point.text)[:20_000]


def test_a_message_deleted_before_its_row_is_written_is_lost_at_some_point():
    """The enumeration sees: this defect leaves a point at which a retry is deleted early."""
    operation = next(each for each in OPERATIONS if each.name == "retry")
    with the_message_goes_before_the_row():
        points = stop_everywhere(operation, "dies")
    assert any("deleted too early" in fault.rule for point in points for fault in point.faults)
