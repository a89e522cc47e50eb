"""The real page of a step, asked as its participant would ask for it, and made fit for a frame."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from csp.constants import NONE, SELF
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.templatetags.static import static
from django.urls import get_script_prefix, resolve, reverse
from django.utils.html import format_html

from webapp.participant.access import Visit, with_policy
from webapp.participant.arrivals import Arrival
from webapp.participant.preview.samples import chat_sample
from webapp.participant.recruitment import Recruitment
from webapp.participant.steps.base import Standing, steps
from webapp.participant.steps.consent import entry_page
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import participant_token, steps_asked

BEFORE_TASKS = ("consent", "instructions")
"""Steps on the study's first page, which asks for no participant."""


@dataclass(frozen=True, slots=True)
class Look:
    """Appearance of a preview: the parameters of its address, the step excepted.

    Attributes:
        theme: `light`, `dark` or nothing.
        language: language of the pages; empty: the study's.
        focus: name of the value or key of the question that is being edited; it is outlined.
        still: True to start no animation, as after every change in the builder.
    """

    theme: str = ""
    language: str = ""
    focus: str = ""
    still: bool = False

    def address(self, study_key: str, step: str, **more: Any) -> str:
        """Return the address of the preview of a step that looks the same."""
        query = {"theme": self.theme, "lang": self.language, **more}
        given = urlencode({name: value for name, value in query.items() if value})
        return f"{reverse('participant:preview', args=[study_key, step])}{given and '?'}{given}"


@dataclass(frozen=True, slots=True)
class PreviewVisit(Visit):
    """Visit of a participant created for a preview: every link to a step leads to its preview."""

    standing: Standing | None = None
    look: Look = Look()

    def link(self, name: str, *args: Any, note: str = "", n: int = 0) -> str:
        assert self.standing is not None
        study = self.standing.study
        way = [steps.get(step.name) for step in protocols.get(study.protocol).steps]
        pages = {one.address(self.standing, _Names()): one.name for one in reversed(way)}
        return self.look.address(study.key, pages.get(name, name))

    @property
    def elsewhere(self) -> str:
        """Empty: a preview cannot be continued on another device."""
        return ""


class _Names(Visit):
    """Gives the name of a page in place of its address."""

    def link(self, name: str, *args: Any, note: str = "", n: int = 0) -> str:
        return name


def step_page(request: HttpRequest, standing: Standing, step: str, look: Look) -> HttpResponse:
    """Return the page of the step as this participant gets it.

    Raises:
        Http404: if the task has no such step, for example in a study without questions.
    """
    inner = _request(request, look)
    if step in BEFORE_TASKS:
        visit = PreviewVisit(standing=standing, look=look, language=look.language)
        response = entry_page(Arrival(inner, standing.study, visit, Recruitment()))
    else:
        assert standing.participant is not None
        token = participant_token(standing.participant)
        view = steps.get(step)
        if not view.is_applicable(standing):
            raise Http404
        parts = urlsplit(view.address(standing, Visit(token, standing.participant)))
        inner.path = parts.path
        inner.path_info = f"/{parts.path.removeprefix(get_script_prefix())}"
        inner.visit = PreviewVisit(  # type: ignore[attr-defined]
            token, standing.participant, standing=standing, look=look, language=look.language
        )
        match = resolve(inner.path_info)
        inner.resolver_match = match
        response = match.func(inner, *match.args, **match.kwargs)
    if response.status_code != 200:
        raise Http404
    return response


def made_preview(
    request: HttpRequest, response: HttpResponse, standing: Standing, step: str, look: Look
) -> HttpResponse:
    """Return the page with a script in front that makes it a preview, and a policy that holds without it.

    The page can send nothing and open no socket, whatever its scripts do, and only this server's own pages
    may frame it. It sets no cookies: those of the page would belong to no real participant.
    """
    response.content = response.content.replace(
        b"<head>", b"<head>\n" + _front(standing, step, look).encode(), 1
    )
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


def _front(standing: Standing, step: str, look: Look) -> str:
    """Return the elements in front of all others."""
    study = standing.study
    # The study's first page holds all the steps before a task.
    asked = steps_asked(study)
    left = asked[asked.index(step) + 1 :] if step in asked else []
    following = [name for name in left if name not in BEFORE_TASKS]
    # One exchange is left to write, unless the study has one alone.
    talk = chat_sample()[: 2 * max(1, study.values.chat.max_exchanges - 1)]
    told = {
        "step": step,
        "focus": look.focus,
        "still": look.still,
        "root": get_script_prefix(),
        "next": look.address(study.key, following[0]) if following else "",
        "done": look.address(study.key, "done", outcome="OUTCOME"),
        "talk": talk,
        "least": study.values.chat.min_exchanges,
    }
    return format_html(
        '<meta name="confab-preview" content="{}">\n'
        '<link rel="stylesheet" href="{}">\n'
        '<script type="module" src="{}"></script>',
        json.dumps(told),
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
