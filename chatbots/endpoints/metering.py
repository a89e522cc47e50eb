"""Cost of replies, and the meter that must approve every paid call.

Before every call a paid bot reserves the call's maximum cost with the process's meter, and afterwards it reports the
actual cost. The meter rejects calls that could exceed a cap. The meter here counts in memory; a program with a
database installs its own (`meter_set`), so that several processes cannot exceed a cap together.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from chatbots.bots.base import BotError
from chatbots.conversation import Conversation


class CapReached(BotError):
    """Call not made, because it could exceed a cap."""

    is_trouble = False


@dataclass(frozen=True, slots=True)
class ReplyCost:
    """Tokens and cost of one reply, actual or maximum.

    Attributes:
        tokens_in: tokens of the prompt.
        tokens_out: tokens of the reply.
        cost: in the currency of the bot's prices; None if a price is unknown.
        is_estimated: the tokens are estimated from the text, because the endpoint did not report them.
        answered_by: source of the reply if it did not come from the bot's usual address.
        rejected_params: request fields that were omitted because the model does not support them.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    is_estimated: bool = False
    answered_by: str = ""
    rejected_params: tuple[str, ...] = ()

    def plus(self, second: ReplyCost) -> ReplyCost:
        """Add another cost, for replies that took several calls."""
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
    """Protocol of bots whose replies may cost money."""

    name: str
    max_cost: float | None
    """Maximum total cost, in the currency of the bot's prices; None for no limit."""

    @property
    def least_bound(self) -> ReplyCost:
        """Return the maximum cost of the cheapest reply, to an empty conversation."""
        ...

    def cost_take(self, context: Conversation) -> ReplyCost | None:
        """Remove and return the cost of the reply to this context."""
        ...


@runtime_checkable
class BoundedBot(PaidBot, Protocol):
    """Protocol of paid bots that know the maximum cost of any reply before it is requested."""

    def bound(self, context: Conversation) -> ReplyCost:
        """Return the maximum cost of the reply to this context, in a single call."""
        ...


class Meter(Protocol):
    """Protocol of the accounting for paid bots."""

    async def reserve(self, bot: PaidBot, context: Conversation, bound: ReplyCost) -> Any:
        """Reserve the maximum cost before a call; returns a receipt for `settle`.

        Raises:
            CapReached: the remaining budget of a cap is smaller.
        """
        ...

    async def settle(self, receipt: Any, cost: ReplyCost) -> None:
        """Replace the reservation with the call's actual cost."""
        ...


class MemoryMeter:
    """Meter in memory, for the lifetime of this process."""

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
                    f"its limit of {bot.max_cost:g} is reached: {spent:g} is spent, and this reply may cost "
                    f"{amount:g}; raise max_cost in bots.yaml"
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
    """Replace the meter of this process."""
    global _meter
    _meter = meter
