"""Cost of a reply, and the meter that every paid call must pass first.

A bot that costs money asks the process's meter before every call for the most that the call can cost, and
tells it afterwards what it did cost. The meter refuses what would pass a cap. The one here counts in
memory; whoever keeps a database puts one of its own in its place (`meter_set`), so that no two processes
together pass a cap.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from chatbots.bots.base import BotError
from chatbots.conversation import Conversation


class CapReached(BotError):
    """A call was not made, because it could cost more than a cap leaves."""

    is_trouble = False


@dataclass(frozen=True, slots=True)
class ReplyCost:
    """Tokens and cost of one reply, known or at most.

    Attributes:
        tokens_in: of the prompt.
        tokens_out: of the reply.
        cost: in the currency of the bot's prices; None where a price is unknown.
        is_estimated: the tokens are a guess from the text, since the endpoint did not count them.
        answered_by: who gave the reply, where it was not the bot in its usual way: another address.
        rejected_params: fields of the request that the model does not take, so that the reply was made without them.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    is_estimated: bool = False
    answered_by: str = ""
    rejected_params: tuple[str, ...] = ()

    def plus(self, second: ReplyCost) -> ReplyCost:
        """Add another cost, as when a reply took two calls."""
        known = self.cost is not None and second.cost is not None
        return ReplyCost(
            self.tokens_in + second.tokens_in,
            self.tokens_out + second.tokens_out,
            (self.cost or 0.0) + (second.cost or 0.0) if known else None,
            self.is_estimated or second.is_estimated,
            second.answered_by or self.answered_by,
            second.rejected_params or self.rejected_params,
        )


@runtime_checkable
class PaidBot(Protocol):
    """A bot whose replies may cost money."""

    name: str
    max_cost: float | None
    """The most it may cost in all, in the currency of its prices; None: no cap."""

    @property
    def least_bound(self) -> ReplyCost:
        """The most that the cheapest reply, to an empty conversation, may take."""
        ...

    def cost_take(self, context: Conversation) -> ReplyCost | None:
        """Return and forget the cost of the reply to this context."""
        ...


class Meter(Protocol):
    """Keeps the accounts of paid bots."""

    async def reserve(self, bot: PaidBot, context: Conversation, bound: ReplyCost) -> Any:
        """Set the bound aside before a call; returns a receipt for `settle`.

        Raises:
            CapReached: if a cap leaves less.
        """
        ...

    async def settle(self, receipt: Any, cost: ReplyCost) -> None:
        """Put what the call took in the place of its bound."""
        ...


class MemoryMeter:
    """Counts in this process, and forgets when it ends."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._lock = threading.Lock()

    async def reserve(self, bot: PaidBot, context: Conversation, bound: ReplyCost) -> tuple[str, float]:
        """See `Meter`."""
        amount = bound.cost or 0.0
        with self._lock:
            spent = self.spent.get(bot.name, 0.0)
            if bot.max_cost is not None and spent + amount > bot.max_cost:
                raise CapReached(
                    f"its cap of {bot.max_cost:g} is reached: {spent:g} is spent, and this reply "
                    f"may cost {amount:g}; max_cost in bots.yaml is the cap"
                )
            self.spent[bot.name] = spent + amount
        return bot.name, amount

    async def settle(self, receipt: tuple[str, float], cost: ReplyCost) -> None:
        """See `Meter`."""
        name, amount = receipt
        with self._lock:
            self.spent[name] += (cost.cost or 0.0) - amount


_meter: Meter = MemoryMeter()


def meter_get() -> Meter:
    """Return the meter of this process."""
    return _meter


def meter_set(meter: Meter) -> None:
    """Have this process's paid bots use another meter."""
    global _meter
    _meter = meter
