"""Cost meter of paid bots, with accounts in the database.

A reply is charged to the accounts of the bot and of a project and, in a chat, to that of the study.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence

from chatbots import Conversation as Context
from chatbots.endpoints.metering import PaidBot, ReplyCost
from webapp.bots.models import Spending
from webapp.bots.project_spending import payer_of, project_purse
from webapp.bots.services import Purse, Reservation, spending_reserve, spending_settle
from webapp.conversations.models import Conversation
from webapp.core.database import in_database

log = logging.getLogger(__name__)


class DatabaseMeter:
    """Cost meter with accounts in the database; see `chatbots.endpoints.metering.Meter`.

    All processes share the accounts; the rows enforce the caps.

    Args:
        extra_purses: additional accounts charged for every reply.
    """

    def __init__(self, extra_purses: Sequence[Purse] = ()) -> None:
        self.extra_purses = extra_purses

    async def reserve(self, bot: PaidBot, context: Context, bound: ReplyCost) -> Reservation:
        """Reserve the maximum cost on the accounts of bot, study and project.

        Raises:
            CapReached
        """
        return await in_database(_reserve)(bot, context.id, bound, self.extra_purses)

    async def settle(self, receipt: Reservation, cost: ReplyCost) -> None:
        """Replace the reserved maximum by the actual cost.

        If that fails the reservation stays, so recorded costs are never too low.
        """
        try:
            await in_database(spending_settle)(reservation=receipt, cost=cost)
        except Exception:  # the reply exists and must not be lost because of this error
            log.exception("the cost of a reply could not be stored; its upper bound is counted instead")


def _reserve(bot: PaidBot, context_id: str, bound: ReplyCost, extra_purses: Sequence[Purse]) -> Reservation:
    purses = [Purse(Spending.Of.BOT, bot.name, bot.max_cost, f"the cap of bot {bot.name}"), *extra_purses]
    study = _study_of(context_id)
    if study is None:
        project, limit = payer_of(bot.name)
    else:
        pk, key, cap, project, limit = study
        purses.append(Purse(Spending.Of.STUDY, str(pk), cap, f"the cap of study {key}"))
    purses.append(project_purse(project, limit))
    return spending_reserve(purses=purses, bound=bound)


def _study_of(context_id: str) -> tuple[int, str, float | None, str, float | None] | None:
    """Return a chat's study: number, key, cap, project and the project's limit.

    None for self-play, try-it chats and the terminal.
    """
    try:
        pk = uuid.UUID(context_id)
    except ValueError:
        return None
    columns = ("study_id", "study__key", "study__version__values__quotas__max_cost")
    return (
        Conversation.objects.filter(pk=pk, study__isnull=False)
        .values_list(*columns, "study__project", "study__project__monthly_cost_limit")
        .first()
    )
