"""Names of the chatbots that a participant compared, shown after the last comparison if the study allows it."""

from __future__ import annotations

from webapp.bots.selectors import bot_name
from webapp.studies.models import Outcome, Task
from webapp.studies.pairs import slots_grouped, slots_kept


def bots_revealed(task: Task) -> list[tuple[str, str]]:
    """Return the names of A and B of each comparison; an empty list while they must not be shown."""
    if task.outcome != Outcome.RATED or not task.version.values.arena.reveals_bots:
        return []
    groups = slots_grouped(slots_kept(task.slots.order_by("order")))
    pairs = [group for group in groups if len(group) == 2 and group[0].bot_id]
    return [(bot_name(first.bot_id), bot_name(second.bot_id)) for first, second in pairs]
