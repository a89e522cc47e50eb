"""Cost of endpoint bots on the pages, by bot and by study, next to the caps."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from chatbots.endpoints.metering import PaidBot
from chatbots.registry import bot_list
from webapp.bots.models import Spending
from webapp.bots.selectors import bots_discover, spending_by_key
from webapp.core.speaking import plural
from webapp.studies.models import Study
from webapp.studies.places import bots_beyond_cap


@dataclass(frozen=True, slots=True)
class Spent:
    """An account in words.

    Attributes:
        spent: in the currency of the prices; None where no price is known.
        cap: the most that may be spent; None: no cap.
        is_reached: no further reply fits under the cap.
        about: calls and tokens, and what is uncertain of them.
    """

    spent: float | None
    cap: float | None
    is_reached: bool
    about: str


def bots_spent(bot_ids: Collection[str] | None = None) -> dict[str, Spent]:
    """Return the accounts of the bots that may cost money, by id; None stands for all bots."""
    bots_discover()
    paid = [
        bot
        for bot in bot_list()
        if isinstance(bot, PaidBot) and (bot_ids is None or bot.name in bot_ids)
    ]
    accounts = spending_by_key(Spending.Of.BOT, [bot.name for bot in paid]) if paid else {}
    found = {}
    for bot in paid:
        account = accounts.get(bot.name)
        spent = account.spent if account is not None else 0.0
        least = bot.least_bound.cost
        reached = bot.max_cost is not None and spent + (least or 0.0) > bot.max_cost
        found[bot.name] = Spent(
            None if least is None and not spent else spent, bot.max_cost, reached, _about(account)
        )
    return found


def study_spent(study: Study) -> Spent | None:
    """Return the study's account; None if no bot of it may cost money and it has no cap."""
    account = spending_by_key(Spending.Of.STUDY, [str(study.pk)]).get(str(study.pk))
    if account is None and study.values.quotas.max_cost is None and not bots_spent(study.bots):
        return None
    spent = account.spent if account is not None else 0.0
    unknown = account is not None and account.n_calls == account.n_unpriced > 0
    return Spent(
        None if unknown else spent,
        study.values.quotas.max_cost,
        bool(bots_beyond_cap(study)),
        _about(account),
    )


def _about(account: Spending | None) -> str:
    if account is None or not account.n_calls:
        return "no call yet"
    parts = [
        plural(account.n_calls, "{n} call", "{n} calls").format(n=f"{account.n_calls:,}"),
        "{n_in} tokens in, {n_out} out".format(
            n_in=f"{account.tokens_in:,}", n_out=f"{account.tokens_out:,}"
        ),
    ]
    if account.n_estimated:
        parts.append("tokens of {n} estimated".format(n=f"{account.n_estimated:,}"))
    if 0 < account.n_unpriced < account.n_calls:
        parts.append("price of {n} unknown".format(n=f"{account.n_unpriced:,}"))
    return "; ".join(parts)
