"""METEOR of 2007 by NLTK, in every installation: no Java, and synonyms from the part of WordNet that ships with Confab.

Lavie and Agarwal (2007), "METEOR: An Automatic Metric for MT Evaluation with High Levels of Correlation with Human
Judgments", WMT. It is not METEOR 1.5 (the metric `meteor`), which published tables use: parameters, word weights and
paraphrases differ, so do not compare its numbers with those tables.

Departures from NLTK with complete WordNet: synonyms cover the 6,868 words of `evaluation/shipped/wordnet`; inflected
words find them by WordNet's own suffix rules, without its list of exceptions. As in NLTK, synonyms are looked up for
the stems of words that were not matched before.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from chatbots.installation import package_version
from evaluation.data.items import ReplyInContext
from evaluation.data.tables import per_turn
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.text_cache import TextCache

SYNONYMS = Path(__file__).parent.parent / "shipped" / "wordnet" / "synonyms.tsv.gz"
ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5
"""Weight of precision in the harmonic mean, power and weight of the penalty (Lavie and Agarwal 2007, section 2)."""


@dataclass(frozen=True, slots=True)
class _Lemma:
    text: str

    def name(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _Synset:
    words: tuple[str, ...]

    def lemmas(self) -> list[_Lemma]:
        return [_Lemma(word) for word in self.words]


class ShippedWordNet:
    """The two methods of NLTK's WordNet reader that METEOR calls, on the shipped synonyms."""

    def __init__(self, path: Path = SYNONYMS) -> None:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = dict(line.rstrip("\n").split("\t") for line in file)
        self._synonyms = {word: (word, *synonyms.split()) for word, synonyms in rows.items()}

    def synsets(self, word: str) -> list[_Synset]:
        """Return the synonyms of a word and of its base forms."""
        return [_Synset(self._synonyms[form]) for form in self._base_forms(word) if form in self._synonyms]

    def _base_forms(self, word: str) -> list[str]:
        from nltk.corpus.reader.wordnet import WordNetCorpusReader

        rules = [rule for part in WordNetCorpusReader.MORPHOLOGICAL_SUBSTITUTIONS.values() for rule in part]
        forms = [word.removesuffix(old) + new for old, new in rules if word.endswith(old)]
        return list(dict.fromkeys([word, *forms]))


@cache
def shipped_wordnet() -> ShippedWordNet:
    """Return the shipped synonyms, read once."""
    return ShippedWordNet()


@register_metric
class MeteorNltk(ReplyMetric):
    """METEOR of 2007 of a reply against one reference, by NLTK; on request."""

    name = "meteor_nltk"
    title = "METEOR 2007 (NLTK)"
    columns = per_turn(
        "meteor_nltk",
        "METEOR 2007 (NLTK)",
        unit="1",
        range=(0, 1),
        direction="higher",
        description="METEOR of 2007 of the reply against the reference, by NLTK, with synonyms from a part of WordNet. "
        "Not METEOR 1.5. Needs a reference.",
    )
    needs_reference = True
    reads_tokens = True
    window = 0
    languages = ("en",)
    needs = ("a reference",)
    licence = "WordNet's licence (synonyms)"

    @property
    def params(self) -> dict[str, Any]:
        return {"nltk": package_version("nltk"), "synonyms": _digest()}

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        from nltk.translate.meteor_score import single_meteor_score

        # Score = (1 − γ (chunks / matches)^β) · P R / (α P + (1 − α) R), Lavie and Agarwal (2007), section 2.
        scores = [
            single_meteor_score(
                (reply.reference or "").split(),
                reply.response.split(),
                wordnet=shipped_wordnet(),
                alpha=ALPHA,
                beta=BETA,
                gamma=GAMMA,
            )
            for reply in replies
        ]
        return {"meteor_nltk": np.array(scores)}


@cache
def _digest() -> str:
    return sha256(SYNONYMS.read_bytes()).hexdigest()[:16]
