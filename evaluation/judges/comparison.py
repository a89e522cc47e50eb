"""Several judges side by side against one gold set: a verdict for each, and what its scores are worth.

A judge *may* replace a rater if it passes the alternative-annotator test and its agreement with people is above 0
with its whole interval. It *may not* if either is tested and fails. Otherwise it is *unknown*. Failing is no proof that
a judge is bad: with more ratings it may pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evaluation.analysis.agreement import OwnAgreement
from evaluation.analysis.prediction_powered import PoweredMeans, powered_by
from evaluation.judges.agreement import JudgeEstimate, agreement_of, biases_of, confusion_of, consistency_of
from evaluation.judges.alternative_test import EPSILON, AlternativeTest, Expertise, alternative_test
from evaluation.judges.gold import GoldSet, gold_of_chats, gold_of_replies
from evaluation.judges.scoring import JudgeScores, bot_model, model_family, model_parameters, score_gold
from evaluation.metric_agreement import JudgedReplies, judgements_read
from evaluation.metrics.judge import JudgeMetric
from evaluation.number_format import figure, share, span
from evaluation.tables import text_table, to_plain

if TYPE_CHECKING:
    from evaluation.study import Study

JudgeVerdict = Literal["may", "may not", "unknown"]
SMALL = 1e9
SELECTED = (
    "The best of several judges on the same ratings looks better than it is: confirm the chosen one on other ratings."
)
NO_PRICE = "no price is known"


@dataclass(frozen=True, eq=False)
class ComparedJudge:
    """One judge compared with people.

    Attributes:
        consistency: of repeated scores; None with the reason in `fixed`.
        worth: prediction-powered means of bots, by `people` or `extra`, the source of unrated conversations.
    """

    scores: JudgeScores
    agreement: JudgeEstimate
    test: AlternativeTest
    confusion: Mapping[str, Any]
    biases: Mapping[str, JudgeEstimate]
    consistency: OwnAgreement | None
    fixed: str
    worth: Mapping[str, PoweredMeans]

    @property
    def verdict(self) -> JudgeVerdict:
        """Whether the judge may replace a rater."""
        agrees = None if self.agreement.low is None else self.agreement.low > 0
        if self.test.passes and agrees:
            return "may"
        return "may not" if self.test.passes is False or agrees is False else "unknown"

    @property
    def sentence(self) -> str:
        """The verdict in words, with what it rests on."""
        title, found, test = self.scores.title, self.agreement, self.test
        ends = "" if found.low is None else f" (95 %: {span(found.low, found.high, shares=True)})"
        agreement = f"Its agreement with people is {share(found.value)}{ends}."
        if found.value is None:
            agreement = f"Its agreement with people is undefined: {found.reason}."
        n_won = sum(bool(one.wins) for one in test.annotators)
        tested = f"It passes the alternative-annotator test against {n_won} of {test.n_tested} raters; half are needed."
        if test.passes is None:
            tested = f"The alternative-annotator test is undefined: {test.reason}."
        if self.verdict == "may":
            return f"{title} may replace a rater. {tested} {agreement}"
        if self.verdict == "unknown":
            return f"Whether {title} may replace a rater is not known. {tested} {agreement}"
        holds_zero = found.low is not None and found.low <= 0
        zero = " That interval holds 0 or lies below it: do not use it as a judge here." if holds_zero else ""
        return f"{title} may not replace a rater on this evidence. {tested} {agreement}{zero}"

    @property
    def notes(self) -> list[str]:
        """Remarks on the judge's model."""
        size = model_parameters(self.scores.model)
        if size is None or size >= SMALL:
            return []
        return [
            f"By its name the model has {figure(size / 1e6, 0)} million parameters. Expect no model of that size to "
            "follow a question: read its scores as noise unless it passes the test."
        ]

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with the scores of all instances."""
        found = self.scores
        each = 1000 / found.n_requests if found.n_requests else None
        plain: dict[str, Any] = to_plain(
            {
                **{name: getattr(found, name) for name in ("judge", "title", "identity", "prompt", "model", "scores")},
                **{name: getattr(found, name) for name in ("is_fixed", "n_requests", "reasons")},
                "n": int(np.isfinite(found.first).sum()),
                "seconds_per_1000": None if each is None else found.seconds * each,
                "cost_per_1000": None if each is None or found.cost is None else found.cost * each,
                "cost_reason": NO_PRICE if found.cost is None else "",
                "agreement": self.agreement,
                "alternative_test": self.test,
                "confusion": self.confusion,
                "biases": self.biases,
                "pairs": None if found.pairs is None else found.pairs.to_json(),
                "consistency": self.consistency,
                "consistency_reason": self.fixed,
                "n_repeats": len(found.scores),
                "worth": {name: one.to_json() for name, one in self.worth.items()},
                "verdict": self.verdict,
                "sentence": self.sentence,
                "notes": self.notes,
            }
        )
        return plain


@dataclass(frozen=True, eq=False, repr=False)
class JudgeComparison:
    """Judges side by side on one gold set."""

    gold: GoldSet
    expertise: Expertise
    judges: tuple[ComparedJudge, ...]

    @property
    def sentences(self) -> list[str]:
        """The verdicts, and a caution where one judge of several is chosen."""
        return [*(one.sentence for one in self.judges), *([SELECTED] if len(self.judges) > 1 else [])]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        gold = self.gold
        return {
            "gold": gold.name,
            "question": gold.dimension.key,
            "unit": gold.unit,
            "scale": [gold.low, gold.low + gold.width],
            "expertise": self.expertise,
            "n": len(gold),
            "n_rated": int(np.isfinite(gold.means).sum()),
            "n_ratings": len(gold.value),
            "n_raters": len(set(gold.rater.tolist()) - {None}),
            "digests": list(gold.digests),
            "sentences": self.sentences,
            "judges": [one.to_json() for one in self.judges],
        }

    def summary(self) -> str:
        """Return a table for a terminal."""
        return judges_printed(self.to_json())

    def __repr__(self) -> str:
        return self.summary()


def judges_printed(found: Mapping[str, Any]) -> str:
    """Return a comparison, as plain values, as a table for a terminal."""
    rows = []
    for one in found["judges"]:
        agreement, test = one["agreement"], one["alternative_test"]
        rows.append(
            [
                *(one["title"], one["model"], str(one["n"]), one["verdict"]),
                *(share(agreement["value"]), span(agreement["low"], agreement["high"], shares=True)),
                *(share(test["winning_rate"]), share(test["advantage"])),
                *(figure(one["cost_per_1000"]), figure(one["seconds_per_1000"], 0)),
            ]
        )
    heads = ["judge", "model", "n", "replaces a rater", "agreement", "95%", "winning rate", "advantage"]
    title = f"Judges of {found['question']} against {found['n_rated']} rated instances of {found['gold']}"
    return text_table(title, [*heads, "cost/1,000", "s/1,000"], rows, "\n".join(found["sentences"]))


def compare_judges(
    gold: GoldSet,
    scores: Sequence[JudgeScores],
    *,
    expertise: Expertise = "skilled",
    families: Mapping[str, str] | None = None,
) -> JudgeComparison:
    """Compare judges with the people of a gold set.

    Args:
        expertise: of the raters, which sets ε of the alternative-annotator test.
        families: of the models of the gold set; by default those of registered bots.
    """
    if families is None:
        families = {model: model_family(bot_model(model)) for model in set(gold.models)}
    compared = tuple(_compared(gold, one, EPSILON[expertise], families) for one in scores)
    return JudgeComparison(gold, expertise, compared)


def _compared(gold: GoldSet, found: JudgeScores, epsilon: float, families: Mapping[str, str]) -> ComparedJudge:
    consistency, fixed = consistency_of(gold, found)
    return ComparedJudge(
        scores=found,
        agreement=agreement_of(gold, found.first),
        test=alternative_test(gold, found.first, epsilon),
        confusion=confusion_of(gold, found.first),
        biases=biases_of(gold, found, families),
        consistency=consistency,
        fixed=fixed,
        worth=_worth(gold, found),
    )


def _worth(gold: GoldSet, found: JudgeScores) -> dict[str, PoweredMeans]:
    """Return the bots' means helped by scores of people's unrated instances, and by those of extra ones."""
    extra = np.isin(np.array(gold.keys, dtype=object), list(gold.extra))
    sources = {"people": ~extra, **({"extra": extra | np.isfinite(gold.means)} if extra.any() else {})}
    keys, models = np.array(gold.keys, dtype=object), np.array(gold.models, dtype=object)
    ratings = gold.ratings()
    return {
        name: powered_by(ratings, keys[at].tolist(), models[at].tolist(), {found.title: found.first[at]})[found.title]
        for name, at in sources.items()
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
    """Compare language models as judges with people's ratings, in a notebook.

    Args:
        gold: rated replies or their file, or a study, whose rated conversations are then the instances.
        judges: judges, or their names in `metrics.yaml`.
        question: what people rated; empty: the usual one.
        expertise: of the raters: "expert", "skilled" or "crowd".
        repeats: times that an endpoint scores the first instances.
        most: instances that are scored, drawn alike for all judges.

    Raises:
        ValueError: nothing is rated, a name is of no judge, or a judge cannot be used here.
    """
    from evaluation.metrics.registry import metric_get

    chosen = [metric_get(one) if isinstance(one, str) else one for one in judges]
    asked = [one for one in chosen if isinstance(one, JudgeMetric)]
    if len(asked) < len(chosen):
        raise ValueError(f"{next(one.name for one in chosen if one not in asked)} is no metric of the kind judge")
    if isinstance(gold, str | Path):
        gold = gold_of_replies(judgements_read(Path(gold)), question, name=Path(gold).name)
    elif isinstance(gold, JudgedReplies):
        gold = gold_of_replies(gold, question)
    elif not isinstance(gold, GoldSet):
        bots = {dialogue.conversation: dialogue.bot for dialogue in gold.dialogues}
        gold = gold_of_chats(gold.answers, bots, question, name=gold.name)
    gold = gold.sample(most)
    return compare_judges(gold, [score_gold(one, gold, repeats=repeats) for one in asked], expertise=expertise)
