"""Writes of reports: a participant reports a reply, staff have seen it."""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from chatbots.storable import given_text
from webapp.conversations.models import ReplyReport, Turn
from webapp.core.errors import Refused
from webapp.studies.models import Item, Participant, Study


def reply_report(
    *,
    participant: Participant,
    reason: str,
    words: str = "",
    turn: Turn | None = None,
    item: Item | None = None,
    response: int | None = None,
) -> ReplyReport:
    """Store that somebody reports a reply: of a conversation (`turn`), or the one numbered `response` of an item.

    The same report again changes nothing; another reason or other words take the place of the earlier ones, and staff
    are shown it anew.

    Raises:
        Refused: `bad_report`, with what is missing; nothing is stored.
    """
    if reason not in ReplyReport.Reason.values:
        raise Refused("bad_report", _("Choose what is wrong with the reply."))
    words = given_text(words)[: ReplyReport.MOST_CHARS]
    if reason == ReplyReport.Reason.OTHER and not words:
        raise Refused("bad_report", _("Say in a few words what is wrong."))
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


def reports_see(*, study: Study, reports: Collection[int] | None, by: str) -> int:
    """Store that staff have seen reports of a study; return the number of those not seen before.

    Args:
        reports: which; None for all of them.
        by: the name of the user who saw them.
    """
    wanted = Q(participant__study=study, seen_at=None)
    if reports is not None:
        wanted &= Q(pk__in=list(reports))
    found = ReplyReport.objects.filter(wanted)
    return found.update(seen_at=timezone.now(), seen_by=by[:150])
