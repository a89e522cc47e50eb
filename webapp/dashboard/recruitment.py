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
    recruitment, participant_id = study.values.recruitment, f"rehearsal-{secrets.token_hex(4)}"
    ids = {
        "prolific": {"PROLIFIC_PID": participant_id, "STUDY_ID": "rehearsal", "SESSION_ID": participant_id},
        "panel": {recruitment.id_parameter: participant_id},
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
        parameters = [name for name in (names.id_parameter, names.session_parameter) if name]
        query = "&".join(f"{name}=[{name.upper()}]" for name in parameters)
        hint = "Put your panel’s own placeholders where brackets stand."
        return RecruitingLink("Give this link to the panel", f"{address}?{query}", hint)
    if platform == "links":
        hint = "Each person gets one of their own. Make a list of them under People, One-time links."
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
            "The page of each participant then shows the platform’s own status.",
        ),
    )


def recruiting_links(study: Study, address: str) -> list[RecruitingLink]:
    """Return the participants' links: for the study's platform, or for all platforms if it names none."""
    platform = study.values.recruitment.platform
    if platform != "link":
        links = [address_for(study, platform, address)]
        return [*links, webhook_link(study, address)] if platform == "prolific" else links
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
