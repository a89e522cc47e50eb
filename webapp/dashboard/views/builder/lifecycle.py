"""Lifecycle of a study: creation, opening, copies, archive, deletion, and versions."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from chatbots.validation import ValuesError
from webapp.bots.selectors import bot_entry_list
from webapp.core.errors import Refused
from webapp.core.language import LANGUAGES, plural
from webapp.core.pages import server_address
from webapp.core.rights import Right
from webapp.dashboard.builder.base import Plan
from webapp.dashboard.builder.checklist import findings_of, stops
from webapp.dashboard.navigation import form_view, page, post_view, read_view
from webapp.insights.narrative.phrases import listed
from webapp.jobs.services.jobs import job_create
from webapp.studies.lifecycle import draft_create, study_archive, study_delete, study_loss, study_participants
from webapp.studies.models import Study
from webapp.studies.protocols.base import Activity, StudyProtocol, protocols
from webapp.studies.selectors import is_study_key_used, latest_contact, study_key_free
from webapp.studies.services import study_copy
from webapp.studies.validation import RESERVED_KEYS
from webapp.studies.versions import study_revise, versions_changed

ALLOWED = {
    Study.State.COLLECTING: (Study.State.DRAFT, Study.State.PAUSED, Study.State.ENDED),
    Study.State.PAUSED: (Study.State.COLLECTING,),
    Study.State.ENDED: (Study.State.COLLECTING, Study.State.PAUSED),
}
"""New state by button, with the states that it is available in."""
logger = logging.getLogger(__name__)


def opening(request: HttpRequest, study: Study) -> HttpResponse | None:
    """Change the study's state by button; None if that is impossible.

    A message then has the reason.
    """
    target_state = request.POST["_state"]
    if not state_change(request, study, target_state):
        return None
    if target_state == Study.State.COLLECTING and study.state != target_state:
        return redirect("dashboard:study", study.key)
    return redirect("dashboard:study_build_step", study.key, "check")


def state_change(request: HttpRequest, study: Study, target_state: str) -> bool:
    """Change the study's state and confirm it by a message.

    False if that is impossible; a message then has the reason.
    """
    if target_state == study.state:
        return True
    if target_state not in ALLOWED or study.state not in ALLOWED[Study.State(target_state)]:
        messages.error(request, f"This change is not possible: the study is {study.get_state_display().lower()}.")
        return False
    plan = Plan(study)
    missing = stops(findings_of(plan)) if target_state == Study.State.COLLECTING else []
    if study.state == Study.State.PAUSED:
        # The study was open before, so this was already checked.
        missing = [finding for finding in missing if finding.step != "walk"]
    if missing:
        reasons = " ".join(f"{finding.lead} {finding.rest}".strip() for finding in missing)
        messages.error(request, f"The study cannot open yet: {reasons}")
        return False
    author = request.user.get_username()
    try:
        study_revise(study=study, changes={"state": target_state}, author=author)
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
        return False
    logger.info("study %s is %s, by %s", study.key, target_state, author)
    messages_by_state = {
        Study.State.COLLECTING: "The study is open. Send its link to participants.",
        Study.State.PAUSED: "Paused: participants who have started can finish, and no new ones can start.",
        Study.State.ENDED: "Closed. The link now says that the study has ended.",
    }
    messages.success(request, messages_by_state[Study.State(target_state)])
    if target_state == Study.State.COLLECTING and plan.gives == "bots" and plan.not_loaded:
        n = len(plan.not_loaded)
        predicate = plural(
            n, "is not loaded yet. Its first participant", "are not loaded yet. Their first participants"
        )
        messages.info(request, f"{n} of its bots {predicate} may wait for a reply.")
    return True


class NewStudyForm(forms.Form):
    """Protocol, name, language and key of a new study.

    The default key is made from the name.
    """

    protocol = forms.ChoiceField(label="What do participants do?", widget=forms.RadioSelect)
    name = forms.CharField(
        label="Name",
        max_length=200,
        help_text="Shown to researchers, never to participants.",
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
    )
    language = forms.ChoiceField(
        label="Language",
        choices=list(LANGUAGES.items()),
        required=False,
        help_text="Language of everything that participants read, including the default texts and questions.",
        widget=forms.Select(attrs={"class": "input"}),
    )
    key = forms.SlugField(
        label="Key",
        max_length=60,
        required=False,
        help_text="Part of the participants’ link: letters, digits, - and _.",
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off", "autocapitalize": "none"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        choices = [(protocol.name, protocol.title) for protocol in protocols]
        self.fields["protocol"].choices = choices  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        """Make a key from the name by default; report a used key."""
        cleaned = super().clean() or self.cleaned_data
        cleaned["language"] = cleaned.get("language") or "en"
        if not cleaned.get("key") and cleaned.get("name") and "key" not in self.errors:
            cleaned["key"] = study_key_free(cleaned["name"], RESERVED_KEYS)
        elif cleaned.get("key") and is_study_key_used(cleaned["key"]):
            self.add_error("key", "The key “{key}” is not available. Choose another key.".format(**cleaned))
        return cleaned


@form_view(Right.ADMINISTER)
def study_new(request: HttpRequest) -> HttpResponse:
    """Ask for the basics of a new study and create its draft.

    `?bot=` adds a bot.
    """
    form = NewStudyForm(request.POST or None, initial={"protocol": "chat", "language": "en"})
    if request.method == "POST" and form.is_valid():
        form_data = form.cleaned_data
        try:
            # The protocol's example without the values chosen in the builder.
            has_bots = protocols.get(form_data["protocol"]).gives == "bots"
            bots = [entry.id for entry in bot_entry_list() if has_bots and entry.id == request.GET.get("bot")]
            study = draft_create(**form_data, bots=bots, author=request.user.get_username(), **latest_contact())
        except ValuesError as error:
            for mistake in error.mistakes:
                form.add_error(mistake.path if mistake.path in form.fields else None, str(mistake))
        else:
            return redirect("dashboard:study_build_step", study.key, "bots")
    return page(request, "builder/new.html", "studies", form=form, tasks=_tasks())


@dataclass
class StudyTask:
    """Kind of work for participants; each protocol is a preset of one."""

    title: str
    hint: str
    presets: list[StudyProtocol] = field(default_factory=list)


_NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}


def _tasks() -> list[StudyTask]:
    """Return the kinds of work with their protocols."""
    tasks: dict[Activity, StudyTask] = {
        "bots": StudyTask("Chat and rate", "Participants talk to a chatbot."),
        "arena": StudyTask("Compare two chatbots", "Participants talk to two chatbots at once."),
        "pairs": StudyTask("Compare replies", "Participants read {n} replies to the same message."),
        "items": StudyTask("Rate replies", "Participants read single replies, one by one."),
        "conversations": StudyTask("Rate conversations", "Participants read stored conversations."),
        "list": StudyTask("Choose what matters", "Participants choose from a list."),
    }
    for protocol in sorted(protocols, key=lambda protocol: protocol.activity_place):
        tasks[protocol.activity or protocol.gives].presets.append(protocol)
    numbers = sorted({protocol.n_replies or 1 for protocol in tasks["pairs"].presets})
    shown = listed([_NUMBERS.get(n, str(n)) for n in numbers], "or")
    tasks["pairs"].hint = tasks["pairs"].hint.format(n=shown)
    return list(tasks.values())


@post_view(to_post=[Right.ADMINISTER])
def duplicate(request: HttpRequest, study: Study) -> HttpResponse:
    """Create a draft like the study and redirect to it."""
    try:
        copied_study = study_copy(study=study, author=request.user.get_username())
    except ValidationError as error:
        message = "The study was not duplicated: {why}".format(why=" ".join(error.messages))
        messages.error(request, message)
        return redirect("dashboard:study", study.key)
    message = "This draft is a copy of %(name)s, without its codes and return links, which belong to one study."
    messages.success(request, message % {"name": study.name})
    return redirect("dashboard:study_build_step", copied_study.key, "bots")


@post_view(to_post=[Right.ADMINISTER])
def archive(request: HttpRequest, study: Study) -> HttpResponse:
    """Archive a study, or restore it."""
    is_archived = request.POST.get("archived") == "1"
    try:
        study_archive(study=study, is_archived=is_archived)
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
        return redirect("dashboard:study", study.key)
    message = "%(name)s was archived." if is_archived else "%(name)s was restored to the list."
    undo = reverse("dashboard:study_archive", args=[study.key]) if is_archived else ""
    messages.success(request, message % {"name": study.name}, extra_tags=undo)
    return redirect("dashboard:studies")


@form_view(Right.ADMINISTER)
def delete(request: HttpRequest, study: Study) -> HttpResponse:
    """Show what would be deleted, and delete the study after confirmation."""
    error = ""
    if request.method == "POST":
        try:
            study_delete(study=study, typed_key=request.POST.get("typed", "").strip())
        except ValidationError as refused:
            error = " ".join(refused.messages)
        else:
            messages.success(request, f"{study.name} was deleted.")
            return redirect("dashboard:studies")
    return page(
        request,
        "builder/delete.html",
        "studies",
        study=study,
        loss=study_loss(study),
        needs_key=study.is_imported or study_participants(study).exists(),
        error=error,
    )


@post_view(to_post=[Right.RUN])
def rehearse(request: HttpRequest, study: Study) -> HttpResponse:
    """Let a worker run scripted participants through the study."""
    if study.is_imported:
        raise Http404(f"{study.key} is imported")
    people = request.POST.get("people", "")
    try:
        n = int(people)
    except ValueError:
        messages.error(request, f"“{people}” is not a number of participants.")
        return redirect("dashboard:study_build_step", study.key, "check")
    try:
        job = job_create(
            kind="rehearsal",
            payload={"people": n, "url": server_address(request)},
            study=study,
            created_by=request.user,  # type: ignore[arg-type]
        )
    except Refused as refused:
        messages.error(request, str(refused))
        return redirect("dashboard:study_build_step", study.key, "check")
    message = plural(n, "participant is on the way. It counts", "participants are on the way. They count")
    messages.success(request, f"{n} scripted {message} nowhere.")
    return redirect("dashboard:job", job.kind, job.pk)


@read_view(Right.ADMINISTER)
def versions(request: HttpRequest, study: Study) -> HttpResponse:
    """Show the newest versions with their changes, newest first."""
    return page(request, "versions.html", "studies", study=study, versions=versions_changed(study))
