"""Retrieval participant, which reuses human messages from similar situations.

The situations come from chats with other bots and are ranked as by the retrieval bot (`chatbots/corpora/ranking.py`).
To prevent leaks, chats with the same bot or of the same person are excluded, and so are longer messages written to that
bot by any person. Erasure also clears the vector store.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chatbots.bots.base import BotError
from chatbots.corpora.dialogues import Corpus, CorpusError, Dialogue
from chatbots.corpora.ranking import (
    MISSING,
    NEAR,
    RANKING_PARAMS,
    EncoderSpace,
    LexicalSpace,
    score_candidates,
    utterances,
)
from chatbots.corpora.situations import Situations, repetition_key
from chatbots.encoders.sentence import EncoderError, SentenceEncoder, sentence_encoder
from chatbots.participants.base import Move, ParticipantTurn, SimulatedParticipant, register_participant
from chatbots.participants.human_chats import HumanChat, HumanChats

if TYPE_CHECKING:
    from chatbots.encoders.cache import TextStore

LEAVES = ""
"""Placeholder message after the last reply of a chat, to which the person did not respond."""
N_NEAR = 3
"""Number of best situations to draw from."""
KNOWN_SHARE = 0.2
LEAST_KNOWN = 100
"""Share of the chats that one simulated person draws from, and their minimum number."""


class _PeopleSituations:
    """Situations of human chats: arrays over C candidate messages.

    Attributes:
        index: situations whose replies are human messages or `LEAVES`.
        chats, numbers: (C,) chats of the candidates, and their message numbers.
        votes: (C,) the person's vote on the previous reply.
    """

    def __init__(self, people: HumanChats, device: str, store: TextStore | None) -> None:
        dialogues = [_dialogue(chat) for chat in people]
        everything = Situations.from_corpus(Corpus(tuple(dialogues)))
        places = [(number, i) for number, dialogue in enumerate(dialogues) for i in range(1, len(dialogue.turns))]
        humans = [[*(turn.speaker == "human" for turn in chat.turns), True] for chat in people]
        rows = [row for row, (number, i) in enumerate(places) if humans[number][i]]
        columns = ("replies", "contexts", "second", "answers_question", "greets", "sentiment")
        self.index = replace(everything, **{name: getattr(everything, name)[rows] for name in columns})
        self.numbers = np.array([places[row][0] for row in rows], dtype=int)
        self.chats = [people.chats[number] for number in self.numbers]
        before = [places[row][1] - 1 for row in rows]
        self.votes = np.array([chat.turns[i].vote for chat, i in zip(self.chats, before, strict=True)], dtype=int)
        self.bots = np.array([chat.bot for chat in self.chats], dtype=object)
        self.persons = np.array([chat.person for chat in self.chats], dtype=object)
        self.leaves = self.index.texts.index(LEAVES) if LEAVES in self.index.texts else -1
        self._people = people
        self._by_key: dict[str, list[int]] = {}
        for candidate, reply in enumerate(self.index.replies):
            self._by_key.setdefault(self.index.keys[reply], []).append(candidate)
        self._allowed: dict[str, np.ndarray] = {}
        encoder = sentence_encoder(device)
        self.space: EncoderSpace | LexicalSpace
        if encoder.unavailable_reason() is None:
            encode = partial(_encode, encoder, store)
            self.space = EncoderSpace(encode, encode(self.index.texts))
        else:
            self.space = LexicalSpace(self.index.texts)

    def similarity(self, texts: Sequence[str]) -> np.ndarray:
        """Return similarities of N texts with those of the index, (N, U)."""
        if not texts:
            return np.zeros((0, len(self.index.texts)))
        similarity = self.space.similarity(texts)
        if self.leaves >= 0:  # not a text, so it has no similarity
            similarity[:, self.leaves] = MISSING
        return similarity

    def _known(self, seed: int) -> np.ndarray:
        """Draw the chats that one simulated person knows.

        Otherwise all of them would write the same few best messages.
        """
        n = len(self._people)
        return np.random.default_rng(seed).random(n) < max(KNOWN_SHARE, LEAST_KNOWN / n)

    def allowed(self, turn: ParticipantTurn) -> np.ndarray:
        """Return the mask of allowed candidates, (C,).

        Allowed are unused messages of other persons to other bots.
        """
        if turn.bot not in self._allowed:
            allowed = self.bots != turn.bot
            for key in self._people.keys_by_bot.get(turn.bot, frozenset()) & self._by_key.keys():
                allowed[self._by_key[key]] = False
            self._allowed[turn.bot] = allowed
        allowed = self._allowed[turn.bot].copy()
        if turn.person:
            allowed &= self.persons != turn.person
        if turn.n_planned is not None:
            allowed &= self.index.replies != self.leaves
        allowed &= self._known(turn.chat_seed)[self.numbers]
        for text in (*turn.conversation.texts, *turn.written):
            allowed[self._by_key.get(repetition_key(text), [])] = False
        return allowed


@register_participant
class RetrievalParticipant(SimulatedParticipant):
    """Participant that reuses a human message from the most similar situation."""

    name = "retrieval"
    title = "Retrieval"
    description = "Writes a person's message from the most similar situation in a chat with another bot."
    needs_people = True
    votes = True

    _loaded: _PeopleSituations | None = None

    @property
    def params(self) -> dict[str, Any]:
        encoder = sentence_encoder()
        ranked_by = "tfidf" if encoder.unavailable_reason() is not None else encoder.identity.as_dict()
        return {**RANKING_PARAMS, "n_near": N_NEAR, "known": [KNOWN_SHARE, LEAST_KNOWN], "encoder": ranked_by}

    def load(self, device: str, people: HumanChats | None = None, store: TextStore | None = None) -> None:
        super().load(device, people, store)
        assert people is not None
        try:
            self._loaded = _PeopleSituations(people, device, store)
        except (CorpusError, EncoderError) as error:
            raise BotError(f"{self.name} cannot be loaded: {error}") from error
        self.votes = bool(self._loaded.votes.any())

    def unload(self) -> None:
        super().unload()
        self._loaded = None

    def moves(self, turns: Sequence[ParticipantTurn]) -> list[Move]:
        """Return a human message or a departure for each turn.

        Texts are encoded together.
        """
        if self._loaded is None:
            raise BotError(f"{self.name} is not loaded")
        recent = [utterances(turn.conversation)[-1:-4:-1] for turn in turns]  # the last one first
        texts = list(dict.fromkeys(text for group in recent for text in group))
        rows = dict(zip(texts, self._loaded.similarity(texts), strict=True))
        return [
            _next(self._loaded, turn, [rows[text] for text in group])
            if group
            else self.opening(turn) or _nothing_left(turn)
            for turn, group in zip(turns, recent, strict=True)
        ]


def _next(loaded: _PeopleSituations, turn: ParticipantTurn, similar: list[np.ndarray]) -> Move:
    """Draw one of the best candidates.

    Ties keep the order of the chats.
    """
    index = loaded.index
    scores, _ = score_candidates(index, utterances(turn.conversation)[-1], similar)
    scores[~loaded.allowed(turn)] = -np.inf
    best = scores.max()
    if best == -np.inf:
        return _nothing_left(turn)
    order = sorted(np.flatnonzero(scores >= best - NEAR), key=lambda i: scores[i])
    near = {int(index.replies[i]): int(i) for i in order}  # the best of equal texts
    chosen = random.Random(turn.seed).choice(sorted(near.values(), key=lambda i: -scores[i])[:N_NEAR])
    text = index.texts[index.replies[chosen]]
    vote = int(loaded.votes[chosen]) or None
    if text == LEAVES:
        return Move(vote=vote)
    return Move(text, vote=vote, source=loaded.chats[chosen].conversation.id)


def _dialogue(chat: HumanChat) -> Dialogue:
    texts = tuple(turn.text for turn in chat.turns)
    return Dialogue((*texts, LEAVES) if chat.turns[-1].speaker == "bot" else texts)


def _nothing_left(turn: ParticipantTurn) -> Move:
    return Move(error=f"no unused human message to a bot other than {turn.bot} is left")


def _encode(encoder: SentenceEncoder, store: TextStore | None, texts: Sequence[str]) -> np.ndarray:
    """Return vectors of texts, (N, D), and store them."""
    key = encoder.identity.key
    rows = store.get(key, texts) if store is not None else {}
    new = list(dict.fromkeys(text for text in texts if text not in rows))
    if new:
        new_rows = dict(zip(new, encoder.encode(new), strict=True))
        rows = {**rows, **new_rows}
        if store is not None:
            store.put(key, new_rows)
    return np.stack([rows[text] for text in texts])
