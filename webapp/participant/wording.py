"""Sentences the chat's script needs, translated and with plurals, as data for its page."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from webapp.studies.models import StudyVersion
from webapp.studies.money import promises_pay

# A number of each plural category of CLDR, as `Intl.PluralRules` names them in the browser. The
# catalogue's own rule then gives that category's form, whatever the language.
_SAMPLES = {"zero": 0, "one": 1, "two": 2, "few": 3, "many": 11, "other": 100}


def plural_forms(singular: str, plural: str) -> dict[str, str]:
    """Return the forms of a sentence by plural category, each with its `%(n)s` still in place."""
    return {category: ngettext(singular, plural, n) for category, n in _SAMPLES.items()}


def chat_words(version: StudyVersion) -> dict[str, Any]:
    """Return the words that `chat.js` shows."""
    return {
        "progress": _("%(n)s of %(of)s messages"),
        "can_rate": _("Rate now, or keep chatting"),
        "complete": _("This chat is complete"),
        "opens_after": plural_forms(
            "Opens after %(n)s more message", "Opens after %(n)s more messages"
        ),
        "rate_soon": _("Rate when the reply is complete"),
        "rate_waits": _("Opens when the reply is complete"),
        "answer_first": _("Answer the question first"),
        "typing": _("Chatbot is typing"),
        "slow": _("The chatbot is still preparing its reply. This can take some minutes."),
        "vote_saved": _("Vote saved."),
        "vote_cleared": _("Vote removed."),
        "vote_refused": _("Your vote could not be saved."),
        "back": _("You are back. Nothing was lost."),
        "hint_keys": _("Enter sends, Shift + Enter starts a new line"),
        "hint_wait": _("You can keep writing. Send opens when the reply is complete."),
        "hint_offline": _("Messages wait here until the connection is back."),
        "hint_failed": _("Choose how to go on."),
        "empty": _("Write something first."),
        "too_long": plural_forms(
            "That is %(n)s character too long. Your text is still in the box.",
            "That is %(n)s characters too long. Your text is still in the box.",
        ),
        "too_fast": plural_forms(
            "One moment. You can send again in %(n)s second.",
            "One moment. You can send again in %(n)s seconds.",
        ),
        "waiting_for_reply": _("The chatbot is still answering. Your text stays in the box."),
        "bot_failed": " ".join(
            [
                _("The chatbot did not answer."),
                _("This is our fault, not yours. Your messages are saved and you will be paid.")
                if promises_pay(version.values)
                else _("This is our fault, not yours. Your messages are saved."),
            ]
        ),
        "bot_busy": _(
            "Too many people are waiting for this chatbot. Try again in a minute, or take another."
        ),
        "bot_overdue": _("The chatbot has not answered for a long time"),
        "unavailable": _(
            "Your message is not saved yet. It waits here and is sent again by itself."
        ),
        "closed": _("This chat is finished. You can rate it now."),
        "bad_frame": _("Something went wrong on this page. Reload it; your chat is saved."),
        "moved": _("You went on on another device. Everything that was saved is there."),
        "not_found": _(
            "We cannot open this chat here. Open the link you were given, "
            "in the browser you started with."
        ),
    }


def marked_words(version: StudyVersion) -> dict[str, Any]:
    """Return the words that `chat.js` shows where the chat's replies are marked and nothing is rated."""
    return {
        **chat_words(version),
        "can_rate": _("Finish now, or keep chatting"),
        "rate_soon": _("Finish when the reply is complete"),
        "closed": _("This chat is finished."),
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
        "choose_later": _("You can choose when both have answered."),
        "choose_after": plural_forms(
            "You can choose after %(n)s more message.", "You can choose after %(n)s more messages."
        ),
        "choose_now": _("Choose, or write on."),
        "choose_asked": _("Answer the question of the researchers first."),
        "choose_last": _("This talk is complete. Choose one of the four."),
        "chosen": _("You can change it, or"),
        "waiting_for_reply": _("A chatbot is still answering. Your text stays in the box."),
        "hint_wait": _("You can keep writing. Send opens when both replies are complete."),
        "bot_failed": " ".join(
            [_("One chatbot did not answer."), _("This is our fault. Choose how to go on.")]
        ),
        "closed": _("This talk is finished. You can choose now."),
    }
