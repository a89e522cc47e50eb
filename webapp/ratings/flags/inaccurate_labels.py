"""Raters whose labels are clearly less accurate than those of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from evaluation.analysis.label_quality import MOST_LABELS, label_quality
from evaluation.number_format import share, span
from webapp.ratings.flags.base import Figures, FlagFindings, StudyWork, register_flag
from webapp.ratings.selectors import study_dimensions, study_ratings


@register_flag
class InaccurateLabels:
    """Flag for inaccurate labels, by the model of Dawid and Skene.

    All tasks of the rater are flagged, because accuracy is estimated from all of their labels.
    """

    name = "inaccurate_labels"
    title = gettext_lazy("Inaccurate labels")
    rule = gettext_lazy(
        "On a question with at most four answers, the 90 % interval of the rater’s accuracy lies wholly below that of "
        "the other raters, or is nowhere above chance. Accuracy is the share of labels that equal those inferred from "
        "all raters (Dawid and Skene, 1979), so a rater who is right against all others is flagged, too."
    )
    reasons: Mapping[str, Any] = {"none": gettext_lazy("No question has labels by two raters on enough items yet.")}

    def find(self, work: StudyWork) -> FlagFindings:
        if not work.done or not any(d.high - d.low < MOST_LABELS for d in study_dimensions(work.study)):
            return FlagFindings(why_none="none")
        fitted = [labels for labels in label_quality(study_ratings(work.study)) if labels.reason is None]
        if not fitted:
            return FlagFindings(why_none="none")
        rated = {rater.rater for labels in fitted for rater in labels.raters if rater.accuracy.low is not None}
        low = [(labels.dimension, rater) for labels in fitted for rater in labels.low_raters]
        # A rater with several inaccurate questions is explained by the least accurate one.
        low.sort(key=lambda row: row[1].accuracy.mean or 0.0, reverse=True)
        evidence = {
            rater.rater: {
                "question": question,
                "n": rater.accuracy.n,
                "accuracy": [rater.accuracy.mean, rater.accuracy.low, rater.accuracy.high],
                "others": rater.others.mean,
                "chance": rater.chance,
            }
            for question, rater in low
        }
        of_tasks = {task.pk: str(task.participant) for task in work.done}
        return FlagFindings(
            {task: evidence[rater] for task, rater in of_tasks.items() if rater in evidence},
            sum(rater in rated for rater in of_tasks.values()),
        )

    def explain(self, figures: Figures, about: Figures) -> str:
        mean, low, high = figures["accuracy"]
        return _(
            "Accuracy of {n} labels of “{question}”: {accuracy} {interval}; other raters {others}; chance {chance}."
        ).format(
            n=figures["n"],
            question=figures["question"],
            accuracy=share(mean),
            interval=span(low, high, shares=True),
            others=share(figures["others"]),
            chance=share(figures["chance"]),
        )
