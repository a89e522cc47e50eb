"""Flags for messages that are repeated, pasted, copied or machine-written.

Inhuman typing suggests a language model. The 168,000 people of Dhakal et al. (2018) typed 52 words a minute on average
(about 4 characters a second), the fastest over 120 (10 a second), and about 6 of 100 keys were deletions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.ratings.flags.base import Figures, FlagFindings, Message, StudyWork, register_flag

REPEATED_FEWEST_CHARS = 20
"""Minimum number of letters and digits. Shorter messages (“yes”, “I don't know”) are repeated by many without being
copied.
"""
REPEATED_FEWEST = 2
REPEATED_SHARE = 0.3
"""Of a task's messages."""
_IGNORED = re.compile(r"[\W_]+")


@register_flag
class Repeated:
    """Flag for repeated messages: equal except for case, spaces and punctuation."""

    name = "repeated"
    title = gettext_lazy("Repeated text")
    rule = gettext_lazy(
        "At least two messages, and three of ten, repeat earlier messages of the same or another participant of the "
        "study. Messages shorter than twenty letters, and those that the study’s texts prescribe, are ignored."
    )
    reasons: Mapping[str, Any] = {
        "none": gettext_lazy("No participant has written two messages of at least twenty letters yet.")
    }

    def find(self, work: StudyWork) -> FlagFindings:
        repetitions = count_repetitions(work)
        n_looked_at = sum(counts.long >= REPEATED_FEWEST for counts in repetitions.values())
        if not n_looked_at:
            return FlagFindings(why_none="none")
        flagged: dict[int, Figures] = {}
        for task, counts in repetitions.items():
            n = len(work.messages[task])
            if counts.either >= REPEATED_FEWEST and counts.either >= REPEATED_SHARE * n:
                flagged[task] = {"again": counts.again, "shared": counts.shared, "messages": n}
        return FlagFindings(flagged, n_looked_at)

    def explain(self, figures: Figures, about: Figures) -> str:
        again, shared, n = figures["again"], figures["shared"], figures["messages"]
        if not shared:
            return _("{again} of {n} messages repeat an earlier message of the participant.").format(again=again, n=n)
        if not again:
            return _("{shared} of {n} messages were also written by other participants of the study.").format(
                shared=shared, n=n
            )
        return _(
            "{again} of {n} messages repeat an earlier message of the participant, and {shared} were also written "
            "by other participants of the study."
        ).format(again=again, shared=shared, n=n)


class Repetitions(NamedTuple):
    """Numbers of a task's long messages: all, repeated by the participant, written by others too, and either."""

    long: int
    again: int
    shared: int
    either: int


def count_repetitions(work: StudyWork) -> dict[int, Repetitions]:
    """Count the repeated messages of every task, except those that the study's texts contain.

    Scripted participants share a script, so all of their messages are left out.
    """
    person = {task.pk: task.participant for task in work.done}
    prescribed = "" if work.is_rehearsal else "\n".join(map(folded, work.prescribed_texts))
    texts_by_task = {
        task: [
            words
            for words in (folded(m.text) for m in messages if len(m.text) >= REPEATED_FEWEST_CHARS)
            if len(words) >= REPEATED_FEWEST_CHARS and words not in prescribed
        ]
        for task, messages in ({task: [] for task in work.messages} if work.is_rehearsal else work.messages).items()
    }
    people: dict[str, set[Any]] = {}
    for task, texts in texts_by_task.items():
        for text in texts:
            people.setdefault(text, set()).add(person[task])
    # If a participant did several tasks, messages in an earlier one count as written before.
    before: dict[Any, Counter[str]] = {}
    repetitions: dict[int, Repetitions] = {}
    for task, texts in texts_by_task.items():
        previous = before.setdefault(person[task], Counter())
        again = shared = either = 0
        for text in texts:
            is_again, is_shared = previous[text] > 0, len(people[text]) > 1
            previous[text] += 1
            again, shared = again + is_again, shared + is_shared
            either += is_again or is_shared
        repetitions[task] = Repetitions(len(texts), again, shared, either)
    return repetitions


def folded(text: str) -> str:
    """Normalise a message: ignore case, spaces and punctuation."""
    return _IGNORED.sub("", text.casefold())


COPIED_FEWEST_CHARS = 20
"""Minimum number of letters and digits. Repeating less of a chatbot's reply is normal in a chat."""
PASTED_FEWEST, PASTED_SHARE = 2, 0.3
"""Minimum number of messages, and of a task's messages the minimum share."""


@register_flag
class Pasted:
    """Flag for pasted messages, and for those copied from the chatbot.

    A paste counts if fewer keys were pressed than half of the message's characters; a pasted link does not.
    """

    name = "pasted"
    title = gettext_lazy("Pasted text")
    rule = gettext_lazy(
        "At least two messages, and three of ten, were pasted or only repeat at least twenty letters of the "
        "chatbot's last reply. A message counts as pasted if fewer keys were pressed than half of its characters. "
        "Without typing counts, only repetition is detected."
    )
    reasons: Mapping[str, Any] = {"none": gettext_lazy("No participant has written two messages yet.")}

    def find(self, work: StudyWork) -> FlagFindings:
        flagged: dict[int, Figures] = {}
        n_looked_at = 0
        for task, messages in work.messages.items():
            n_looked_at += len(messages) >= PASTED_FEWEST
            pasted = sum(is_pasted(message) for message in messages)
            copied = sum(is_copied(message) and not is_pasted(message) for message in messages)
            if pasted + copied >= PASTED_FEWEST and pasted + copied >= PASTED_SHARE * len(messages):
                flagged[task] = {"pasted": pasted, "copied": copied, "messages": len(messages)}
        if not n_looked_at:
            return FlagFindings(why_none="none")
        return FlagFindings(flagged, n_looked_at, about={"counted": work.counts_typing})

    def explain(self, figures: Figures, about: Figures) -> str:
        pasted, copied, n = figures["pasted"], figures["copied"], figures["messages"]
        if not copied:
            return _("{pasted} of {n} messages were pasted.").format(pasted=pasted, n=n)
        if not pasted:
            return _("{copied} of {n} messages only repeat the chatbot's last reply.").format(copied=copied, n=n)
        return _("{pasted} of {n} messages were pasted, and {copied} only repeat the chatbot's last reply.").format(
            pasted=pasted, copied=copied, n=n
        )


def is_pasted(message: Message) -> bool:
    """Return True if most of a message was pasted, by its typing counts."""
    typed = message.typed
    return typed is not None and typed.pastes > 0 and typed.keystrokes * 2 < len(message.text)


def is_copied(message: Message) -> bool:
    """Return True if a message only repeats a part of the reply before it, or of the other bot's."""
    # Folding takes most of the time of all flags, and a short message needs none.
    if len(message.text) < COPIED_FEWEST_CHARS or len(folded_text := folded(message.text)) < COPIED_FEWEST_CHARS:
        return False
    return any(folded_text in folded(reply) for reply in (message.answered, message.beside) if reply)


MACHINE_FEWEST_CHARS = 60
"""Minimum length in characters. Typing of shorter messages varies too much."""
CHARS_PER_S = 15
"""Faster than the fastest typists."""
NEVER_TAKEN_BACK = 200
"""Number of characters without a deletion that is rare in composing a text and usual in copying one."""
MACHINE_FEWEST, MACHINE_SHARE = 2, 0.5


@register_flag
class Machine:
    """Flag for unusual typing, in studies whose consent text says that typing is counted."""

    name = "machine"
    title = gettext_lazy("Unusual typing")
    rule = gettext_lazy(
        "At least two messages of 60 characters or more, and half of the messages written, were pasted, typed "
        "faster than 15 characters a second, or have 200 characters without a single deletion. People type 4 "
        "characters a second, the fastest little more than 10 (Dhakal et al., 2018). A language model may have "
        "written them, or the text was dictated or prepared in advance."
    )
    reasons: Mapping[str, Any] = {
        "not_counted": gettext_lazy("Typing is not recorded in this study. It can be, if the consent text says so."),
        "none": gettext_lazy("No participant has written two messages of at least 60 characters yet."),
    }

    def find(self, work: StudyWork) -> FlagFindings:
        if not work.counts_typing:
            return FlagFindings(why_none="not_counted")
        flagged: dict[int, Figures] = {}
        n_looked_at = 0
        for task, messages in work.messages.items():
            long = [m for m in messages if m.typed is not None and len(m.text) >= MACHINE_FEWEST_CHARS]
            if len(long) < MACHINE_FEWEST:
                continue
            n_looked_at += 1
            pasted = sum(is_pasted(message) for message in long)
            quick = sum(is_quick(message) and not is_pasted(message) for message in long)
            even = sum(is_even(message) and not is_quick(message) and not is_pasted(message) for message in long)
            suspected = pasted + quick + even
            if suspected >= MACHINE_FEWEST and suspected >= MACHINE_SHARE * len(long):
                flagged[task] = {"pasted": pasted, "quick": quick, "even": even, "long": len(long)}
        return FlagFindings(flagged, n_looked_at, "" if n_looked_at else "none")

    def explain(self, figures: Figures, about: Figures) -> str:
        ways = {
            "pasted": _("{k} of {n} long messages were pasted."),
            "quick": _("{k} of {n} long messages were typed faster than people can type."),
            "even": _("{k} of {n} long messages were typed without a single deletion."),
        }
        sentences = [words.format(k=figures[way], n=figures["long"]) for way, words in ways.items() if figures[way]]
        maybe = _("A language model may have written them, or the participant dictated them or had prepared them.")
        return " ".join([*sentences, maybe])


def is_quick(message: Message) -> bool:
    """Return True if a message was typed faster than any person types.

    If fewer keys were counted than half of the characters (keyboards that insert whole words, dictation, a draft from
    before a reload), the time is meaningless.
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
