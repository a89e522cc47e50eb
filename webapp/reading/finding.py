"""Conversations of a study or run that a query finds, for uses other than pages."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import QuerySet

from webapp.conversations.models import Conversation
from webapp.ratings.bots import study_bots
from webapp.ratings.selectors import study_dimensions
from webapp.reading.asking import asked_of
from webapp.reading.fields import Numbers
from webapp.reading.listing import Listing, Source, of_source, people_kept
from webapp.studies.models import Study


def conversations_found(
    source: Source, line: str, *, synthetic: bool = False, without: Sequence[str] = ()
) -> QuerySet[Conversation]:
    """Return the conversations that a line finds, in no order: those that the workbench lists for it.

    Args:
        synthetic: scripted participants' too; they take part in samples and limits.
        without: names of flags; conversations of people with one of them are left out.

    Raises:
        Unreadable: with what is wrong and a line that would work.
    """
    rows, study = of_source(source), None
    if isinstance(source, Study):
        study = source
        numbers, bots = Numbers(study_dimensions(source)), tuple(study_bots(source))
    else:
        numbers, bots = Numbers([]), tuple(source.plan.get("bots", []))
    asked = asked_of(line, numbers, bots=bots, study=study)
    return Listing(people_kept(rows, synthetic=synthetic, without=without), asked, study).fitting
