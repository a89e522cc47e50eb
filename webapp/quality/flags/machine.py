"""Long messages that nobody typed as people type: perhaps a language model wrote them.

The 168,000 people whom Dhakal et al. (2018) watched type wrote 52 words a minute on average, which is about 4
characters a second, and the fastest over 120, which is 10; and of 100 keys about 6 took something back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.quality.flags.base import Figures, Found, register_flag
from webapp.quality.flags.pasted import is_pasted
from webapp.quality.work import Message, Work

LONG = 60
"""Characters. Shorter messages are typed too differently to say anything."""
CHARS_PER_S = 15
"""Faster than the fastest typists."""
NEVER_TAKEN_BACK = 200
"""So many characters without one deletion are rare in typing, and usual in copying out by hand."""
FEWEST, SHARE = 2, 0.5


@register_flag
class Machine:
    """Only where the study counts typing and its consent text says so."""

    name = "machine"
    title = gettext_lazy("Typed unlike people")
    rule = gettext_lazy(
        "At least two messages of 60 characters or more, and half of those they wrote, were pasted, came faster than "
        "15 characters a second (people type 4, the fastest little more than 10: Dhakal et al., 2018), or have 200 "
        "characters without one deletion. A language model may have written them; so may dictation, or a text "
        "prepared before."
    )
    reasons: Mapping[str, Any] = {
        "not_counted": gettext_lazy(
            "Typing is not counted in this study. It can be, where the consent text says so."
        ),
        "none": gettext_lazy("Nobody has written two messages of 60 characters yet."),
    }

    def find(self, work: Work) -> Found:
        messages = work.messages
        if not work.counts_typing:
            return Found(why_none="not_counted")
        found: dict[int, Figures] = {}
        n_looked_at = 0
        for task, written in messages.items():
            long = [one for one in written if one.typed is not None and len(one.text) >= LONG]
            if len(long) < FEWEST:
                continue
            n_looked_at += 1
            pasted = sum(is_pasted(one) for one in long)
            quick = sum(is_quick(one) and not is_pasted(one) for one in long)
            even = sum(is_even(one) and not is_quick(one) and not is_pasted(one) for one in long)
            suspected = pasted + quick + even
            if suspected >= FEWEST and suspected >= SHARE * len(long):
                found[task] = {"pasted": pasted, "quick": quick, "even": even, "long": len(long)}
        return Found(found, n_looked_at, "" if n_looked_at else "none")

    def explain(self, figures: Figures, about: Figures) -> str:
        ways = {
            "pasted": _("{k} of {n} long messages were pasted."),
            "quick": _("{k} of {n} long messages came faster than anybody types."),
            "even": _("{k} of {n} long messages were typed without one deletion."),
        }
        said = [
            words.format(k=figures[way], n=figures["long"])
            for way, words in ways.items()
            if figures[way]
        ]
        maybe = _("A language model may have written them, or somebody dictated or had them ready.")
        return " ".join([*said, maybe])


def is_quick(message: Message) -> bool:
    """Return True if a message came faster than any participant types.

    Where fewer keys were counted than half of the characters (keyboards that insert whole words, dictation, a draft
    from before the page was opened again) the time says nothing.
    """
    typed, n = message.typed, len(message.text)
    return typed is not None and typed.keystrokes * 2 >= n and n * 1000 > CHARS_PER_S * typed.ms


def is_even(message: Message) -> bool:
    """Return True if a long message was typed without any deletion.

    Keyboards that insert whole words press few keys and delete little; they are not flagged.
    """
    typed = message.typed
    return (
        typed is not None
        and len(message.text) >= NEVER_TAKEN_BACK
        and typed.deletions == 0
        and typed.keystrokes >= 0.9 * len(message.text)
    )
