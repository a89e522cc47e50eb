"""Steps of the builder in order, each with form and preview.

Steps are links and can be visited in any order. Forms save at every change.
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase, JsonResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse

from chatbots.registry import title_of
from webapp.core.pages import staff_refusal
from webapp.core.rights import Right, may, may_see_codes
from webapp.dashboard.builder.attention_checks import ChecksStep
from webapp.dashboard.builder.base import BuildStep, Plan, preview_of
from webapp.dashboard.builder.checklist import CheckStep
from webapp.dashboard.builder.conditions import ConditionsStep
from webapp.dashboard.builder.forms import SettingsForm, title_of_value, value_words
from webapp.dashboard.builder.materials import BotsStep, GeneralStep, TextsStep
from webapp.dashboard.builder.pay import PayStep
from webapp.dashboard.builder.questions import QuestionsStep
from webapp.dashboard.builder.sittings import SittingsStep
from webapp.dashboard.navigation import form_view, page, read_view, study_of
from webapp.dashboard.recruitment import participant_link, walk_link
from webapp.dashboard.views.builder.lifecycle import opening
from webapp.insights import selectors
from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.versions import EditedMeanwhile, state_of

STEPS: tuple[BuildStep, ...] = (BotsStep(), TextsStep(), QuestionsStep(), PayStep(), CheckStep())


GENERAL = GeneralStep()
WITHIN: tuple[BuildStep, ...] = (ConditionsStep(), ChecksStep(), SittingsStep(), GENERAL)
"""Pages that belong to a step and are opened from it."""


def step_of(name: str, study: Study) -> BuildStep | None:
    """Return the study's step, or page within a step, of this name.

    None if there is none.
    """
    known = (GENERAL,) if study.is_imported else (*STEPS, *WITHIN)
    return next((step for step in known if step.name == name), None)


def step_after(step: BuildStep) -> BuildStep | None:
    """Return the next step; None after the last."""
    place = _place(step)
    return STEPS[place + 1] if place + 1 < len(STEPS) and step is not GENERAL else None


def step_before(step: BuildStep) -> BuildStep | None:
    """Return the previous step, or the one that a page belongs to.

    None for the first.
    """
    place = _place(step)
    if step.within:
        return STEPS[place]
    return STEPS[place - 1] if place else None


def _place(step: BuildStep) -> int:
    return next(index for index, listed_step in enumerate(STEPS) if listed_step.name == (step.within or step.name))


@read_view()
def build(request: HttpRequest, study: Study) -> HttpResponse:
    """Redirect to the first step.

    An imported study has only one page.
    """
    return redirect("dashboard:study_build_step", study.key, GENERAL.name if study.is_imported else STEPS[0].name)


@form_view(to_post=[Right.ADMINISTER])
def build_step(request: HttpRequest, key: str, step: str) -> HttpResponseBase:
    """Show a step, or save it.

    A POST by script (`Accept: application/json`) returns the outcome as JSON, any other POST a page.
    """
    study = study_of(key)
    shown_step = step_of(step, study)
    if shown_step is None:
        raise Http404(f"no step {step} of {key}")
    if shown_step.name == "pay" and not may_see_codes(request.user):
        return staff_refusal(request, Right.PAY) or redirect("dashboard:studies")
    if request.method != "POST":
        return _page(request, Plan(study), shown_step)
    if "_state" in request.POST:
        return opening(request, study) or _page(request, Plan(study_of(key)), shown_step)
    return _save(request, Plan(study), shown_step)


def _save(request: HttpRequest, plan: Plan, step: BuildStep) -> HttpResponse:
    form = step.form(plan, request.POST)
    if form is None:
        return _onward(request, plan.study, step)
    conflict: dict[str, Any] | None = None
    if form.is_valid():
        changes = form.changes()
        # A user who keeps their own values states which stored state they have seen.
        seen = request.POST.get("_keep") or request.POST.get("_seen")
        try:
            saved = step.save(plan, form, author=request.user.get_username(), seen=seen)
        except EditedMeanwhile as error:
            plan = Plan(error.study)
            conflict = _conflict(request, plan.study, changes)
        except ValidationError as error:
            for field, sentences in error.message_dict.items():
                for sentence in sentences:
                    form.tell(field, sentence)
        else:
            plan = Plan(saved)
            if not _by_script(request):
                return _onward(request, saved, step, step.onward(form))
    if _by_script(request):
        return JsonResponse(_outcome(request, plan, step, form, conflict))
    return _page(request, plan, step, form=form, conflict=conflict)


def _by_script(request: HttpRequest) -> bool:
    return request.headers.get("Accept") == "application/json"


def _onward(request: HttpRequest, study: Study, step: BuildStep, place: str = "") -> HttpResponse:
    after = step_after(step)
    if "_next" in request.POST and after:
        return redirect("dashboard:study_build_step", study.key, after.name)
    return redirect(reverse("dashboard:study_build_step", args=[study.key, step.name]) + place)


def _conflict(request: HttpRequest, stored: Study, entered: dict[str, Any]) -> dict[str, Any]:
    """Return a conflicting save's author and values, next to the new ones."""
    flat = stored.values.flat()
    compared = [
        (name, value_words(flat.get(name, getattr(stored, name, None))), value_words(value))
        for name, value in entered.items()
    ]
    rows = [
        (title_of_value(name), theirs, entered_words)
        for name, theirs, entered_words in compared
        if theirs != entered_words
    ]
    version = stored.version
    is_own = version.author == request.user.get_username()
    return {
        "author": "You" if is_own else version.author or "A program",
        "elsewhere": is_own,
        "number": version.number,
        "next": version.number if is_own and version.frozen_at is None else version.number + 1,
        "rows": rows,
        "seen": state_of(stored, entered),
    }


def _outcome(
    request: HttpRequest, plan: Plan, step: BuildStep, form: SettingsForm, conflict: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the response data that the page's script shows after saving."""
    version = plan.study.version
    outcome: dict[str, Any] = {
        "saved": not form.errors and conflict is None,
        "errors": {name: list(sentences) for name, sentences in form.errors.items()},
        "version": version.number,
        "at": (version.saved_at or version.created_at).isoformat(),
        "seen": state_of(plan.study, form.changeable),
        **form.script_data(),
        "steps": {
            listed_step.name: {"words": state.words, "tone": state.tone}
            for listed_step in STEPS
            for state in [listed_step.state(plan)]
        },
    }
    if step.live_template:
        context = {"study": plan.study, **step.live(plan)}
        outcome["live"] = render_to_string(f"dashboard/builder/{step.live_template}", context, request)
    if conflict:
        context = {"conflict": conflict}
        outcome["conflict"] = render_to_string("dashboard/builder/_conflict.html", context, request)
    return outcome


def _page(
    request: HttpRequest,
    plan: Plan,
    step: BuildStep,
    *,
    form: SettingsForm | None = None,
    conflict: dict[str, Any] | None = None,
) -> HttpResponse:
    study = plan.study
    form = form or step.form(plan)
    state, pill = selectors.study_state(study)
    may_edit = may(request.user, Right.ADMINISTER)
    link = participant_link(request, study)
    seen = state_of(study, form.changeable) if form else ""
    if conflict is None and form is not None and form.is_bound:
        seen = request.POST.get("_seen", seen)
    return page(
        request,
        "builder/step.html",
        "studies",
        study=study,
        step=step,
        heading=step.heading_in(plan),
        step_template=f"dashboard/builder/{step.template}",
        form=form,
        seen=conflict["seen"] if conflict else seen,
        conflict=conflict,
        may_edit=may_edit,
        steps=[
            (listed_step, listed_step.title_in(plan), listed_step.state(plan), number)
            for number, listed_step in enumerate(STEPS, start=1)
        ],
        next_step=step_after(step),
        previous_step=step_before(step),
        protocol=title_of(protocols, study.protocol),
        state_title=state,
        state_pill=pill,
        participant_link=link,
        preview=preview_of(study, request.GET, step_name=step.name) if plan.protocol and step is not GENERAL else None,
        walk_link=walk_link(request, study) if may_edit else "",
        saved_at=study.version.saved_at or study.version.created_at,
        rows=step.rows(plan, form) if form else [],
        live_template=f"dashboard/builder/{step.live_template}",
        **step.context(request, plan),
    )
