"""Validation within one section of a study's settings, by field.

Reply filters and attention checks are validated here, too, against what is installed and the study's questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.utils.translation import gettext as _

from chatbots.text import did_you_mean
from chatbots.validation import InputModel, Mistake
from webapp.studies.attention_checks import AttentionCheck, answers_beyond
from webapp.studies.models import Item, Outcome, Rubric, Study
from webapp.studies.protocols.base import StudyProtocol, protocols
from webapp.studies.recruitment.settings import FILLED_IN, PLACEHOLDER, RecruitmentValues, frame_origins
from webapp.studies.reply_filters.base import reply_filters
from webapp.studies.rubrics import scales_of
from webapp.studies.settings import SECTION_OF, ChatRules, Judging, StudyValues

Errors = dict[str, str]


def validate_chat_limits(chat: ChatRules) -> Errors:
    """Check that a chat can be long enough to be rated."""
    if chat.min_exchanges <= chat.max_exchanges:
        return {}
    sentence = _("At least %(low)d and at most %(high)d exchanges cannot be. Lower this number, or raise the other.")
    return {"min_exchanges": sentence % {"low": chat.min_exchanges, "high": chat.max_exchanges}}


def validate_raters(judging: Judging) -> Errors:
    """Check that an item can have the wanted number of raters; 0 means no limit."""
    least, wanted, most = judging.raters_least, judging.raters_wanted, judging.raters_most
    errors: Errors = {}
    sentence = _("%(low)d people at least and %(high)d %(what)s cannot be. Lower the one or raise the other.")
    if wanted and least > wanted:
        errors["raters_least"] = sentence % {"low": least, "high": wanted, "what": _("wanted")}
    elif most and max(least, wanted) > most:
        low = max(least, wanted)
        errors["raters_most"] = sentence % {"low": low, "high": most, "what": _("at most")}
    return errors


def validate_frame_origins(recruitment: RecruitmentValues) -> Errors:
    """Check that those who may show the study in a frame are origins."""
    _origins, wrong = frame_origins(recruitment.frame_ancestors)
    if not wrong:
        return {}
    sentence = _(
        "“%(word)s” is no origin. Write each as https:// and a host, for example "
        "https://survey.example.org, with spaces between them."
    )
    return {"frame_ancestors": sentence % {"word": wrong[0]}}


def validate_links(recruitment: RecruitmentValues) -> Errors:
    """Check that every placeholder of a way back is one that is filled in."""
    errors: Errors = {}
    known = (*FILLED_IN, *recruitment.parameters)
    for outcome in Outcome.values:
        field = f"link_{outcome}"
        unknown = [name for name in PLACEHOLDER.findall(getattr(recruitment, field)) if name not in known]
        if unknown:
            errors[field] = _(
                "Unknown placeholder {%(name)s}. Use one of %(known)s, or add a URL parameter with that name."
            ) % {"name": unknown[0], "known": ", ".join(f"{{{name}}}" for name in known)}
    return errors


def validate_codes(recruitment: RecruitmentValues) -> Errors:
    """Check that no two outcomes have the same code, by which a platform distinguishes them."""
    errors: Errors = {}
    field_of: dict[str, str] = {}
    for outcome in Outcome.values:
        field = f"code_{outcome}"
        code = getattr(recruitment, field)
        if code and code in field_of:
            errors[field] = _("%(code)s is the code of another outcome already. Make one for each on the platform.") % {
                "code": code
            }
        field_of.setdefault(code, field)
    return errors


SECTION_VALIDATORS: dict[str, tuple[Callable[[Any], Errors], ...]] = {
    "chat": (validate_chat_limits,),
    "judging": (validate_raters,),
    "recruitment": (validate_frame_origins, validate_links, validate_codes),
}
"""Checks that read one section alone, and so can be made where others cannot be read."""


def section_errors(section: str, values: InputModel) -> Errors:
    """Return the errors within one section of `SECTION_VALIDATORS`: `{field: sentence}`."""
    return {field: sentence for check in SECTION_VALIDATORS[section] for field, sentence in check(values).items()}


def as_mistakes(errors: Errors) -> list[Mistake]:
    """Return errors of fields as mistakes with their paths in a study's file."""
    return [_mistake(field, sentence) for field, sentence in errors.items()]


def _mistake(field: str, sentence: str) -> Mistake:
    section = SECTION_OF.get(field)
    path = f"{section}.{field}" if section else {"rubric": "after"}.get(field, field)
    return Mistake(path, f"{path}: {sentence}")


_FIELDS = {"phrases": "filter_phrases", "classifier": "filter_model"}
"""Field at which a filter's missing setting is reported; other filters are named at the list of filters."""


def validate_filters(before: Study | None, study: Study, values: StudyValues) -> dict[str, str]:
    """Check that every filter is one there is, and when the study opens that it can be used."""
    known = reply_filters.names()
    errors: dict[str, str] = {}
    for name in values.filtering.reply_filters:
        if name not in known:
            said = _("There is no filter “%(name)s”. It must be one of %(known)s.")
            near = did_you_mean(name, known)
            told = said % {"name": name, "known": ", ".join(known)}
            errors["reply_filters"] = f"{told} {near}".strip()
    was_open = before is not None and before.state == Study.State.COLLECTING
    if errors or study.state != Study.State.COLLECTING:
        return errors
    if was_open and before is not None and before.values.filtering == values.filtering:
        return {}
    for name in values.filtering.reply_filters:
        one = reply_filters.get(name)
        if (reason := one.unavailable_reason(values)) is not None:
            said = _("The filter “%(title)s” cannot be used: %(reason)s.")
            field = _FIELDS.get(name, "reply_filters")
            errors[field] = said % {"title": one.title, "reason": reason}
    return errors


def validate_checks(study: Study, values: StudyValues) -> Errors:
    """Check that every point that is marked is there, and that every check in a chat is reached."""
    return {**_validate_points(values), **_validate_chat_checks(study, values), **_validate_check_items(study, values)}


def validate_gold_items(before: Study | None, values: StudyValues, rubric: Rubric | None) -> Errors:
    """Check that the right answers of gold items in use are answers to the study's questions."""
    if before is None or not values.attention.n_gold:
        return {}
    scales = scales_of(values, rubric)
    gold = Item.objects.filter(study=before, purpose=Item.Purpose.GOLD).order_by("pk")
    for key, expected in gold.values_list("key", "expected"):
        if wrong := answers_beyond(expected, scales):
            words = _("Gold item “%(key)s”: %(wrong)s Ask that, or correct the item.")
            return {"n_gold": words % {"key": key, "wrong": wrong}}
    return {}


def _validate_points(values: StudyValues) -> Errors:
    n_points = len([line for line in values.texts.instructions_text.splitlines() if line.strip()])
    told = [
        _("Question %(number)d marks point %(point)d, and the instructions have %(n)d.")
        % {"number": number, "point": one.point, "n": n_points}
        for number, one in enumerate(values.checking.quiz_questions, start=1)
        if one.point > n_points
    ]
    return {"quiz_questions": " ".join(told)} if told else {}


def _validate_chat_checks(study: Study, values: StudyValues) -> Errors:
    checks = values.checking.chat_checks
    if not checks or study.protocol not in protocols:
        return {}
    if protocols.get(study.protocol).gives != "bots":
        sentence = _("The protocol “%(name)s” has no chats, so it cannot ask anything in a chat.")
        return {"chat_checks": sentence % {"name": protocols.get(study.protocol).title}}
    told = [
        _("Check %(number)d comes after %(after)d messages, and people may rate after %(least)d.")
        % {"number": number, "after": one.after, "least": values.chat.min_exchanges}
        for number, one in enumerate(checks, start=1)
        if one.after > values.chat.min_exchanges
    ]
    if len({one.question for one in checks}) < len(checks):
        told.append(_("Two checks ask the same. Take one out, or ask something else."))
    return {"chat_checks": " ".join(told)} if told else {}


def _validate_check_items(study: Study, values: StudyValues) -> Errors:
    """Check that attention checks among items look like them: as many replies, and a known one where they have it."""
    checks = values.attention.attention_checks
    if not checks or study.protocol not in protocols:
        return {}
    protocol = protocols.get(study.protocol)
    told = _validate_looks(checks, protocol)
    if not told and protocol.needs_reference:
        told = _validate_references(checks, values)
    return {"attention_checks": told} if told else {}


def _validate_looks(checks: Sequence[AttentionCheck], protocol: StudyProtocol) -> str:
    is_pair, has_reference = protocol.n_replies == 2, protocol.needs_reference
    for number, one in enumerate(checks, start=1):
        told = {"number": number}
        if is_pair and not one.second_response:
            return _("Check %(number)d needs a second reply: two are compared.") % told
        if not is_pair and one.second_response:
            sentence = _("Check %(number)d has a second reply, and one reply is judged at a time.")
            return sentence % told
        if has_reference and not (one.reference and one.reference_score is not None):
            sentence = _(
                "Check %(number)d needs a reference reply and its score, as every reply here has one next to it."
            )
            return sentence % told
        if not has_reference and (one.reference or one.reference_score is not None):
            sentence = _("Check %(number)d has a reference reply, and this protocol shows none.")
            return sentence % told
    return ""


def _validate_references(checks: Sequence[AttentionCheck], values: StudyValues) -> str:
    """Check that known scores are on the scale, and that nothing is expected that is not asked of checks."""
    rated = [one for one in values.after if one.is_rated]
    low, high = (min((one.low for one in rated), default=1), max((one.high for one in rated), default=5))
    for number, one in enumerate(checks, start=1):
        told = {"number": number, "score": one.reference_score, "low": low, "high": high}
        if rated and one.reference_score is not None and not low <= one.reference_score <= high:
            sentence = _("Check %(number)d: the score %(score)g is not from %(low)g to %(high)g.")
            return sentence % told
        for question in values.after:
            if question.key in one.expected and question.key in values.referencing.asked_only_of:
                sentence = _(
                    "Check %(number)d expects an answer to “%(title)s”, which is asked of one kind of talk alone."
                )
                return sentence % {**told, "title": question.title}
    return ""
