"""Access to participants' pages: identity, forged posts, and framing.

A session stores each of its participants (one per study) with their number of moves to another device at that time.
Recruitment frames have no cookies; their links (`t`) and forms (`_t`) contain the same in a signed token, only if
needed: if the request came with one, or if the entry form came without any cookie of ours. After a later move, the
session and token of the earlier device are no longer valid. No page sends a referrer with a path.

Forgery: a forged request uses the cookies of the victim's browser. Without any cookie of ours there is nothing to
misuse, and Django's check would always fail. So a request without cookies is accepted by a signed field alone (the
participant's token, or the entry form's), and never gets a session; every other request passes Django's check.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from csp.constants import NONE, SELF
from csp.decorators import csp_replace
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import translation
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt, csrf_protect

from webapp.conversations.models import Conversation
from webapp.conversations.selectors import conversation_for
from webapp.core.language import activate_language, locale_for, locale_of
from webapp.core.pages import not_found
from webapp.participant.page_texts import study_texts
from webapp.participant.recruitment_links import (
    MTURK_FRAMES,
    PLATFORM_NAMES,
    Recruitment,
    recruitment_read,
    recruitment_unsign,
)
from webapp.studies.languages import version_speak
from webapp.studies.models import Outcome, Participant, Study, StudyVersion, Task
from webapp.studies.recruitment.settings import frame_origins
from webapp.studies.selectors import known_as, known_read, participant_from_token, study_by_key, task_for, token_read

_SESSION_KEY = "participants"

Known = Mapping[UUID, int]
"""Participants by id, with their number of moves when this browser became them."""


def participant_remember(session: Any, participant: Participant) -> None:
    """Store this participant of the study in the session."""
    session[_SESSION_KEY] = {**session.get(_SESSION_KEY, {}), participant.study.key: known_as(participant)}


def known_in_study(session: Any, study_key: str) -> tuple[UUID, int] | None:
    """Return the session's participant in the study.

    It comes with their number of moves. None without one.
    """
    value = session.get(_SESSION_KEY, {}).get(study_key)
    return known_read(value) if value else None


def known_of(session: Any, token: str) -> Known:
    """Return every participant that the session or token has identified."""
    moves_by_participant: dict[UUID, int] = {}
    values = [*session.get(_SESSION_KEY, {}).values()]
    pairs = [known_read(value) for value in values]
    if token and (token_pair := token_read(token)):
        pairs.append(token_pair)
    for person, n_moves in pairs:
        moves_by_participant[person] = max(n_moves, moves_by_participant.get(person, 0))
    return moves_by_participant


def sessions_forget(people: Collection[UUID]) -> None:
    """Remove erased participants from browsers' sessions.

    SQL cannot query the content of a session.
    """
    for session in Session.objects.iterator(chunk_size=500):
        content = session.get_decoded()
        known = content.get(_SESSION_KEY, {})
        remaining = {study: signed_id for study, signed_id in known.items() if known_read(signed_id)[0] not in people}
        if len(remaining) < len(known):
            session.session_data = SessionStore().encode({**content, _SESSION_KEY: remaining})
            session.save(update_fields=["session_data"])


def is_here(known: Known, participant: Participant) -> bool:
    """Return True unless the participant has moved to another device."""
    return known.get(participant.pk) == participant.n_moves


View = Callable[..., HttpResponse]


@dataclass(frozen=True, slots=True)
class ParticipantRequest:
    """One request to the participants' pages.

    Attributes:
        token: participant token in links and forms; empty if the session identifies the participant.
        participant: participant whom the token identifies; None without one.
        language: language of the pages in a preview; empty: the study's.
        left: participant whose token came from a device that they have left.
        task: the open task whose page is shown.
        person: participant identified by the request or the session; None for unknown visitors.
        entry: signed parameters of a platform's ended visit; with them its participant can write to the researchers
            from any browser, but read nothing.
    """

    token: str = ""
    participant: Participant | None = None
    language: str = field(default="", kw_only=True)
    moved_participant: Participant | None = field(default=None, kw_only=True)
    task: UUID | None = field(default=None, kw_only=True)
    person: Participant | None = field(default=None, kw_only=True)
    entry: str = field(default="", kw_only=True)
    study_key: str = field(default="", kw_only=True)

    def locale(self, version: StudyVersion | None) -> str:
        """Return the page language of this study version, as a Django locale."""
        study_language = version.values.texts.language if version else settings.LANGUAGE_CODE
        return locale_of(self.language or study_language)

    def link(self, name: str, *args: Any, note: str = "", n: int = 0) -> str:
        """Return the address of a participant page.

        It may contain the token, a short note or a number.
        """
        carried = (("t", self.token), ("note", note), ("n", n))
        query = {key: value for key, value in carried if value}
        address = reverse(f"participant:{name}", args=args)
        return f"{address}?{urlencode(query)}" if query else address

    @property
    def elsewhere(self) -> str:
        """Address of the page that creates a link to another device.

        Empty without an open task.
        """
        return self.link("elsewhere", self.task) if self.task else ""

    @property
    def translated(self) -> str:
        """Address that records a translated page; empty without an open task."""
        return self.link("translated", self.task) if self.task else ""

    @property
    def messages(self) -> str:
        """Address of the messages to the researchers; empty for unknown visitors."""
        if self.person:
            return self.link("messages", self.person.study.key)
        return f"{self.link('messages', self.study_key)}?{urlencode({'_entry': self.entry})}" if self.entry else ""

    @property
    def withdrawal(self) -> str:
        """Address for withdrawing during a task; empty without an open task."""
        return self.link("withdraw-here", self.task) if self.task else ""


def visit_of(request: HttpRequest) -> ParticipantRequest:
    """Return the visit, with the request's token if it is valid.

    A preview sets its own visit.
    """
    preset_visit = getattr(request, "visit", None)
    if isinstance(preset_visit, ParticipantRequest):
        return preset_visit
    token = request.POST.get("_t") or request.GET.get("t") or ""
    participant = participant_from_token(token) if token else None
    if participant is None:
        return ParticipantRequest()
    token_pair = token_read(token)
    if token_pair is not None and token_pair[1] != participant.n_moves:
        return ParticipantRequest(moved_participant=participant)
    return ParticipantRequest(token, participant)


def has_cookies(request: HttpRequest) -> bool:
    """Return True if the session's or the CSRF check's cookie arrived."""
    names = (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)
    return any(name in request.COOKIES for name in names)


def study_page(view: View) -> View:
    """Make `view(request, study, visit)` serve a study's address.

    An unknown key gets 404.
    """

    @csrf_exempt
    @never_cache
    @wraps(view)
    def page(request: HttpRequest, study_key: str) -> HttpResponse:
        try:
            study = study_by_key(study_key)
        except Study.DoesNotExist:
            return not_found(request)
        visit = visit_of(request)
        if visit.participant is not None and visit.participant.study_id != study.pk:
            visit = ParticipantRequest()
        if visit.moved_participant is not None and visit.moved_participant.study_id == study.pk:
            return moved_page(request, study, visit.moved_participant)
        sent = recruitment_unsign(study, request.POST.get("_entry", ""))
        signed = visit.participant is not None or sent is not None
        came = sent or recruitment_read(study, request.GET)
        version_speak(study.version, visit.language or _language(request, study, visit, came))
        with activate_language(request, visit.locale(study.version)):
            response = checked(view, request, signed)(request, study, visit)
        platform = came.platform
        if visit.participant is not None:
            platform = visit.participant.platform
        return framed(request, study, platform, response)

    return page


def conversation_page(view: View) -> View:
    """Make `view(request, conversation, visit)` serve the chat's participant.

    Others get 404.
    """
    return _own_page(view, conversation_for)


def task_page(view: View) -> View:
    """Make `view(request, task, visit)` serve the task's participant.

    Others get 404.
    """
    return _own_page(view, task_for)


def _own_page(view: View, find: Callable[[Known, UUID], Conversation | Task | None]) -> View:
    @csrf_exempt
    @never_cache
    @wraps(view)
    def page(request: HttpRequest, **address: UUID) -> HttpResponse:
        visit = visit_of(request)
        known = known_of(request.session, _token(request, visit))
        [key] = address.values()
        row = find(known, key)
        if row is None or row.participant is None:
            ended = Task.objects.filter(participant__in=list(known), outcome=Outcome.WITHDRAWN).order_by("-pk").first()
            return redirect(visit.link("task-done", ended.public_id)) if ended is not None else _not_found(request)
        participant, task = row.participant, row if isinstance(row, Task) else row.task
        if not is_here(known, participant):
            return moved_page(request, participant.study, participant)
        visit = replace(visit, person=participant)
        if task is not None and task.state == Task.State.OPEN:
            visit = replace(visit, task=task.public_id)
        if visit.participant is not None and visit.participant.pk != participant.pk:
            visit = replace(visit, token="", participant=None)
        signed = visit.participant is not None
        for record in (row, task, participant.study):
            if record is not None and record.version is not None:
                version_speak(record.version, visit.language or participant.language)
        with activate_language(request, visit.locale(row.version)):
            response = checked(view, request, signed)(request, row, visit)
        return framed(request, participant.study, participant.platform, response)

    return page


def _language(request: HttpRequest, study: Study, visit: ParticipantRequest, came: Recruitment) -> str:
    """Return the language of the participant's consent.

    Otherwise that of their link or form.
    """
    if not study.values.texts.languages:
        return ""
    people = Participant.objects.filter(study=study, is_synthetic=False, consented_at__isnull=False)
    known = Q(pk__in=list(known_of(request.session, _token(request, visit))))
    if came.external_id:
        known = Q(platform_ids__platform=came.platform, platform_ids__external_id=came.external_id)
    return people.filter(known).values_list("language", flat=True).first() or came.language


def _token(request: HttpRequest, visit: ParticipantRequest) -> str:
    """Return the request's token.

    Also of a device that the participant has left.
    """
    return visit.token or request.POST.get("_t") or request.GET.get("t") or ""


def moved_page(request: HttpRequest, study: Study, participant: Participant) -> HttpResponse:
    """Show that the participant has continued on another device."""
    version_speak(study.version, participant.language)
    context = {
        **study_texts(study, study.version),
        "has_sent": request.method == "POST",
        "platform": PLATFORM_NAMES.get(participant.platform, ""),
    }
    with activate_language(request, ParticipantRequest().locale(study.version)):
        response = render(request, "participant/moved.html", context, status=409)
    return framed(request, study, participant.platform, response)


def _not_found(request: HttpRequest) -> HttpResponse:
    with translation.override(locale_for(request)):
        return render(request, "participant/not_found.html", status=404)


def checked(view: View, request: HttpRequest, signed: bool) -> View:
    """Return the view without the CSRF check if a signed field replaces it.

    The field replaces missing cookies.
    """
    return view if signed and not has_cookies(request) else csrf_protect(view)


def framed(request: HttpRequest, study: Study, platform: str, response: HttpResponse) -> HttpResponse:
    """Allow framing by the study's origins and by the visit's platform.

    Every link accepts Mechanical Turk's parameters, so every study may recruit there. Its frame needs no setting,
    because a task that cannot be framed cannot be done. Other visits allow no frame.
    """
    origins = frame_ancestors(study)
    if platform == "mturk":
        origins = [*dict.fromkeys([*origins, *MTURK_FRAMES])]
    if origins:
        response.xframe_options_exempt = True  # type: ignore[attr-defined]
    policy = {**getattr(response, "_csp_replace", {}), "frame-ancestors": origins or [NONE]}
    return with_policy(request, response, policy)


def frame_ancestors(study: Study) -> list[str]:
    """Return the valid origins in the study's field."""
    return frame_origins(study.values.recruitment.frame_ancestors)[0]


def with_policy(request: HttpRequest, response: HttpResponse, policy: Mapping[str, Any]) -> HttpResponse:
    """Return the response with these Content-Security-Policy directives."""
    return csp_replace(dict(policy))(lambda _request: response)(request)  # type: ignore[return-value]


def form_action(*addresses: str) -> dict[str, list[str]]:
    """Return the directive that allows forms to post to these addresses."""
    return {"form-action": [SELF, *addresses]}
