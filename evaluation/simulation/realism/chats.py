"""Participants' turns in chats: texts, vectors and trait quantities.

A turn is an answer to the bot (-U in `evaluation.metrics.layout`). Consecutive turns of one speaker count as one, as in
chats simulated within stored ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import resources

import numpy as np
import regex

from chatbots import Conversation
from chatbots.participants.human_chats import HumanChat
from evaluation.metrics.cues import phrase_pattern, straightened
from evaluation.metrics.emotion import EmotionSource, EncoderEmotionSource, VaderEmotionSource, cosine, default_emotions
from evaluation.metrics.layout import Layout
from evaluation.metrics.lexical import n_words
from evaluation.metrics.reactions import REACTIONS, taken_up
from evaluation.metrics.text_cache import TextCache, content_words
from evaluation.simulation.realism.result import Trait

Chat = tuple[str, Conversation]
"""Name of a bot and a conversation with it."""

QUANTITIES: dict[str, tuple[Trait, str]] = {
    "log_words": ("length", "Words, log"),
    "question_mark": ("questions", "Question mark"),
    "sentiment": ("sentiment", "Sentiment"),
    "sentiment_change": ("sentiment", "Change of sentiment"),
    "self_repetition": ("repetition", "Own words again"),
    "self_similarity": ("repetition", "Closest own turn"),
    "appreciation": ("reactions", "Appreciation"),
    "confusion": ("reactions", "Confusion and repair"),
    "negation": ("reactions", "Negation"),
    "overlap": ("entrainment", "Bot's words taken up"),
    "similarity": ("entrainment", "Cosine with the bot's turn"),
    "lower_case": ("surface", "No capital letter"),
    "unpunctuated": ("surface", "No closing punctuation"),
    "unknown_words": ("surface", "Words not in the list"),
    "emoji": ("surface", "Emoji or emoticon"),
}
"""Quantities of a turn, with trait and title."""
LEAVING = "log_turns"
LEAVING_TITLE = "Turns, log"

_EMOJI = regex.compile(r"\p{Extended_Pictographic}|(?<![\w:;=])[:;=][-'^]?[)(DPpO/|*\]\[](?!\w)|<3(?!\d)")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_ENDING = re.compile(r"(?:n't|'[a-z]+)$")


@lru_cache
def spellings() -> frozenset[str]:
    """Return English words in lower case from TextBlob's list.

    The list comes from books and frequency lists (Norvig).
    """
    text = (resources.files("textblob") / "en" / "en-spelling.txt").read_text(encoding="utf-8")
    return frozenset(line.split()[0].lower() for line in text.splitlines() if line.strip() and not line.startswith(";"))


def unknown_share(text: str) -> float:
    """Return the share of words not in the list; NaN without words.

    Capitalised words after the first are names and do not count.
    """
    words = _WORD.findall(text.replace("’", "'"))
    words = [word for place, word in enumerate(words) if not place or not word[:1].isupper() or word.isupper()]
    if not words:
        return float("nan")
    known = spellings()
    return sum(_ENDING.sub("", word.lower()) not in known and word.lower() not in known for word in words) / len(words)


def is_lower_case(text: str) -> bool:
    """Return True if a text has letters and none is a capital."""
    return any(letter.isalpha() for letter in text) and text == text.lower()


def is_unpunctuated(text: str) -> bool:
    """Return True if a text lacks closing punctuation.

    This is a full stop, question or exclamation mark; quotes do not count.
    """
    return not text.rstrip(" \t\n\"')”’").endswith((".", "?", "!", "…"))


def has_emoji(text: str) -> bool:
    """Return True if a text has an emoji or emoticon."""
    return _EMOJI.search(text) is not None


def _has(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.search(straightened(text)) is not None


_OF_TEXT: dict[str, Callable[[str], float]] = {
    "log_words": lambda text: float(np.log1p(n_words(text))),
    "question_mark": lambda text: float("?" in text),
    **{kind: partial(_has, phrase_pattern(phrases)) for kind, phrases in REACTIONS.items()},
    "lower_case": is_lower_case,
    "unpunctuated": is_unpunctuated,
    "unknown_words": unknown_share,
    "emoji": has_emoji,
}


def text_key(text: str) -> str:
    """Return a key that ignores case and spaces of a text."""
    return " ".join(text.casefold().split())


@dataclass(frozen=True)
class ChatTurns:
    """T turns of the participants of C chats.

    Attributes:
        chats: the conversations.
        bots: (C,) names of their bots.
        persons: (C,) persons in them, "" if unknown.
        chat: (T,) chat number of each turn, in order.
        turn: (T,) its position in the chat.
        texts, before: text of each turn, and the preceding bot turn.
        vectors, before_vectors: (T, D) sentence vectors of both, of length 1 or 0.
        values: (T,) values by quantity, NaN if undefined.
        log_turns: (C,) log number of turns until the participant leaves.
    """

    chats: tuple[Conversation, ...]
    bots: np.ndarray
    persons: np.ndarray
    chat: np.ndarray
    turn: np.ndarray
    texts: list[str]
    before: list[str]
    vectors: np.ndarray
    before_vectors: np.ndarray
    values: dict[str, np.ndarray]
    log_turns: np.ndarray

    @classmethod
    def from_chats(cls, chats: Sequence[Chat], shared: TextCache, persons: Sequence[str] | None = None) -> ChatTurns:
        """Read chats; chats without an answer to the bot have no turns.

        Args:
            chats: chats with unique ids.
            shared: text cache with vectors encoded before.
            persons: (C,) person of each chat, "" if unknown.
        """
        layout = Layout.of(
            [replace(conversation, turns=HumanChat(bot, conversation).turns) for bot, conversation in chats]
        )
        user = layout.user
        # The preceding bot turn, which every -U turn has in its conversation.
        before = layout.bot[np.searchsorted(layout.bot, user) - 1] if len(user) else user
        texts, replies = layout.texts_at(user), layout.texts_at(before)
        encode, feelings = _encoders(shared)
        vectors, before_vectors = encode(texts), encode(replies)
        chat = layout.conversation_of[user]
        parts = np.split(np.arange(len(chat)), np.flatnonzero(np.diff(chat)) + 1)
        felt, _shares = feelings.read(texts, shared)
        values = {name: np.array([measure(text) for text in texts], dtype=float) for name, measure in _OF_TEXT.items()}
        values |= {
            "sentiment": felt,
            "sentiment_change": np.concatenate([np.diff(felt[rows], prepend=np.nan) for rows in parts]),
            "self_repetition": np.concatenate([_used_before([texts[row] for row in rows]) for rows in parts]),
            "self_similarity": np.concatenate([_closest_before(vectors[rows]) for rows in parts]),
            "overlap": np.array(
                [taken_up(*text_and_reply) for text_and_reply in zip(texts, replies, strict=True)], dtype=float
            ),
            "similarity": cosine(vectors, before_vectors),
        }
        spoken = [sum(turn.speaker == "human" for turn in conversation.turns) for conversation in layout.conversations]
        return cls(
            chats=layout.conversations,
            bots=np.array([bot for bot, _conversation in chats], dtype=object),
            persons=np.array(persons if persons is not None else [""] * len(chats), dtype=object),
            chat=chat,
            turn=layout.turn_of[user],
            texts=texts,
            before=replies,
            vectors=vectors,
            before_vectors=before_vectors,
            values={name: values[name] for name in QUANTITIES},
            log_turns=np.log(np.maximum(spoken, 1)),
        )

    def means(self, quantity: str) -> np.ndarray:
        """Return each chat's mean over its defined turns, (C,).

        NaN if there are none. For the leaving time, it is the time itself.
        """
        if quantity == LEAVING:
            return self.log_turns
        values = self.values[quantity]
        is_defined = np.isfinite(values)
        n = np.bincount(self.chat[is_defined], minlength=len(self.chats))
        total = np.bincount(self.chat[is_defined], values[is_defined], minlength=len(self.chats))
        return np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)


def _encoders(shared: TextCache) -> tuple[Callable[[Sequence[str]], np.ndarray], EmotionSource]:
    """Return the sources of vectors and sentiment.

    These are the sentence encoder and the emotion head, or without the encoder hashed words and VADER.
    """
    feelings = EncoderEmotionSource(default_emotions)
    if feelings.unavailable_reason() is None:
        return shared.encode, feelings
    from sklearn.feature_extraction.text import HashingVectorizer

    hashed = HashingVectorizer(n_features=512, ngram_range=(1, 2), alternate_sign=False)
    return lambda texts: hashed.transform(texts or [""]).toarray()[: len(texts)], VaderEmotionSource()


def _used_before(texts: Sequence[str]) -> np.ndarray:
    """Return the share of each turn's content words used before.

    Distinct words count once; NaN for the first turn.
    """
    used: set[str] = set()
    shares = np.full(len(texts), np.nan)
    for place, text in enumerate(texts):
        words = set(content_words(text))
        if place and words:
            shares[place] = len(words & used) / len(words)
        used |= words
    return shares


def _closest_before(vectors: np.ndarray) -> np.ndarray:
    """Return each vector's largest cosine with a preceding one.

    NaN for the first.
    """
    cosines = np.where(np.tri(len(vectors), k=-1, dtype=bool), vectors @ vectors.T, -np.inf)
    closest = cosines.max(axis=1, initial=-np.inf)
    return np.where(np.isfinite(closest), np.clip(closest, -1.0, 1.0), np.nan)
