"""Every operation over the AWS adapters, stopped between any two of its HTTP requests, with and without the last one
applied, and with each answer lost on its way: nothing is lost, nothing that is done runs again. `pytest -s` shows the
table. The same between calls of ports, in a simulated world: tests/simulation/test_crash_points.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapters.crash_operations import OPERATIONS, Point, Points
from tests.adapters.crash_site import Site, site
from tests.adapters.crash_stage import DOUBLED, LOST, Operation
from tests.adapters.wire import How

Line = tuple[str, str, int, list[Point]]


class Seen:
    """Each operation's points, made when first asked for, and the table of what came of them."""

    def __init__(self, at: Site) -> None:
        self._site = at
        self._points: dict[str, Points] = {}
        self.lines: list[Line] = []

    def of(self, operation: Operation) -> Points:
        """An operation's points."""
        if operation.name not in self._points:
            self._points[operation.name] = Points(self._site, operation)
        return self._points[operation.name]

    def all(self, operation: Operation, name: str, *hows: How) -> list[Point]:
        """All of an operation; fails where a rule was broken at any."""
        at = self.of(operation)
        points = at.all(*hows)
        self.lines.append((operation.name, name, len(at.requests), points))
        assert points, "it sends nothing, so this proves nothing"
        assert at.undisturbed.faults == ()
        assert all(point.reached for point in points)
        wrong = [f"{point.where}\n  {fault.kind}: {fault.what}" for point in points for fault in point.faults]
        assert not wrong, "\n".join(wrong)[:20_000]
        return points


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    with site() as at:
        made = Seen(at)
        yield made
    print(f"\n{'operation':26} {'':10} {'requests':>8} {'points':>6} {'lost':>5} {'doubled':>8} {'ran again':>10}")
    for name, how, requests, points in [*made.lines, *_sums(made.lines)]:
        lost, doubled = (sum(any(f.kind == kind for f in p.faults) for p in points) for kind in (LOST, DOUBLED))
        again = sum(point.ran_again for point in points)
        print(f"{name:26} {how:10} {requests:8} {len(points):6} {lost:5} {doubled:8} {again:10}")


def _sums(lines: list[Line]) -> Iterator[Line]:
    for how in dict.fromkeys(line[1] for line in lines):
        of_it = [line for line in lines if line[1] == how]
        yield ("all", how, sum(line[2] for line in of_it), [point for line in of_it for point in line[3]])


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_stopped_at_any_request_nothing_is_lost_and_nothing_finished_runs_again(
    seen: Seen, operation: Operation
) -> None:
    """At least once: a handler that had come to its end before its row was told runs again, and only that."""
    seen.all(operation, "stopped", How.BEFORE, How.AFTER)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_whichever_answer_is_lost_all_ends_as_if_none_were(seen: Seen, operation: Operation) -> None:
    """The connection breaks once the request was applied, and the SDK sends it again: a conditional write meets itself
    (R3), a message is there twice, a receipt is gone. No process died, so no handler runs again, no claim is made in
    vain and no budget pays."""
    points, undisturbed = seen.all(operation, "reply lost", How.REPLY_LOST), seen.of(operation).undisturbed
    assert [point.where for point in points if point.ran_again or not is_as_good(point, undisturbed)] == []


def is_as_good(point: Point, undisturbed: Point) -> bool:
    """The same endings at the same price, in no more claims (a message that comes a second time is read before it is
    claimed, so there may be fewer)."""
    pairs = [(point.outcomes.get(name), there) for name, there in undisturbed.outcomes.items()]
    return all(
        here and (here.state, here.paid) == (there.state, there.paid) and here.claims <= there.claims
        for here, there in pairs
    )
