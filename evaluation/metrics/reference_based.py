"""Word overlap with a human reply: BLEU, ROUGE and METEOR.

BLEU-1 … BLEU-4 and ROUGE-L are the sentence formulas of COCO-caption (also nlg-eval), used in the tables of GRADE, RADE
and the survey of Yeh et al. 2021: tokens by white space, case-sensitive. ROUGE-1 and ROUGE-2 are those of Google's
rouge-score: lower case, letters and digits, balanced F. Other implementations give correlations that differ by .05 on
average, so do not mix their numbers in one table.

METEOR 1.5 of a reply against a human reply, computed by the authors' Java program. Denkowski and Lavie (2014), "Meteor
Universal", options `-l en -norm`, per sentence: the variant behind the tables of GRADE, RADE and the survey of Yeh et
al. 2021. NLTK implements the 2007 definition, with different numbers. The program and its paraphrase table come from
the package pycocoevalcap, whose own code is never run.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from chatbots.installation import package_version
from evaluation.data.items import ReplyInContext
from evaluation.data.tables import Column, per_turn
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.text_cache import TextCache

_TINY, _SMALL = 1e-15, 1e-9
_BETA = 1.2
_COCO = "(COCO-caption's sentence formula: tokens by white space, case-sensitive). Needs a reference."


def _column(name: str, title: str, description: str) -> tuple[Column, Column]:
    return per_turn(name, title, unit="1", range=(0, 1), direction="higher", description=description)


class _Overlap(ReplyMetric):
    needs_reference = True
    needs = ("a reference",)
    reads_tokens = True
    window = 0
    languages: tuple[str, ...] | None = ()


@register_metric
class Bleu(_Overlap):
    """BLEU-4, and BLEU-1 to BLEU-3, of a reply against human replies."""

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

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        rows = np.array([sentence_bleu(r.response.split(), _reference(r).split()) for r in replies])
        return {f"bleu_{n}": rows[:, n - 1] for n in (1, 2, 3, 4)}

    def together(self, replies: Sequence[ReplyInContext]) -> dict[str, float]:
        references = [_reference(reply).split() for reply in replies]
        scores = sentence_bleu(replies[0].response.split(), *references)
        return {f"bleu_{n}": scores[n - 1] for n in (1, 2, 3, 4)}


@register_metric
class RougeL(_Overlap):
    """ROUGE-L of a reply against human replies, as computed by COCO-caption."""

    name = "rouge_l"
    title = "ROUGE-L"
    columns = _column("rouge_l", "ROUGE-L", f"F of the longest common subsequence, with recall weighted by 1.2 {_COCO}")

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        scores = [rouge_l(r.response.split(" "), _reference(r).split(" ")) for r in replies]
        return {"rouge_l": np.array(scores)}

    def together(self, replies: Sequence[ReplyInContext]) -> dict[str, float]:
        references = [_reference(reply).split(" ") for reply in replies]
        return {"rouge_l": rouge_l(replies[0].response.split(" "), *references)}


@register_metric
class Rouge(_Overlap):
    """ROUGE-1 and ROUGE-2 against one reference, from the package rouge-score."""

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

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer(["rouge1", "rouge2"], use_stemmer=False)
        scores = [scorer.score(_reference(reply), reply.response) for reply in replies]
        return {f"rouge_{n}": np.array([reply_scores[f"rouge{n}"].fmeasure for reply_scores in scores]) for n in (1, 2)}


def sentence_bleu(response: Sequence[str], *references: Sequence[str]) -> list[float]:
    """Return BLEU-1 … BLEU-4 by COCO-caption's sentence formula, above 0.

    With several references, an n-gram count is clipped at its maximum in a single reference, and the brevity penalty
    uses the reference closest in length, the shorter one in a tie.
    """
    product, scores = 1.0, []
    _, length = min((abs(len(reference) - len(response)), len(reference)) for reference in references)
    ratio = (len(response) + _TINY) / (length + _SMALL)
    penalty = float(np.exp(1 - 1 / ratio)) if ratio < 1 else 1.0
    for n in (1, 2, 3, 4):
        response_runs, reference_runs = _runs(response, n), Counter[tuple[str, ...]]()
        for reference in references:
            reference_runs |= _runs(reference, n)
        correct = sum((response_runs & reference_runs).values())
        guesses = max(0, len(response) - n + 1)
        product *= (correct + _TINY) / (guesses + _SMALL)
        scores.append(product ** (1 / n) * penalty)
    return scores


def rouge_l(response: Sequence[str], *references: Sequence[str]) -> float:
    """Return ROUGE-L: the F-measure of the longest common subsequence.

    F = (1 + β²) P R / (R + β² P) with β = 1.2; 0 without a common token.

    P and R are each the maximum over the references, possibly of different ones, as in COCO-caption.
    """
    common = [_longest_common(response, reference) for reference in references]
    if not any(common):
        return 0.0
    precision = max(common) / len(response)
    recall = max(n / len(reference) for n, reference in zip(common, references, strict=True))
    return (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)


def _runs(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def _longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    lengths = [0] * (len(second) + 1)
    for token in first:
        before = 0
        for k, other_token in enumerate(second, start=1):
            above = lengths[k]
            lengths[k] = before + 1 if token == other_token else max(above, lengths[k - 1])
            before = above
    return lengths[-1]


def _reference(reply: ReplyInContext) -> str:
    assert reply.reference is not None, "called without a reference"
    return reply.reference


JAR = "meteor-1.5.jar"
_PATIENCE_S = 120.0
"""Seconds without output after which the program is terminated; a batch takes one second."""
_TRIES = 2


class MeteorError(Exception):
    """Error of a METEOR process that exited or returned no number."""


def meteor_jar() -> Path | None:
    """Return the program's file; None if its package is not installed."""
    # find_spec locates a top-level package without importing it.
    spec = importlib.util.find_spec("pycocoevalcap")
    places = (spec.submodule_search_locations or []) if spec else []
    files = [Path(place) / "meteor" / JAR for place in places]
    return next((file for file in files if file.is_file()), None)


class _Program:
    """Thread-safe METEOR process.

    It exits together with this process, because its standard input closes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Score (reply, reference) pairs, restarting a failed program once.

        Raises:
            MeteorError: if it fails again.
        """
        with self._lock:
            for attempt in range(_TRIES):
                try:
                    return self._scores(pairs)
                except (OSError, ValueError, MeteorError) as error:
                    self._end()
                    if attempt + 1 == _TRIES:
                        raise MeteorError(f"METEOR failed: {error}") from error
        raise AssertionError("the loop returns or raises")

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        process = self._started()
        watch = threading.Timer(_PATIENCE_S, process.kill)
        watch.start()
        try:
            statistics = [self._request(f"SCORE ||| {_line(wanted)} ||| {_line(reply)}") for reply, wanted in pairs]
            scores = [float(self._request(" ||| ".join(["EVAL", *statistics])))]
            scores += [float(self._answer()) for _ in pairs]
            return scores[:-1]  # the last score is the total
        finally:
            watch.cancel()

    def _started(self) -> subprocess.Popen[str]:
        jar = meteor_jar()
        if jar is None:
            raise MeteorError("its file no longer exists")
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                ["java", "-Xmx2G", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
        return self._process

    def _request(self, line: str) -> str:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise MeteorError("it returned no answer")
        return line

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _line(text: str) -> str:
    """Return the text as one line without the protocol's separator."""
    return " ".join(text.replace("|||", " ").split())


@register_metric
class Meteor(ReplyMetric):
    """METEOR 1.5 of a reply against one reference; on request."""

    name = "meteor"
    title = "METEOR"
    columns = per_turn(
        "meteor",
        "METEOR",
        unit="1",
        range=(0, 1),
        direction="higher",
        description="METEOR 1.5 (-l en -norm) of the reply against the reference. Needs a reference and Java.",
    )
    needs_reference = True
    reads_tokens = True
    window = 0
    languages = ("en",)
    needs = ("a reference", "Java", "the package pycocoevalcap")
    licence = "LGPL-2.1 (METEOR 1.5)"

    def __init__(self) -> None:
        self._program = _Program()

    def unavailable_reason(self) -> str | None:
        if meteor_jar() is None:
            return (
                f"the package pycocoevalcap, which includes {JAR}, is not installed; run `pip install "
                "--no-deps pycocoevalcap` (104 MB)"
            )
        if shutil.which("java") is None:
            return "METEOR needs Java, and there is no `java` on the PATH; install a Java runtime"
        return None

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        pairs = [(reply.response, reply.reference or "") for reply in replies]
        return {"meteor": np.array(self._program.scores(pairs))}
