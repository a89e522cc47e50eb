"""Does a turn of the bot pay a compliment, is it polite, supportive, cheerful, does it speak to "you".

The released code looks for short lists of phrases in the bot's response (fact sheet section 1.6). The lists
here are our own. Phrases are found as whole words, whatever their case and the form of the apostrophe; the
released code's way, letters anywhere in the text, is in `compat_2019`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from evaluation.columns import per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared

PHRASES: dict[str, tuple[str, ...]] = {
    "compliment": (
        "you are great",
        "you're great",
        "you are so kind",
        "you're so kind",
        "you are amazing",
        "you're amazing",
        "you are funny",
        "you're funny",
        "you are smart",
        "you're smart",
        "good for you",
        "well done",
        "i like your",
        "i love your",
        "great idea",
        "impressive",
    ),
    "politeness": (
        "please",
        "thank you",
        "thanks",
        "you are welcome",
        "you're welcome",
        "excuse me",
        "pardon me",
        "may i ask",
        "if you don't mind",
        "i appreciate",
    ),
    "support": (
        "i am sorry to hear",
        "i'm sorry to hear",
        "sorry for your loss",
        "i am here for you",
        "i'm here for you",
        "you can do it",
        "you can do this",
        "you've got this",
        "it will be okay",
        "it will be ok",
        "it'll be okay",
        "everything will be fine",
        "don't worry",
        "don't give up",
        "hang in there",
        "take care of yourself",
        "take your time",
        "that must be hard",
        "that must be difficult",
        "that sounds hard",
        "that sounds difficult",
        "that sounds tough",
        "i understand how you feel",
        "i know how you feel",
        "i feel for you",
        "you are not alone",
        "you're not alone",
        "i believe in you",
        "i hope you feel better",
        "get well soon",
        "proud of you",
        "it is not your fault",
        "it's not your fault",
    ),
    "cheer": (
        "yay",
        "hooray",
        "woohoo",
        "awesome",
        "wonderful",
        "fantastic",
        "congratulations",
        "so happy",
        "so glad",
        "can't wait",
        "how exciting",
    ),
}
"""What is looked for, lower case with straight apostrophes, by the name of its column."""

_CURLY = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})


def phrase_pattern(phrases: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of any of the phrases as whole words; blanks within a phrase stand for any white space."""
    choices = "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases)
    return re.compile(rf"(?<!\w)(?:{choices})(?!\w)")


def straightened(text: str) -> str:
    """Return the text in lower case with straight apostrophes, as the patterns of phrases read it."""
    return text.lower().translate(_CURLY)


_FOUND = {
    **{name: phrase_pattern(phrases) for name, phrases in PHRASES.items()},
    "you": phrase_pattern(["you"]),
}


def has_phrase(kind: str, text: str) -> bool:
    """Return True if the text has a phrase of that kind, a key of `PHRASES` or `you`."""
    return _FOUND[kind].search(straightened(text)) is not None


_WHAT = {
    "compliment": ("Compliment", "pays a compliment"),
    "politeness": ("Politeness", "has a polite phrase"),
    "support": ("Supportiveness", "has a supportive phrase"),
    "cheer": ("Cheerfulness", "has a cheerful phrase"),
    "you": ("Speaks to the participant", 'has the word "you"'),
}


@register_metric
class Phrases(MetricDefaults):
    """Phrase detectors -B."""

    name = "phrases"
    languages = ("en",)
    title = "Phrases"
    columns = tuple(
        column
        for kind, (title, what) in _WHAT.items()
        for column in per_turn(
            f"{kind}_bot",
            f"{title}, bot",
            unit="1",
            range=(0, 1),
            direction="neither",
            description=f"1 if the bot's turn {what}, as whole words, whatever the case; else 0 (fact sheet "
            "section 1.6, own lists in metrics/phrases.py).",
        )
    )

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        texts = [straightened(text) for text in layout.texts_at(layout.bot)]
        return Measured(
            {
                f"{kind}_bot": layout.spread(
                    layout.bot, [pattern.search(text) is not None for text in texts]
                )
                for kind, pattern in _FOUND.items()
            }
        )
