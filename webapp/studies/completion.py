"""What a person is given to be paid: a platform's own code and its link, or a code of ours.

A recruitment platform pays by codes that the researcher agreed with it, one for each way in which a
visit can end. Where the study has such a code it is shown, and a code of ours is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from webapp.studies.models import Outcome, Study
from webapp.studies.prolific import completion_link, is_prolific, link_code


@dataclass(frozen=True, slots=True)
class Completion:
    """The code and the link back that a person is shown; empty where there is none."""

    code: str = ""
    link: str = ""


def completion_shown(*, study: Study, platform: str, outcome: str, own_code: str) -> Completion:
    """Return the code and link that a person of `platform` is shown after this outcome.

    Args:
        platform: where the person came from, as `Participant.platform`.
        own_code: the code of Confab's own that they earned; empty if none.
    """
    # Whom Mechanical Turk sent can do nothing with a code of Prolific.
    by_prolific = platform != "mturk"
    codes = {
        Outcome.RATED: study.values.recruitment.prolific_rated,
        # An early end without a code of its own counts as a complete one: its pay was promised.
        Outcome.BOT_FAILED: study.values.recruitment.prolific_bot_failed
        or study.values.recruitment.prolific_rated,
        Outcome.WITHDRAWN: study.values.recruitment.prolific_withdrawn,
    }
    code = codes[Outcome(outcome)]
    if code and by_prolific:
        return Completion(code, completion_link(code))
    if outcome == Outcome.WITHDRAWN or not own_code:
        return Completion()
    address = study.values.recruitment.completion_url
    if not address or (is_prolific(address) and not by_prolific):
        return Completion(own_code)
    if "{code}" in address:
        return Completion(own_code, address.replace("{code}", quote(own_code)))
    return Completion(link_code(address), address)
