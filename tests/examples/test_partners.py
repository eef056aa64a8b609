"""The partner throttles, fails and forgets; the task turns each into the outcome that fits."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import tenure
from examples.restaurant import settings
from examples.restaurant.app import app
from examples.restaurant.downstream import Downstream, Partner, TokenBucket
from examples.restaurant.partners import PartnerFailed, _seconds, notify_partner
from tests.examples.conftest import FakeAttempt, running


class Now:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def partner(now: Now, monkeypatch: pytest.MonkeyPatch) -> Iterator[Partner]:
    """A real HTTP server on this machine; two calls at once, then one every ten seconds."""
    played = Partner(TokenBucket(0.1, 2, now), known={"r1-240304-001", "with space/and slash"})
    with Downstream(played) as server:
        monkeypatch.setenv(settings.PARTNERS, server.url)
        yield played


def test_an_order_is_announced_once_however_often_it_is_sent(partner: Partner) -> None:
    """A second attempt gets the first one's receipt."""
    with running(FakeAttempt(fence=3)):
        assert notify_partner("r1-240304-001") == notify_partner("r1-240304-001", 20) == "receipt-00001"
    assert partner.stats() == {"taken": 1, "repeats": 1, "answers": {200: 2}}


def test_throttled_it_waits_as_long_as_the_partner_asks(partner: Partner, now: Now) -> None:
    for _ in range(2):
        notify_partner("r1-240304-001")
    with pytest.raises(tenure.RetryAfter) as throttled:
        notify_partner("r1-240304-001")
    assert throttled.value.delay_seconds == 10
    now.seconds += throttled.value.delay_seconds
    assert notify_partner("r1-240304-001") == "receipt-00001"


@pytest.mark.usefixtures("partner")
def test_an_order_that_the_partner_does_not_know_is_given_up_on() -> None:
    with pytest.raises(tenure.GiveUp, match="knows no order r9-x"):
        notify_partner("r9-x")


@pytest.mark.usefixtures("partner")
def test_an_order_id_may_hold_anything() -> None:
    assert notify_partner("with space/and slash") == "receipt-00001"


def test_an_error_of_the_partner_s_is_tried_again(partner: Partner) -> None:
    partner.faults = 1.0
    with pytest.raises(PartnerFailed, match="answered 500") as failed:
        notify_partner("r1-240304-001")
    assert app.tasks["notify_partner"].retry.retriable(failed.value)


def test_no_answer_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with Downstream(Partner(TokenBucket(1, 1))) as server:
        url = server.url
    monkeypatch.setenv(settings.PARTNERS, url)
    with pytest.raises(PartnerFailed, match="no answer from the partner"):
        notify_partner("r1-240304-001")


def test_without_an_address_the_error_names_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(settings.PARTNERS, raising=False)
    with pytest.raises(LookupError, match="RESTAURANT_PARTNERS is not set"):
        notify_partner("r1-240304-001")


def test_the_bucket_lets_through_its_burst_and_then_its_rate(now: Now) -> None:
    bucket = TokenBucket(2.0, 3, now)
    assert [bucket.wait_seconds() for _ in range(4)] == [0, 0, 0, 0.5]
    now.seconds += 0.5
    assert [bucket.wait_seconds() for _ in range(2)] == [0, 0.5]
    now.seconds += 3600
    assert [bucket.wait_seconds() for _ in range(4)] == [0, 0, 0, 0.5], "it never holds more than its burst"


def test_faults_come_from_the_seed(now: Now) -> None:
    def answers(seed: int) -> list[int]:
        partner = Partner(TokenBucket(1, 1000, now), faults=0.3, rng=random.Random(seed))
        return [partner.announce(f"o-{n}")[0] for n in range(50)]

    assert answers(1) == answers(1)
    assert set(answers(1)) == {200, 500}


@pytest.mark.parametrize(
    ("header", "seconds"), [("3", 3), ("0.5", 0.5), (None, 1), ("", 1), ("Wed, 21 Oct", 1), ("-4", 0)]
)
def test_a_retry_after_that_is_no_number_is_a_second(header: str | None, seconds: float) -> None:
    assert _seconds(header) == seconds
