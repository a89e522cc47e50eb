"""A judge in development in words and tables: conclusion, two versions side by side, largest disagreements."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.core.cache import cache

from chatbots import Conversation
from evaluation.agreement.judges.agreement import JudgeEstimate, agreement_difference, agreement_of
from evaluation.agreement.judges.development import compare_words
from evaluation.agreement.judges.gold import GoldSet
from evaluation.data.result_tables import (
    Cell,
    NamedTable,
    count_cell,
    declared_table,
    number_cell,
    share_cell,
    span_cell,
)
from evaluation.metrics.explanations import shorten
from evaluation.metrics.judge import chat_lines
from evaluation.metrics.verdicts import REFUSED
from evaluation.number_format import figure, pluralise, share
from webapp.insights.judge_tables import BIASES
from webapp.jobs.models import Job, State
from webapp.results.judge_versions import (
    DevelopmentSet,
    count_comparisons,
    development_set,
    rater_comments,
    version_jobs,
)
from webapp.results.models import JudgeDevelopment, JudgeItem, JudgeVersion

MOST_GAPS = 10
_CACHED_S = 3600


@dataclass(frozen=True, slots=True)
class VersionState:
    """Version with its results.

    Attributes:
        development, test: newest finished check of each part, without single items for the test part.
        running: unfinished checks; error: reason why the newest check of a part failed, development first.
    """

    version: JudgeVersion
    development: Mapping[str, Any] | None
    test: Mapping[str, Any] | None
    running: Sequence[Job]
    error: str

    @property
    def agreement(self) -> str:
        """Agreement on its development items in words."""
        if self.development is None:
            return "not scored yet"
        return estimate_text(JudgeEstimate(**self.development["agreement"]))


@dataclass(frozen=True, slots=True)
class GapCase:
    """Development item on which a judge and people differ, with their reasons.

    Attributes:
        before, text: last utterance before the reply, and the reply; or a conversation.
        written: reason of the judge; comments: of raters.
        conversation: id of the stored chat; empty if the item is no chat.
        is_example: True if a version uses its correction.
    """

    row: JudgeItem
    score: float
    mean: float
    before: str
    text: str
    written: str
    comments: Sequence[str]
    conversation: str
    is_example: bool

    @property
    def difference(self) -> str:
        """Difference in words."""
        gap = self.score - self.mean
        return f"{figure(abs(gap))} points {'above' if gap > 0 else 'below'} people"


@dataclass(frozen=True, eq=False)
class VersionComparison:
    """Two versions on the development items that both scored.

    Attributes:
        words: pieces of the prompts and questions with `equal`, `delete` or `insert`.
    """

    before: JudgeVersion
    after: JudgeVersion
    sentence: str
    table: NamedTable
    words: Sequence[tuple[str, str]]


def estimate_text(estimate: JudgeEstimate) -> str:
    """Return an estimate with its interval, or the reason why it has none."""
    if estimate.value is None:
        return f"undefined: {estimate.reason}"
    if estimate.low is None:
        return f"{share(estimate.value)} ({estimate.reason})"
    return f"{share(estimate.value)} (95 %: {share(estimate.low)} to {share(estimate.high)})"


@dataclass(frozen=True, eq=False)
class DevelopmentPage:
    """Everything that the page of a development shows."""

    development: JudgeDevelopment
    items: DevelopmentSet
    versions: Sequence[VersionState]
    n_comparisons: int

    @classmethod
    def from_development(cls, development: JudgeDevelopment) -> DevelopmentPage:
        """Read the items, versions and results; raises `Refused` if the ratings no longer exist."""
        jobs = version_jobs(development)

        def result(version: JudgeVersion, part: str) -> Mapping[str, Any] | None:
            done = (job.result for job in jobs.get((version.pk, part), ()) if job.state == State.DONE)
            return next((result for result in done if result), None)

        versions = []
        for version in development.versions.prefetch_related("examples"):
            checks = [job for part in ("development", "test") for job in jobs.get((version.pk, part), ())]
            newest = [jobs[version.pk, part][0] for part in ("development", "test") if (version.pk, part) in jobs]
            error = next((job.error for job in newest if job.state == State.FAILED), "")
            running = [job for job in checks if not job.is_over]
            parts = (result(version, "development"), result(version, "test"))
            versions.append(VersionState(version, *parts, running, error))
        return cls(development, development_set(development), versions, count_comparisons(development))

    @property
    def n_development(self) -> int:
        """Number of rated development items."""
        return int((self.items.parts == "development").sum())

    @property
    def n_test(self) -> int:
        """Number of rated test items."""
        return len(self.items.gold) - self.n_development

    @property
    def test_percent(self) -> int:
        """Planned share of test items in percent."""
        return round(100 * self.development.test_share)

    @property
    def n_looks(self) -> int:
        """Number of times that any version scored the test items."""
        return sum(state.version.n_test_looks for state in self.versions)

    @property
    def conclusion(self) -> str:
        """Agreement of the newest tested version on the test items."""
        tested = next((state for state in reversed(self.versions) if state.test is not None), None)
        if tested is None or tested.test is None:
            return "It is not known yet how well a version agrees with people on test items."
        estimate = JudgeEstimate(**tested.test["agreement"])
        text = estimate_text(estimate)
        items = pluralise(estimate.n, "test item")
        return f"{tested.version} agrees with people on {items}: {text}."

    @property
    def caution(self) -> str:
        """Sentences on the reliability of the test figure."""
        tested = [state.version for state in self.versions if state.version.n_test_looks]
        if not tested:
            return (
                "Prompts and examples are fitted to the development items, so a version looks better there than it is. "
                "Check one version on the test items when you have finished."
            )
        looks = (
            f"The test items have been used {pluralise(self.n_looks, 'time')}, for {pluralise(len(tested), 'version')}."
        )
        if self.n_looks == 1 and not self.n_comparisons:
            return f"{looks} No version was chosen by them."
        return f"{looks} If you chose among versions by them, the figure is too good; confirm it on new ratings."

    @property
    def other_looks(self) -> str:
        """Sentence on comparisons of judges that scored the same items; empty without any."""
        if not self.n_comparisons:
            return ""
        comparisons = pluralise(self.n_comparisons, "comparison")
        return f"{comparisons} on the page Judges scored the same ratings, possibly including these test items."

    def _scores(self, state: VersionState) -> np.ndarray:
        """Return (N,) scores of the items in the set, NaN if missing."""
        result = state.development or {"digests": [], "scores": [[]]}
        known = dict(zip(result["digests"], result["scores"][0], strict=True))
        return np.array([known.get(digest) for digest in self.items.gold.digests], dtype=float)

    def compare(self, before: VersionState, after: VersionState) -> VersionComparison:
        """Compare two versions on the development items that are examples of neither."""
        digests = {row.digest for state in (before, after) for row in state.version.examples.all()}
        gold = self.items.take("development", digests)
        place = {digest: k for k, digest in enumerate(self.items.gold.digests)}
        indexes = [place[digest] for digest in gold.digests]
        sides = [self._scores(state)[indexes] for state in (before, after)]
        common = np.isfinite(sides[0] + sides[1])
        sides = [np.where(common, scores, np.nan) for scores in sides]
        *agreements, difference = _estimate_agreements(gold, sides)
        texts = [f"{state.version.prompt}\n\n{state.version.wording}" for state in (before, after)]
        return VersionComparison(
            before.version,
            after.version,
            _difference_sentence(before.version, after.version, difference),
            _comparison_table([before, after], agreements),
            compare_words(*texts),
        )

    def gaps(self, state: VersionState) -> list[GapCase]:
        """Return the development items on which a version and people differ most."""
        gold, result = self.items.gold, state.development or {}
        written = dict(zip(result.get("digests", ()), result.get("written", ()), strict=False))
        scores = np.where(self.items.parts == "development", self._scores(state), np.nan)
        gaps = np.abs(scores - gold.means)
        order = [int(k) for k in np.argsort(-gaps, kind="stable")[:MOST_GAPS] if np.isfinite(gaps[k])]
        comments = rater_comments(self.development, {gold.keys[k] for k in order})
        examples = {row.pk for state in self.versions for row in state.version.examples.all()}
        cases = []
        for k in order:
            text, key, digest, is_chat = gold.texts[k], gold.keys[k], gold.digests[k], gold.unit == "chat"
            before = "" if isinstance(text, Conversation) else shorten(" ".join(text.context[-1:]), 300)
            excerpt = chat_lines(text)[:2000] if isinstance(text, Conversation) else shorten(text.response, 600)
            reasons, chat = (written.get(digest, ""), comments.get(key, ())), key if is_chat else ""
            row = self.items.rows[digest]
            gap = (float(scores[k]), float(gold.means[k]))
            cases.append(GapCase(row, *gap, before, excerpt, *reasons, chat, row.pk in examples))
        return cases


def _estimate_agreements(gold: GoldSet, sides: Sequence[np.ndarray]) -> list[JudgeEstimate]:
    """Return the agreement of both sides, and of the second minus the first, cached for an hour.

    The jackknife of 700 items takes two seconds, and the page is opened often with the same scores.
    """
    numbers = [gold.item, gold.value, gold.context_codes, *sides]
    inputs = (gold.dimension, gold.digests, gold.rater.tolist(), [array.tolist() for array in numbers])
    key = f"judge-versions-{hashlib.sha256(repr(inputs).encode()).hexdigest()}"
    estimates: list[JudgeEstimate] | None = cache.get(key)
    if estimates is None:
        estimates = [*(agreement_of(gold, scores) for scores in sides), agreement_difference(gold, sides[1], sides[0])]
        cache.set(key, estimates, _CACHED_S)
    return estimates


def _difference_sentence(before: JudgeVersion, after: JudgeVersion, difference: JudgeEstimate) -> str:
    if difference.value is None:
        return f"The versions cannot be compared yet: {difference.reason}."
    if difference.value == 0:
        return (
            f"{after} and version {before.number} agree equally with people on the "
            f"{pluralise(difference.n, 'development item')} that both scored."
        )
    direction = "more" if difference.value > 0 else "less"
    start = (
        f"{after} agrees {direction} with people than version {before.number} on the "
        f"{pluralise(difference.n, 'development item')} that both scored: difference {estimate_text(difference)}."
    )
    if difference.low is None or difference.high is None:
        return start
    return start if difference.low * difference.high > 0 else f"{start} The difference can be due to chance."


def _comparison_table(states: Sequence[VersionState], agreements: Sequence[JudgeEstimate]) -> NamedTable:
    results = [state.development or {} for state in states]
    rows: list[tuple[str, list[list[Cell]]]] = [
        ("Agreement, −1 to 1", [_estimate_cells(estimate) for estimate in agreements])
    ]
    for name in ("place", "length"):
        biases = [JudgeEstimate(**result["biases"][name]) if result else None for result in results]
        rows.append((f"Bias: {BIASES[name].lower()}", [_estimate_cells(bias) for bias in biases]))
    refused = [sum(n for why, n in result.get("reasons", {}).items() if why.startswith(REFUSED)) for result in results]
    missing = [sum(result.get("reasons", {}).values()) for result in results]
    rows += [
        ("Refused items", [[count_cell(n), Cell("")] for n in refused]),
        ("Other items without a score", [[count_cell(n - m), Cell("")] for n, m in zip(missing, refused, strict=True)]),
        (
            "Cost per 1,000",
            [[number_cell(result.get("cost_per_1000"), 2, "price unknown"), Cell("")] for result in results],
        ),
        ("Examples", [[count_cell(state.version.n_examples), Cell("")] for state in states]),
    ]
    first, second = (str(state.version) for state in states)
    return declared_table(
        "versions",
        f"{first} and {second.lower()}",
        rows,
        ("Measure", lambda row: Cell(row[0])),
        ([first, f"{first}, 95 %"], lambda row: row[1][0]),
        ([second, f"{second}, 95 %"], lambda row: row[1][1]),
        method=(
            "Agreement is computed on the same items for both versions, without examples of either. Biases, refusals "
            "and cost are those of each version on all of its development items."
        ),
    )


def _estimate_cells(estimate: JudgeEstimate | None) -> list[Cell]:
    if estimate is None:
        return [share_cell(None, 2, "not scored yet"), Cell("")]
    interval = span_cell(estimate.low, estimate.high, shares=True, reason=estimate.reason)
    return [share_cell(estimate.value, 2, estimate.reason), interval]
