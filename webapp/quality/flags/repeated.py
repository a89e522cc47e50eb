"""Messages that a participant writes again, or that others in the study wrote too."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.quality.flags.base import Figures, Found, register_flag
from webapp.quality.work import Work

FEWEST_CHARS = 20
"""Letters and digits. Shorter messages (“yes”, “I don't know”) are said twice, and by many, without being copied."""
FEWEST_REPEATED = 2
SHARE = 0.3
"""Of a task's messages."""
_BESIDE = re.compile(r"[\W_]+")


@register_flag
class Repeated:
    """Flag for repeated messages: equal but for upper and lower case, blanks and punctuation."""

    name = "repeated"
    title = gettext_lazy("Repeated text")
    rule = gettext_lazy(
        "At least two of their messages, and three of ten, say what they wrote before or what somebody else in the "
        "study wrote too. Messages of fewer than twenty letters do not count."
    )
    reasons: Mapping[str, Any] = {
        "none": gettext_lazy("Nobody has written two messages of twenty letters yet.")
    }

    def find(self, work: Work) -> Found:
        person = {task.pk: task.participant for task in work.done}
        said = {
            task: [
                words
                for words in (folded(m.text) for m in messages if len(m.text) >= FEWEST_CHARS)
                if len(words) >= FEWEST_CHARS
            ]
            for task, messages in work.messages.items()
        }
        people: dict[str, set[Any]] = {}
        for task, texts in said.items():
            for text in texts:
                people.setdefault(text, set()).add(person[task])
        # Where a participant took several tasks, messages in an earlier one count as written before.
        before: dict[Any, Counter[str]] = {}
        found: dict[int, Figures] = {}
        n_looked_at = 0
        for task, texts in said.items():
            mine = before.setdefault(person[task], Counter())
            again = shared = either = 0
            for text in texts:
                is_again, is_shared = mine[text] > 0, len(people[text]) > 1
                mine[text] += 1
                again, shared = again + is_again, shared + is_shared
                either += is_again or is_shared
            n_looked_at += len(texts) >= FEWEST_REPEATED
            n = len(work.messages[task])
            if either >= FEWEST_REPEATED and either >= SHARE * n:
                found[task] = {"again": again, "shared": shared, "messages": n}
        if not n_looked_at:
            return Found(why_none="none")
        return Found(found, n_looked_at)

    def explain(self, figures: Figures, about: Figures) -> str:
        again, shared, n = figures["again"], figures["shared"], figures["messages"]
        if not shared:
            return _("{again} of {n} messages repeat an earlier one of theirs.").format(
                again=again, n=n
            )
        if not again:
            return _("{shared} of {n} messages were written by others in the study, too.").format(
                shared=shared, n=n
            )
        return _(
            "{again} of {n} messages repeat an earlier one of theirs, and {shared} were written by others in the "
            "study, too."
        ).format(again=again, shared=shared, n=n)


def folded(text: str) -> str:
    """Return a message without what does not matter: case, blanks, punctuation."""
    return _BESIDE.sub("", text.casefold())
