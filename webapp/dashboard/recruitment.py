"""Recruitment of a study: links for participants, and reservations of bots."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from webapp.conversations.models import Conversation
from webapp.studies.models import Slot, Study, Task
from webapp.studies.recruitment.settings import external_question, recruiting_link
from webapp.studies.selectors import rehearsal_token


@dataclass(frozen=True, slots=True)
class RecruitingLink:
    """The address to give to one way of recruiting; `missing` says what the study lacks, `steps` what to do."""

    title: str
    address: str
    hint: str = ""
    missing: str = ""
    steps: tuple[str, ...] = ()


def participant_link(request: HttpRequest, study: Study) -> str:
    """Return the link that participants get. Their pages are another front end, so it is written out."""
    return request.build_absolute_uri(f"{settings.CONFAB_PATH_PREFIX}/s/{study.key}/")


def link_to_send(request: HttpRequest, study: Study) -> str:
    """Return the link that a researcher sends, with the recruiting platform's placeholders."""
    address, platform = participant_link(request, study), study.values.recruitment.platform
    is_filled_in = platform in ("prolific", "panel")
    return address_for(study, platform, address).address if is_filled_in else address


def walk_link(request: HttpRequest, study: Study) -> str:
    """Return a link by which a researcher goes through the study as its participants do; it counts nowhere.

    It names somebody new of the study's platform, so that the end is the one that people from there see.
    """
    recruitment, who = study.values.recruitment, f"rehearsal-{secrets.token_hex(4)}"
    ids = {
        "prolific": {"PROLIFIC_PID": who, "STUDY_ID": "rehearsal", "SESSION_ID": who},
        "panel": {recruitment.id_parameter: who},
    }.get(recruitment.platform, {})
    query = urlencode({**ids, "rehearsal": rehearsal_token(study)})
    return f"{participant_link(request, study)}?{query}"


def address_for(study: Study, platform: str, address: str) -> RecruitingLink:
    """Return the link or code to paste into the recruiting platform, with its instructions.

    Args:
        platform: a value of `RecruitmentValues.platform`.
        address: the participants' link.
    """
    if platform == "prolific":
        hint = "Whole, with its placeholders: Prolific fills them in for each person."
        return RecruitingLink("Paste this as the study URL in Prolific", recruiting_link(address), hint)
    if platform == "mturk":
        hint = (
            "As the question of a task made by the API: the study is shown in Mechanical Turk's frame. It needs "
            f"https. Or paste the plain link, {address}, into a “Survey Link” project: then people paste the code "
            "that they are shown at the end."
        )
        return RecruitingLink("Paste this as the question in Mechanical Turk", external_question(address), hint)
    if platform == "panel":
        names = study.values.recruitment
        shown = [name for name in (names.id_parameter, names.session_parameter) if name]
        query = "&".join(f"{name}=[{name.upper()}]" for name in shown)
        hint = "Put your panel’s own placeholders where brackets stand."
        return RecruitingLink("Give this link to the panel", f"{address}?{query}", hint)
    if platform == "links":
        hint = "Each person gets one of their own. Make a list of them under Collect, One-time links."
        return RecruitingLink("Where their links lead", address, hint)
    return RecruitingLink("The link of the study", address)


def webhook_link(study: Study, address: str) -> RecruitingLink:
    """Return the address that Prolific's webhook is given, with what else there is to do.

    Args:
        address: the participants' link.
    """
    server = address.removesuffix(f"/s/{study.key}/")
    is_on = "It is set." if settings.CONFAB_PROLIFIC_HOOK_SECRET else "It is not set yet."
    return RecruitingLink(
        "Prolific’s webhook",
        server + reverse("pay:prolific_hook", args=[study.key]),
        "Optional: Prolific then tells Pay by itself how each submission stands.",
        steps=(
            "In your Prolific workspace make a secret for webhooks (POST /api/v1/hooks/secrets/).",
            f"Put it into .env as CONFAB_PROLIFIC_HOOK_SECRET and restart. {is_on}",
            "Subscribe to submission.status.change with the address above.",
            "Under Collect, Pay, the platform’s own status then stands in each row.",
        ),
    )


def recruiting_links(study: Study, address: str) -> list[RecruitingLink]:
    """Return the participants' links: for the study's platform, or for all platforms if it names none."""
    platform = study.values.recruitment.platform
    if platform != "link":
        own = [address_for(study, platform, address)]
        return [*own, webhook_link(study, address)] if platform == "prolific" else own
    missing = (
        "The study has none of Prolific's completion codes: people would be shown one of Confab's, which "
        "Prolific does not know."
    )
    has_code = study.values.recruitment.code_rated
    return [
        RecruitingLink("Anybody", address),
        RecruitingLink(
            "Prolific",
            recruiting_link(address),
            "Paste it whole as the study's URL: Prolific fills in the placeholders.",
            "" if has_code else missing,
        ),
        RecruitingLink(
            "Mechanical Turk, in its frame",
            external_question(address),
            (
                "Paste it as the question of a task made by the API. It needs https. Mechanical Turk adds its "
                "parameters and may show the study in its frame; nothing needs to be set."
            ),
        ),
        RecruitingLink(
            "Mechanical Turk, by a code",
            address,
            (
                "Paste it as the link of a “Survey Link” project. People open the study beside the task and "
                "paste the code that they are shown at the end; each has one of their own."
            ),
        ),
    ]


_LISTED = 100
"""People in the list; the counts are of all."""


@dataclass(frozen=True, slots=True)
class ReservationHolder:
    """A person who holds a place.

    Attributes:
        bot_ids: bots of the chats that their task requires; none if they rate stored material.
        chat: the newest conversation of the task, if it has one.
    """

    bot_ids: list[str]
    chat: UUID | None
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Reservations:
    """The open tasks of a study's participants.

    Attributes:
        held: numbers of quota slots held now, by bot.
        lapsed: numbers of slots of tasks opened too long ago to hold them still, by bot.
        n_held, n_lapsed: numbers of tasks that still hold their slots, and that no longer do.
        holders: the participants who hold a slot, the longest first; at most 100.
    """

    held: dict[str, int]
    lapsed: dict[str, int]
    n_held: int
    n_lapsed: int
    holders: list[ReservationHolder]

    @property
    def n_more(self) -> int:
        """Number of participants who hold a quota slot and are not listed."""
        return self.n_held - len(self.holders)


def reservations_of(study: Study, *, include_synthetic: bool = False) -> Reservations:
    """Read the participants who hold a quota slot of the study."""
    held_for = study.values.assignment.place_held_for
    since = timezone.now() - held_for
    tasks = Task.objects.filter(state=Task.State.OPEN, participant__study=study)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
    is_held = Q(created_at__gte=since)
    counts = tasks.aggregate(held=Count("pk", filter=is_held), all=Count("pk"))
    by_bot = {
        row["bot_id"]: row
        for row in Slot.objects.filter(task__in=tasks)
        .exclude(bot_id="")
        .order_by()
        .values("bot_id")
        .annotate(
            held=Count("pk", filter=Q(task__created_at__gte=since)),
            lapsed=Count("pk", filter=Q(task__created_at__lt=since)),
        )
    }
    listed = list(tasks.filter(is_held).order_by("created_at", "pk").prefetch_related("slots")[:_LISTED])
    chats = dict(
        Conversation.objects.filter(slot__task__in=listed).order_by("created_at").values_list("slot__task", "pk")
    )
    return Reservations(
        held={bot_id: row["held"] for bot_id, row in by_bot.items()},
        lapsed={bot_id: row["lapsed"] for bot_id, row in by_bot.items()},
        n_held=counts["held"],
        n_lapsed=counts["all"] - counts["held"],
        holders=[
            ReservationHolder(task.bot_ids, chats.get(task.pk), task.created_at, task.created_at + held_for)
            for task in listed
        ],
    )
