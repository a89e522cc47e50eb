"""Agreement of metrics on held-out sets of judged replies, beside the cosine of sentence vectors.

A metric that was designed, chosen or trained by a set looks better there than on new replies. Metrics are listed by
the median over the other sets, where it is known which ones they are (`seen_sets`), else over all sets. The bar is
the cosine of the sentence vectors of a reply and the last utterance: it learnt nothing from ratings or dialogues.
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
"""Metric whose main column is the cosine."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Median coefficient of a metric over data sets.

    Attributes:
        median: None where it has no coefficient.
        n_sets: sets that it is over.
        is_held_out: the metric has seen none of them.
        beats_bar: it is above the cosine's over the same sets; None where they share none, and of the cosine itself.
    """

    median: float | None
    n_sets: int
    is_held_out: bool
    beats_bar: bool | None = None

    @property
    def sets(self) -> str:
        """The sets in words."""
        which = "" if self.is_held_out else "all "
        kind = " held-out" if self.is_held_out else ""
        return f"{which}{self.n_sets}{kind} set{'s' * (self.n_sets != 1)}"

    @property
    def median_text(self) -> str:
        """The median in two digits."""
        return share(self.median)

    @property
    def summary(self) -> str:
        """The median and its sets in words."""
        return f"median {self.median_text} of {self.sets}"

    @property
    def place(self) -> float:
        """Number to sort by, the highest median first."""
        return 2.0 if self.median is None else -self.median

    @property
    def note(self) -> str:
        """Sentence on a metric that stays below the bar; empty for others."""
        if self.beats_bar is not False:
            return ""
        return f"does not beat the cosine of sentence vectors on {'held-out' if self.is_held_out else 'these'} data"


NO_STANDING = Standing(None, 0, is_held_out=False)


def seen_sets(metric: Metric | None) -> tuple[str, ...] | None:
    """Return the beginnings of the names of judged sets that a metric was made by; None where that is not known.

    Built-in metrics that take no weights and name no set have seen none.
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
        metric: None where it is not here any more.
        sets: names of the data sets, as judged files give them in `source`.
        coefficients: its coefficient on each, higher is better; bar: the cosine's, None for the cosine itself.
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
        result: by the metric's name, as `MetricAgreement.to_json` wrote them.
    """
    bar = dict(_by_set(result.get(BAR, {})))
    standings = {}
    for name, agreement in result.items():
        coefficients = dict(_by_set(agreement))
        theirs = None if name == BAR else [bar.get(source) for source in coefficients]
        standings[name] = standing_of(metric_known(name), [*coefficients], [*coefficients.values()], theirs)
    return standings


def metric_known(name: str) -> Metric | None:
    """Return the metric of this name or column; None where there is none, such as one made in a notebook."""
    try:
        return metric_and_columns(name)[0]
    except UnknownName:
        return None


def _by_set(agreement: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """Yield Spearman's coefficient on each data set, higher better; nothing of what was not computed."""
    if "spearman" not in agreement or "unavailable" in agreement:
        return
    sign = -1.0 if agreement.get("lower_is_better") else 1.0
    for source, part in (agreement.get("sources") or {str(agreement.get("source", "")): agreement}).items():
        r = part["spearman"]["r"]
        yield source, None if r is None else sign * r
