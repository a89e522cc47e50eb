"""Opening, pausing and closing a study from the builder."""

from __future__ import annotations

import logging

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from webapp.core.speaking import plural
from webapp.dashboard.build.base import Plan
from webapp.dashboard.build.checklist import findings_of, stops
from webapp.studies.models import Study
from webapp.studies.versions import study_revise

ALLOWED = {
    Study.State.COLLECTING: (Study.State.DRAFT, Study.State.PAUSED, Study.State.ENDED),
    Study.State.PAUSED: (Study.State.COLLECTING,),
    Study.State.ENDED: (Study.State.COLLECTING, Study.State.PAUSED),
}
"""To which state a button leads, from which."""
logger = logging.getLogger(__name__)


def opening(request: HttpRequest, study: Study) -> HttpResponse | None:
    """Change the study's state as the button says; None where it cannot be, with the reason in a message."""
    wanted = request.POST["_state"]
    if not state_change(request, study, wanted):
        return None
    if wanted == Study.State.COLLECTING and study.state != wanted:
        return redirect("dashboard:study", study.key)
    return redirect("dashboard:study_build_step", study.key, "check")


def state_change(request: HttpRequest, study: Study, wanted: str) -> bool:
    """Change the study's state and say so in a message; False where it cannot be, with the reason in a message."""
    if wanted == study.state:
        return True
    if wanted not in ALLOWED or study.state not in ALLOWED[Study.State(wanted)]:
        messages.error(
            request,
            f"A study that is {study.get_state_display().lower()} cannot become that.",
        )
        return False
    plan = Plan(study)
    missing = stops(findings_of(plan)) if wanted == Study.State.COLLECTING else []
    if study.state == Study.State.PAUSED:
        # It was open, so whoever opened it first saw to that.
        missing = [one for one in missing if one.step != "walk"]
    if missing:
        told = " ".join(f"{one.lead} {one.rest}".strip() for one in missing)
        messages.error(request, f"The study stays closed: {told}")
        return False
    author = request.user.get_username()
    try:
        study_revise(study=study, changes={"state": wanted}, author=author)
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
        return False
    logger.info("study %s is %s, by %s", study.key, wanted, author)
    said = {
        Study.State.COLLECTING: "The study is open. Send people its link.",
        Study.State.PAUSED: "Paused: whoever is inside may finish, nobody new starts.",
        Study.State.ENDED: "Closed. The link now says that the study has ended.",
    }
    messages.success(request, said[Study.State(wanted)])
    if wanted == Study.State.COLLECTING and plan.gives == "bots" and plan.not_loaded:
        told = plural(
            len(plan.not_loaded),
            "%(n)d of its bots is not loaded yet. Its first participant may wait for a reply.",
            "%(n)d of its bots are not loaded yet. Their first participants may wait for a reply.",
        )
        messages.info(request, told % {"n": len(plan.not_loaded)})
    return True
