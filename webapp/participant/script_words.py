"""Words in the scripts of chat and arena, with all plural forms.

They are translated into the page's language.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from webapp.conversations.images import MOST_IMAGE_MB
from webapp.studies.models import StudyVersion
from webapp.studies.recruitment.completion import promises_pay
from webapp.studies.refusals import (
    BOT_ANSWERING,
    BOTS_ANSWERING,
    CHAT_FINISHED,
    CHAT_TO_RATE,
    CHECK_DUE,
    MESSAGE_EMPTY,
    PICK_DUE,
)

# An example number of each plural category of CLDR, as named by `Intl.PluralRules` in the browser. The catalogue's own
# rule then gives that category's form in any language.
_SAMPLES = {"zero": 0, "one": 1, "two": 2, "few": 3, "many": 11, "other": 100}


def plural_forms(singular: str, plural: str) -> dict[str, str]:
    """Return the forms of a sentence by plural category.

    Each has `%(n)s` unfilled.
    """
    return {category: ngettext(singular, plural, n) for category, n in _SAMPLES.items()}


def partner_words() -> dict[str, Any]:
    """Return the words for chats whose partner may be a person.

    They name every partner alike.
    """
    return {
        "speaker": _("Partner"),
        "failed": _("Your chat partner did not answer"),
        "swap": _("Another chat partner"),
        "typing": _("It is your chat partner's turn to write."),
        "slow": _("Your chat partner has not written yet. This can take some minutes."),
        "waiting_for_reply": _("It is your chat partner's turn to write. Your text stays in the box."),
        "bot_busy": _("Your chat partner did not answer"),
        "bot_overdue": _("Your chat partner has not answered for a long time"),
        "hint_wait": _("You can keep writing. Send it once your chat partner has written."),
        "partner_waiting": _("We are looking for your chat partner. You can write as soon as your partner is here."),
        "partner_seconds": plural_forms("This takes up to %(n)s second.", "This takes up to %(n)s seconds."),
        "partner_here": _("Your chat partner is here."),
        "partner_gone": _("Your chat partner is not here"),
        "partner_ended": _("Your chat partner has finished the chat. You can rate it now."),
    }


def chat_words(version: StudyVersion) -> dict[str, Any]:
    """Return the words that `chat.js` shows."""
    return {**_chat_words(version), **(partner_words() if version.values.people.disclosure != "none" else {})}


def _chat_words(version: StudyVersion) -> dict[str, Any]:
    return {
        "speaker": _("Chatbot"),
        "failed": _("The chatbot did not answer"),
        "swap": _("New chatbot"),
        "progress": _("%(n)s of %(of)s messages"),
        "can_rate": _("Rate now, or keep chatting"),
        "complete": _("This chat is complete"),
        "opens_after": plural_forms("Available after %(n)s more message", "Available after %(n)s more messages"),
        "opens_in": plural_forms("Available in about %(n)s minute", "Available in about %(n)s minutes"),
        "time_left": plural_forms("About %(n)s minute left", "About %(n)s minutes left"),
        "time_short": _("Less than a minute left"),
        "time_over": _("The time for this chat is up."),
        "rate_soon": _("Rate once the reply is complete"),
        "rate_waits": _("Available once the reply is complete"),
        "answer_first": _("Answer the question first"),
        "image_added": _("The image is attached to your message."),
        "image_removed": _("The image was removed."),
        "image_coming": _("The image is still uploading. One moment."),
        "image_failed": _("The image could not be sent. Choose it again."),
        "image_too_large": _("This image is too large. The limit is %(n)s MB.") % {"n": MOST_IMAGE_MB},
        "typing": _("Chatbot is typing"),
        "slow": _("The chatbot is still preparing its reply. This can take some minutes."),
        "vote_saved": _("Vote saved."),
        "vote_cleared": _("Vote removed."),
        "vote_refused": _("Your vote could not be saved."),
        "back": _("You are connected again. Nothing was lost."),
        "hint_keys": _("Enter sends, Shift + Enter starts a new line"),
        "hint_wait": _("You can keep writing. Send it once the reply is complete."),
        "hint_offline": _("Your messages are sent once the connection is back."),
        "hint_failed": _("Choose how to continue."),
        "empty": str(MESSAGE_EMPTY),
        "too_long": plural_forms(
            "Your message is %(n)s character too long. It is still in the box.",
            "Your message is %(n)s characters too long. It is still in the box.",
        ),
        "too_fast": plural_forms(
            "One moment. You can send again in %(n)s second.", "One moment. You can send again in %(n)s seconds."
        ),
        "waiting_for_reply": str(BOT_ANSWERING),
        "bot_failed": " ".join(
            [
                _("The chatbot did not answer."),
                _("This is our fault, not yours. Your messages are saved and you will be paid.")
                if promises_pay(version.values)
                else _("This is our fault, not yours. Your messages are saved."),
            ]
        ),
        "refused": _("The chatbot's provider did not accept this message. Write something else, or end the chat here."),
        "bot_busy": _("Too many people are waiting for this chatbot. Try again in a minute, or switch to another one."),
        "bot_overdue": _("The chatbot has not answered for a long time"),
        "unavailable": _("Your message is not saved yet. It stays here and is sent again automatically."),
        "closed": str(CHAT_TO_RATE),
        "bad_frame": _("Something went wrong on this page. Please reload the page. Your chat is saved."),
        "moved": _("You continued on another device. Everything you saved is there."),
        "not_found": _("We cannot open this chat here. Open your link in the browser you started with."),
    }


def marked_words(version: StudyVersion) -> dict[str, Any]:
    """Return the words for `chat.js` if replies are marked instead of rated."""
    return {
        **chat_words(version),
        "can_rate": _("Finish now, or keep chatting"),
        "rate_soon": _("Finish once the reply is complete"),
        "closed": str(CHAT_FINISHED),
        "marks_saved": _("Marks saved."),
        "marks_refused": _("Your marks could not be saved."),
        "marks_cleared": _("The other marks are cleared."),
        "marks_none_cleared": _("“None of these” is cleared."),
        "marks_open": _("Mark this reply"),
        "marks_done": _("Marked: %(marks)s"),
    }


def arena_words(version: StudyVersion) -> dict[str, Any]:
    """Return the words that `arena.js` shows."""
    return {
        **chat_words(version),
        "speakers": {side: _("Chatbot %(side)s") % {"side": side} for side in ("A", "B")},
        "typing": _("Both chatbots are typing"),
        "said_by": _("Chatbot %(side)s: %(text)s"),
        "choose_later": str(BOTS_ANSWERING),
        "choose_after": plural_forms(
            "You can choose after %(n)s more message.", "You can choose after %(n)s more messages."
        ),
        "choose_in": plural_forms("You can choose in about %(n)s minute.", "You can choose in about %(n)s minutes."),
        "choose_now": _("Choose, or keep writing."),
        "choose_asked": str(CHECK_DUE),
        "choose_last": _("This conversation is complete. Choose one of the four answers."),
        "chosen": _("You can change it, or"),
        "waiting_for_reply": _("A chatbot is still answering. Your text stays in the box."),
        "hint_wait": _("You can keep writing. Send it once both replies are complete."),
        "bot_failed": " ".join([_("One chatbot did not answer."), _("This is our fault. Choose how to continue.")]),
        "refused": _("A chatbot's provider did not accept this message."),
        "closed": _("This conversation is finished. You can choose now."),
    }


def picks_words(version: StudyVersion) -> dict[str, Any]:
    """Return the words for `arena.js` in studies with picks at every turn."""
    return {
        **arena_words(version),
        "speakers": {place: _("Reply %(side)s") % {"side": place} for place in ("1", "2")},
        "typing": chat_words(version)["typing"],
        "said_by": _("Reply %(side)s: %(text)s"),
        "pick": _("Pick reply %(side)s"),
        "pick_due": str(PICK_DUE),
        "picked": _("Chatbot"),
        "picked_now": _("Saved. The chat continues with the reply you picked."),
        "choose_later": _("You can finish once you have picked a reply."),
        "choose_after": plural_forms(
            "You can finish after %(n)s more message.", "You can finish after %(n)s more messages."
        ),
        "choose_now": _("Finish, or keep writing."),
        "choose_last": _("This chat is complete."),
        "closed": str(CHAT_FINISHED),
    }
