"""What cannot be of the checks that a study makes of its people, in sentences beside the field they are about."""

from __future__ import annotations

from django.utils.translation import gettext as _

from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.values import StudyValues

Errors = dict[str, str]


def checking_wrong(study: Study, values: StudyValues) -> Errors:
    """Check that every point that is marked is there, and that every check in a chat is reached."""
    return {**_points_wrong(values), **_chat_checks_wrong(study, values)}


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
