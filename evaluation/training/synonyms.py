"""Synonyms of English words by a slice of WordNet, for augmented responses (`pone_augment`).

`evaluation/shipped/wordnet` tells how the slice was made and under what licence it may be passed on.
"""

from __future__ import annotations

import gzip
import re
from functools import cache
from pathlib import Path

from evaluation.metrics.content_words import QUESTION_WORDS, STOPWORDS
from evaluation.training.pone_augment import Synonyms

SLICE = Path(__file__).parent.parent / "shipped" / "wordnet" / "synonyms.tsv.gz"
_WORD = re.compile(r"(\W*)([^\W\d_]+)(\W*)")


@cache
def wordnet_synonyms(path: Path = SLICE) -> Synonyms:
    """Return a function that gives the synonyms of a word of a text, with its marks and its capital letter.

    Words of grammar have none, as in Wei and Zou's code (their "a" and "i" would become vitamins and iodine).

    Raises:
        FileNotFoundError: the slice is not there.
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        known = dict(line.rstrip("\n").split("\t") for line in file)

    def synonyms(word: str) -> list[str]:
        found = _WORD.fullmatch(word)
        if found is None:
            return []
        before, letters, after = found.groups()
        plain = letters.lower()
        if plain in STOPWORDS or plain in QUESTION_WORDS:
            return []
        others = known.get(plain, "").split()
        if letters[0].isupper():
            others = [one.capitalize() for one in others]
        return [f"{before}{one}{after}" for one in others]

    return synonyms
