"""Validation of a study's checks of participants: error messages by field."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _

from webapp.studies.attention import AttentionCheck, answers_beyond
from webapp.studies.models import Item, Rubric, Study
from webapp.studies.protocols.base import StudyProtocol, protocols
from webapp.studies.rubrics import scales_of
from webapp.studies.section_checks import Errors
from webapp.studies.values import StudyValues


def checking_wrong(study: Study, values: StudyValues) -> Errors:
    """Check that every point that is marked is there, and that every check in a chat is reached."""
    return {
        **_points_wrong(values),
        **_chat_checks_wrong(study, values),
        **_items_wrong(study, values),
    }


def gold_wrong(before: Study | None, values: StudyValues, rubric: Rubric | None) -> Errors:
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


def _points_wrong(values: StudyValues) -> Errors:
    n_points = len([line for line in values.texts.instructions_text.splitlines() if line.strip()])
    told = [
        _("Question %(number)d marks point %(point)d, and the instructions have %(n)d.")
        % {"number": number, "point": one.point, "n": n_points}
        for number, one in enumerate(values.checking.quiz_questions, start=1)
        if one.point > n_points
    ]
    return {"quiz_questions": " ".join(told)} if told else {}


def _chat_checks_wrong(study: Study, values: StudyValues) -> Errors:
    checks = values.checking.chat_checks
    if not checks or study.protocol not in protocols:
        return {}
    if protocols.get(study.protocol).gives != "bots":
        sentence = _("In the protocol “%(name)s” nobody chats, so nothing can be asked in a chat.")
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


def _items_wrong(study: Study, values: StudyValues) -> Errors:
    """Check that attention checks among items look like them: as many replies, and a known one where they have it."""
    checks = values.attention.attention_checks
    if not checks or study.protocol not in protocols:
        return {}
    protocol = protocols.get(study.protocol)
    told = _looks_wrong(checks, protocol)
    if not told and protocol.needs_reference:
        told = _references_wrong(checks, values)
    return {"attention_checks": told} if told else {}


def _looks_wrong(checks: Sequence[AttentionCheck], protocol: StudyProtocol) -> str:
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
                "Check %(number)d needs a known reply and its score, for every reply has one beside it."
            )
            return sentence % told
        if not has_reference and (one.reference or one.reference_score is not None):
            sentence = _("Check %(number)d has a known reply, and this protocol shows none.")
            return sentence % told
    return ""


def _references_wrong(checks: Sequence[AttentionCheck], values: StudyValues) -> str:
    """Check that known scores are on the scale, and that nothing is expected that is not asked of checks."""
    rated = [one for one in values.after if one.is_rated]
    low, high = (
        min((one.low for one in rated), default=1),
        max((one.high for one in rated), default=5),
    )
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
