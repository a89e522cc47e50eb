"""Cues in an utterance: questions, laughter, compliments, politeness.

Question score: Ghandeharioun et al. (2019), fact sheet section 1.5.

Laughter ("ha", "haha", "ahahah"): Ghandeharioun et al. (2019), fact sheet section 1.2. The released code counts the
letters "ha" anywhere, even in "that" and "what"; the two versions are separate columns.

Phrases: the released code searches the bot's response for short lists of phrases (fact sheet section 1.6). The lists
here are Confab's own. Phrases are matched as whole words, ignoring case and the form of the apostrophe; `compat_2019`
matches substrings as the released code does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from evaluation.data.tables import per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.text_cache import QUESTION_WORDS, TOKENIZER, TextCache, lower_tokens


def question_score(text: str, tokens: Iterable[str]) -> float:
    """Return half a point each for a question mark and a question word.

    Args:
        text: the utterance.
        tokens: the word tokens of the lower-cased utterance.

    Returns:
        0, 0.5 or 1.
    """
    return 0.5 * ("?" in text) + 0.5 * (not QUESTION_WORDS.isdisjoint(tokens))


@register_metric
class QuestionScore(MetricDefaults):
    """Question score of the bot and of the participant."""

    name = "question"
    languages = ("en",)
    title = "Question score"
    version = "2"
    columns = (
        *per_turn(
            "question_bot",
            "Question score, bot",
            unit="1",
            range=(0, 1),
            direction="neither",
            description="0.5 if the bot's turn contains a question mark, plus 0.5 if it contains one of the words who, "
            "what, why, where, how or when (Question Score -B). A blank turn scores 0.",
        ),
        *per_turn(
            "question_user",
            "Question score, participant",
            unit="1",
            range=(0, 1),
            direction="neither",
            description="The same for a participant's answer to the bot (Question Score -U).",
        ),
    )

    @property
    def params(self) -> dict[str, Any]:
        return {"tokenizer": TOKENIZER}

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        def score(turns: np.ndarray) -> np.ndarray:
            texts = layout.texts_at(turns)
            return layout.spread(turns, list(map(question_score, texts, lower_tokens(texts, shared))))

        return Measured(turns={"question_bot": score(layout.bot), "question_user": score(layout.user)})


_LAUGH = re.compile(r"\b(?:a?(?:ha)+h?)\b")


def laughs(text: str) -> int:
    """Count laughter words in a text, ignoring case: "Haha, ha!" has two."""
    return len(_LAUGH.findall(text.casefold()))


def laughs_substring(text: str) -> int:
    """Count the letters `ha`, case-sensitive, like the released code."""
    return text.count("ha")


@register_metric
class Laughter(MetricDefaults):
    """Laughter -U and -B by words, and -U as in the 2019 code."""

    name = "laughter"
    languages = ("en",)
    title = "Laughter"
    version = "2"
    columns = (
        *per_turn(
            "laughter_user",
            "Laughter, participant",
            unit="laughs",
            range=(0, None),
            direction="higher",
            description="Words of laughter (ha, haha, ahah, hah) in a participant's answer to the bot, ignoring "
            "case. In "
            "self-play: in the next utterance.",
        ),
        *per_turn(
            "laughter_bot",
            "Laughter, bot",
            unit="laughs",
            range=(0, None),
            direction="neither",
            description="Words of laughter in the bot's turn (Laughter -B).",
        ),
        *per_turn(
            "laughter_substring_user",
            "Laughter, participant (2019 code)",
            unit="occurrences",
            range=(0, None),
            direction="neither",
            description="Occurrences of the letters 'ha', case-sensitive, in a participant's answer (Laughter -U "
            "as the "
            "released code counts: 'that' and 'what' also count).",
        ),
    )

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        texts = layout.texts_at(layout.user)
        return Measured(
            turns={
                "laughter_user": layout.spread(layout.user, [laughs(t) for t in texts]),
                "laughter_bot": layout.spread(layout.bot, [laughs(t) for t in layout.texts_at(layout.bot)]),
                "laughter_substring_user": layout.spread(layout.user, [laughs_substring(t) for t in texts]),
            }
        )


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
"""Phrases by column name, in lower case with straight apostrophes."""

_CURLY = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})


def phrase_pattern(phrases: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches the phrases as whole words.

    Spaces in a phrase match any white space.
    """
    choices = "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases)
    return re.compile(rf"(?<!\w)(?:{choices})(?!\w)")


def straightened(text: str) -> str:
    """Return the text in lower case with straight apostrophes."""
    return text.lower().translate(_CURLY)


_FOUND = {**{name: phrase_pattern(phrases) for name, phrases in PHRASES.items()}, "you": phrase_pattern(["you"])}


def has_phrase(kind: str, text: str) -> bool:
    """Return True if the text contains a phrase of this kind.

    Kinds are the keys of `PHRASES` and `you`.
    """
    return _FOUND[kind].search(straightened(text)) is not None


_WHAT = {
    "compliment": ("Compliment", "pays a compliment"),
    "politeness": ("Politeness", "contains a polite phrase"),
    "support": ("Supportiveness", "contains a supportive phrase"),
    "cheer": ("Cheerfulness", "contains a cheerful phrase"),
    "you": ("Addresses the participant", 'contains the word "you"'),
}


@register_metric
class PhraseDetectors(MetricDefaults):
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
            description=f"1 if the bot's turn {what}, as whole words, ignoring case; otherwise 0 (fact sheet "
            f"section 1.6, "
            "with Confab's own lists in evaluation/metrics/cues.py).",
        )
    )

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        texts = [straightened(text) for text in layout.texts_at(layout.bot)]
        return Measured(
            {
                f"{kind}_bot": layout.spread(layout.bot, [pattern.search(text) is not None for text in texts])
                for kind, pattern in _FOUND.items()
            }
        )
