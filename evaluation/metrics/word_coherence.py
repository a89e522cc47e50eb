"""Word coherence of a message and the bot's reply: average, extrema and greedy matching.

Liu et al. (2016), "How NOT to evaluate your dialogue system", and Ghandeharioun et al. (2019), fact
sheet section 1.4; static word vectors distilled from the sentence encoder stand where the paper has
word2vec. Tokens without a vector are left out; with none left on a side the value is undefined (the
released code says 0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from chatbots.encoders.word_similarity import KINDS, Vectors, pair_similarities
from chatbots.outside import Values
from evaluation.columns import Column, per_turn
from evaluation.metrics.base import (
    CHOSEN_LICENCE,
    ConfiguredMetric,
    Measured,
    MetricDefaults,
    missing,
)
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared
from evaluation.metrics.tokens import TOKENIZER, tokens_of

if TYPE_CHECKING:
    from chatbots.encoders.vectors import VectorTable
    from chatbots.encoders.words import WordVectors

ROWS = 500_000
"""Of a file of word vectors its most frequent words are used, so many where nothing else is said."""

# Titles differ in their first words: plots cut them at the end.
_FORMULAS = {
    "average": ("Average word coherence", "Cosine of the mean word vectors."),
    "extrema": (
        "Extrema word coherence",
        "Cosine of the vectors that have, in each dimension, the value of greatest size.",
    ),
    "greedy": (
        "Two-way greedy word coherence",
        "Each word's best cosine on the other side, averaged over words, then over both directions.",
    ),
    "greedy_ref": (
        "One-way greedy word coherence (2019 code)",
        "Each word of the message: its best cosine in the reply, averaged (one direction only).",
    ),
}


def coherence_columns(prefix: str, by: str = "") -> tuple[Column, ...]:
    """Return the columns of one set of word vectors; `by` is appended to titles, "" for the default one."""
    return tuple(
        column
        for kind, (title, formula) in _FORMULAS.items()
        for column in per_turn(
            f"{prefix}_{kind}_user_bot",
            f"{title}{' by ' + by if by else ''}, participant and bot",
            unit="cosine",
            range=(-1, 1),
            direction="neither",
            description=f"{formula} Words of a message and of the bot's reply by static word vectors; of a "
            "run of several turns the last is taken. Stored at the reply; undefined where a side has no "
            "known word. In self-play: of consecutive utterances.",
        )
    )


class WordCoherenceFamily(MetricDefaults):
    """Average, Extrema and Greedy Word Coherence -U/B by some word vectors."""

    prefix: str

    def vectors(self) -> Vectors:
        """Return the word vectors, ready to be looked up."""
        raise NotImplementedError

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        texts = layout.texts
        pairs = [(texts[message], texts[reply]) for message, reply in layout.exchanges.tolist()]
        values = pair_similarities(pairs, self.vectors(), tokens_of(shared))
        columns = [f"{self.prefix}_{kind}_user_bot" for kind in KINDS]
        reason = missing(values, "no word of a text has a vector")
        reply = layout.exchanges[:, 1]
        return Measured(
            turns={column: layout.spread(reply, values[:, k]) for k, column in enumerate(columns)},
            reasons=dict.fromkeys(columns, reason),
        )


@register_metric
class WordCoherence(WordCoherenceFamily):
    """Average, Extrema and Greedy Word Coherence -U/B by the distilled word vectors."""

    name = "word_coherence"
    languages = ("en",)
    title = "Word coherence"
    licence = "Apache-2.0 (MiniLM, of which the vectors are made)"
    prefix = "word_coherence"
    columns = coherence_columns(prefix)

    @property
    def params(self) -> dict[str, Any]:
        return {"vectors": self.vectors().identity.as_dict(), "tokenizer": TOKENIZER}

    def unavailable_reason(self) -> str | None:
        return self.vectors().unavailable_reason()

    def vectors(self) -> WordVectors:
        from chatbots.encoders.words import word_vectors

        return word_vectors()


class FileWordCoherenceOptions(Values):
    """Options of an entry of `metrics.yaml`."""

    path: str = Field(
        min_length=1,
        description="a file of word2vec (.bin), GloVe (.txt) or fastText (.vec), unpacked",
    )
    rows: int = Field(ROWS, ge=1, description="how many of its most frequent words are used")


@register_metric
class FileWordCoherence(WordCoherenceFamily, ConfiguredMetric):
    """Word coherence by published vectors, as the paper has them; on request."""

    kind = "word2vec"
    needs = ("a file of word vectors",)
    licence = CHOSEN_LICENCE
    usual_title = "word2vec"
    options_type = FileWordCoherenceOptions
    options: FileWordCoherenceOptions | None

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.prefix = self.name
        self.columns = coherence_columns(self.name, self.title)
        self.title = f"Word coherence by {self.title}"
        self.rows = self.options.rows if self.options else ROWS
        self._file = None
        if self.options:
            from chatbots.encoders.vectors import FileVectors

            self._file = FileVectors(self.options.path)

    @property
    def params(self) -> dict[str, Any]:
        here = self._file if self.unavailable_reason() is None else None
        return {
            "vectors": here.identity.as_dict() if here else None,
            "rows": self.rows,
            "tokenizer": TOKENIZER,
        }

    def unavailable_reason(self) -> str | None:
        if self._file is None:
            return (
                "no file of word vectors is named; name one in metrics.yaml (kind: word2vec, params: {path: "
                "file})"
            )
        return self._file.unavailable_reason()

    def vectors(self) -> VectorTable:
        assert self._file is not None, "asked although it is unavailable"
        return self._file.table(first=self.rows)
