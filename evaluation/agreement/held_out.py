"""Agreement of metrics on held-out rated replies, relative to sentence cosine.

A metric looks better on sets used to design, choose or train it than on new replies. Metrics are therefore sorted by
the median over the other sets if these are known (`seen_sets`), and otherwise over all sets. The baseline is the cosine
between the sentence vectors of a reply and the last utterance, which was not trained on ratings or dialogues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from chatbots.registry import UnknownName
from evaluation.metrics.base import ConfiguredMetric, Metric
from evaluation.metrics.registry import metric_and_columns
from evaluation.number_format import share

BAR = "semantic_similarity"
"""Name of the metric whose main column is the cosine."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Median coefficient of a metric over data sets.

    Attributes:
        median: None if it has no coefficient.
        n_sets: number of sets.
        is_held_out: True if none of them was used to develop the metric.
        beats_bar: True if it is above the cosine's over the same sets; None if they share none, and for the cosine
            itself.
    """

    median: float | None
    n_sets: int
    is_held_out: bool
    beats_bar: bool | None = None

    @property
    def sets(self) -> str:
        """The sets as text."""
        which = "" if self.is_held_out else "all "
        kind = " held-out" if self.is_held_out else ""
        return f"{which}{self.n_sets}{kind} set{'s' * (self.n_sets != 1)}"

    @property
    def median_text(self) -> str:
        """The median with two decimals."""
        return share(self.median)

    @property
    def summary(self) -> str:
        """The median and its data sets, as text."""
        return f"median {self.median_text} of {self.sets}"

    @property
    def place(self) -> float:
        """Sort key, highest median first."""
        return 2.0 if self.median is None else -self.median

    @property
    def note(self) -> str:
        """Sentence about a metric that stays below the baseline; empty for others."""
        if self.beats_bar is not False:
            return ""
        return f"does not beat the cosine of sentence vectors on {'held-out' if self.is_held_out else 'these'} data"


NO_STANDING = Standing(None, 0, is_held_out=False)


def seen_sets(metric: Metric | None) -> tuple[str, ...] | None:
    """Return name prefixes of rated sets used to develop a metric, or None.

    None if unknown. Built-in metrics without weights that list no set have used none.
    """
    known: tuple[str, ...] | None = getattr(metric, "seen_sets", None)
    is_ours = type(metric).__module__.startswith("evaluation.metrics.") and not isinstance(metric, ConfiguredMetric)
    return () if known is None and is_ours else known


def standing_of(
    metric: Metric | None,
    sets: Sequence[str],
    coefficients: Sequence[float | None],
    bar: Sequence[float | None] | None = None,
) -> Standing:
    """Return the standing of a metric.

    Args:
        metric: None if it no longer exists.
        sets: names of the data sets, from `source` in the files.
        coefficients: its coefficient on each, higher is better.
        bar: the cosine's, None for the cosine itself.
    """
    defined = [k for k, r in enumerate(coefficients) if r is not None]
    seen = seen_sets(metric)
    unseen = [k for k in defined if seen is not None and not any(sets[k].startswith(prefix) for prefix in seen)]
    compared_sets = unseen or defined
    values = [r for k in compared_sets if (r := coefficients[k]) is not None]
    shared = (
        []
        if bar is None
        else [(r, b) for k in compared_sets if (r := coefficients[k]) is not None and (b := bar[k]) is not None]
    )
    beats = median(r for r, _b in shared) > median(b for _r, b in shared) if shared else None
    return Standing(median(values) if values else None, len(compared_sets), bool(unseen), beats)


def standings_of(result: Mapping[str, Mapping[str, Any]]) -> dict[str, Standing]:
    """Return by metric the standing by Spearman's coefficients.

    Args:
        result: output of `MetricAgreement.to_json` by metric name.
    """
    bar = dict(_by_set(result.get(BAR, {})))
    standings = {}
    for name, agreement in result.items():
        coefficients = dict(_by_set(agreement))
        theirs = None if name == BAR else [bar.get(source) for source in coefficients]
        standings[name] = standing_of(metric_known(name), [*coefficients], [*coefficients.values()], theirs)
    return standings


def metric_known(name: str) -> Metric | None:
    """Return the metric with this name or column, or None.

    Metrics made in a notebook are unknown.
    """
    try:
        return metric_and_columns(name)[0]
    except UnknownName:
        return None


def _by_set(agreement: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """Yield Spearman's coefficient on each data set; higher is better.

    Empty if not computed.
    """
    if "spearman" not in agreement or "unavailable" in agreement:
        return
    sign = -1.0 if agreement.get("lower_is_better") else 1.0
    for source, part in (agreement.get("sources") or {str(agreement.get("source", "")): agreement}).items():
        r = part["spearman"]["r"]
        yield source, None if r is None else sign * r
