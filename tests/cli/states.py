"""Rows in the states that commands show, made by the machine's own constructors."""

from __future__ import annotations

from tenure.core import machine
from tenure.core.machine import Lease, Stamp
from tenure.core.outcome import describe
from tenure.core.task import ErrorRecord, Row, Stored
from tenure.rows import Stands
from tests.cli.conftest import Shop


class PDFError(Exception):
    """The report cannot be laid out."""


def error(text: str = "page 3 has no width") -> ErrorRecord:
    """An error as a worker records it."""
    try:
        raise PDFError(text)
    except PDFError as raised:
        return describe(raised)


def stamp(shop: Shop) -> Stamp:
    return Stamp(shop.world.clock.now_ms(), shop.world.entropy.token(), "test")


def row_of(shop: Shop, task_id: str) -> Row:
    row = shop.client.rows.get(task_id)
    assert row is not None
    return row


def put(shop: Shop, row: Row, new: Row) -> Row:
    assert isinstance(shop.client.rows.replace(row, new), Stands)
    return new


def leased(shop: Shop, task_id: str, worker: str = "heavy/ip-10-0-0-7/1") -> Row:
    row = row_of(shop, task_id)
    lease = Lease(60, shop.world.entropy.token(), worker, alone=False, max_attempts=row.max_attempts, pool="steady")
    return put(shop, row, machine.claim(row, stamp(shop), lease))


def completed(shop: Shop, task_id: str, result: str = '{"pages": 12}') -> Row:
    row = leased(shop, task_id)
    shop.world.advance(2.5)
    place = Stored("inline", result, len(result))
    return put(shop, row, machine.succeed(row, stamp(shop), place))


def retrying(shop: Shop, task_id: str, seconds: float = 40) -> Row:
    row = leased(shop, task_id)
    due = shop.world.clock.now_ms() + round(seconds * 1000)
    return put(shop, row, machine.retry(row, stamp(shop), error(), due, message_held=True))


def buried(shop: Shop, task_id: str, text: str = "page 3 has no width") -> Row:
    row = leased(shop, task_id)
    return put(shop, row, machine.bury(row, stamp(shop), error(text), "gave_up"))
