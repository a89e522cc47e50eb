"""Semantic distance of a reply from preceding turns, larger for dull replies.

This is SS of DialogEntailment.

Dziri, Kamalloo, Mathewson and Zaiane (2019), "Evaluating Coherence in Dialogue Systems using Entailment", NAACL,
section 5.2:

    D(r, H) = (1 − cos(v_r, v_H)) · (1 + log10((2 + n) / (2 + m)))

n is the number of words in the reply without stop words and punctuation, m the number of these outside dull phrases.
The paper takes its vectors from ELMo, BERT or the Universal Sentence Encoder; here they come from Confab's sentence
encoder or the one configured in `metrics.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from chatbots.encoders.sentence import MINILM, encoder_get
from chatbots.validation import InputModel, Many, values_read
from evaluation.data.items import ReplyInContext
from evaluation.data.tables import per_turn
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.text_cache import QUESTION_WORDS, STOPWORDS, TOKENIZER, TextCache, lower_tokens

_SLOT = "*"
_NO_WORDS = STOPWORDS | QUESTION_WORDS | {"n't", "'m", "'s", "'re", "'ve", "'ll", "'d"}
_COLUMNS = {
    "last": ("the last utterance", "the last utterance (H-1)"),
    "two": ("the last two utterances", "the last two utterances together (H-2 of the text)"),
    "second": (
        "the last utterance but one",
        "the last utterance but one (H-2 of the figure); undefined after a single one",
    ),
    "history": ("the preceding conversation", "the whole preceding conversation, within the metric's window"),
}


def dull_replies(path: Path | None = None) -> tuple[str, ...]:
    """Read patterns of dull replies from a file, by default Confab's list.

    Lines that begin with # are comments.
    """
    text = (path or Path(__file__).with_name("dull_replies.txt")).read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


class SemanticDistanceOptions(InputModel):
    """Options of an entry of `metrics.yaml`."""

    dull_replies: Many[str] = Field(
        (),
        description="patterns of dull replies that replace Confab's own: lower-case tokens, * for one or more of any",
    )
    window: int = Field(5, ge=1, description="number of earlier utterances to read")
    encoder: str = Field(
        MINILM,
        min_length=1,
        description="encoder of the vectors: a folder that sentence-transformers can read, or the hub id of a "
        "downloaded "
        "model",
    )


ONE_UTTERANCE = "only one utterance precedes the reply"
NO_WORD = "the reply contains no word"


@register_metric
class SemanticDistance(ReplyMetric, ConfiguredMetric):
    """Distances of a reply from the preceding turns, and its echo.

    The turns are the last utterance, the last two, the last but one, and the whole history.
    """

    has_network = True
    kind = "semantic_distance"
    usual_title = "Semantic distance"
    options_type = SemanticDistanceOptions
    options: SemanticDistanceOptions | None
    needs_context = True
    languages: tuple[str, ...] | None = ("en",)
    licence = "Apache-2.0 (MiniLM)"

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        chosen = self.options or values_read(SemanticDistanceOptions, {})
        self.window = chosen.window
        self._dull = chosen.dull_replies or dull_replies()
        self._encoder = chosen.encoder
        if self._encoder != MINILM:
            self.languages, self.licence = None, CHOSEN_LICENCE
        self.columns = (
            *(
                column
                for key, (short, long) in _COLUMNS.items()
                for column in per_turn(
                    f"{self.name}_{key}_bot",
                    f"{self.title} from {short}",
                    unit="distance",
                    range=(0, None),
                    direction="lower",
                    description=f"One minus the cosine of the reply and {long}, increased if the reply consists "
                    f"of dull "
                    "phrases.",
                )
            ),
            *per_turn(
                f"{self.name}_echo_bot",
                f"{self.title}: echo",
                unit="share",
                range=(0, 1),
                direction="neither",
                description="Largest share of the reply's words found in one earlier utterance. A copy is close in "
                "meaning without being a good reply, so read distances together with this.",
            ),
        )

    @property
    def params(self) -> dict[str, Any]:
        return {
            "encoder": encoder_get(self._encoder).identity.as_dict(),
            "tokenizer": TOKENIZER,
            "dull_replies": list(self._dull),
            "window": self.window,
        }

    def unavailable_reason(self) -> str | None:
        return encoder_get(self._encoder).unavailable_reason()

    def lacking(self, reply: ReplyInContext, column: str = "") -> str | None:
        reason = super().lacking(reply, column)
        if reason is None and column == f"{self.name}_second_bot" and len(reply.context) < 2:
            return ONE_UTTERANCE
        if reason is None and column == f"{self.name}_echo_bot" and not any(map(str.isalnum, reply.response)):
            return NO_WORD
        return reason

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        texts = list(dict.fromkeys(text for reply in replies for text in (reply.response, *_references(reply)) if text))
        place = {text: k for k, text in enumerate(texts)}
        vectors = shared.encode(texts, encoder_get(self._encoder, shared.device))
        factor = np.array(
            [dull_factor(tokens, self._dull) for tokens in lower_tokens([reply.response for reply in replies], shared)]
        )
        scores = {name: np.full(len(replies), np.nan) for name in self.turn_columns}
        for row, reply in enumerate(replies):
            vector = vectors[place[reply.response]].astype(float)
            for key, text in zip(_COLUMNS, _references(reply), strict=True):
                if text:
                    alike = float(np.clip(vector @ vectors[place[text]].astype(float), -1.0, 1.0))
                    scores[f"{self.name}_{key}_bot"][row] = (1 - alike) * factor[row]
            scores[f"{self.name}_echo_bot"][row] = _echo(*lower_tokens([reply.response, *reply.context], shared))
        return scores


def _references(reply: ReplyInContext) -> tuple[str, str, str, str]:
    """Return the texts that a reply is compared with, by column order.

    Missing texts are empty.
    """
    context = reply.context
    return context[-1], " ".join(context[-2:]), context[-2] if len(context) > 1 else "", " ".join(context)


def dull_factor(tokens: Sequence[str], patterns: Sequence[str]) -> float:
    """Return 1 + log10((2 + n) / (2 + m)) of a reply.

    1 without a dull phrase.

    Args:
        tokens: tokens of the reply, in lower case.
        patterns: as returned by `dull_replies`.
    """
    other_words = words_beside_dull(tokens, patterns)
    return float(1 + np.log10((2 + _n_words(tokens)) / (2 + _n_words(other_words))))


def words_beside_dull(tokens: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the tokens of a reply outside dull phrases.

    If several patterns match, the one that leaves the fewest tokens is used.
    """
    words = [token for token in tokens if token]
    while words and not any(map(str.isalnum, words[-1])):
        words.pop()
    text = " ".join(words)
    captured = [
        " ".join(match.groups()).split() for pattern in patterns if (match := _expression(pattern).fullmatch(text))
    ]
    return min(captured, key=lambda words: (_n_words(words), len(words)), default=words)


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> re.Pattern[str]:
    """Compile a pattern, with a group of tokens per slot."""
    parts = [r"(\S+(?: \S+)*)" if part == _SLOT else re.escape(part) for part in pattern.split()]
    return re.compile(" ".join(parts))


def _n_words(tokens: Sequence[str]) -> int:
    return sum(_is_word(token) for token in tokens)


def _is_word(token: str) -> bool:
    return token not in _NO_WORDS and any(map(str.isalnum, token))


def _echo(response: Sequence[str], *context: Sequence[str]) -> float:
    """Return the largest share of the reply's words found in one utterance.

    NaN for a reply of punctuation only.
    """
    words = {token for token in response if any(map(str.isalnum, token))}
    if not words:
        return float("nan")
    return max(len(words.intersection(utterance)) / len(words) for utterance in context)
