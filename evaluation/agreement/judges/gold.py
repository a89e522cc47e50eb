"""Gold sets: rated replies or conversations, used to evaluate judges.

A set can contain unrated instances, because prediction-powered means need their scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from chatbots import Conversation
from evaluation.agreement.metric_agreement import JudgedReplies
from evaluation.data.items import ReplyInContext, detokenise_reply
from evaluation.data.ratings import RatingDimension, Ratings, rater_named

GoldText = ReplyInContext | Conversation
MOST_POINTS = 11
"""Maximum number of scale points; a scale with more counts as a slider."""
LEAST_WORDS = 4
"""Minimum number of words of a text that is recognised in a prompt; shorter ones occur by chance."""


@dataclass(frozen=True, eq=False)
class GoldSet:
    """Instances, their ratings on one question, and the scale of the ratings.

    Attributes:
        name: the study or file.
        dimension: the question and its scale.
        keys, models, contexts: (N,) names; instances that share a context are not independent.
        texts: (N,) a reply with its context, or a conversation.
        item: (k,) instance index of each rating.
        rater: (k,) None if unnamed.
        value: (k,).
        extra: names of conversations from other sources than people, such as simulated ones.
    """

    name: str
    dimension: RatingDimension
    keys: tuple[str, ...]
    models: tuple[str, ...]
    contexts: tuple[str, ...]
    texts: tuple[GoldText, ...]
    item: np.ndarray
    rater: np.ndarray
    value: np.ndarray
    extra: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def width(self) -> float:
        """Distance between the ends of the scale."""
        return self.dimension.high - self.dimension.low

    @property
    def unit(self) -> Literal["reply", "chat"]:
        """Kind of its instances."""
        return "chat" if self.texts and isinstance(self.texts[0], Conversation) else "reply"

    @cached_property
    def means(self) -> np.ndarray:
        """(N,) mean rating of each instance, NaN if unrated."""
        return self.means_of(np.ones(len(self.value)))

    def means_of(self, weights: np.ndarray) -> np.ndarray:
        """Return (N,) weighted mean ratings; NaN if unrated.

        Weights are the counts of each rating.
        """
        total = np.bincount(self.item, weights, minlength=len(self))
        sums = np.bincount(self.item, weights * self.value, minlength=len(self))
        return np.divide(sums, total, out=np.full(len(self), np.nan), where=total > 0)

    @cached_property
    def context_codes(self) -> np.ndarray:
        """(N,) number of each instance's context."""
        return np.unique(np.array(self.contexts, dtype=object).astype(str), return_inverse=True)[1].reshape(-1)

    @cached_property
    def points(self) -> tuple[float, ...]:
        """Possible answers of the scale, in order; empty for a slider."""
        return scale_points(self.dimension.low, self.dimension.high, self.value)

    def nearest(self, scores: np.ndarray) -> np.ndarray:
        """Return scores rounded to the nearest scale point.

        Unchanged for a slider.
        """
        if not self.points:
            return scores
        points = np.array(self.points)
        indexes = np.abs(np.nan_to_num(scores)[:, None] - points).argmin(axis=1)
        return np.where(np.isfinite(scores), points[indexes], np.nan)

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """Digest of each instance's name and text, to recognise unchanged instances."""
        plain = [
            [(turn.speaker, turn.text) for turn in text.turns] if isinstance(text, Conversation) else text[:2]
            for text in self.texts
        ]
        rows = zip(self.keys, plain, strict=True)
        return tuple(hashlib.sha256(repr((key, text)).encode()).hexdigest()[:16] for key, text in rows)

    def sample(self, limit: int) -> GoldSet:
        """Return up to `limit` instances, alternating rated and unrated ones.

        Ordered by digest.
        """
        order = sorted(range(len(self)), key=lambda k: self.digests[k])
        groups = ([k for k in order if np.isfinite(self.means[k]) == is_rated] for is_rated in (True, False))
        alternating = [k for pair in zip_longest(*groups) for k in pair if k is not None]
        return self if len(self) <= limit else self.take(sorted(alternating[:limit]))

    def take(self, indexes: Sequence[int]) -> GoldSet:
        """Return the instances with these indices."""
        place = np.full(len(self), -1)
        place[list(indexes)] = np.arange(len(indexes))
        is_kept = place[self.item] >= 0
        names = ("keys", "models", "contexts", "texts")
        columns = {name: tuple(getattr(self, name)[k] for k in indexes) for name in names}
        rows = {"item": place[self.item[is_kept]], "rater": self.rater[is_kept], "value": self.value[is_kept]}
        return replace(self, **columns, **rows)  # type: ignore[arg-type]

    def ratings(self) -> Ratings:
        """Return the ratings in the form that other analyses use."""
        return Ratings(
            conversation=np.array([self.keys[k] for k in self.item], dtype=object),
            bot=np.array([self.models[k] for k in self.item], dtype=object),
            rater=self.rater,
            answers={self.dimension.key: self.value},
            dimensions=(self.dimension,),
        )


def scale_points(low: float, high: float, answers: np.ndarray) -> tuple[float, ...]:
    """Return the possible answers of a scale, in order; empty for a slider."""
    seen = np.unique(answers[np.isfinite(answers)])
    if set(seen.tolist()) == {low, high}:
        return (low, high)
    if bool(np.equal(np.mod([*seen, low, high], 1), 0).all()) and high - low < MOST_POINTS:
        return tuple(np.arange(low, high + 1).tolist())
    return tuple(seen.tolist()) if len(seen) <= MOST_POINTS else ()


def bot_text(text: GoldText) -> str:
    """Return the bot's words."""
    if isinstance(text, Conversation):
        return "\n".join(turn.text for turn in text.turns if turn.speaker == "bot")
    return text.response


def gold_of_replies(judged: JudgedReplies, question: str = "", *, name: str = "replies") -> GoldSet:
    """Create a gold set of rated replies.

    Raises ValueError if none is rated on this question.
    """
    question = judged.target(question)
    items = [item for item in judged.items if item.response.strip() and item.scores(question)[0]]
    rows = [(k, rater_named(rater), value) for k, item in enumerate(items) for rater, value in item.scores(question)[0]]
    scales = [item.scales.get(question) or item.scale or () for item in items]
    ends = [end for scale in scales for end in scale] or [value for *_names, value in rows]
    low, high = min(ends), max(ends)
    dimension = RatingDimension(question, question, low, max(high, low + 1), inferred=not any(scales))
    contexts = ("\n".join((item.source, *item.context)) if item.context else item.key for item in items)
    texts = tuple(detokenise_reply(item.reply) for item in items)
    keys, models = (f"{item.key} {item.model}".strip() for item in items), (item.model for item in items)
    return GoldSet(name, dimension, tuple(keys), tuple(models), tuple(contexts), texts, *_columns(rows))


def gold_of_chats(
    ratings: Ratings, bots: Mapping[Conversation, str], question: str = "", *, name: str, extra: Sequence[str] = ()
) -> GoldSet:
    """Make a gold set of whole conversations, rated or not.

    Args:
        bots: pairs of conversations and bots.
        question: empty for the ranking criterion; raises ValueError if no conversation is rated on it.
        extra: ids of conversations that are not between a person and a bot.
    """
    leading = ratings.dimension(question) if question else ratings.leading
    place = {str(chat.id): k for k, chat in enumerate(bots)}
    values = ratings.values(leading.key).tolist() if leading is not None else []
    rated = zip(ratings.conversation.tolist(), ratings.rater.tolist(), values, strict=False)
    rows = [(place[chat], rater, value) for chat, rater, value in rated if np.isfinite(value) and chat in place]
    if leading is None or not rows:
        raise ValueError("no conversation is rated on this question")
    ids = tuple(place)
    return GoldSet(name, leading, ids, tuple(bots.values()), ids, tuple(bots), *_columns(rows), frozenset(extra))


def _columns(rows: Sequence[tuple[int, str | None, float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return items, raters and values; a rater's first rating counts."""
    first: dict[tuple[int, str | int], float] = {}
    for k, (item, rater, value) in enumerate(rows):
        first.setdefault((item, k if rater is None else rater), value)
    raters = [rater if isinstance(rater, str) else None for _item, rater in first]
    items = np.array([item for item, _rater in first], dtype=int)
    return items, np.array(raters, dtype=object), np.array(list(first.values()), dtype=float)


def find_quoted_keys(gold: GoldSet, options: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys of the instances whose longest text a judge's options quote, as an example in its prompt."""
    prompt = _simplify(" ".join(_find_strings(options)))
    return frozenset(key for key, text in zip(gold.keys, gold.texts, strict=True) if _longest_text(text) in prompt)


def _find_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _find_strings(part)


def _longest_text(text: GoldText) -> str:
    """Return the longest text of a chat or reply; NUL, which no prompt contains, if it is short."""
    texts = text.texts if isinstance(text, Conversation) else [text.response]
    longest = max(map(_simplify, texts), key=len, default="")
    return longest if len(longest.split()) >= LEAST_WORDS else "\0"


def _simplify(text: str) -> str:
    return " ".join(text.lower().split())
