"""Texts of participants' pages: study, refusals and notes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from webapp.conversations.models import Conversation
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.core.markdown import page_html
from webapp.participant.recruitment_links import PLATFORM_NAMES
from webapp.studies.conditions import condition_texts
from webapp.studies.models import Study, StudyVersion
from webapp.studies.privacy import points_agreed_to, shows_only_form
from webapp.studies.protocols.base import HeaderStep, get_protocol, header_steps, protocols
from webapp.studies.recruitment.completion import is_paid, pay_text, promises_pay
from webapp.studies.refusals import BOTS_ANSWERING, CHAT_NOT_FAILED, CHOICE_MISSING
from webapp.studies.settings import StudyValues, texts_first
from webapp.studies.start_refusals import RefusalText, StartRefusal

_UNTRANSLATED = mark_safe(' translate="no"')
"""Attribute of texts that the browser must not translate: replies and items."""
_WORDS_READ_PER_MINUTE = 200


@dataclass(frozen=True, slots=True)
class InstructionPoint:
    """Point of the instructions: its first sentence, and the rest."""

    title: str
    rest: str


@dataclass(frozen=True, slots=True)
class ConditionLine:
    """Text of a chat's condition, with its setting and its heading."""

    name: str
    title: str
    text: str


def condition_lines(conversation: Conversation, *, is_own: bool = True) -> list[ConditionLine]:
    """Return the texts of a chat's condition in display order.

    Empty in a study without conditions.

    Args:
        is_own: False for the page of a rater, who reads neither the instructions nor the disclosure.
    """
    version = conversation.version
    if version is None or not conversation.condition:
        return []
    texts = condition_texts(version.values, conversation.condition).for_participants()
    titles = {
        "scenario": _("The situation"),
        "persona": _("Your role") if is_own else _("The participant's role"),
        "topic": _("The topic"),
        "goal": _("Your goal") if is_own else _("The participant's goal"),
        "success": _("When the goal is reached"),
    }
    if is_own:
        titles |= {"instructions": _("What to do"), "disclosure": _("Please note")}
    return [ConditionLine(name, title, texts[name]) for name, title in titles.items() if name in texts]


@dataclass(frozen=True, slots=True)
class HeaderProgress:
    """Places of a protocol's steps in the header, and the current one."""

    places: list[HeaderStep]
    now: HeaderStep

    @property
    def n_places(self) -> int:
        """Number of places."""
        return len(self.places)


def header_progress(study: Study, step: str) -> HeaderProgress:
    """Return the header's places for a page of this step."""
    places = header_steps(protocols.get(study.protocol).steps)
    return HeaderProgress(places, next(place for place in places if step in place.steps))


def refusal_text(refusal: Refused, platform: str, study: Study) -> RefusalText:
    """Return the text for a participant who cannot start.

    It depends on the recruitment platform. A code without a text, such as a plug-in's, is shown with the refusal's
    message.
    """
    code = StartRefusal.get_member(refusal.code)
    if code is None:
        return RefusalText(_("You cannot continue with this study."), refusal.message)
    if code is StartRefusal.ALL_RATED and not _has_chat(study):
        code = StartRefusal.ALL_JUDGED
    if code is not StartRefusal.NO_IDS:
        return code.text
    nobody_known = (
        _("Without it we cannot tell who you are and could not pay you. Nothing was stored.")
        if is_paid(study.values)
        else _("Without it we cannot tell who you are. Nothing was stored.")
    )
    if study.values.recruitment.platform == "panel" and platform not in PLATFORM_NAMES:
        return RefusalText(
            _("Your participant ID is missing from this link"),
            nobody_known,
            what_now=_("Open the study again from where you found it."),
            for_researcher=_(
                "For the researcher: paste the whole address from “Participants and pay” into the panel. Replace "
                "each pair of brackets with the panel's placeholder for the participant ID."
            ),
        )
    name = {"name": PLATFORM_NAMES.get(platform, PLATFORM_NAMES["prolific"])}
    return RefusalText(
        _("Your %(name)s ID is missing from this link") % name,
        nobody_known,
        what_now=_("Open the study from %(name)s again.") % name,
        for_researcher=_(
            "For the researcher: paste the whole address from “Participants and pay”. %(name)s fills in its "
            "placeholders when participants open the study from there. They stay unfilled if you open the address "
            "yourself."
        )
        % name,
    )


def study_texts(study: Study, version: StudyVersion) -> dict[str, Any]:
    """Return the template context that every page has of a study's version."""
    return {
        "study": study,
        "values": version.values,
        "instructions": [_point(line) for line in _lines(version.values.texts.instructions_text)],
        "has_chat": _has_chat(study),
        "untranslated": _UNTRANSLATED if version.values.texts.browser_translation == "forbid" else "",
        "chat_rules": version.values.chat if get_protocol(study).talks_to_bots else None,
        "is_paid": is_paid(version.values),
        "promises_pay": promises_pay(version.values),
    }


def consent_texts(version: StudyVersion) -> dict[str, Any]:
    """Return the template context of the consent page."""
    values = version.values
    return {
        "pay_said": pay_text(values),
        "is_pay_of_all_parts": bool(values.sittings.parts) and not values.texts.payment.strip(),
        "consent_points": _lines(points_agreed_to(values)),
        "typing_points": _lines(values.typing.agreed_notice),
        "rights_points": [] if shows_only_form(values) else describe_rights(values),
        "notice_lines": _lines(values.comfort.content_notice),
        "consent_html": page_html(values.texts.consent_text),
        "is_form_open": values.texts.consent_layout != "folded",
        "consent_minutes": max(1, round(len(values.texts.consent_text.split()) / _WORDS_READ_PER_MINUTE)),
    }


def describe_rights(values: StudyValues) -> list[str]:
    """Return a sentence for each promise about withdrawal and retention."""
    rights = values.rights
    sentences = []
    if days := rights.withdrawal_days:
        sentences.append(
            ngettext(
                "For %(n)s day after you finish you can have your data deleted, by a link on the last page.",
                "For %(n)s days after you finish you can have your data deleted, by a link on the last page.",
                days,
            )
            % {"n": days}
        )
    if (ids := rights.ids_kept_days) is not None:
        erased = (
            ngettext(
                "Your participant ID on the recruitment platform is erased %(n)s day after the study has ended, or "
                "after your pay was decided if that is later.",
                "Your participant ID on the recruitment platform is erased %(n)s days after the study has ended, or "
                "after your pay was decided if that is later.",
                ids,
            )
            if is_paid(values)
            else ngettext(
                "Your participant ID on the recruitment platform is erased %(n)s day after the study has ended.",
                "Your participant ID on the recruitment platform is erased %(n)s days after the study has ended.",
                ids,
            )
        )
        sentences.append(erased % {"n": ids})
    if (texts := rights.texts_kept_days) is not None:
        sentences.append(
            ngettext(
                "What you write is erased %(n)s day after the study has ended; your ratings stay.",
                "What you write is erased %(n)s days after the study has ended; your ratings stay.",
                texts,
            )
            % {"n": texts}
        )
    return sentences


def _has_chat(study: Study) -> bool:
    return any(step.name == "chat" for step in protocols.get(study.protocol).steps)


def chat_notes(version: StudyVersion) -> dict[str, tuple[str, str]]:
    """Return notes that an address can show on the chat page.

    Each has bold first words and the rest.
    """
    has_people = version.values.people.disclosure != "none"
    failed = _("Your chat partner did not answer.") if has_people else _("The chatbot did not answer.")
    return {
        "too_early": (
            _("Not yet."),
            _("Write at least %(n)s messages before you rate the chat.") % {"n": version.values.chat.min_exchanges},
        ),
        "too_soon": (_("Not yet."), _("Chat a little longer before you rate it.")),
        "waiting_for_reply": (
            _("The chatbot is still answering."),
            _("You can rate the chat once the reply is complete."),
        ),
        "check_due": (_("One question first."), _("Answer it, then continue.")),
        "not_failed": (str(CHAT_NOT_FAILED), _("Keep writing.")),
        "no_bot": (failed, _("No other chatbot is available now. Try again, or finish early.")),
        "all_rated": (failed, _("You have chatted with all the others. Try again, or finish early.")),
        "paused": (failed, _("The study is paused, so you cannot get another chatbot. Finish early.")),
        "ended": (failed, _("The study has ended, so you cannot get another chatbot. Finish early.")),
        **dict.fromkeys(
            ("full", "limit", "bots_full", "spent", "sitting_late"),
            (failed, _("There is no other chatbot for you. Try again, or finish early.")),
        ),
    }


def arena_notes() -> dict[str, tuple[str, str]]:
    """Return notes that an address can show in the arena.

    Each has bold first words and the rest.
    """
    failed = _("One chatbot did not answer.")
    return {
        "bad_answers": (_("Not saved yet."), str(CHOICE_MISSING)),
        "too_early": (_("Not yet."), _("Write a little more before you choose.")),
        "too_soon": (_("Not yet."), _("Chat a little longer before you choose.")),
        "waiting_for_reply": (_("Not yet."), str(BOTS_ANSWERING)),
        "check_due": (_("One question first."), _("Answer it, then continue.")),
        "pick_due": (_("Not yet."), _("Pick a reply first.")),
        "not_failed": (_("Both chatbots are still running."), _("Keep writing.")),
        "no_bot": (failed, _("No other pair is available now. Try again, or finish early.")),
        "all_rated": (failed, _("You have chatted with all other pairs. Try again, or finish early.")),
    }


def own_thanks(version: StudyVersion) -> str:
    """Return the study's own words of thanks.

    Empty for the default ones, because the page already thanks.
    """
    texts = version.values.texts
    usual = texts_first(texts.language)["texts"]["thanks_text"]
    return "" if texts.thanks_text == usual else texts.thanks_text


def place_held_until(conversation: Conversation) -> datetime | None:
    """Return the time until which the participant's place is reserved.

    None once that is over.
    """
    if conversation.task is None or conversation.study is None:
        return None
    until = conversation.task.created_at + conversation.study.values.assignment.place_held_for
    return until if until > database_now() else None


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _point(line: str) -> InstructionPoint:
    title, stop, rest = line.partition(". ")
    return InstructionPoint(title, rest) if stop else InstructionPoint(line.rstrip("."), "")
