"""Recruitment of a study: links for participants."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from webapp.studies.models import Study
from webapp.studies.recruitment.settings import external_question, recruiting_link
from webapp.studies.selectors import rehearsal_token


@dataclass(frozen=True, slots=True)
class RecruitingLink:
    """Address for one way of recruiting.

    `missing` names what the study lacks, `steps` what to do.
    """

    title: str
    address: str
    hint: str = ""
    missing: str = ""
    steps: tuple[str, ...] = ()


def participant_link(request: HttpRequest, study: Study) -> str:
    """Return the link that participants get.

    It is written out because their pages are another front end.
    """
    return request.build_absolute_uri(f"{settings.CONFAB_PATH_PREFIX}/s/{study.key}/")


def link_to_send(request: HttpRequest, study: Study) -> str:
    """Return the link that a researcher sends, with the recruiting platform's placeholders."""
    address, platform = participant_link(request, study), study.values.recruitment.platform
    is_filled_in = platform in ("prolific", "panel")
    return address_for(study, platform, address).address if is_filled_in else address


def walk_link(request: HttpRequest, study: Study) -> str:
    """Return a link for a researcher to try the study as a participant.

    The visit counts nowhere.

    It names a new participant of the study's platform, so the last page is the one that its participants see.
    """
    recruitment, participant_id = study.values.recruitment, f"rehearsal-{secrets.token_hex(4)}"
    ids = {
        "prolific": {"PROLIFIC_PID": participant_id, "STUDY_ID": "rehearsal", "SESSION_ID": participant_id},
        "panel": {recruitment.id_parameter: participant_id},
    }.get(recruitment.platform, {})
    query = urlencode({**ids, "rehearsal": rehearsal_token(study)})
    return f"{participant_link(request, study)}?{query}"


def address_for(study: Study, platform: str, address: str) -> RecruitingLink:
    """Return the address to paste into the recruiting platform.

    It is a link or code, with instructions.

    Args:
        platform: a value of `RecruitmentValues.platform`.
        address: the participants' link.
    """
    if platform == "prolific":
        hint = "Copy it with its placeholders; Prolific fills them in for each participant."
        return RecruitingLink("Paste this as the study URL in Prolific", recruiting_link(address), hint)
    if platform == "mturk":
        hint = (
            "Use this as the question of a task created through the API. The study is shown in a frame on "
            f"Mechanical Turk, which requires https. Or use the plain link, {address}, in a “Survey Link” project: "
            "participants then paste the code shown at the end."
        )
        return RecruitingLink("Paste this as the question in Mechanical Turk", external_question(address), hint)
    if platform == "panel":
        names = study.values.recruitment
        parameters = [name for name in (names.id_parameter, names.session_parameter) if name]
        query = "&".join(f"{name}=[{name.upper()}]" for name in parameters)
        hint = "Replace the brackets with your panel’s placeholders."
        return RecruitingLink("Give this link to the panel", f"{address}?{query}", hint)
    if platform == "links":
        hint = "Each participant gets a personal link. Create a list of them under People, One-time links."
        return RecruitingLink("Where these links lead", address, hint)
    return RecruitingLink("Study link", address)


def webhook_link(study: Study, address: str) -> RecruitingLink:
    """Return the address for Prolific's webhook, and the remaining steps.

    Args:
        address: the participants' link.
    """
    server = address.removesuffix(f"/s/{study.key}/")
    is_on = "It is set." if settings.CONFAB_PROLIFIC_HOOK_SECRET else "It is not set yet."
    return RecruitingLink(
        "Prolific’s webhook",
        server + reverse("pay:prolific_hook", args=[study.key]),
        "Optional: Prolific then reports the status of each submission automatically.",
        steps=(
            "Create a secret for webhooks in your Prolific workspace (POST /api/v1/hooks/secrets/).",
            f"Set it as CONFAB_PROLIFIC_HOOK_SECRET in .env and restart Confab. {is_on}",
            "Subscribe to submission.status.change with the address above.",
            "The page of each participant then shows the status on Prolific.",
        ),
    )


def recruiting_links(study: Study, address: str) -> list[RecruitingLink]:
    """Return the links for the study's recruiting platform.

    For all platforms if it names none.
    """
    platform = study.values.recruitment.platform
    if platform != "link":
        links = [address_for(study, platform, address)]
        return [*links, webhook_link(study, address)] if platform == "prolific" else links
    missing = (
        "The study has no completion codes from Prolific. Participants would see a Confab code, which Prolific does "
        "not accept."
    )
    has_code = study.values.recruitment.code_rated
    return [
        RecruitingLink("Anybody", address),
        RecruitingLink(
            "Prolific",
            recruiting_link(address),
            "Paste it unchanged as the study URL: Prolific fills in the placeholders.",
            "" if has_code else missing,
        ),
        RecruitingLink(
            "Mechanical Turk, in a frame",
            external_question(address),
            (
                "Use this as the question of a task created through the API. It requires https. Mechanical Turk "
                "adds its parameters and may show the study in a frame; no other setup is needed."
            ),
        ),
        RecruitingLink(
            "Mechanical Turk, with a code",
            address,
            (
                "Use this as the link of a “Survey Link” project. Participants open the study next to the task and "
                "paste the personal code shown at the end."
            ),
        ),
    ]
