"""Bot that replies like a speaker in the most similar corpus situation.

Every pair of neighbouring utterances of the corpus is a situation (up to three utterances) and its
reply. Situations are ranked by cosine similarity of sentence vectors (Reimers and Gurevych 2019). The last utterance
has the largest weight and the two before it smaller ones, as the dual encoders of Henderson et al. (2017),
"Efficient Natural Language Response Suggestion for Smart Reply", rank by message and reply. Without a sentence
encoder the same ranking uses TF-IDF vectors, and the bot's title and identity show this. If nothing in the corpus
fits, the bot comments on the last message and asks the corpus's opening question closest to the subject. Goodbyes
and the question whether it is a bot get fixed replies (`chatbots/english_rules.py`), never a corpus speaker's words.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from chatbots.bots.base import BotError
from chatbots.conversation import Conversation
from chatbots.corpora.dialogues import EVERYDAY, Corpus, CorpusError, corpus_read
from chatbots.corpora.ranking import NEAR, RANKING_PARAMS, EncoderSpace, LexicalSpace, score_candidates, utterances
from chatbots.corpora.situations import Situations, repetition_key
from chatbots.encoders.cache import arrays_cached
from chatbots.encoders.emotion import vader_scores
from chatbots.encoders.sentence import MINILM, EncoderError, LocalSentenceEncoder, encoder_get
from chatbots.english_rules import canned_replies
from chatbots.identity import Identity
from chatbots.registry import register_bot
from chatbots.validation import InputModel
from chatbots.yaml_registry import ConfiguredBot, register_bot_kind

log = logging.getLogger(__name__)

N_NEAR = 3
WEAK = {"sentence_encoder": 0.38, "tfidf": 0.2}
"""Minimum similarity of a corpus reply that fits."""

HEARD = {
    "negative": ("I'm sorry to hear that.", "That can't be easy.", "Oh dear.", "That sounds hard."),
    "positive": ("That sounds good.", "How nice!", "I'm glad to hear it.", "Lovely."),
    "asked": (
        "I honestly couldn't say.",
        "Good question, I wish I knew.",
        "You've got me there.",
        "That one is too hard for me.",
    ),
    "short": ("All right.", "Fair enough.", "Okay then.", "Right."),
    "neutral": ("I hadn't thought of that.", "That's new to me.", "Is that so?", "I see what you mean."),
}
"""Remarks on an utterance without a fitting corpus reply."""
ASK_ON = (
    "What happened, exactly?",
    "How are you coping with it?",
    "Is there somebody you can talk to about it?",
    "How long has that been going on?",
)
LINKS = ("Let me ask you something else:", "On another note:", "I've been meaning to ask:", "So tell me:")


@dataclass
class _Loaded:
    index: Situations
    space: EncoderSpace | LexicalSpace
    weak: float


class RetrievalOptions(InputModel):
    """Options of a retrieval bot in `bots.yaml`."""

    corpus: str = Field("", description="a `.jsonl` file or a folder of them; the everyday corpus if empty.")
    encoder: str = Field(
        MINILM, description="`minilm`, a folder or a hub id; if it is missing, TF-IDF is used instead."
    )


@register_bot
@register_bot_kind("retrieval")
class RetrievalBot(ConfiguredBot):
    """Bot that picks the best-fitting reply of a dialogue corpus."""

    options_type = RetrievalOptions
    options: RetrievalOptions

    kind = "retrieval"
    capacity = 256
    version = "2"

    def __init__(self, *, name: str = "retrieval", title: str = "", **options: Any) -> None:
        super().__init__(name=name, title=title, **options)
        self._loaded: _Loaded | None = None
        self._read: Corpus | None = None
        self._lock = threading.RLock()
        # A separate lock, because lists and identities need the corpus while another thread may be loading for seconds.
        self._read_lock = threading.Lock()
        self._device = "cpu"
        if not title:
            suffix = "" if self.ranking == "sentence_encoder" else " (lexical)"
            self.title = f"Retrieval{suffix}"

    @property
    def ranking(self) -> str:
        """`sentence_encoder`, or `tfidf` if this machine has no encoder."""
        missing = encoder_get(self.options.encoder).unavailable_reason()
        return "sentence_encoder" if missing is None else "tfidf"

    @property
    def description(self) -> str:
        """One or two sentences for the catalogue."""
        base = "Replies with the best-fitting utterance of a dialogue corpus, ranked by "
        missing = encoder_get(self.options.encoder).unavailable_reason()
        if missing is None:
            return f"{base}the sentence encoder {self.options.encoder}."
        return f"{base}shared words (TF-IDF), because the sentence encoder is missing: {missing}."

    @property
    def params(self) -> dict[str, Any]:
        ranking = self.ranking
        encoder = encoder_get(self.options.encoder).identity.as_dict() if ranking != "tfidf" else None
        return {
            "corpus": self._corpus_digest(),
            "ranking": ranking,
            "encoder": encoder,
            **RANKING_PARAMS,
            "weak": WEAK[ranking],
        }

    def unavailable_reason(self) -> str | None:
        try:
            self._corpus()
        except CorpusError as error:
            return str(error)
        return None

    def load(self, device: str) -> None:
        with self._lock:
            if self._loaded is not None:
                return
            self._device = device
            try:
                corpus = self._corpus()
                index = Situations.from_corpus(corpus)
                ranking = self.ranking
                space: EncoderSpace | LexicalSpace
                if ranking == "sentence_encoder":
                    encoder = encoder_get(self.options.encoder, device)
                    encoder.load()
                    space = EncoderSpace(encoder.encode, _vectors(encoder, corpus, index.texts))
                else:
                    log.warning("%s ranks by shared words only. %s", self.name, self.description)
                    space = LexicalSpace(index.texts)
            except (CorpusError, EncoderError) as error:
                raise BotError(f"{self.name} cannot be loaded: {error}") from error
            self._loaded = _Loaded(index, space, WEAK[ranking])

    def unload(self) -> None:
        with self._lock:
            self._loaded = None

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        """Return a reply for each context.

        The encoder sees all texts of the batch together.
        """
        self.load(self._device)
        loaded = self._loaded
        assert loaded is not None
        recent = [utterances(context)[-1:-4:-1] for context in contexts]  # the last one first
        texts = list(dict.fromkeys(text for group in recent for text in group))
        rows = dict(zip(texts, loaded.space.similarity(texts), strict=True)) if texts else {}
        return [
            _choose(loaded, context, [rows[text] for text in group])
            for context, group in zip(contexts, recent, strict=True)
        ]

    def _corpus(self) -> Corpus:
        with self._read_lock:
            if self._read is None:
                self._read = corpus_read(Path(self.options.corpus) if self.options.corpus else EVERYDAY)
            return self._read

    def _corpus_digest(self) -> str | None:
        try:
            return self._corpus().digest
        except CorpusError:
            return None


def _vectors(encoder: LocalSentenceEncoder, corpus: Corpus, texts: list[str]) -> np.ndarray:
    """Return the vectors of a corpus, encoding it once per machine."""
    cache = Identity("retrieval_corpus", "1", {"encoder": encoder.identity.as_dict(), "corpus": corpus.digest})
    return arrays_cached(cache, lambda: {"vectors": encoder.encode(texts)})["vectors"]


def _choose(loaded: _Loaded, context: Conversation, similar: list[np.ndarray]) -> str:
    """Pick a reply.

    Args:
        similar: for the last utterance and up to two before it, the (U,) similarities to the corpus.
    """
    index = loaded.index
    rng = random.Random(context.reply_seed)
    used_keys = {repetition_key(text) for text in context.texts}
    said_numbers = [
        number
        for number, key in enumerate(index.keys)
        if key in used_keys or any(len(key) > 12 and key in text for text in used_keys)
    ]
    if not similar:
        return _sentence(index.texts[rng.choice(_unsaid(index.all_openers, said_numbers).tolist())])
    last = utterances(context)[-1]
    if own_words := canned_replies(last, context.texts):
        return _fresh(own_words, "\n".join(context.texts), rng)
    scores, of_last = score_candidates(index, last, similar)
    scores[np.isin(index.replies, said_numbers)] = -np.inf
    # Equal replies of several situations count once; ties keep the corpus's order.
    order = np.argsort(-scores, kind="stable")
    best = scores[order[0]]
    if max(best, of_last[order[0]]) < loaded.weak or best == -np.inf:
        openers = _unsaid(index.openers, said_numbers)
        nearest = openers[np.argsort(-np.round(similar[0][openers], 5), kind="stable")[:N_NEAR]]
        return _change_of_subject(last, context.texts, index.texts[rng.choice(nearest.tolist())], rng)
    near = list(dict.fromkeys(int(index.replies[i]) for i in order[:50] if scores[i] >= best - NEAR))
    return _sentence(index.texts[rng.choice(near[:N_NEAR])])


def _change_of_subject(last: str, texts: Sequence[str], opener: str, rng: random.Random) -> str:
    """Return a remark on the last utterance, followed by a question.

    The question follows up a sad utterance that has not been followed up yet; otherwise it is the opener.
    """
    everything = "\n".join(texts)
    sentiment = float(vader_scores([last])[0])
    if last.endswith("?"):
        mood = "asked"
    elif len(last.split()) <= 2 and abs(sentiment) < 0.5:
        mood = "short"
    elif sentiment <= -0.3:
        mood = "negative"
    elif sentiment >= 0.4:
        mood = "positive"
    else:
        mood = "neutral"
    heard = _fresh(HEARD[mood], everything, rng)
    if mood == "negative" and any(question not in everything for question in ASK_ON):
        return f"{heard} {_fresh(ASK_ON, everything, rng)}"
    return f"{heard} {_fresh(LINKS, everything, rng)} {_sentence(opener)}"


def _fresh(phrases: Sequence[str], context_text: str, rng: random.Random) -> str:
    """Draw one of the phrases, preferring phrases new to the conversation."""
    return rng.choice([phrase for phrase in phrases if phrase not in context_text] or list(phrases))


def _sentence(text: str) -> str:
    """Capitalise the first letter, which some corpus speakers type in lower case."""
    return text[:1].upper() + text[1:]


def _unsaid(numbers: np.ndarray, used_numbers: list[int]) -> np.ndarray:
    """Return the numbers of unused texts; all numbers if none is unused."""
    unused_numbers = numbers[~np.isin(numbers, used_numbers)]
    return unused_numbers if len(unused_numbers) else numbers
