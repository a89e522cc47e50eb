"""What cannot be of the checks that a study makes of its people, in sentences beside the field they are about."""

from __future__ import annotations

from django.utils.translation import gettext as _

from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import marks_own_chats
from webapp.studies.values import StudyValues

Errors = dict[str, str]


def checking_wrong(study: Study, values: StudyValues) -> Errors:
    """Check that every point that is marked is there, and that every check in a chat is reached."""
    return {
        **_points_wrong(values),
        **_chat_checks_wrong(study, values),
        **_asked_checks_wrong(study, values),
        **_pairs_wrong(study, values),
    }


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
    if all(step.name != "chat" for step in protocols.get(study.protocol).steps):
        sentence = _("In the protocol “%(name)s” nobody chats, so nothing can be asked in a chat.")
        return {"chat_checks": sentence % {"name": study.protocol}}
    told = [
        _("Check %(number)d comes after %(after)d messages, and people may rate after %(least)d.")
        % {"number": number, "after": one.after, "least": values.chat.min_exchanges}
        for number, one in enumerate(checks, start=1)
        if one.after > values.chat.min_exchanges
    ]
    if len({one.question for one in checks}) < len(checks):
        told.append(_("Two checks ask the same. Take one out, or ask something else."))
    return {"chat_checks": " ".join(told)} if told else {}


def _asked_checks_wrong(study: Study, values: StudyValues) -> Errors:
    """Check that there is a form for attention checks among the questions after the task."""
    checks = [one for one in values.after if one.is_check]
    if not checks or not marks_own_chats(study):
        return {}
    sentence = _(
        "“%(key)s” is an attention check, and after this task replies are marked. Ask it before the task, or in the chat."
    )
    return {"after": sentence % {"key": checks[0].key}}


def _pairs_wrong(study: Study, values: StudyValues) -> Errors:
    """Check that an attention check among items holds as many replies as they do."""
    checks = values.attention.attention_checks
    if not checks or study.protocol not in protocols:
        return {}
    protocol = protocols.get(study.protocol)
    if protocol.needs_reference:
        sentence = _(
            "This protocol shows a known reply beside each. Give items a known right answer instead (gold)."
        )
        return {"attention_checks": sentence}
    is_pair = protocol.n_replies == 2
    wrong = [
        number for number, one in enumerate(checks, start=1) if bool(one.second_response) != is_pair
    ]
    if not wrong:
        return {}
    sentence = (
        _("Check %(number)d needs a second reply: two are compared.")
        if is_pair
        else _("Check %(number)d has a second reply, and one reply is judged at a time.")
    )
    return {"attention_checks": sentence % {"number": wrong[0]}}
