"""Pairs of natural language inference made of dialogues, as InferConvAI was: coherence without anybody's labels.

Dziri, Kamalloo, Mathewson and Zaiane (2019), "Evaluating Coherence in Dialogue Systems using Entailment", NAACL,
section
4. The premise is two utterances of a dialogue, U[i] and U[i+1]. What they get as hypotheses (numbers: the fact sheet's
section 2):

| label | hypothesis |
|---|---|
| entailment | U[i+2], the reply that was given |
| neutral | sentences that say nothing ("I don't know"); utterances from elsewhere in the dialogue |
| contradiction | words of reply, premise and dialogue in a heap; contradictions of MultiNLI |

What is drawn at a dialogue depends on the seed and the dialogue's place alone. A hypothesis that the same premise has
under another label already is never drawn, and texts are cleaned of white space only.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from chatbots.corpora.reader import Dialogue
from chatbots.identity import derive_seed
from chatbots.outside import Number, Values

LABELS = ("entailment", "neutral", "contradiction")
TRUE, DULL, OFF_TOPIC, WORD_SALAD, MULTINLI = (
    "reply", "dull", "off_topic", "word_salad", "multinli",
)  # fmt: skip
"""Where a hypothesis is from; files call it the genre."""
CONTEXT = 2
"""Utterances of a premise."""
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_FEWEST = 3
_MOST_OF_REPLY, _MOST_OF_PREMISE, _MOST_OF_REST = 5, 5, 6


class PairOptions(Values):
    """Number of false hypotheses for a premise; by default the released code's numbers.

    Attributes:
        p_dull: share of premises that get dull ones.
        n_dull: their number; at most as many as the list has.
        max_poor: a premise gets one to so many utterances from elsewhere; 0: none.
        poor_from: "dialogue": of the same one, as the released code; "others": of other dialogues, as the paper says.
        p_broken: share of premises that get heaps of words.
        max_broken: one to so many then; 0: none.
        n_mnli: additional contradictions of MultiNLI, in the training part.
    """

    p_dull: Number = Field(default=0.33, ge=0, le=1)
    n_dull: int = Field(default=2, ge=0)
    max_poor: int = Field(default=3, ge=0)
    poor_from: Literal["dialogue", "others"] = "dialogue"
    p_broken: Number = Field(default=0.30, ge=0, le=1)
    max_broken: int = Field(default=3, ge=0)
    n_mnli: int = Field(default=0, ge=0)


@dataclass(frozen=True, slots=True)
class InferencePair:
    """Premise, hypothesis, and the label of their relation.

    Attributes:
        label: one of `LABELS`.
        genre: where the hypothesis is from.
    """

    premise: str
    hypothesis: str
    label: str
    genre: str = ""


def dull_sentences(path: Path | None = None) -> tuple[str, ...]:
    """Return the dull sentences of a file, by default of our own list."""
    text = (path or Path(__file__).with_name("dull_sentences.txt")).read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line and not line.startswith("#")))


def inference_pairs(
    dialogues: Sequence[Dialogue],
    options: PairOptions,
    seed: int,
    *,
    dull: Sequence[str] | None = None,
    mnli: Sequence[InferencePair] = (),
) -> list[InferencePair]:
    """Make the pairs of dialogues, in a shuffled order.

    Args:
        seed: of everything drawn.
        dull: sentences instead of our own.
        mnli: contradictions that are put among them.
    """
    told = dull_sentences() if dull is None else tuple(dull)
    found = list(mnli)
    for place, dialogue in enumerate(dialogues):
        draw = random.Random(derive_seed(seed, "inference pairs", place))
        turns = [_clean(turn) for turn in dialogue.turns]
        for i in range(len(turns) - CONTEXT):
            *context, reply = turns[i : i + CONTEXT + 1]
            if not reply or not all(context):
                continue
            premise = " ".join(context)
            rest = turns[:i] + turns[i + CONTEXT + 1 :]
            known = {*context, reply}
            found.append(InferencePair(premise, reply, "entailment", TRUE))
            for text in dull_drawn(told, options, draw):
                if text not in known:
                    found.append(InferencePair(premise, text, "neutral", DULL))
                    known.add(text)
            pool: Sequence[str] = rest
            if options.poor_from == "others" and len(dialogues) > 1:
                other = draw.randrange(len(dialogues) - 1)
                pool = [_clean(t) for t in dialogues[other + (other >= place)].turns]
            for text in poor_drawn([t for t in pool if t not in known], options, draw):
                found.append(InferencePair(premise, text, "neutral", OFF_TOPIC))
                known.add(text)
            for text in broken_drawn(reply, premise, " ".join(rest), options, draw):
                if text not in known:
                    found.append(InferencePair(premise, text, "contradiction", WORD_SALAD))
    random.Random(derive_seed(seed, "order of inference pairs")).shuffle(found)
    return found


def dull_drawn(dull: Sequence[str], options: PairOptions, draw: random.Random) -> list[str]:
    """Return, with probability `p_dull`, `n_dull` different sentences of the list; else none."""
    if draw.random() >= options.p_dull:
        return []
    return draw.sample(list(dull), min(options.n_dull, len(dull)))


def poor_drawn(elsewhere: Sequence[str], options: PairOptions, draw: random.Random) -> list[str]:
    """Return k different utterances that are not empty, k uniform in 1 … `max_poor`; all where there are fewer."""
    if not options.max_poor:
        return []
    k = draw.randint(1, options.max_poor)
    distinct = list(dict.fromkeys(text for text in elsewhere if text))
    return draw.sample(distinct, min(k, len(distinct)))


def broken_drawn(
    reply: str, premise: str, rest: str, options: PairOptions, draw: random.Random
) -> list[str]:
    """Return, with probability `p_broken`, k heaps of words, k uniform in 1 … `max_broken`; none without words."""
    if not options.max_broken or draw.random() >= options.p_broken:
        return []
    k = draw.randint(1, options.max_broken)
    heaps = [word_salad(reply, premise, rest, draw) for _ in range(k)]
    return [heap for heap in dict.fromkeys(heaps) if heap]


def word_salad(reply: str, premise: str, rest: str, draw: random.Random) -> str:
    """Return different words in no order: 3 to 5 of the reply, 3 to 5 of the premise, 3 to 6 of the rest of the
    dialogue.

    From a text with n different words come at most n − 1 of them, so a short one may give fewer than 3. A word that two
    texts give stands once.
    """
    words: list[str] = []
    for text, most in ((reply, _MOST_OF_REPLY), (premise, _MOST_OF_PREMISE), (rest, _MOST_OF_REST)):
        distinct = words_of(text)
        most = max(0, min(most, len(distinct) - 1))
        words += draw.sample(distinct, draw.randint(min(_FEWEST, most), most))
    distinct = list(dict.fromkeys(words))
    draw.shuffle(distinct)
    return " ".join(distinct)


@lru_cache(maxsize=1024)
def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_WORD.findall(text)))


def words_of(text: str) -> list[str]:
    """Return the different words of a text, without marks, in their order."""
    return list(_words(text))


def _clean(text: str) -> str:
    return " ".join(text.split())
