"""Repetition by the bot, in words and meaning, and by the participant.

Conversation repetition, utterance repetition and word similarity come from the released code (fact sheet section 1.6);
utterance repetition raises an error there and is implemented here as intended. Self-repetition, the share of a turn's
content words that the bot has used before, follows See et al. (2019), "What makes a good conversation?", NAACL. By
meaning, it is the largest cosine with an earlier turn of the bot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evaluation.data.tables import per_turn
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.text_cache import BLANK, QUESTION_WORDS, UNKNOWN, TextCache, blank, content_words

_FIRST = "the bot has no earlier turn"
_NO_WORD = "the text contains no content word"


def conversation_repetition(earlier: set[str], text: str) -> int:
    """Return minus the number of repeated distinct content words."""
    return -len(earlier.intersection(content_words(text)))


def utterance_repetition(text: str) -> int:
    """Return −(tokens − distinct tokens) of a text; at most 0.

    Tokens are split at white space.
    """
    tokens = text.split()
    return len(set(tokens)) - len(tokens)


def word_similarity(text: str, answer: str) -> float:
    """Return the share of tokens that are content words of the answer.

    Each distinct word counts once.

    Question words and unknown words are ignored. NaN for a blank text.
    """
    tokens = text.split()
    if not tokens:
        return float("nan")
    left_out = QUESTION_WORDS | UNKNOWN
    shared = set(content_words(text)) & set(content_words(answer)) - left_out
    return len(shared) / len(tokens)


@register_metric
class Repetition(MetricDefaults):
    """Repetition -B by words."""

    name = "repetition"
    languages = ("en",)
    title = "Repetition"
    columns = (
        *per_turn(
            "conversation_repetition_bot",
            "Conversation repetition, bot",
            unit="words",
            range=(None, 0),
            direction="higher",
            description="Minus the number of distinct content words of the bot's turn that it has used earlier in the "
            "conversation; 0 for its first turn (fact sheet section 1.6).",
        ),
        *per_turn(
            "utterance_repetition_bot",
            "Utterance repetition, bot",
            unit="words",
            range=(None, 0),
            direction="higher",
            description="Minus the number of repeated words in the bot's turn: distinct words minus words (fact sheet "
            "section 1.6).",
        ),
        *per_turn(
            "self_repetition_bot",
            "Self-repetition, bot",
            unit="share",
            range=(0, 1),
            direction="lower",
            description="Share of the distinct content words of the bot's turn that it has used earlier in the "
            "conversation. Undefined for its first turn.",
        ),
        *per_turn(
            "repeated_turn_bot",
            "Turn said before, bot",
            unit="1",
            range=(0, 1),
            direction="lower",
            description="1 if the bot has written exactly this turn earlier in the conversation, ignoring case and "
            "spaces; otherwise 0. Undefined for its first turn and for a blank one.",
        ),
        *per_turn(
            "word_similarity_bot_user",
            "Word similarity, bot and answer",
            unit="1",
            range=(0, 1),
            direction="neither",
            description="Distinct content words of the bot's turn that occur in the participant's answer, "
            "divided by the "
            "number of words of the bot's turn (fact sheet section 1.6). Stored at the answer. If a speaker "
            "writes several turns in a row, the last one is used. In self-play: for consecutive utterances.",
        ),
    )

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        utterances, similar = layout.said, layout.answers
        again = np.full((len(utterances), 4), np.nan)
        words = [set(content_words(text)) for text in layout.texts_at(utterances)]
        row = 0
        for conversation_turns in layout.by_conversation(utterances):
            used: set[str] = set()
            turns: set[str] = set()
            for k, i in enumerate(conversation_turns.tolist()):
                text, turn_words = layout.texts[i], words[row]
                folded = " ".join(text.casefold().split())
                repeated = len(used & turn_words)
                again[row, :2] = -repeated, utterance_repetition(text)
                if k and turn_words:
                    again[row, 2] = repeated / len(turn_words)
                if k and folded:
                    again[row, 3] = folded in turns
                used |= turn_words
                turns.add(folded)
                row += 1
        described = np.isin(utterances, layout.bot)  # in self-play without the first utterance
        again, turns_of = again[described], utterances[described]
        similarity = [word_similarity(layout.texts[bot], layout.texts[user]) for bot, user in similar.tolist()]
        names = ("conversation_repetition_bot", "utterance_repetition_bot", "self_repetition_bot", "repeated_turn_bot")
        missing_reasons: dict[str, Sequence[str]] = {
            "self_repetition_bot": (_FIRST, _NO_WORD),
            "repeated_turn_bot": (_FIRST, BLANK),
        }
        return Measured(
            turns={
                **{name: layout.spread(turns_of, again[:, k]) for k, name in enumerate(names)},
                "word_similarity_bot_user": layout.spread(similar[:, 1], similarity),
            },
            reasons={
                **{
                    name: missing_reasons[name] if np.isnan(again[:, k]).any() else ()
                    for k, name in enumerate(names)
                    if name in missing_reasons
                },
                "word_similarity_bot_user": missing(np.array(similarity), BLANK),
            },
        )


@register_metric
class SelfSimilarity(MetricDefaults):
    """Self-repetition -B by meaning."""

    has_network = True
    licence = "Apache-2.0 (MiniLM)"
    name = "self_similarity"
    languages = ("en",)
    title = "Self-repetition by meaning"
    columns = per_turn(
        "self_similarity_bot",
        "Self-repetition by meaning, bot",
        unit="cosine",
        range=(-1, 1),
        direction="lower",
        description="Largest cosine between the sentence embedding of the bot's turn and those of its earlier turns in "
        "the conversation; 1 for a repeated turn. Undefined for its first turn.",
    )

    @property
    def params(self) -> dict[str, Any]:
        from chatbots.encoders.sentence import sentence_encoder

        return {"encoder": sentence_encoder().identity.as_dict()}

    def unavailable_reason(self) -> str | None:
        from chatbots.encoders.sentence import sentence_encoder

        return sentence_encoder().unavailable_reason()

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        values = np.full(len(layout.texts), np.nan)
        turns = np.array([i for i in layout.said if not blank(layout.texts[i])], dtype=int)
        if len(turns):
            vectors = dict(zip(turns.tolist(), shared.encode(layout.texts_at(turns)), strict=True))
            for conversation_turns in layout.by_conversation(turns):
                if len(conversation_turns) < 2:
                    continue
                x = np.stack([vectors[i] for i in conversation_turns.tolist()])
                for k in range(1, len(conversation_turns)):
                    # Row by row, because the full matrix of a conversation with 10,000 turns would not fit in memory.
                    values[conversation_turns[k]] = min(1.0, float((x[:k] @ x[k]).max()))
        missed = np.isnan(values[layout.bot]).any()
        return Measured(
            {"self_similarity_bot": values}, reasons={"self_similarity_bot": (_FIRST, BLANK) if missed else ()}
        )
