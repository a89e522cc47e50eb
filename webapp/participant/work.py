"""Description of the work on a study's first page: the task, and its amount."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from webapp.studies.models import Item, Study, StudyVersion
from webapp.studies.protocols.base import protocols
from webapp.studies.rubrics import asked_after


@dataclass(frozen=True, slots=True)
class Work:
    """Description of a participant's work.

    Attributes:
        lead: a sentence or two.
        amount: amount of work, with its unit; unit: explanation of the unit, in small print.
        field: name of the setting for the amount.
    """

    lead: str
    amount: str
    unit: str
    field: str


def work_of(study: Study, version: StudyVersion) -> Work:
    """Return the description of the work in a study, from its protocol's settings."""
    settings = protocols.get(study.protocol).settings
    values = version.values
    if "arena" in settings:
        # No participant gets a pair twice, so few chatbots make fewer pairs.
        n = min(values.arena.n_comparisons, comb(len(values.bots), 2) or 1)
        return Work(
            _("You write to two computer programs at once and say which of them is better."),
            ngettext("%(n)s pair", "%(n)s pairs", n) % {"n": n},
            _("of chatbots to compare"),
            "n_comparisons",
        )
    if "chat" in settings:
        n = values.chat.min_exchanges
        return Work(
            _chat_lead("own_marking" in settings, len(asked_after(version))),
            ngettext("%(n)s message", "%(n)s messages", n) % {"n": n},
            _("or more, by you"),
            "min_exchanges",
        )
    if "dialogues" in settings:
        n = values.dialogues.n_dialogues
        return Work(
            _("You read two conversations side by side and choose one of them."),
            ngettext("%(n)s pair", "%(n)s pairs", n) % {"n": n},
            _("of conversations to read"),
            "n_dialogues",
        )
    if "marking" in settings:
        n = values.marking.n_conversations
        return Work(
            _("You read what was said in a conversation and tick what is true of the replies."),
            ngettext("%(n)s chat", "%(n)s chats", n) % {"n": n},
            _("to read"),
            "n_conversations",
        )
    if "choosing" in settings:
        n = values.choosing.n_choose
        return Work(
            _("You choose from a list. There are no right or wrong answers."),
            ngettext("%(n)s thing", "%(n)s things", n) % {"n": n},
            _("to choose"),
            "n_choose",
        )
    n = values.judging.n_items
    amount = ngettext("%(n)s text", "%(n)s texts", n) % {"n": n}
    return Work(_judging_lead(study, version), amount, _("to judge"), "n_items")


def _judging_lead(study: Study, version: StudyVersion) -> str:
    least, most = _n_asked(study, version)
    if least == most:
        lead = ngettext(
            "You read and answer %(n)s question about each text. There are no right or wrong answers.",
            "You read and answer %(n)s questions about each text. There are no right or wrong answers.",
            most,
        )
    else:
        lead = ngettext(
            "You read and answer %(least)s to %(n)s question about each text. There are no right or wrong answers.",
            "You read and answer %(least)s to %(n)s questions about each text. There are no right or wrong answers.",
            most,
        )
    return lead % {"least": least, "n": most}


def _n_asked(study: Study, version: StudyVersion) -> tuple[int, int]:
    """Return the least and the greatest number of questions about one text of the study."""
    protocol = protocols.get(study.protocol)
    questions = asked_after(version)
    always = {one.key for one in questions if not one.is_check}
    n_checks = len(questions) - len(always)  # about only one of the texts
    kinds = {""}
    if protocol.leaves_out(version):
        kinds = set(study.items.order_by().values_list("task", flat=True).distinct()) or kinds
    numbers = [
        len(always - protocol.not_asked(version, Item(task=kind))) + protocol.n_more_asked
        for kind in kinds
    ]
    return min(numbers), max(numbers) + n_checks


def _chat_lead(is_marked: bool, n_asked: int) -> str:
    if is_marked:
        return _(
            "One short conversation with a computer program, whose replies you mark. There are no right or wrong "
            "answers."
        )
    lead = ngettext(
        "One short conversation with a computer program, then %(n)s question about it. "
        "There are no right or wrong answers.",
        "One short conversation with a computer program, then %(n)s questions about it. "
        "There are no right or wrong answers.",
        n_asked,
    )
    return lead % {"n": n_asked}
