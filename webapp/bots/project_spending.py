"""Spending of projects on paid replies, and its monthly limit.

Every paid reply is charged to a project: the study's, else the active one, else the one that added the bot. The month
is that of the database's clock in UTC. A new month has a new account, so nothing needs a reset.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from webapp.bots.models import DeclaredBot, Spending
from webapp.bots.selectors import bots_unpriced, spending_spent
from webapp.bots.services import Purse
from webapp.core.clock import database_now
from webapp.core.models import Project
from webapp.core.project_scope import USUAL_PROJECT, active_project

UNLIMITED = float("inf")


@dataclass(frozen=True, slots=True)
class ProjectBudget:
    """Spending of a project in the current month.

    Attributes:
        limit: most that it may spend, in the currency of the prices; None: no limit.
        spent: amount spent or reserved.
        month: the month in words, such as "November 2026".
    """

    limit: float | None
    spent: float
    month: str

    @property
    def left(self) -> float:
        """Amount that may still be spent."""
        return UNLIMITED if self.limit is None else self.limit - self.spent


def project_purse(project: str, limit: float | None) -> Purse:
    """Return the account of a project's spending in this month.

    Errors do not name the project.
    """
    now = database_now()
    return Purse(Spending.Of.PROJECT, f"{project} {now:%Y-%m}", limit, f"the project's cost limit for {now:%B %Y}")


def payer_of(bot_id: str) -> tuple[str, float | None]:
    """Return key and limit of the project that pays outside studies."""
    key = active_project()
    if key is None:
        key = DeclaredBot.everywhere.filter(bot_id=bot_id).values_list("project", flat=True).first() or USUAL_PROJECT
    return key, Project.objects.values_list("monthly_cost_limit", flat=True).get(key=key)


def project_budget(project: Project) -> ProjectBudget:
    """Return a project's spending in this month, and its limit."""
    purse = project_purse(project.key, project.monthly_cost_limit)
    return ProjectBudget(purse.cap, spending_spent(purse.kind, purse.key), f"{database_now():%B %Y}")


def bots_beyond_budget(project: Project, least_costs: dict[str, float]) -> dict[str, str]:
    """Return the bots that the project's limit excludes, with reasons.

    Args:
        least_costs: maximum cost of the cheapest reply of each paid bot.
    """
    if project.monthly_cost_limit is None or not least_costs:
        return {}
    budget = project_budget(project)
    unpriced = bots_unpriced(least_costs)
    reasons = {
        bot_id: f"the project's cost limit of {budget.limit:g} for {budget.month} is reached ({budget.spent:.6g} spent)"
        for bot_id, least in least_costs.items()
        if least > budget.left
    }
    return reasons | dict.fromkeys(unpriced, "the project has a cost limit, and the bot's price is not set")


def unpriced_bots(bot_ids: Collection[str]) -> str:
    """Return a warning about bots without a price under a limit.

    They cannot reply while the project has a limit. Empty if there are none.
    """
    unpriced = sorted(bots_unpriced(bot_ids))
    if not unpriced:
        return ""
    return (
        f"No price is set for {', '.join(unpriced)}. While the project has a cost limit, bots without prices do not "
        "reply. Set price_in and price_out; for a bot that costs nothing, set both to 0."
    )
