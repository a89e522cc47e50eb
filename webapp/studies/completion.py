"""Completion codes and links for a participant's payment: a platform's own, or a code of ours.

A recruitment platform pays by codes that the researcher agreed with it, one for each outcome of a visit. If the
study has such a code, it is shown in place of a code of ours. The code that a participant was shown is stored with
their task: a later correction applies to later participants only.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from webapp.studies.models import Participant, Study
from webapp.studies.prolific import completion_link
from webapp.studies.recruitment import PLACEHOLDER, RecruitmentValues


@dataclass(frozen=True, slots=True)
class Completion:
    """The code and the link back that a person is shown; empty where there is none."""

    code: str = ""
    link: str = ""


def completion_now(
    *, study: Study, participant: Participant, outcome: str, own_code: str
) -> Completion:
    """Return the code and link that the study gives for this outcome as it is now.

    The link's places stay unfilled, so that no platform's id is stored with it.

    Args:
        own_code: the code of Confab's own that they earned; empty if none.
    """
    settings = study.values.recruitment
    platform = participant.platform
    if not _is_for(settings, platform):
        return Completion(own_code)
    code = settings.code(outcome)
    if code and "prolific" in (platform, settings.platform):
        return Completion(code, completion_link(code))
    # Workers of Mechanical Turk go back by a form.
    link = settings.link(outcome) if platform != "mturk" else ""
    if not code and (not link or "{code}" in link):
        code = own_code
    return Completion(code, link)


def link_filled(
    completion: Completion, *, participant: Participant, outcome: str, submission: str
) -> str:
    """Return the link with the participant's own values in its places.

    Args:
        submission: the platform's id of the visit that ended so; empty if it gave none.
    """
    known = {
        **participant.recruitment,
        "code": completion.code,
        "id": participant.external_id,
        "session": submission,
        "outcome": outcome,
    }
    return PLACEHOLDER.sub(lambda found: _filled(known, found[1]), completion.link)


def _is_for(settings: RecruitmentValues, platform: str) -> bool:
    """Return True if the study's codes and links are for participants from this platform.

    Participants from another platform cannot use them.
    """
    return platform in ("", settings.platform) or settings.platform in ("link", "links")


def _filled(known: dict[str, str], name: str) -> str:
    return quote(known.get(name, ""), safe="")
