"""The tab Collect: where it begins, and the places of a study."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from webapp.conversations.selectors import synthetic_count
from webapp.dashboard import selectors
from webapp.dashboard.access import staff_only
from webapp.dashboard.places import places_of
from webapp.dashboard.tabs import COLLECT, pages_open_to
from webapp.dashboard.views.study import study_of, study_page, synthetic_asked
from webapp.studies.selectors import judges_items


@require_safe
@staff_only
def collect(request: HttpRequest, key: str) -> HttpResponse:
    """Open the first page of the tab that this user may see, or the overview of an imported study."""
    study = study_of(key)
    pages = pages_open_to(request.user, COLLECT, study)
    return redirect(f"dashboard:{pages[0].route if pages else 'study'}", study.key)


@require_safe
@staff_only
def places(request: HttpRequest, key: str) -> HttpResponse:
    """Show which places are taken, bot by bot, and who holds one now."""
    study = study_of(key)
    synthetic = synthetic_asked(request)
    found = places_of(study, include_synthetic=synthetic)
    judges = judges_items(study)
    progress = [] if judges else selectors.bot_progress(study, include_synthetic=synthetic)
    titles = {bot.bot_id: bot.title for bot in progress}
    return study_page(
        request,
        "places.html",
        study,
        "places",
        places=found,
        n_synthetic=synthetic_count(study),
        held_minutes=study.values.assignment.place_minutes,
        rows=[
            (
                bot,
                found.held.get(bot.bot_id, 0),
                found.lapsed.get(bot.bot_id, 0),
                study.values.assignment.quota_of(bot.bot_id),
            )
            for bot in progress
        ],
        cards=selectors.study_cards(study, include_synthetic=synthetic),
        holders=[
            (holder, ", ".join(titles.get(bot_id, bot_id) for bot_id in holder.bot_ids))
            for holder in found.holders
        ],
        judges_items=judges,
    )
