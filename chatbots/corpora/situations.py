"""Index of a corpus as situations and replies, for the retrieval bot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chatbots.corpora.dialogues import Corpus, CorpusError
from chatbots.encoders.emotion import vader_scores

_GREETING = re.compile(
    r"(?:hi|hello|hey|hiya|good (?:morning|day|afternoon|evening)|nice to meet|how are you|how's it|what's up)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Situations:
    """Corpus as arrays: distinct texts, and candidates that refer to them.

    Attributes:
        texts: the U distinct utterances.
        replies: (C,) text number of each candidate's reply.
        contexts: (C, 3) text numbers of the utterances before the reply, the latest first; −1 for none.
        openers: (O,) text numbers of first utterances that are questions without a greeting.
        all_openers: (A,) text numbers of all first utterances that are questions.
        second: (C,) bool, the reply is the second speaker's.
        asked: (C,) bool, the utterance replied to ends in a question.
        greets: (C,) bool, the utterance replied to is a greeting.
        sentiment: (C,) VADER's compound score of the utterance replied to.
    """

    texts: list[str]
    replies: np.ndarray
    contexts: np.ndarray
    openers: np.ndarray
    all_openers: np.ndarray
    second: np.ndarray
    answers_question: np.ndarray
    greets: np.ndarray
    sentiment: np.ndarray

    @classmethod
    def from_corpus(cls, corpus: Corpus) -> Situations:
        """Build the arrays from a corpus.

        Raises:
            CorpusError: no dialogue has two or more utterances.
        """
        numbers: dict[str, int] = {}
        replies: list[int] = []
        contexts: list[list[int]] = []
        second: list[bool] = []
        answers_question: list[bool] = []
        greets: list[bool] = []
        openers: dict[int, None] = {}
        for dialogue in corpus.dialogues:
            turns = [numbers.setdefault(text, len(numbers)) for text in dialogue.turns]
            if dialogue.turns[0].endswith("?"):
                openers.setdefault(turns[0])
            for i in range(1, len(turns)):
                replies.append(turns[i])
                second.append(i % 2 == 1)
                greets.append(i == 1 and greets_alone(dialogue.turns[0]))
                answers_question.append(dialogue.turns[i - 1].endswith("?"))
                contexts.append([turns[i - k] if i >= k else -1 for k in (1, 2, 3)])
        if not replies:
            raise CorpusError("the corpus contains no dialogue of at least two utterances")
        if not openers:
            openers = dict.fromkeys(numbers[d.turns[0]] for d in corpus.dialogues)
        sentiment = vader_scores(list(numbers))
        texts = list(numbers)
        subjects = [number for number in openers if not _GREETING.match(texts[number])]
        return cls(
            texts=texts,
            replies=np.array(replies),
            contexts=np.array(contexts),
            openers=np.array(subjects or list(openers)),
            all_openers=np.array(list(openers)),
            second=np.array(second),
            answers_question=np.array(answers_question),
            greets=np.array(greets),
            sentiment=sentiment[np.array(contexts)[:, 0]],
        )

    @cached_property
    def keys(self) -> list[str]:
        """The texts in lower case without punctuation, for recognising repetitions."""
        return [repetition_key(text) for text in self.texts]


def greets_alone(text: str) -> bool:
    """Return True if a text is little more than a greeting."""
    return len(text.split()) <= 5 and bool(_GREETING.match(text))


def repetition_key(text: str) -> str:
    """Return a text's lower-case words, or its symbols if it has none."""
    return re.sub(r"[\W_]+", " ", text).strip().lower() or text.strip()
