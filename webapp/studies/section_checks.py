"""Validation within one section of a study, whatever its other sections contain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext as _

from chatbots.outside import Mistake, Values
from webapp.studies.frames import frame_origins
from webapp.studies.models import Outcome
from webapp.studies.recruitment import FILLED_IN, PLACEHOLDER, RecruitmentValues
from webapp.studies.values import SECTION_OF, ChatRules, Judging

Errors = dict[str, str]


def limits_wrong(chat: ChatRules) -> Errors:
    """Check that a chat can be long enough to be rated."""
    if chat.min_exchanges <= chat.max_exchanges:
        return {}
    sentence = _(
        "At least %(low)d and at most %(high)d exchanges cannot be. Lower this number, or raise the other."
    )
    return {"min_exchanges": sentence % {"low": chat.min_exchanges, "high": chat.max_exchanges}}


def raters_wrong(judging: Judging) -> Errors:
    """Check that an item can have the wanted number of raters; 0 means no limit."""
    least, wanted, most = judging.raters_least, judging.raters_wanted, judging.raters_most
    errors: Errors = {}
    sentence = _(
        "%(low)d people at least and %(high)d %(what)s cannot be. Lower the one or raise the other."
    )
    if wanted and least > wanted:
        errors["raters_least"] = sentence % {"low": least, "high": wanted, "what": _("wanted")}
    elif most and max(least, wanted) > most:
        low = max(least, wanted)
        errors["raters_most"] = sentence % {"low": low, "high": most, "what": _("at most")}
    return errors


def frames_wrong(recruitment: RecruitmentValues) -> Errors:
    """Check that those who may show the study in a frame are origins."""
    _origins, wrong = frame_origins(recruitment.frame_ancestors)
    if not wrong:
        return {}
    sentence = _(
        "“%(word)s” is no origin. Write each as https:// and a host, for example "
        "https://survey.example.org, with spaces between them."
    )
    return {"frame_ancestors": sentence % {"word": wrong[0]}}


def links_wrong(recruitment: RecruitmentValues) -> Errors:
    """Check that every placeholder of a way back is one that is filled in."""
    errors: Errors = {}
    known = (*FILLED_IN, *recruitment.parameters)
    for outcome in Outcome.values:
        field = f"link_{outcome}"
        unknown = [
            name for name in PLACEHOLDER.findall(getattr(recruitment, field)) if name not in known
        ]
        if unknown:
            errors[field] = _(
                "Nothing is filled in for {%(name)s}. Take one of %(known)s, or keep a parameter of that name."
            ) % {"name": unknown[0], "known": ", ".join(f"{{{name}}}" for name in known)}
    return errors


def codes_wrong(recruitment: RecruitmentValues) -> Errors:
    """Check that no two outcomes have the same code, by which a platform distinguishes them."""
    errors: Errors = {}
    field_of: dict[str, str] = {}
    for outcome in Outcome.values:
        field = f"code_{outcome}"
        code = getattr(recruitment, field)
        if code and code in field_of:
            errors[field] = _(
                "%(code)s is the code of another outcome already. Make one for each on the platform."
            ) % {"code": code}
        field_of.setdefault(code, field)
    return errors


SECTION_CHECKS: dict[str, tuple[Callable[[Any], Errors], ...]] = {
    "chat": (limits_wrong,),
    "judging": (raters_wrong,),
    "recruitment": (frames_wrong, links_wrong, codes_wrong),
}
"""Checks that read one section alone, and so can be made where others cannot be read."""


def section_errors(section: str, values: Values) -> Errors:
    """Return the errors within one section of `SECTION_CHECKS`: `{field: sentence}`."""
    return {
        field: sentence
        for check in SECTION_CHECKS[section]
        for field, sentence in check(values).items()
    }


def as_mistakes(errors: Errors) -> list[Mistake]:
    """Return errors of fields as mistakes with their paths in a study's file."""
    return [_mistake(field, sentence) for field, sentence in errors.items()]


def _mistake(field: str, sentence: str) -> Mistake:
    section = SECTION_OF.get(field)
    path = f"{section}.{field}" if section else {"rubric": "after"}.get(field, field)
    return Mistake(path, f"{path}: {sentence}")
