"""Number of words that a reply shares with a person's reply: BLEU and ROUGE.

BLEU-1 … BLEU-4 and ROUGE-L are the sentence formulas of COCO-caption (nlg-eval too), used in the tables of
GRADE, RADE and the survey of Yeh et al. 2021: tokens by white space, case kept. ROUGE-1 and ROUGE-2 are those of
Google's rouge-score: lower case, letters and digits, balanced F. Other implementations give correlations that differ by
.05 on average, so their numbers must not stand in one table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from chatbots.release import package_version
from evaluation.columns import Column, per_turn
from evaluation.items import ReplyInContext
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.shared import Shared

_TINY, _SMALL = 1e-15, 1e-9
_BETA = 1.2
_COCO = "(COCO-caption's sentence formula: tokens by white space, case kept). Needs a reference."


def _column(name: str, title: str, description: str) -> tuple[Column, Column]:
    return per_turn(
        name, title, unit="1", range=(0, 1), direction="higher", description=description
    )


class _Overlap(ReplyMetric):
    needs_reference = True
    needs = ("a reference",)
    reads_tokens = True
    window = 0
    languages: tuple[str, ...] | None = ()


@register_metric
class Bleu(_Overlap):
    """BLEU-4, and BLEU-1 to BLEU-3, of a reply against people's replies."""

    name = "bleu"
    title = "BLEU"
    columns = tuple(
        column
        for n in (4, 1, 2, 3)
        for column in _column(
            f"bleu_{n}",
            f"BLEU-{n}",
            (
                f"Geometric mean of the clipped precisions of 1 to {n} words"
                if n > 1
                else "Clipped precision of single words"
            )
            + f", times the brevity penalty {_COCO}",
        )
    )

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        rows = np.array([sentence_bleu(r.response.split(), _reference(r).split()) for r in replies])
        return {f"bleu_{n}": rows[:, n - 1] for n in (1, 2, 3, 4)}

    def together(self, replies: Sequence[ReplyInContext]) -> dict[str, float]:
        references = [_reference(reply).split() for reply in replies]
        found = sentence_bleu(replies[0].response.split(), *references)
        return {f"bleu_{n}": found[n - 1] for n in (1, 2, 3, 4)}


@register_metric
class RougeL(_Overlap):
    """ROUGE-L of a reply against people's replies, as COCO-caption computes it."""

    name = "rouge_l"
    title = "ROUGE-L"
    columns = _column(
        "rouge_l", "ROUGE-L", f"F of the longest common subsequence, recall weighted by 1.2 {_COCO}"
    )

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        found = [rouge_l(r.response.split(" "), _reference(r).split(" ")) for r in replies]
        return {"rouge_l": np.array(found)}

    def together(self, replies: Sequence[ReplyInContext]) -> dict[str, float]:
        references = [_reference(reply).split(" ") for reply in replies]
        return {"rouge_l": rouge_l(replies[0].response.split(" "), *references)}


@register_metric
class Rouge(_Overlap):
    """ROUGE-1 and ROUGE-2 of a reply against one reference, by the package rouge-score."""

    name = "rouge"
    title = "ROUGE"
    columns = tuple(
        column
        for n in (1, 2)
        for column in _column(
            f"rouge_{n}",
            f"ROUGE-{n}",
            f"Balanced F of shared runs of {n} word{'s' if n > 1 else ''} (package rouge-score: lower case, letters "
            "and digits, no stemming). Needs a reference.",
        )
    )
    languages = ("en",)

    @property
    def params(self) -> dict[str, Any]:
        return {"rouge_score": package_version("rouge-score")}

    def unavailable_reason(self) -> str | None:
        if find_spec("rouge_score") is None:
            return "the package rouge-score is not installed; run `pip install rouge-score`"
        return None

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer(["rouge1", "rouge2"], use_stemmer=False)
        found = [scorer.score(_reference(reply), reply.response) for reply in replies]
        return {
            f"rouge_{n}": np.array([one[f"rouge{n}"].fmeasure for one in found]) for n in (1, 2)
        }


def sentence_bleu(response: Sequence[str], *references: Sequence[str]) -> list[float]:
    """Return BLEU-1 … BLEU-4 by COCO-caption's formula for one sentence; never exactly 0.

    Of several references a run of words counts as often as the one that has it most often, and the length is that of
    the one nearest to the response's, the shorter of two that are equally near.
    """
    product, found = 1.0, []
    _, length = min((abs(len(one) - len(response)), len(one)) for one in references)
    ratio = (len(response) + _TINY) / (length + _SMALL)
    penalty = float(np.exp(1 - 1 / ratio)) if ratio < 1 else 1.0
    for n in (1, 2, 3, 4):
        said, wanted = _runs(response, n), Counter[tuple[str, ...]]()
        for reference in references:
            wanted |= _runs(reference, n)
        correct = sum((said & wanted).values())
        guesses = max(0, len(response) - n + 1)
        product *= (correct + _TINY) / (guesses + _SMALL)
        found.append(product ** (1 / n) * penalty)
    return found


def rouge_l(response: Sequence[str], *references: Sequence[str]) -> float:
    """Return (1 + β²) P R / (R + β² P) with β = 1.2 of the longest common subsequence; 0 without a common token.

    P and R are each the best over the references, which need not be of one and the same, as COCO-caption has it.
    """
    common = [_longest_common(response, reference) for reference in references]
    if not any(common):
        return 0.0
    precision = max(common) / len(response)
    recall = max(n / len(reference) for n, reference in zip(common, references, strict=True))
    return (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)


def _runs(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def _longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    lengths = [0] * (len(other) + 1)
    for token in one:
        before = 0
        for k, wanted in enumerate(other, start=1):
            above = lengths[k]
            lengths[k] = before + 1 if token == wanted else max(above, lengths[k - 1])
            before = above
    return lengths[-1]


def _reference(reply: ReplyInContext) -> str:
    assert reply.reference is not None, "asked although it lacks a reference"
    return reply.reference
