"""Entry to a study: identity, refusals, and description of the work."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from functools import cached_property

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.bots.selectors import bot_available_ids
from webapp.conversations.heartbeats import bots_unavailable_at_hosts
from webapp.core.errors import Refused
from webapp.core.language import activate_language
from webapp.participant.access import ParticipantRequest, moved_page
from webapp.participant.page_texts import refusal_text, study_texts
from webapp.participant.recruitment_links import PLATFORM_NAMES, Recruitment, recruitment_sign
from webapp.participant.selectors import (
    codes_shown,
    has_left,
    participant_known,
    speaks_for,
    start_refusal,
    visit_ending,
)
from webapp.participant.steps.done import done_page
from webapp.studies.assignment.capacity import task_history
from webapp.studies.languages import version_speak
from webapp.studies.models import Item, Outcome, Participant, Study, StudyVersion, Task
from webapp.studies.protocols.base import WorkDescription, get_protocol, protocols
from webapp.studies.recruitment.completion import has_earned
from webapp.studies.recruitment.links import link_opened
from webapp.studies.rubrics import post_task_questions
from webapp.studies.selectors import entry_refusal, rehearsal_token_valid
from webapp.studies.start_refusals import StartRefusal

logger = logging.getLogger(__name__)


_ROBOT = re.compile(
    r"(?<!cu)bot|crawl|spider|slurp|preview|scan|monitor|facebookexternalhit|^whatsapp|imgproxy|embedly|google-"
    r"|curl|wget|libwww|python|java/|okhttp|axios|node-fetch|undici|go-http-client",
    re.IGNORECASE,
)
"""User agents of programs that open links. CUBOT is a phone brand."""


def is_robot(request: HttpRequest) -> bool:
    """Return True if a program fetched the page.

    It is a robot, a link preview, or a browser's prefetch.
    """
    if "prefetch" in request.headers.get("Sec-Purpose", request.headers.get("Purpose", "")):
        return True
    return _ROBOT.search(request.headers.get("User-Agent", "")) is not None


@dataclass
class EntryRequest:
    """Request for a study's first page, with its parameters.

    The request may also come from the page's form.
    """

    request: HttpRequest
    study: Study
    visit: ParticipantRequest
    recruitment: Recruitment

    @cached_property
    def participant(self) -> Participant | None:
        """Participant of this visit; None for a new visitor."""
        participant = participant_known(
            session=self.request.session,
            study=self.study,
            recruitment=self.recruitment,
            token_of=self.visit.participant,
        )
        return None if participant is not None and self._rehearses_anew(participant) else participant

    def _rehearses_anew(self, known: Participant) -> bool:
        """Return True if a researcher starts another rehearsal.

        They have completed one and open a rehearsal link again.
        """
        return (
            known.is_synthetic
            and not self.recruitment.external_id
            and self.recruitment.nonce != known.entry_nonce
            and rehearsal_token_valid(self.study, self.recruitment.rehearsal)
            and not known.tasks.filter(state=Task.State.OPEN).exists()
        )

    @cached_property
    def is_theirs(self) -> bool:
        """True if the participant is known by more than an id in a link."""
        return self.participant is not None and speaks_for(
            session=self.request.session,
            participant=self.participant,
            recruitment=self.recruitment,
            token_of=self.visit.participant,
        )

    @property
    def shown_visit(self) -> ParticipantRequest:
        """The visit, with its participant if reliably identified.

        A platform's id in a link is not enough.
        """
        return replace(self.visit, person=self.participant if self.is_theirs else None)

    def moved_page(self) -> HttpResponse | None:
        """Return the page for a participant who continued on another device.

        None if they did not, or have a platform id here.
        """
        participant = self.participant
        if (
            participant is None
            or self.recruitment.external_id
            or self.visit.participant is not None
            or not has_left(self.request.session, participant)
        ):
            return None
        return moved_page(self.request, self.study, participant)

    def refusal(self) -> Refused | None:
        """Return the reason why this visitor cannot start a task.

        None if they can.
        """
        return start_refusal(self.study, self.participant, self.recruitment) or self._bots_refusal()

    def _bots_refusal(self) -> Refused | None:
        """Return the reason if no bot is available now.

        Visitors read it before they consent. None otherwise.
        """
        study, participant = self.study, self.participant
        if not get_protocol(study).talks_to_bots:
            return None
        if participant is not None and participant.tasks.filter(state=Task.State.OPEN).exists():
            return None
        if set(bot_available_ids(study.bots)) - set(bots_unavailable_at_hosts()):
            return None
        return StartRefusal.NO_BOT.refused()

    def ended_page(self, *, may_agree: bool = False) -> HttpResponse | None:
        """Return the page with the outcome of this visit.

        None if it has not ended.

        Args:
            may_agree: True if a visitor who declined may still consent, so that declining is not an end.
        """
        if self.participant is None or self.comes_back:
            return None
        ending = visit_ending(participant=self.participant, recruitment=self.recruitment, is_theirs=self.is_theirs)
        if ending is None or (may_agree and ending.outcome == Outcome.NO_CONSENT):
            return None
        visible_endings = codes_shown(
            participant=self.participant, recruitment=self.recruitment, is_theirs=self.is_theirs
        )
        version_speak(ending.task.version, self.visit.language or self.participant.language)
        # The ending's version can be older, in a language other than the study's current one.
        visit = self.shown_visit
        if not self.is_theirs and self.recruitment.submission:
            entry = recruitment_sign(self.study, ending.task.version, self.recruitment)
            visit = replace(visit, entry=entry, study_key=self.study.key)
        with activate_language(self.request, self.visit.locale(ending.task.version)):
            return done_page(self.request, visit, ending, recruitment=self.recruitment, visible_endings=visible_endings)

    @cached_property
    def comes_back(self) -> bool:
        """True if the participant's next part is open or has closed.

        An earlier end is then not shown.

        Prolific and Mechanical Turk pay for one part per visit: an earlier visit leads to its own end.
        """
        participant, history = (
            self.participant,
            task_history(self.participant) if self.participant is not None else None,
        )
        if participant is None or history is None or not history.completed_parts or history.open_task is not None:
            return False
        refusal = entry_refusal(self.study, participant, history=history)
        if refusal is not None and refusal.code != StartRefusal.SITTING_LATE:
            return False
        is_paid_each = self.recruitment.platform in ("prolific", "mturk")
        return not (is_paid_each and participant.tasks.filter(submission=self.recruitment.submission).exists())

    def opened(self, refusal: Refused | None) -> None:
        """Count an opening of the link.

        Robots, and workers who preview the task, are not counted.
        """
        if self.request.method != "GET" or self.recruitment.is_preview:
            return
        is_rehearsal = rehearsal_token_valid(self.study, self.recruitment.rehearsal)
        if is_rehearsal or not is_robot(self.request):  # scripted participants count although they are programs
            code = refusal.code if refusal else ""
            link_opened(study=self.study, is_synthetic=is_rehearsal, refused=code)

    def refused_page(self, refusal: Refused) -> HttpResponse:
        """Return the page with the reason for a refusal, and earned codes.

        The reason is logged.
        """
        request, participant = self.request, self.participant
        visitor = f"participant {participant.pk}" if participant is not None else "somebody new"
        logger.info("study %s refused %s: %s", self.study.key, visitor, refusal.code)
        endings = []
        if participant is not None:
            endings = codes_shown(participant=participant, recruitment=self.recruitment, is_theirs=self.is_theirs)
        platform = participant.platform if participant else self.recruitment.platform
        context = {
            **study_texts(self.study, self.study.version),
            "visit": self.shown_visit,
            "code": refusal.code,
            "text": refusal_text(refusal, self.recruitment.platform, self.study),
            "endings": endings,
            "has_earned": participant is not None and has_earned(participant),
            "platform": PLATFORM_NAMES.get(platform, ""),
            "is_prolific": platform == "prolific",
            "due": refusal.details.get("due"),
            "entry_field": recruitment_sign(self.study, self.study.version, self.recruitment),
            "retry_url": request.get_full_path() if request.method == "GET" else "",
        }
        status = 409 if request.method == "POST" else 200
        return render(request, "participant/refused.html", context, status=status)


def describe_work(study: Study, version: StudyVersion) -> WorkDescription:
    """Return the description of the work in a study."""
    return protocols.get(study.protocol).work(version.values, _n_asked(study, version))


def _n_asked(study: Study, version: StudyVersion) -> tuple[int, int]:
    """Return the smallest and largest number of questions after a chat, or about one of the study's texts."""
    protocol = protocols.get(study.protocol)
    questions = post_task_questions(version)
    always = {question.key for question in questions if not question.is_check}
    n_checks = len(questions) - len(always)  # each is asked about one text only
    kinds = {""}
    if protocol.leaves_out(version):
        kinds = set(study.items.order_by().values_list("task", flat=True).distinct()) or kinds
    numbers = [len(always - protocol.not_asked(version, Item(task=kind))) + protocol.n_more_asked for kind in kinds]
    return min(numbers), max(numbers) + n_checks
