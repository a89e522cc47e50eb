"""Votes and reports on replies, and marks of reports as seen."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from chatbots.text import sanitise_input
from webapp.conversations.models import Conversation, DistressMark, ReplyReport, Turn
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.studies.models import Item, Participant, Study
from webapp.studies.refusals import CHAT_TO_RATE, NO_SUCH_REPLY


def vote_set(*, conversation_id: UUID, turn_index: int, value: int) -> None:
    """Store a vote on a bot turn, until the chat is rated.

    This takes one conditional UPDATE.

    Raises:
        Refused: `closed`, or `bad_frame` for a turn that is not the bot's.
    """
    n_changed = Turn.objects.filter(
        conversation_id=conversation_id,
        index=turn_index,
        speaker=Turn.Speaker.BOT,
        conversation__state=Conversation.State.OPEN,
    ).update(vote=value)
    if n_changed:
        return
    state = Conversation.objects.filter(pk=conversation_id).values_list("state", flat=True).first()
    if state != Conversation.State.OPEN:
        raise CHAT_TO_RATE.refused(turn=turn_index)
    raise NO_SUCH_REPLY.refused(turn=turn_index)


def reply_report(
    *,
    participant: Participant,
    reason: str,
    words: str = "",
    turn: Turn | None = None,
    item: Item | None = None,
    response: int | None = None,
) -> ReplyReport:
    """Store a report of a conversation's `turn` or an item's `response`.

    Repeating a report changes nothing; a changed reason or text replaces the earlier one and marks the report as
    unseen.

    Raises:
        Refused: `bad_report`, with what is missing; nothing is stored.
    """
    if reason not in ReplyReport.Reason.values:
        raise Refused("bad_report", _("Choose what is wrong with the reply."))
    words = sanitise_input(words)[: ReplyReport.MOST_CHARS]
    if reason == ReplyReport.Reason.OTHER and not words:
        raise Refused("bad_report", _("Describe the problem in a few words."))
    which = {"participant": participant, "turn": turn, "item": item, "response": response}
    with transaction.atomic():
        report, is_new = ReplyReport.objects.select_for_update(of=("self",)).get_or_create(
            **which, defaults={"reason": reason, "words": words}
        )
        if not is_new and (report.reason, report.words) != (reason, words):
            report.reason, report.words = reason, words
            report.seen_at, report.seen_by = None, ""
            report.save()
    return report


def reports_see(*, study: Study, reports: Collection[int] | None, user_name: str) -> int:
    """Mark a study's reports as seen; return how many were unseen.

    Args:
        reports: reports to mark; None for all.
        user_name: the name of the user who saw them.
    """
    condition = Q(participant__study=study, seen_at=None)
    if reports is not None:
        condition &= Q(pk__in=list(reports))
    unseen_reports = ReplyReport.objects.filter(condition)
    return unseen_reports.update(seen_at=database_now(), seen_by=user_name[:150])


def distress_marks_see(*, study: Study, user_name: str) -> int:
    """Note that staff have seen the study's marked messages; return how many were new."""
    unseen = DistressMark.objects.filter(turn__conversation__study=study, seen_at=None)
    return unseen.update(seen_at=database_now(), seen_by=user_name[:150])
