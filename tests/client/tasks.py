"""The tasks of these tests: one on the standard queue, one on the ordered queue."""

from __future__ import annotations

from typing import Any

from tests.support.shop import Shop


def resize(shop: Shop) -> Any:
    """A task on the standard queue."""

    @shop.app.task(queue="media")
    def resize(photo: str, width: int = 100) -> str:
        shop.effects.append((photo, width))
        return photo

    return resize


def post(shop: Shop) -> Any:
    """A task on the ordered queue."""

    @shop.app.task(queue="ledger", ordered_by="account")
    def post(amount: int, account: Any = "main") -> None:
        shop.effects.append((account, amount))

    return post
