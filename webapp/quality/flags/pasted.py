"""Messages that were pasted, where typing is counted, or copied out of what the chatbot had said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.quality.flags.base import Figures, Found, register_flag
from webapp.quality.flags.repeated import folded
from webapp.quality.work import Message, Work

FEWEST_COPIED = 20
"""Letters and digits. Shorter repetitions of what a chatbot said are part of talk."""
FEWEST, SHARE = 2, 0.3
"""Messages, and of a task's messages."""


@register_flag
class Pasted:
    """A paste counts where fewer keys were pressed than half of the message has characters; a pasted link does not."""

    name = "pasted"
    title = gettext_lazy("Pasted text")
    rule = gettext_lazy(
        "At least two messages, and three of ten, were pasted (typing is counted in this study, and fewer keys were "
        "pressed than half of the characters), or repeat twenty letters or more of the chatbot's last reply and "
        "nothing else. Where typing is not counted, only the latter shows."
    )
    reasons: Mapping[str, Any] = {"none": gettext_lazy("Nobody has written two messages yet.")}

    def find(self, work: Work) -> Found:
        found: dict[int, Figures] = {}
        n_looked_at = 0
        for task, messages in work.messages.items():
            n_looked_at += len(messages) >= FEWEST
            pasted = sum(is_pasted(message) for message in messages)
            copied = sum(is_copied(message) and not is_pasted(message) for message in messages)
            if pasted + copied >= FEWEST and pasted + copied >= SHARE * len(messages):
                found[task] = {"pasted": pasted, "copied": copied, "messages": len(messages)}
        if not n_looked_at:
            return Found(why_none="none")
        return Found(found, n_looked_at, about={"counted": work.counts_typing})

    def explain(self, figures: Figures, about: Figures) -> str:
        pasted, copied, n = figures["pasted"], figures["copied"], figures["messages"]
        if not copied:
            return _("{pasted} of {n} messages were pasted.").format(pasted=pasted, n=n)
        if not pasted:
            return _("{copied} of {n} messages only repeat the chatbot's last reply.").format(
                copied=copied, n=n
            )
        return _(
            "{pasted} of {n} messages were pasted, and {copied} only repeat the chatbot's last reply."
        ).format(pasted=pasted, copied=copied, n=n)


def is_pasted(message: Message) -> bool:
    """Return True if most of a message was pasted, as far as typing was counted."""
    typed = message.typed
    return typed is not None and typed.pastes > 0 and typed.keystrokes * 2 < len(message.text)


def is_copied(message: Message) -> bool:
    """Return True if a message is only a piece of the reply before it, or of the other bot's reply."""
    # Folding takes most of the time of all flags, and a short message needs none.
    if len(message.text) < FEWEST_COPIED:
        return False
    said = folded(message.text)
    if len(said) < FEWEST_COPIED:
        return False
    return any(said in folded(one) for one in (message.answered, message.beside) if one)
