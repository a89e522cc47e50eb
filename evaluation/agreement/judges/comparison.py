"""Comparison of several judges on one gold set, with a verdict each.

A judge *may* replace a rater if it passes the alternative-annotator test, the interval of its agreement with people is
entirely above 0, and it scored nearly all rated items. It *may not* if the opposite is shown: it is worse than half of
the raters by ε, or its agreement is below 0. Otherwise the verdict is *unknown*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evaluation.agreement.judges.agreement import JudgeEstimate, agreement_of, biases_of, confusion_of, consistency_of
from evaluation.agreement.judges.alternative_test import EPSILON, AlternativeTest, Expertise, alternative_test
from evaluation.agreement.judges.gold import GoldSet, gold_of_chats, gold_of_replies
from evaluation.agreement.judges.scoring import JudgeScores, bot_model, model_family, model_parameters, score_gold
from evaluation.agreement.metric_agreement import JudgedReplies, judgements_read
from evaluation.analysis.agreement import OwnAgreement
from evaluation.analysis.prediction_powered import PoweredMeans, powered_by
from evaluation.data.tables import to_plain
from evaluation.metrics.judge import JudgeMetric
from evaluation.number_format import percent, pluralise, share

if TYPE_CHECKING:
    from evaluation.data.study import Study

LEAST_SCORED = 0.9
"""Minimum share of rated items that a judge must score; skipping hard ones would make it look better."""
SELECTED = (
    "The best of several judges on the same ratings looks better than it is; confirm the result on other ratings."
)


@dataclass(frozen=True, eq=False)
class ComparedJudge:
    """Comparison of one judge with people.

    Attributes:
        consistency: None, with the reason in `fixed`.
        worth: by source of the unrated instances, `people` or `extra`.
    """

    scores: JudgeScores
    agreement: JudgeEstimate
    test: AlternativeTest
    confusion: Mapping[str, Any]
    biases: Mapping[str, JudgeEstimate]
    consistency: OwnAgreement | None
    fixed: str
    worth: Mapping[str, PoweredMeans]
    n_scored: int = 0
    n_rated: int = 0

    @property
    def share_scored(self) -> float:
        """Share of human-rated items that have a score."""
        return self.n_scored / self.n_rated if self.n_rated else 0.0

    @property
    def verdict(self) -> Literal["may", "may not", "unknown"]:
        """Verdict on whether the judge may replace a rater."""
        low, high = self.agreement.low, self.agreement.high
        if self.test.fails or (high is not None and high < 0):
            return "may not"
        is_shown = self.test.passes and low is not None and low > 0
        return "may" if is_shown and self.share_scored >= LEAST_SCORED else "unknown"

    @property
    def sentence(self) -> str:
        """Verdict as text, with its basis."""
        title, agreement, test = self.scores.title, self.agreement, self.test
        words = {
            "may": f"{title} may replace a rater.",
            "may not": f"{title} may not replace a rater.",
            "unknown": f"It is not known whether {title} may replace a rater.",
        }[self.verdict]
        words += (
            f" It scored {self.n_scored:,} of {pluralise(self.n_rated, 'rated item')} ({percent(self.share_scored)})"
        )
        words += f"; at least {percent(LEAST_SCORED)} are required." if self.share_scored < LEAST_SCORED else "."
        if test.passes is None:
            words += f" The alternative-annotator test is undefined: {test.reason}."
        else:
            n_won, n_lost = (sum(bool(getattr(row, name)) for row in test.annotators) for name in ("wins", "loses"))
            words += (
                f" It wins the alternative-annotator test against {n_won} of {test.n_tested} raters; "
                f"half are required. It is significantly worse by {share(test.epsilon)} than {n_lost} of "
                "them."
            )
            if self.verdict == "unknown" and not test.passes and test.n_needed is not None:
                condition = "if its results stay the same" if test.is_as_observed else "for a judge as good as a rater"
                words += f" About {pluralise(test.n_needed, 'rated item')} would decide it {condition}."
        ends = f" (95 %: {share(agreement.low)} to {share(agreement.high)})" if agreement.low is not None else ""
        agrees = f"undefined: {agreement.reason}" if agreement.value is None else f"{share(agreement.value)}{ends}"
        words += f" Its agreement with people is {agrees}."
        if agreement.low is not None and agreement.low <= 0:
            words += " The interval includes 0 or lies below it, so do not use it as a judge here."
        size = None if ", " in self.scores.model else model_parameters(self.scores.model)  # a panel has several
        if size is not None and size < 1e9:
            words += (
                f" According to its name, the model has {size / 1e6:.0f} million parameters, which is small "
                "for a judge."
            )
        return words

    def to_json(self) -> dict[str, Any]:
        """Return plain values, including the scores of all instances."""
        scores, names = (
            self.scores,
            ("judge", "title", "identity", "prompt", "model", "scores", "is_fixed", "n_requests"),
        )
        each = 1000 / max(scores.n_requests, 1)
        own_fields = ("agreement", "confusion", "biases", "consistency", "verdict", "sentence", "n_scored", "n_rated")
        return {
            **{name: to_plain(getattr(scores, name)) for name in (*names, "reasons")},
            **{name: to_plain(getattr(self, name)) for name in own_fields},
            "n": int(np.isfinite(scores.first).sum()),
            "seconds_per_1000": scores.seconds * each,
            "cost_per_1000": None if scores.cost is None else scores.cost * each,
            "consistency_reason": self.fixed,
            "alternative_test": to_plain(self.test),
            "worth": {name: means.to_json() for name, means in self.worth.items()},
        }


@dataclass(frozen=True, eq=False, repr=False)
class JudgeComparison:
    """Comparison of judges on one gold set."""

    gold: GoldSet
    expertise: Expertise
    judges: tuple[ComparedJudge, ...]

    @property
    def sentences(self) -> list[str]:
        """The verdicts, with a caution if one of several judges is selected."""
        return [*(judge.sentence for judge in self.judges), *([SELECTED] if len(self.judges) > 1 else [])]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        gold = self.gold
        return {
            "gold": gold.name,
            "question": gold.dimension.key,
            "unit": gold.unit,
            "expertise": self.expertise,
            "n": len(gold),
            "n_rated": int(np.isfinite(gold.means).sum()),
            "n_ratings": len(gold.value),
            "n_raters": len(set(gold.rater.tolist()) - {None}),
            "digests": list(gold.digests),
            "sentences": self.sentences,
            "judges": [judge.to_json() for judge in self.judges],
        }

    def __repr__(self) -> str:
        return "\n".join(self.sentences)


def compare_judges(
    gold: GoldSet,
    scores: Sequence[JudgeScores],
    *,
    expertise: Expertise = "skilled",
    families: Mapping[str, str] | None = None,
) -> JudgeComparison:
    """Compare judges with the human ratings of a gold set.

    Args:
        expertise: expertise of the raters, which determines ε of the alternative-annotator test.
        families: model families in the gold set; by default those of registered bots.
    """
    if families is None:
        families = {model: model_family(bot_model(model)) for model in set(gold.models)}
    compared = []
    for judge_scores in scores:
        consistency, fixed = consistency_of(gold, judge_scores)
        agreement = agreement_of(gold, judge_scores.first)
        test = alternative_test(gold, judge_scores.first, EPSILON[expertise])
        biases, confusion = biases_of(gold, judge_scores, families), confusion_of(gold, judge_scores.first)
        rated = np.isfinite(gold.means)
        compared.append(
            ComparedJudge(
                judge_scores,
                agreement,
                test,
                confusion,
                biases,
                consistency,
                fixed,
                _worth(gold, judge_scores),
                n_scored=int((rated & np.isfinite(judge_scores.first)).sum()),
                n_rated=int(rated.sum()),
            )
        )
    return JudgeComparison(gold, expertise, tuple(compared))


def _worth(gold: GoldSet, judge_scores: JudgeScores) -> dict[str, PoweredMeans]:
    """Return the bots' means improved by scores of unrated instances.

    Unrated human instances and extra ones count separately.
    """
    extra = np.isin(np.array(gold.keys, dtype=object), list(gold.extra))
    sources = {"people": ~extra, **({"extra": extra | np.isfinite(gold.means)} if extra.any() else {})}
    keys, models = np.array(gold.keys, dtype=object), np.array(gold.models, dtype=object)
    ratings = gold.ratings()
    return {
        name: powered_by(
            ratings, keys[indexes].tolist(), models[indexes].tolist(), {judge_scores.title: judge_scores.first[indexes]}
        )[judge_scores.title]
        for name, indexes in sources.items()
    }


def judges(
    gold: GoldSet | JudgedReplies | Study | Path | str,
    judges: Sequence[JudgeMetric | str],
    *,
    question: str = "",
    expertise: Expertise = "skilled",
    repeats: int = 2,
    most: int = 300,
) -> JudgeComparison:
    """Compare language models as judges with human ratings, in a notebook.

    Args:
        gold: rated replies or their file, or a study with rated conversations.
        most: maximum number of instances scored.
        judges: judges, or their names in `metrics.yaml`.
        question: rated question; empty for the usual one.
        expertise: expertise of the raters: "expert", "skilled" or "crowd".

    Raises:
        ValueError: if nothing is rated, a name is not a judge, or a judge cannot be used here.
    """
    from evaluation.metrics.registry import metric_get

    chosen = [metric_get(metric) if isinstance(metric, str) else metric for metric in judges]
    judge_metrics = [metric for metric in chosen if isinstance(metric, JudgeMetric)]
    if len(judge_metrics) < len(chosen):
        raise ValueError(
            f"{next(metric.name for metric in chosen if metric not in judge_metrics)} is not a metric of kind judge"
        )
    if isinstance(gold, str | Path):
        gold = gold_of_replies(judgements_read(Path(gold)), question, name=Path(gold).name)
    elif isinstance(gold, JudgedReplies):
        gold = gold_of_replies(gold, question)
    elif not isinstance(gold, GoldSet):
        bots = {dialogue.conversation: dialogue.bot for dialogue in gold.dialogues}
        gold = gold_of_chats(gold.answers, bots, question, name=gold.name)
    gold = gold.sample(most)
    return compare_judges(
        gold, [score_gold(metric, gold, repeats=repeats) for metric in judge_metrics], expertise=expertise
    )
