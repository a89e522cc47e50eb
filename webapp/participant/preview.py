"""Preview of a participant's page in the builder; nothing is stored.

`preview_data` creates a participant at a step, with sample conversations and items. `step_page` requests the real
page as that participant, and `made_preview` prepares it for a frame. The view rolls everything back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from csp.constants import NONE, SELF
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import get_script_prefix, resolve, reverse
from django.utils import translation
from django.utils.html import format_html
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.core.language import LANGUAGES, locale_of
from webapp.core.pages import not_found, staff_refusal
from webapp.core.project_scope import enter_project
from webapp.core.projects import candidate_projects
from webapp.core.rights import Right, may_see_codes
from webapp.participant.access import ParticipantRequest, with_policy
from webapp.participant.entry import EntryRequest
from webapp.participant.preview_data import chat_sample, condition_shown, standing_staged
from webapp.participant.recruitment_links import Recruitment
from webapp.participant.steps.base import Standing, steps, steps_of
from webapp.participant.steps.before_task import entry_page
from webapp.studies.conditions import condition_texts
from webapp.studies.languages import version_speak
from webapp.studies.models import Outcome, Study
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import participant_token, project_of_study, steps_asked, study_by_key

BEFORE_TASKS = ("consent", "instructions")
"""Steps on the study's first page, which needs no participant."""


@dataclass(frozen=True, slots=True)
class Look:
    """Appearance of a preview: parameters of its address besides the step.

    Attributes:
        theme: `light`, `dark` or nothing.
        language: language of the pages; empty: the study's.
        focus: name of the edited value, or key of the edited question; it is outlined.
        still: True to start no animation, as after every change in the builder.
        level: numbers of a factor and of its shown level, such as "1.2"; other factors have their first level.
    """

    theme: str = ""
    language: str = ""
    level: str = ""
    focus: str = ""
    still: bool = False

    def address(self, study_key: str, step: str, **extra: Any) -> str:
        """Return the preview address of another step with the same appearance."""
        query = {"theme": self.theme, "lang": self.language, "level": self.level, **extra}
        query_string = urlencode({name: value for name, value in query.items() if value})
        return f"{reverse('participant:preview', args=[study_key, step])}{query_string and '?'}{query_string}"


@dataclass(frozen=True, slots=True)
class PreviewVisit(ParticipantRequest):
    """Visit of a preview's participant; links to steps lead to previews."""

    progress: Standing | None = None
    look: Look = Look()

    def link(self, name: str, *args: Any, note: str = "", n: int = 0) -> str:
        assert self.progress is not None
        study = self.progress.study
        protocol_steps = reversed(steps_of(study))
        pages = {protocol_step.address(self.progress, _Names()): protocol_step.name for protocol_step in protocol_steps}
        return self.look.address(study.key, pages.get(name, name))

    @property
    def elsewhere(self) -> str:
        """Empty: a preview cannot be continued on another device."""
        return ""


class _Names(ParticipantRequest):
    """Mapping that returns a page's name instead of its address."""

    def link(self, name: str, *args: Any, note: str = "", n: int = 0) -> str:
        return name


def step_page(request: HttpRequest, progress: Standing, step: str, look: Look) -> HttpResponse:
    """Return the page of the step for this participant.

    Raises:
        Http404: if the task has no such step, for example in a study without questions.
    """
    inner = _request(request, look)
    if step in BEFORE_TASKS:
        visit = PreviewVisit(progress=progress, look=look, language=look.language)
        response = entry_page(EntryRequest(inner, progress.study, visit, Recruitment()))
    else:
        assert progress.participant is not None
        token = participant_token(progress.participant)
        view = steps.get(step)
        if not view.is_applicable(progress):
            raise Http404
        parts = urlsplit(view.address(progress, ParticipantRequest(token, progress.participant)))
        inner.path = parts.path
        inner.path_info = f"/{parts.path.removeprefix(get_script_prefix())}"
        inner.visit = PreviewVisit(  # type: ignore[attr-defined]
            token, progress.participant, progress=progress, look=look, language=look.language
        )
        match = resolve(inner.path_info)
        inner.resolver_match = match
        response = match.func(inner, *match.args, **match.kwargs)
    if response.status_code != 200:
        raise Http404
    return response


def made_preview(
    request: HttpRequest, response: HttpResponse, progress: Standing, step: str, look: Look
) -> HttpResponse:
    """Return the page with the preview script and a strict policy.

    The policy also works without the script: the page cannot send anything or open a socket, and only this server's
    pages may frame it. It sets no cookies, because they would belong to no real participant.
    """
    response.content = response.content.replace(b"<head>", b"<head>\n" + _front(progress, step, look).encode(), 1)
    response.cookies.clear()
    response.xframe_options_exempt = False  # type: ignore[attr-defined]
    response["X-Frame-Options"] = "SAMEORIGIN"
    policy = {
        **getattr(response, "_csp_replace", {}),
        "frame-ancestors": [SELF],
        "form-action": [NONE],
        "connect-src": [NONE],
    }
    return with_policy(request, response, policy)


def _front(progress: Standing, step: str, look: Look) -> str:
    """Return the elements to insert before all others."""
    study = progress.study
    # The study's first page has all the steps before a task.
    step_names = steps_asked(study)
    remaining = step_names[step_names.index(step) + 1 :] if step in step_names else []
    following = [name for name in remaining if name not in BEFORE_TASKS]
    # One exchange is left to write, unless the study has only one.
    talk = chat_sample()[: 2 * max(1, study.values.chat.max_exchanges - 1)]
    preview_data = {
        "step": step,
        "focus": look.focus,
        "still": look.still,
        "root": get_script_prefix(),
        "next": look.address(study.key, following[0]) if following else "",
        "done": look.address(study.key, "done", outcome="OUTCOME"),
        "talk": talk,
        "opening": condition_texts(study.values, condition_shown(study, look.level)).opening,
        "least": study.values.chat.min_exchanges,
        # A chat near its end, so that its notice is visible.
        **({"time": {"least_s": None, "most_s": 120, "runs": False}} if study.values.chat.most_minutes else {}),
    }
    return format_html(
        '<meta name="confab-preview" content="{}">\n'
        '<link rel="stylesheet" href="{}">\n'
        '<script type="module" src="{}"></script>',
        json.dumps(preview_data),
        static("participant/preview.css"),
        static("participant/preview.js"),
    )


def _request(request: HttpRequest, look: Look) -> HttpRequest:
    """Return a request of a new visitor."""
    inner = HttpRequest()
    inner.method = "GET"
    inner.META = {name: value for name, value in request.META.items() if name != "HTTP_COOKIE"}
    inner.META["QUERY_STRING"] = ""
    inner.GET = QueryDict("")
    inner.COOKIES = {"theme": look.theme} if look.theme else {}
    inner.session = SessionStore()
    inner.user = AnonymousUser()
    return inner


@require_safe
@never_cache
def preview(request: HttpRequest, study_key: str, step: str) -> HttpResponseBase:
    """Show a step of the study to staff as participants see it now.

    The study's state does not matter, and nothing is stored. A step without content in this study leads to the first
    page.
    """
    if request.user.is_authenticated:
        keys = list(candidate_projects(request))
        owner = project_of_study(study_key)
        enter_project(owner if owner in keys else keys[0])
    refused = staff_refusal(request, Right.READ)
    if refused is None and step == "done" and not may_see_codes(request.user):
        refused = staff_refusal(request, Right.PAY)
    if refused is not None:
        return refused
    try:
        study = study_by_key(study_key)
        protocol_steps = protocols.get(study.protocol).steps
        if step not in [protocol_step.name for protocol_step in protocol_steps]:
            raise Http404
        look = _look(request)
        step_names = steps_asked(study)
        if step not in step_names:  # not in this study, or not yet
            return redirect(look.address(study.key, step_names[0]))
        locale = locale_of(look.language or study.values.texts.language)
        with translation.override(locale):
            return _render_preview(request, study, step, look)
    except (Study.DoesNotExist, Http404):
        return not_found(request)


def _render_preview(request: HttpRequest, study: Study, step: str, look: Look) -> HttpResponse:
    if step in BEFORE_TASKS:
        version_speak(study.version, look.language)
        progress = Standing(study)
        page = step_page(request, progress, step, look)
        return made_preview(request, page, progress, step, look)
    outcome = request.GET.get("outcome", "")
    ended = Outcome(outcome) if outcome in Outcome.values else Outcome.RATED
    with transaction.atomic():
        is_missed, condition = request.GET.get("missed") == "1", condition_shown(study, look.level)
        progress = standing_staged(study, step, ended, is_missed=is_missed, condition=condition)
        page = step_page(request, progress, step, look)
        transaction.set_rollback(True)
    return made_preview(request, page, progress, step, look)


def _look(request: HttpRequest) -> Look:
    """Return the appearance requested in the address, without unknown values."""
    query = request.GET
    theme, language = query.get("theme", ""), query.get("lang", "")
    return Look(
        theme=theme if theme in ("light", "dark") else "",
        language=language if language in LANGUAGES else "",
        level=query.get("level", "")[:5],
        focus=query.get("focus", "")[:100],
        still=query.get("still") == "1",
    )
