"""RADE's rated pairs: usable rows, duplicates, and folds without shared contexts.

A row has a context, and a response and a reference with their scores. The release contains every pair twice, the second
time with swapped roles, and repeats early pairs at its end, some with other scores (fact sheet, section 4). A random
split of rows, as for the published correlations, therefore leaks mirrored and repeated copies of test pairs into
training. Here each pair counts once, its first row has the system's response, and folds keep contexts together. The
split by rows is available for comparison and labelled as leaking.

Files have one JSON object per line, in one of two formats: that of the release (`output`, `s_output`, `s_reference`),
or turn-level ratings (`response`, `ratings`, `reference_score`). Ratings are averaged over raters within each quality,
then over qualities; if `overall` was rated, only that counts. With a `scale`, scores are mapped to 1 … 5. Pairs whose
reference has no score are for the first stage of training.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from chatbots.text import error_text
from chatbots.validation import InputModel, Many, Number, values_read
from evaluation.data.formats.base import Skipped
from evaluation.data.formats.text_files import text_lines
from evaluation.data.items import JudgedItem, ReplyInContext, Said, detokenise_text

LOW, HIGH = 1.0, 5.0
"""Rating scale of the release and the paper."""
UNREADABLE = "the line is not a rated pair"
OTHER_SCALE = f"a score is outside {LOW:g} to {HIGH:g}"
NO_REFERENCE_SCORE = "the reference has no score"
UNPAIRED = "the mirrored row is not adjacent, so it is unknown which response is the system's"
LEAKING = "random rows (leaks: mirrored and repeated copies of test pairs are in training)"
GROUPED = "by context: no context is in two parts, and each pair counts once"


@dataclass(frozen=True, slots=True)
class RatedPair:
    """Response and reference for a context, with human scores from 1 to 5.

    An unrated reference has the score None.
    """

    context: tuple[str, ...]
    response: str
    reference: str
    score: float
    reference_score: float | None

    @property
    def mirrored(self) -> RatedPair | None:
        """Pair with swapped roles; None without a score of the reference."""
        if self.reference_score is None:
            return None
        return RatedPair(self.context, self.reference, self.response, self.reference_score, self.score)

    @property
    def reply(self) -> ReplyInContext:
        """The response as input of metrics."""
        return ReplyInContext(self.context, self.response, self.reference)


@dataclass(frozen=True)
class RatedPairs:
    """Contents of a file of rated pairs.

    Attributes:
        pairs: distinct pairs with the system's response; repeated pairs have mean scores.
        rows: all usable rows in file order, including mirrored and repeated ones.
        repeated: number of system rows that repeat a pair; `conflicting`: pairs with different scores.
        same_text: number of pairs whose two texts are identical.
        skipped: number of skipped rows by reason.
    """

    pairs: tuple[RatedPair, ...]
    rows: tuple[RatedPair, ...]
    repeated: int
    conflicting: int
    same_text: int
    skipped: dict[str, int]

    @property
    def n_contexts(self) -> int:
        """Number of distinct contexts."""
        return len({context_key(pair) for pair in self.pairs})

    def counts(self) -> dict[str, Any]:
        """Return counts to report with every result."""
        return {
            "rows": len(self.rows),
            "pairs": len(self.pairs),
            "contexts": self.n_contexts,
            "repeated": self.repeated,
            "conflicting": self.conflicting,
            "same_text": self.same_text,
            "skipped": self.skipped,
        }


class _Row(InputModel, extra="ignore"):
    context: Annotated[Many[Said], Field(min_length=1)]
    response: Said
    reference: Said
    score: Number
    reference_score: Number | None


class _Judged(JudgedItem, extra="ignore"):
    id: Any = ""
    reference: Said  # type: ignore[assignment]
    reference_rating: Number | None = None


def rated_pairs_read(path: Path | str, *, reference_scores: bool = True) -> RatedPairs:
    """Read a file of rated pairs, plain or gzip.

    Args:
        reference_scores: skip pairs without a score of the reference.

    Raises:
        ValueError: if no line is a rated pair; explains the first error.
        OSError: if the file cannot be read.
    """
    lines = list(_rows(Path(path)))
    rows = [row for row in lines if isinstance(row, RatedPair)]
    wrong = [row for row in lines if isinstance(row, Skipped)]
    if not rows:
        first = f"; line {wrong[0].line}: {wrong[0].reason}" if wrong else ""
        raise ValueError(f"{path} has no rated pairs{first}")
    scored = [row for row in rows if row.reference_score is not None or not reference_scores]
    if not scored:
        raise ValueError(f"{path}: no reference has a score; only `stage: 1` needs none")
    rated = rated_pairs_of(scored)
    if n_without := len(rows) - len(scored):
        rated = replace(rated, skipped={NO_REFERENCE_SCORE: n_without, **rated.skipped})
    return replace(rated, skipped={UNREADABLE: len(wrong), **rated.skipped} if wrong else rated.skipped)


def _rows(path: Path) -> Iterator[RatedPair | Skipped]:
    for line in text_lines(path):
        if isinstance(line, Skipped):
            yield line
            continue
        number, text = line
        try:
            yield _row(json.loads(text))
        except (ValueError, RecursionError) as error:
            yield Skipped(number, error_text(error))


def _row(fields: Any) -> RatedPair:
    """Parse a line in either format, dropping utterances without words."""
    if isinstance(fields, dict) and "output" in fields:
        fields = {
            "context": fields.get("context"),
            "response": fields["output"],
            "reference": fields.get("reference"),
            "score": fields.get("s_output"),
            "reference_score": fields.get("s_reference"),
        }
    else:
        judged = values_read(_Judged, fields, subject="the line")
        known = (judged.reference_score, judged.reference_rating)
        reference_score = next((number for number in known if number is not None), None)
        fields = {
            "context": list(judged.context),
            "response": judged.response,
            "reference": judged.reference,
            "score": _score(judged),
            "reference_score": None if reference_score is None else _stretched(reference_score, judged.scale),
        }
    if isinstance(fields["context"], list):
        fields["context"] = [text for text in fields["context"] if not isinstance(text, str) or text.strip()]
    row = values_read(_Row, fields, subject="the line")
    context = tuple(detokenise_text(text) for text in row.context)
    return RatedPair(
        context, detokenise_text(row.response), detokenise_text(row.reference), row.score, row.reference_score
    )


def _score(judged: _Judged) -> float:
    """Average a score from 1 to 5 over raters, then qualities.

    If `overall` was rated, only that counts.
    """
    names = judged.dimensions
    scores = []
    for name in ("overall",) if "overall" in names else names:
        ratings, n_beyond = judged.scores(name)
        if n_beyond:
            return HIGH + 1  # counts the row as outside the scale
        if ratings:
            ends = judged.scales.get(name) or judged.scale
            scores.append(_stretched(float(np.mean([value for _, value in ratings])), ends))
    if not scores:
        raise ValueError("ratings contains no score")
    return float(np.mean(scores))


def _stretched(score: float, ends: Sequence[float] | None) -> float:
    """Map a score to 1 to 5; unchanged without a scale."""
    if not ends or max(ends) == min(ends):
        return score
    return LOW + (score - min(ends)) * (HIGH - LOW) / (max(ends) - min(ends))


def rated_pairs_of(rows: Iterable[RatedPair]) -> RatedPairs:
    """Select the rows with system responses and merge duplicates.

    If adjacent rows mirror each other, the first has the system's response. If no row is mirrored, all have system
    responses; otherwise rows without a mirror are skipped.
    """
    skipped: Counter[str] = Counter()
    usable = []
    for row in rows:
        scores = [score for score in (row.score, row.reference_score) if score is not None]
        if min(scores) >= LOW and max(scores) <= HIGH:
            usable.append(row)
        else:
            skipped[OTHER_SCALE] += 1
    firsts, alone = _directions(usable)
    if firsts:
        skipped[UNPAIRED] += len(alone)
    system = firsts or alone
    same: dict[tuple[str, ...], list[RatedPair]] = {}
    for pair in system:
        same.setdefault((context_key(pair), _key(pair.response), _key(pair.reference)), []).append(pair)
    return RatedPairs(
        pairs=tuple(_merged(several) for several in same.values()),
        rows=tuple(usable),
        repeated=len(system) - len(same),
        conflicting=sum(len(_scores(several)) > 1 for several in same.values()),
        same_text=sum(_key(several[0].response) == _key(several[0].reference) for several in same.values()),
        skipped={reason: n for reason, n in skipped.items() if n},
    )


def _directions(rows: Sequence[RatedPair]) -> tuple[list[RatedPair], list[RatedPair]]:
    """Return the first rows of mirrored adjacent rows, and all unmatched rows."""
    firsts, alone, k = [], [], 0
    while k < len(rows):
        if k + 1 < len(rows) and rows[k + 1] == rows[k].mirrored:
            firsts.append(rows[k])
            k += 2
        else:
            alone.append(rows[k])
            k += 1
    return firsts, alone


def _scores(several: Sequence[RatedPair]) -> list[tuple[float, float | None]]:
    return list(dict.fromkeys((pair.score, pair.reference_score) for pair in several))


def _merged(several: Sequence[RatedPair]) -> RatedPair:
    """Merge duplicates into one pair with the mean of the distinct scores.

    Exact copies of a row are not additional ratings.
    """
    different = _scores(several)
    of_references = [score for _, score in different if score is not None]
    return replace(
        several[0],
        score=float(np.mean([score for score, _ in different])),
        reference_score=float(np.mean(of_references)) if of_references else None,
    )


def _key(text: str) -> str:
    return detokenise_text(text).casefold()


def context_key(pair: RatedPair) -> str:
    """Return a key of the context, ignoring case and white space."""
    return "\n".join(map(_key, pair.context))


def grouped_folds(pairs: Sequence[RatedPair], n_folds: int, seed: int) -> np.ndarray:
    """Return (N,) random folds 0 … `n_folds` − 1, keeping contexts together.

    Raises:
        ValueError: if there are fewer contexts than folds.
    """
    from sklearn.model_selection import GroupKFold

    groups = [context_key(pair) for pair in pairs]
    if len(set(groups)) < n_folds:
        raise ValueError(f"{len(set(groups))} contexts cannot be split into {n_folds} folds")
    return _numbered(GroupKFold(n_folds, shuffle=True, random_state=seed).split(pairs, groups=groups), len(pairs))


def leaking_folds(rows: Sequence[RatedPair], n_folds: int, seed: int) -> np.ndarray:
    """Return (N,) random folds of the release's rows.

    They leak copies of test pairs into training.
    """
    from sklearn.model_selection import KFold

    return _numbered(KFold(n_folds, shuffle=True, random_state=seed).split(rows), len(rows))


def _numbered(splits: Iterable[tuple[np.ndarray, np.ndarray]], n: int) -> np.ndarray:
    folds = np.full(n, -1)
    for k, (_, kept_back) in enumerate(splits):
        folds[kept_back] = k
    return folds


def judged_lines(pairs: Sequence[RatedPair], source: str) -> Iterator[str]:
    """Yield pairs as lines of rated items for `evaluate_metrics`."""
    for k, pair in enumerate(pairs):
        yield json.dumps(
            {
                "id": f"{k:05d}",
                "source": source,
                "context": pair.context,
                "response": pair.response,
                "reference": pair.reference,
                "ratings": [{"rater": "mean", "overall": pair.score}],
                "reference_score": pair.reference_score,
                "scale": [LOW, HIGH],
            }
        )
