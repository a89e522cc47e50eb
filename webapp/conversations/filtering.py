"""Filtering of replies by a study's filters.

Filters check whole replies: single sentences give a classifier too little context, and blocking the last sentence is
too late if the rest has been read. If a study blocks replies, nothing is shown before the check; if it only labels
them, replies appear as usual. One thread per process runs the filters and loads each model once, so the event loop
never blocks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import translation
from django.utils.translation import gettext as _

from chatbots.bots.base import BotError
from chatbots.threads import ContextPool
from webapp.bots.models import BotVersion
from webapp.conversations.models import ReplyMark, Turn
from webapp.core.language import locale_of
from webapp.studies.reply_filters.base import FilterInput, reply_filters
from webapp.studies.settings import StudyValues

logger = logging.getLogger(__name__)
_thread = ContextPool(max_workers=1, thread_name_prefix="reply-filters")
_MOST_REASON = ReplyMark._meta.get_field("reason").max_length


class NotChecked(BotError):
    """Raised if a blocking filter could not check a reply.

    The reply is not shown; the bot's health is not affected.
    """

    is_trouble = False


@dataclass(frozen=True, slots=True)
class FilterLabel:
    """Result of a filter in a reply, as `ReplyMark` stores it."""

    filter: str
    identity: dict[str, Any]
    reason: str
    words: tuple[str, ...] = ()
    is_withheld: bool = False


def withholds(values: StudyValues) -> bool:
    """Return True if a filter of the study may block replies.

    Such replies are checked before they are shown.
    """
    return "withhold" in values.filtering.reply_filters.values()


def names_of(bot: BotVersion) -> tuple[str, ...]:
    """Return the names of a bot: its id, title and model."""
    model = bot.params.get("model")
    return tuple(filter(None, (bot.bot_id, bot.title, model if isinstance(model, str) else "")))


async def reply_check(text: str, filter_input: FilterInput, *, only_marks: bool = False) -> list[FilterLabel]:
    """Return the matches of the study's filters in a reply.

    The event loop is not blocked.

    Raises:
        NotChecked: as `reply_marks`.
    """
    if not filter_input.values.filtering.reply_filters:
        return []
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_thread, reply_marks, text, filter_input, only_marks)


async def filters_load(values: StudyValues) -> None:
    """Run the study's filters once, so that their classifiers are loaded."""
    await reply_check("Hello.", FilterInput(values), only_marks=True)


def reply_marks(text: str, filter_input: FilterInput, only_marks: bool = False) -> list[FilterLabel]:
    """Return the results of the study's filters in a reply.

    A labelling filter that fails leaves a label saying so.

    Args:
        only_marks: True to block nothing, as in self-play, which has no reader.

    Raises:
        NotChecked: a blocking filter is not installed, is unavailable or fails.
    """
    marks = []
    for name, action in filter_input.values.filtering.reply_filters.items():
        is_withheld = action == "withhold" and not only_marks
        try:
            reply_filter = reply_filters.get(name)
            identity = reply_filter.identity(filter_input.values).as_dict()
            match = reply_filter.find(text, filter_input)
        except Exception as error:  # a plug-in's filter may raise any exception
            problem = f"the filter {name} failed: {type(error).__name__}: {error}"
            logger.warning("a reply was not checked: %s", problem)
            if is_withheld:
                raise NotChecked(problem) from error
            marks.append(FilterLabel(name, {"name": name}, _cut(_("Not checked: %s") % problem)))
            continue
        if match is not None:
            marks.append(FilterLabel(name, identity, _cut(match.reason), match.words, is_withheld))
    return marks


def _cut(reason: str) -> str:
    return reason if len(reason) <= (_MOST_REASON or 0) else f"{reason[: (_MOST_REASON or 0) - 1]}…"


def withheld_notice(values: StudyValues) -> str:
    """Return the text shown instead of a blocked reply.

    It is in the study's language.
    """
    with translation.override(locale_of(values.texts.language)):
        return _("This reply was blocked.")


def marks_store(turns: Sequence[Turn], marks: Sequence[Sequence[FilterLabel]]) -> int:
    """Store the labels of some replies; existing labels are kept.

    Returns:
        The number of labels.
    """
    rows = [
        ReplyMark(
            turn=turn,
            filter=label.filter,
            identity=label.identity,
            found=list(label.words),
            reason=label.reason,
            is_withheld=label.is_withheld,
        )
        for turn, labels in zip(turns, marks, strict=True)
        for label in labels
    ]
    ReplyMark.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)
