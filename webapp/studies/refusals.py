"""Refusals of what a participant sends, each code with its sentence.

Refusals to start a task are in `start_refusals`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from webapp.core.errors import Refused


@dataclass(frozen=True, slots=True)
class RefusedAction:
    """A code of `Refused` and its sentence for the participant; as a string it is the sentence."""

    code: str
    sentence: Promise

    def __str__(self) -> str:
        return str(self.sentence)

    def refused(self, **details: Any) -> Refused:
        """Return the refusal in the participant's language."""
        return Refused(self.code, str(self), **details)


CHAT_NOT_FOUND = RefusedAction("not_found", gettext_lazy("We cannot open this chat here."))
CHAT_FINISHED = RefusedAction("closed", gettext_lazy("This chat is finished."))
CHAT_TO_RATE = RefusedAction("closed", gettext_lazy("This chat is finished. You can rate it now."))
TASK_FINISHED = RefusedAction("closed", gettext_lazy("This task is finished."))
OTHER_STEP = RefusedAction("closed", gettext_lazy("This is not the current step."))
ANSWERS_MISSING = RefusedAction("bad_answers", gettext_lazy("Some answers are missing."))
CHOICE_MISSING = RefusedAction("bad_answers", gettext_lazy("Choose one of the four answers."))
CHECK_DUE = RefusedAction("check_due", gettext_lazy("Answer the researchers' question first."))
CHAT_NOT_FAILED = RefusedAction("not_failed", gettext_lazy("This chat is still running."))
NO_SUCH_REPLY = RefusedAction("bad_frame", gettext_lazy("The chatbot has no reply with this number."))
MESSAGE_EMPTY = RefusedAction("empty", gettext_lazy("Write something first."))
BOT_ANSWERING = RefusedAction(
    "waiting_for_reply", gettext_lazy("The chatbot is still answering. Your text stays in the box.")
)
BOTS_ANSWERING = RefusedAction("waiting_for_reply", gettext_lazy("You can choose once both have answered."))
PICK_DUE = RefusedAction("pick_due", gettext_lazy("Pick a reply first. Your text stays in the box."))
