"""The addresses a researcher gives to those who recruit people."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from webapp.studies.models import Study
from webapp.studies.prolific import recruiting_link


@dataclass(frozen=True, slots=True)
class RecruitingLink:
    """The address to give to one way of recruiting; `missing` says what the study lacks for it."""

    title: str
    address: str
    hint: str = ""
    missing: str = ""


def recruiting_links(study: Study, address: str) -> list[RecruitingLink]:
    """Return the participants' links: for people who come by themselves, by Prolific, by Mechanical Turk."""
    missing = _(
        "The study has none of Prolific's completion codes: people would be shown one of Confab's, which "
        "Prolific does not know."
    )
    has_code = study.values.recruitment.code_rated
    return [
        RecruitingLink(_("Anybody"), address),
        RecruitingLink(
            _("Prolific"),
            recruiting_link(address),
            _("Paste it whole as the study's URL: Prolific fills in the placeholders."),
            "" if has_code else missing,
        ),
        RecruitingLink(
            _("Mechanical Turk"),
            address,
            _(
                "As the ExternalURL of an ExternalQuestion, by https. Mechanical Turk adds its parameters "
                "and may show the study in its frame; nothing needs to be set."
            ),
        ),
    ]
