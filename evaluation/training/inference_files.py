"""Files of inference pairs: lines of JSON as SNLI's, tables as MultiNLI's; read by the names of their columns.

Written are both forms that the code of Dziri et al. (2019) wrote: `pairID, genre, gold_label, sentence1, sentence2`
as JSON, and MultiNLI's twelve columns, of which the ninth and tenth are the sentences and the last is the label. Read
is also MultiNLI as published, whose columns stand in another order.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from chatbots.corpora.reader import CorpusError, lines_read
from chatbots.identity import derive_seed
from chatbots.storable import quote
from evaluation.metrics.shared import Shared
from evaluation.metrics.tokens import lower_tokens
from evaluation.training.inference_pairs import LABELS, MULTINLI, InferencePair
from evaluation.untokenised import untokenised

COLUMNS = (
    "index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse",
    "sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "label1", "gold_label",
)  # fmt: skip
UNDECIDED = "-"
"""MultiNLI's and SNLI's label of a pair whose annotators did not agree; such pairs are passed over."""
_NEEDED = ("sentence1", "sentence2", "gold_label")
_TABLES, _JSON = (".tsv", ".txt"), (".jsonl", ".json")


def pairs_write(path: Path, pairs: Iterable[InferencePair]) -> int:
    """Write pairs, as a table (`.tsv`) or as lines of JSON (`.jsonl`), and return their number.

    A table cannot hold line ends and tabs: they become blanks.

    Raises:
        ValueError: another ending.
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
    """Read pairs from a table (`.tsv`, `.txt`) or lines of JSON (`.jsonl`, `.json`), plain or `.gz`.

    Raises:
        CorpusError: a line without one of the sentences or with an unknown label, with file, line and reason; no pair.
    """
    rows = _table(path) if _is_table(path) else _json(path)
    found = [pair for where, row in rows if (pair := _pair(row, where)) is not None]
    if not found:
        raise CorpusError(f"{path} holds no pair with one of the labels {', '.join(LABELS)}")
    return found


def mnli_contradictions(path: Path, n: int, seed: int) -> list[InferencePair]:
    """Draw contradictions of MultiNLI's training file, tokenised and in lower case, then joined as dialogues are.

    PersonaChat is in lower case and its tokens are put together before anything learns from them; texts of another
    style would give their label away by that.

    Args:
        n: how many; all where the file has fewer.
    """
    pairs = [pair for pair in pairs_read(path) if pair.label == "contradiction"]
    drawn = random.Random(derive_seed(seed, "multinli")).sample(pairs, min(n, len(pairs)))
    sides = [[pair.premise for pair in drawn], [pair.hypothesis for pair in drawn]]
    premises, hypotheses = (
        [untokenised(" ".join(words)) for words in lower_tokens(texts, Shared())] for texts in sides
    )
    return [
        InferencePair(premise, hypothesis, "contradiction", MULTINLI)
        for premise, hypothesis in zip(premises, hypotheses, strict=True)
    ]


def _is_table(path: Path) -> bool:
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix not in (*_TABLES, *_JSON):
        raise ValueError(
            f"{path.name}: files of pairs end in {', '.join((*_TABLES, *_JSON))}, with or without .gz"
        )
    return suffix in _TABLES


def _table(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    header: list[str] = []
    for where, line in lines_read(path):
        cells = line.split("\t")
        if not header:
            header = cells
            if lacking := [name for name in _NEEDED if name not in header]:
                raise CorpusError(
                    f"{where}: the first line names no column {lacking[0]}; it must name {', '.join(_NEEDED)}"
                )
        elif len(cells) != len(header):
            raise CorpusError(
                f"{where}: {len(cells)} columns, where the first line has {len(header)}"
            )
        else:
            yield where, dict(zip(header, cells, strict=True))


def _json(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    for where, line in lines_read(path):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise CorpusError(f"{where}: no JSON ({error})") from None
        if not isinstance(row, dict):
            raise CorpusError(f"{where}: it must be an object with {', '.join(_NEEDED)}")
        yield where, row


def _pair(row: Mapping[str, object], where: str) -> InferencePair | None:
    """Return a row as a pair, None if its annotators did not agree."""
    for name in _NEEDED:
        if not isinstance(row.get(name), str) or not str(row[name]).strip():
            raise CorpusError(
                f"{where}: {name} is {quote(row.get(name))}; it must be a text that is not blank"
            )
    label = str(row["gold_label"]).strip()
    if label == UNDECIDED:
        return None
    if label not in LABELS:
        raise CorpusError(
            f"{where}: gold_label is {quote(label)}; it must be {', '.join(LABELS)}, or {UNDECIDED} where undecided"
        )
    genre = row.get("genre")
    return InferencePair(
        str(row["sentence1"]).strip(),
        str(row["sentence2"]).strip(),
        label,
        genre if isinstance(genre, str) else "",
    )
