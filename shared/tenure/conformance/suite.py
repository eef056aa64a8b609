"""All checks, in the order in which they are looked at."""

from __future__ import annotations

from tenure.conformance import of_fifo, of_queues, of_the_table
from tenure.conformance.check import Check

CHECKS: tuple[Check, ...] = (*of_the_table.CHECKS, *of_queues.CHECKS, *of_fifo.CHECKS)
