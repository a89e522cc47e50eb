"""Inference pairs from dialogues, and their file formats.

Dziri, Kamalloo, Mathewson and Zaiane (2019), "Evaluating Coherence in Dialogue Systems using Entailment", NAACL,
section 4. A premise consists of two utterances of a dialogue, U[i] and U[i+1]. Section 2 of the fact sheet gives the
numbers of hypotheses:

| label | hypothesis |
|---|---|
| entailment | U[i+2], the actual reply |
| neutral | dull sentences ("I don't know"); utterances from elsewhere in the dialogue |
| contradiction | shuffled words of reply, premise and dialogue; contradictions of MultiNLI |

Draws for a dialogue depend only on the seed and its position. A premise never gets the same hypothesis under two
labels. Only white space is normalised.

Files are JSON lines like SNLI's or tables like MultiNLI's. They are written in the two formats of Dziri et al.'s code:
JSON with `pairID, genre, gold_label, sentence1, sentence2`, or MultiNLI's twelve columns, with the sentences in columns
nine and ten and the label in the last. Columns are read by name, because the published MultiNLI orders them
differently.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from chatbots.corpora.dialogues import CorpusError, Dialogue, lines_read
from chatbots.identity import derive_seed
from chatbots.text import quote
from chatbots.validation import InputModel, Number
from evaluation.data.items import detokenise_text
from evaluation.metrics.text_cache import TextCache, lower_tokens

LABELS = ("entailment", "neutral", "contradiction")
TRUE, DULL, OFF_TOPIC, WORD_SALAD, MULTINLI = (
    "reply", "dull", "off_topic", "word_salad", "multinli",
)  # fmt: skip
"""Source of a hypothesis; the genre in files."""
CONTEXT = 2
"""Number of utterances in a premise."""
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_FEWEST = 3
_MOST_OF_REPLY, _MOST_OF_PREMISE, _MOST_OF_REST = 5, 5, 6


class PairOptions(InputModel):
    """Numbers of false hypotheses per premise; defaults as in the released code.

    Attributes:
        p_dull: share of premises with dull hypotheses.
        n_dull: number of dull hypotheses, up to the length of the list.
        max_poor: maximum number of utterances from elsewhere, at least one per premise; 0: none.
        poor_from: "dialogue": from the same dialogue, as in the released code; "others": from other dialogues, as in
            the paper.
        p_broken: share of premises with shuffled words.
        max_broken: maximum number of shuffled hypotheses, at least one; 0: none.
        n_mnli: number of contradictions from MultiNLI added to the training part.
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
    """Premise and hypothesis with the label of their relation.

    Attributes:
        label: one of `LABELS`.
        genre: source of the hypothesis.
    """

    premise: str
    hypothesis: str
    label: str
    genre: str = ""


def dull_sentences(path: Path | None = None) -> tuple[str, ...]:
    """Read dull sentences from a file, by default Confab's."""
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
    """Make shuffled pairs from dialogues.

    Args:
        seed: seed of all draws.
        dull: replacement for Confab's dull sentences.
        mnli: contradictions to add.
    """
    sentences = dull_sentences() if dull is None else tuple(dull)
    pairs = list(mnli)
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
            pairs.append(InferencePair(premise, reply, "entailment", TRUE))
            for text in dull_drawn(sentences, options, draw):
                if text not in known:
                    pairs.append(InferencePair(premise, text, "neutral", DULL))
                    known.add(text)
            pool: Sequence[str] = rest
            if options.poor_from == "others" and len(dialogues) > 1:
                other_place = draw.randrange(len(dialogues) - 1)
                pool = [_clean(t) for t in dialogues[other_place + (other_place >= place)].turns]
            for text in poor_drawn([t for t in pool if t not in known], options, draw):
                pairs.append(InferencePair(premise, text, "neutral", OFF_TOPIC))
                known.add(text)
            for text in broken_drawn(reply, premise, " ".join(rest), options, draw):
                if text not in known:
                    pairs.append(InferencePair(premise, text, "contradiction", WORD_SALAD))
    random.Random(derive_seed(seed, "order of inference pairs")).shuffle(pairs)
    return pairs


def dull_drawn(dull: Sequence[str], options: PairOptions, draw: random.Random) -> list[str]:
    """Draw `n_dull` distinct dull sentences with probability `p_dull`, otherwise none."""
    if draw.random() >= options.p_dull:
        return []
    return draw.sample(list(dull), min(options.n_dull, len(dull)))


def poor_drawn(elsewhere: Sequence[str], options: PairOptions, draw: random.Random) -> list[str]:
    """Draw k distinct non-empty utterances, with k uniform in 1 … `max_poor`.

    Returns all if there are fewer than k.
    """
    if not options.max_poor:
        return []
    k = draw.randint(1, options.max_poor)
    distinct = list(dict.fromkeys(text for text in elsewhere if text))
    return draw.sample(distinct, min(k, len(distinct)))


def broken_drawn(reply: str, premise: str, rest: str, options: PairOptions, draw: random.Random) -> list[str]:
    """Draw k word salads with probability `p_broken`, otherwise none.

    k is uniform in 1 … `max_broken`. Without words there are none.
    """
    if not options.max_broken or draw.random() >= options.p_broken:
        return []
    k = draw.randint(1, options.max_broken)
    heaps = [word_salad(reply, premise, rest, draw) for _ in range(k)]
    return [heap for heap in dict.fromkeys(heaps) if heap]


def word_salad(reply: str, premise: str, rest: str, draw: random.Random) -> str:
    """Draw distinct words from a dialogue, in random order.

    3 to 5 come from the reply, 3 to 5 from the premise, 3 to 6 from the rest of the dialogue.

    A text with n distinct words contributes at most n − 1, possibly fewer than 3. Duplicates are removed.
    """
    words: list[str] = []
    for text, limit in ((reply, _MOST_OF_REPLY), (premise, _MOST_OF_PREMISE), (rest, _MOST_OF_REST)):
        distinct = words_of(text)
        limit = max(0, min(limit, len(distinct) - 1))
        words += draw.sample(distinct, draw.randint(min(_FEWEST, limit), limit))
    distinct = list(dict.fromkeys(words))
    draw.shuffle(distinct)
    return " ".join(distinct)


@lru_cache(maxsize=1024)
def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_WORD.findall(text)))


def words_of(text: str) -> list[str]:
    """Return the distinct words of a text in order, without punctuation."""
    return list(_words(text))


def _clean(text: str) -> str:
    return " ".join(text.split())


COLUMNS = (
    "index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse",
    "sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "label1", "gold_label",
)  # fmt: skip
UNDECIDED = "-"
"""Label of MultiNLI and SNLI for pairs without agreement; these are skipped."""
_NEEDED = ("sentence1", "sentence2", "gold_label")
_TABLES, _JSON = (".tsv", ".txt"), (".jsonl", ".json")


def pairs_write(path: Path, pairs: Iterable[InferencePair]) -> int:
    """Write pairs to a `.tsv` table or `.jsonl` file; return their number.

    In tables, line breaks and tabs become spaces.

    Raises:
        ValueError: if the file has another extension.
    """
    n = 0
    table = _is_table(path)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if table:
            file.write("\t".join(COLUMNS) + "\n")
        for n, pair in enumerate(pairs, start=1):
            values = {
                "pairID": str(n - 1),
                "genre": pair.genre,
                "gold_label": pair.label,
                "sentence1": pair.premise,
                "sentence2": pair.hypothesis,
            }
            if table:
                values |= {"index": str(n - 1), "promptID": str(n - 1), "label1": pair.label}
                cells = (" ".join(values.get(column, "").split()) for column in COLUMNS)
                file.write("\t".join(cells) + "\n")
            else:
                file.write(json.dumps(values, ensure_ascii=False) + "\n")
    return n


def pairs_read(path: Path) -> list[InferencePair]:
    """Read pairs from a table or JSON lines.

    Tables are `.tsv` or `.txt`, JSON lines are `.jsonl` or `.json`; both can be compressed (`.gz`).

    Raises:
        CorpusError: if a line lacks a sentence or has an unknown label, or there are no pairs.
    """
    rows = _table(path) if _is_table(path) else _json(path)
    pairs = [pair for location, row in rows if (pair := _pair(row, location)) is not None]
    if not pairs:
        raise CorpusError(f"{path} contains no pair with one of the labels {', '.join(LABELS)}")
    return pairs


def mnli_contradictions(path: Path, n: int, seed: int) -> list[InferencePair]:
    """Draw contradictions from MultiNLI's training file, normalised like PersonaChat.

    PersonaChat is lower-cased and detokenised before training. MultiNLI's texts are normalised alike, because a
    different style would reveal their label.

    Args:
        n: number of contradictions; if the file has fewer, all.
    """
    pairs = [pair for pair in pairs_read(path) if pair.label == "contradiction"]
    sample = random.Random(derive_seed(seed, "multinli")).sample(pairs, min(n, len(pairs)))
    sides = [[pair.premise for pair in sample], [pair.hypothesis for pair in sample]]
    premises, hypotheses = (
        [detokenise_text(" ".join(words)) for words in lower_tokens(texts, TextCache())] for texts in sides
    )
    return [
        InferencePair(premise, hypothesis, "contradiction", MULTINLI)
        for premise, hypothesis in zip(premises, hypotheses, strict=True)
    ]


def _is_table(path: Path) -> bool:
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix not in (*_TABLES, *_JSON):
        raise ValueError(f"{path.name}: files of pairs end in {', '.join((*_TABLES, *_JSON))}, with or without .gz")
    return suffix in _TABLES


def _table(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    header: list[str] = []
    for location, line in lines_read(path):
        cells = line.split("\t")
        if not header:
            header = cells
            if lacking := [name for name in _NEEDED if name not in header]:
                raise CorpusError(
                    f"{location}: the header lacks the column {lacking[0]}; it must contain {', '.join(_NEEDED)}"
                )
        elif len(cells) != len(header):
            raise CorpusError(f"{location}: {len(cells)} columns, but the header has {len(header)}")
        else:
            yield location, dict(zip(header, cells, strict=True))


def _json(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    for location, line in lines_read(path):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise CorpusError(f"{location}: not valid JSON ({error})") from None
        if not isinstance(row, dict):
            raise CorpusError(f"{location}: not an object with {', '.join(_NEEDED)}")
        yield location, row


def _pair(row: Mapping[str, object], location: str) -> InferencePair | None:
    """Convert a row to a pair; None if the annotators disagreed."""
    for name in _NEEDED:
        if not isinstance(row.get(name), str) or not str(row[name]).strip():
            raise CorpusError(f"{location}: {name} is {quote(row.get(name))}; it must be a non-blank text")
    label = str(row["gold_label"]).strip()
    if label == UNDECIDED:
        return None
    if label not in LABELS:
        raise CorpusError(
            f"{location}: gold_label is {quote(label)}; it must be {', '.join(LABELS)}, or {UNDECIDED} if undecided"
        )
    genre = row.get("genre")
    return InferencePair(
        str(row["sentence1"]).strip(), str(row["sentence2"]).strip(), label, genre if isinstance(genre, str) else ""
    )
