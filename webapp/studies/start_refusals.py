"""Reasons why nobody can start a task, with texts for participants.

A member contains both a code and its text. A plug-in's refusal has its own code, and its message is its text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from webapp.core.errors import Refused


@dataclass(frozen=True, slots=True)
class RefusalText:
    """Text for a participant who cannot start a task.

    Attributes:
        sentence: message of the refusal, for logs and API clients; empty for the title.
    """

    title: str | Promise
    body: str | Promise
    sentence: str | Promise = ""
    can_try_again: bool = False
    what_now: str | Promise = ""
    for_researcher: str | Promise = ""


_KEPT = gettext_lazy("Nothing you sent is lost.")
ALL_ITEMS_RATED = gettext_lazy("You have already rated everything.")
ALL_PAIRS_RATED = gettext_lazy("You have already compared all chatbots.")
"""Sentences of `ALL_RATED` where no single chatbots are rated."""


class StartRefusal(StrEnum):
    """Codes of refusals to start.

    Attributes:
        text: text that the participant reads.
    """

    text: RefusalText

    def __new__(cls, code: str, text: RefusalText) -> StartRefusal:
        """Make a member from a code and its text."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.text = text
        return member

    ALL_RATED = (
        "all_rated",
        RefusalText(
            gettext_lazy("You have already rated every chatbot"),
            gettext_lazy("There is nothing more for you to do. Nothing you sent is lost."),
            sentence=gettext_lazy("You have already rated every chatbot."),
        ),
    )
    ALL_JUDGED = (
        "all_judged",
        RefusalText(
            gettext_lazy("You have already rated everything"),
            gettext_lazy("There is nothing more for you to do. Nothing you sent is lost."),
        ),
    )
    ELSEWHERE = (
        "elsewhere",
        RefusalText(
            gettext_lazy("You are chatting in another window"),
            gettext_lazy(
                "Go back to it, in the browser you started with. If it is closed, open this link again "
                "in ten minutes. Nothing you sent is lost."
            ),
            can_try_again=True,
            sentence=gettext_lazy("You are chatting in another window."),
        ),
    )
    LIMIT = (
        "limit",
        RefusalText(
            gettext_lazy("You have already taken part the maximum number of times"),
            gettext_lazy("There is nothing more for you to do. Nothing you sent is lost."),
            sentence=gettext_lazy("You have already taken part the maximum number of times."),
        ),
    )
    LINK_MISSING = (
        "link_missing",
        RefusalText(
            gettext_lazy("You need a personal link to open this study"),
            gettext_lazy("Use the complete link you were sent. We have not stored anything."),
        ),
    )
    LINK_UNKNOWN = (
        "link_unknown",
        RefusalText(
            gettext_lazy("We do not recognise this link"),
            gettext_lazy("Part of it may be missing. Open it again from the message you received. Nothing was stored."),
        ),
    )
    LINK_EXPIRED = (
        "link_expired",
        RefusalText(
            gettext_lazy("This link has expired"),
            gettext_lazy("It was only valid for a limited time. Nothing was stored."),
            what_now=gettext_lazy("Ask the person who sent it for a new one."),
        ),
    )
    LINK_USED = (
        "link_used",
        RefusalText(
            gettext_lazy("This link has already been used"),
            gettext_lazy("Each link works once, for one person. Nothing was stored."),
        ),
    )
    NOT_AGAIN = (
        "not_again",
        RefusalText(
            gettext_lazy("Your part in this study is over"),
            gettext_lazy("Each person can take part only once."),
            sentence=gettext_lazy("Each person can take part only once."),
        ),
    )
    NOT_INVITED = (
        "not_invited",
        RefusalText(
            gettext_lazy("This study is for people who took part in an earlier one"),
            gettext_lazy("Your participant ID is not one of theirs. Nothing was stored."),
            sentence=gettext_lazy("This study is for people who took part in an earlier one."),
        ),
    )
    TOOK_PART = (
        "took_part",
        RefusalText(
            gettext_lazy("You took part in an earlier study"),
            gettext_lazy("This study is for people who did not take part in it. Nothing was stored."),
            sentence=gettext_lazy("This study is for people who did not take part in an earlier one."),
        ),
    )
    ALL_SITTINGS = (
        "all_sittings",
        RefusalText(
            gettext_lazy("You have done all parts"),
            gettext_lazy("There is nothing more for you to do. Nothing you sent is lost."),
        ),
    )
    SITTING_EARLY = (
        "sitting_early",
        RefusalText(
            gettext_lazy("The next part is not open yet"),
            gettext_lazy("Thank you for coming back. Nothing you sent is lost."),
            what_now=gettext_lazy("Open the same link again once it is open."),
        ),
    )
    SITTING_LATE = (
        "sitting_late",
        RefusalText(
            gettext_lazy("The next part has closed"),
            gettext_lazy("Thank you for coming back. Everything you sent in the earlier parts is saved."),
            what_now=gettext_lazy("Press the button below to finish. You cannot do the remaining parts."),
        ),
    )
    WITHDREW = (
        "withdrew",
        RefusalText(
            gettext_lazy("You withdrew from this study"),
            gettext_lazy("Your data have been deleted, so you cannot take part again."),
            sentence=gettext_lazy("You withdrew from this study."),
        ),
    )
    FULL = (
        "full",
        RefusalText(
            gettext_lazy("This study has all the participants it needs"),
            _KEPT,
            sentence=gettext_lazy("This study has all the participants it needs."),
        ),
    )
    BOTS_FULL = (
        "bots_full",
        RefusalText(
            gettext_lazy("The chatbots you have not met already have enough chats"),
            _KEPT,
            sentence=gettext_lazy("The chatbots you have not met already have enough chats."),
        ),
    )
    SPENT = (
        "spent",
        RefusalText(
            gettext_lazy("This study's budget has been used up"),
            _KEPT,
            sentence=gettext_lazy("This study's budget has been used up."),
        ),
    )
    PAUSED = (
        "paused",
        RefusalText(
            gettext_lazy("This study is paused"),
            gettext_lazy("You can open the same link again later. Nothing you sent is lost."),
            can_try_again=True,
            sentence=gettext_lazy("This study is paused."),
        ),
    )
    DRAFT = (
        "draft",
        RefusalText(
            gettext_lazy("This study is not open yet"),
            gettext_lazy("You can open the same link again later. Nothing was stored."),
            can_try_again=True,
            sentence=gettext_lazy("This study is not open yet."),
        ),
    )
    ENDED = (
        "ended",
        RefusalText(gettext_lazy("This study has ended"), _KEPT, sentence=gettext_lazy("This study has ended.")),
    )
    NO_BOT = (
        "no_bot",
        RefusalText(
            gettext_lazy("No chatbot is available at the moment"),
            gettext_lazy("This is our fault, not yours. Try again in a few minutes."),
            can_try_again=True,
            sentence=gettext_lazy("No chatbot is available at the moment."),
        ),
    )
    # Specific to the platform that the participant comes from: `page_texts.refusal_text`.
    NO_IDS = (
        "no_ids",
        RefusalText(
            gettext_lazy("Your participant ID is missing from this link"),
            gettext_lazy("Without it we cannot tell who you are. Nothing was stored."),
        ),
    )
    ID_TOO_LONG = (
        "id_too_long",
        RefusalText(
            gettext_lazy("Your participant ID is too long"),
            gettext_lazy("It has more than 200 characters. Nothing was stored."),
            what_now=gettext_lazy("Please tell the people who sent you this link."),
        ),
    )

    def refused(self, sentence: str | Promise = "", **details: Any) -> Refused:
        """Return the refusal in the participant's language; its message is the member's sentence by default."""
        return Refused(self, str(sentence or self.text.sentence or self.text.title), **details)

    @classmethod
    def get_member(cls, code: str) -> StartRefusal | None:
        """Return the member of a code; None for a plug-in's code."""
        return next((member for member in cls if member == code), None)
