"""Predicted classes of replies compared with people's, as in DialogEntailment's Table 2 and t-tests.

Dziri et al. (2019), NAACL, made three classes of four grades, 0 to 3 (fact sheet, section 5). Their code takes the
mean of a reply's ratings: at least 2 is entailment, at least 1 neutral, else contradiction. The paper says that the
grade most raters gave decides. Other scales are stretched to 0 to 3 first. Accuracy alone says little, so the share
of the commonest class stands next to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from evaluation.data.items import JudgedItem
from evaluation.number_format import share
from evaluation.published.correlations import published_accuracies
from tests.evaluation.stats.means_by_hand import Welch, welch

LabelRule = Literal["mean_threshold", "majority"]
CLASSES = ("contradiction", "neutral", "entailment")
GRADES = 3.0
LEVEL = 0.95


@dataclass(frozen=True)
class HumanClasses:
    """Classes that people's ratings make.

    Attributes:
        classes: (N,) the place in `CLASSES`; NaN without a rating or a scale.
        means: (N,) mean ratings on the scale as it was.
        n_ties: replies of which two grades were given equally often, so that the lower one counts ("majority").
    """

    classes: np.ndarray
    means: np.ndarray
    n_ties: int = 0


@dataclass(frozen=True)
class ClassReport:
    """Predicted classes compared with people's.

    Attributes:
        accuracy: share of replies whose classes agree; NaN without replies.
        majority: share of people's commonest class.
        by_class: share of each human class that was found; NaN where it was not given.
        n: replies of each predicted class.
        means: mean human score of each predicted class; NaN where it was never predicted.
        tests: of two predicted classes the difference of their means, the first less the second; None where one has
            fewer than two replies, or no score varies.
    """

    accuracy: float
    majority: float
    by_class: dict[str, float]
    n: dict[str, int]
    means: dict[str, float]
    tests: dict[tuple[str, str], Welch | None]

    def to_json(self) -> dict[str, Any]:
        """Return the same as JSON has it, undefined numbers as None."""

        def known(value: float) -> float | None:
            return None if np.isnan(value) else value

        return {
            "accuracy": known(self.accuracy),
            "majority": known(self.majority),
            "by_class": {name: known(value) for name, value in self.by_class.items()},
            "n": self.n,
            "means": {name: known(value) for name, value in self.means.items()},
            "tests": {
                f"{a} - {b}": None if test is None else {"ci95": [test.low, test.high], "p": test.p}
                for (a, b), test in self.tests.items()
            },
        }


def human_classes(items: Sequence[JudgedItem], dimension: str, rule: LabelRule = "mean_threshold") -> HumanClasses:
    """Make classes of people's ratings.

    Args:
        items: with a scale; ratings beyond it are left out.
        rule: "mean_threshold", as the released code, or "majority", as the paper; of grades given equally often the
            lower one counts.
    """
    classes, means = np.full(len(items), np.nan), np.full(len(items), np.nan)
    n_ties = 0
    for k, item in enumerate(items):
        ends = item.scales.get(dimension) or (() if item.scales else item.scale) or ()
        values = [value for _, value in item.scores(dimension)[0]]
        if not values:
            continue
        means[k] = np.mean(values)
        if not ends or max(ends) == min(ends):
            continue
        one = means[k]
        if rule == "majority":
            counts = Counter(values)
            often = [value for value, n in counts.items() if n == max(counts.values())]
            n_ties += len(often) > 1
            one = min(often)
        classes[k] = class_of(float(one), min(ends), max(ends))
    return HumanClasses(classes, means, n_ties)


def class_of(value: float, low: float, high: float) -> int:
    """Return the place in `CLASSES` of a grade on a scale: 2 from two thirds of it on, 1 from one third on, else 0."""
    grade = GRADES * (value - low) / (high - low)
    return int(grade >= 2 - 1e-9) + int(grade >= 1 - 1e-9)


def class_report(predicted: np.ndarray, people: HumanClasses) -> ClassReport:
    """Compare (N,) predicted classes, NaN where there is none, with people's."""
    both = np.isfinite(predicted) & np.isfinite(people.classes)
    said, true = predicted[both], people.classes[both]
    rated = np.isfinite(predicted) & np.isfinite(people.means)
    scores = {name: people.means[rated & (predicted == k)] for k, name in enumerate(CLASSES)}
    tests: dict[tuple[str, str], Welch | None] = {}
    for a, b in combinations(reversed(CLASSES), 2):
        x, y = scores[a], scores[b]
        enough = min(len(x), len(y)) >= 2 and (np.ptp(x) > 0 or np.ptp(y) > 0)
        tests[a, b] = welch(x, y, LEVEL) if enough else None

    def share(values: np.ndarray) -> float:
        return float(values.mean()) if len(values) else float("nan")

    return ClassReport(
        accuracy=share(said == true),
        majority=max((share(true == k) for k in range(len(CLASSES))), default=float("nan")),
        by_class={name: share(said[true == k] == k) for k, name in enumerate(CLASSES)},
        n={name: len(values) for name, values in scores.items()},
        means={name: share(values) for name, values in scores.items()},
        tests=tests,
    )


def accuracies_printed() -> str:
    """Return a line of the published accuracies, which are of the paper's own sets and never of ours."""
    told = [
        f"{accuracy.metric} {share(accuracy.value, 3)} ({accuracy.set.partition('/')[2]}, n {accuracy.n})"
        for accuracy in published_accuracies()
    ]
    [place] = {accuracy.place for accuracy in published_accuracies()}
    return f"published accuracies, of other sets than these ({place}): {', '.join(told)}"
