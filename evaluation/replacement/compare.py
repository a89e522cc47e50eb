"""Verdict on all candidates of a study, by one rule on the same ratings.

Each candidate is fitted and tested without the bots, or the chats, that it was built on. The p-values of each question
are corrected over candidates (Holm 1979).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evaluation.agreement.judges.comparison import LEAST_SCORED
from evaluation.data.ratings import Ratings
from evaluation.findings import Reason
from evaluation.hybrid.features import HybridError
from evaluation.hybrid.fit import fit_hybrid
from evaluation.hybrid.levels import predict_conversations
from evaluation.hybrid.results import HybridResult
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import percent
from evaluation.replacement.candidate import ReplacementCandidate, ReplacementData, candidate_kinds
from evaluation.replacement.equality import NO_VALUES, compare_values, paired_differences, separate_differences
from evaluation.replacement.ranking import BotPredictions, few_bots, rank_bots
from evaluation.replacement.ratings_worth import SCORES_BOTS, SCORES_ELSEWHERE, worth_of_scores
from evaluation.replacement.replies import FEW_CONTEXTS, FEWEST_FOLDS, contexts_of, fold_by_context
from evaluation.replacement.result import (
    ALPHA,
    UNKNOWN_TRAINING,
    BotRanking,
    CandidateVerdict,
    Equality,
    OwnTurns,
    RatingsWorth,
    ReplacementResult,
    Settlement,
    Settles,
)
from evaluation.simulation.realism.prediction import fold_predictions
from evaluation.simulation.realism.verdict import MAIN_FIT
from evaluation.stats.comparisons import holm
from evaluation.threads import with_one_blas_thread

if TYPE_CHECKING:
    import pandas as pd

QUESTIONS = ("ranking", "equality", "worth")
SETTLED_BY: Mapping[str, Settles] = {"not_measured": "metrics", UNKNOWN_TRAINING.code: "origin", "in_words": "ratings"}
"""Data that would settle the questions about a candidate without a fit, by the code of its reason."""
OWN_TURN_COLUMNS = ("words_bot", "question_bot", "sentiment_bot", "distinct_2_bot", "utterance_repetition_bot")
"""Columns of the bots' own turns, for bots without self-play."""


@dataclass(frozen=True, eq=False)
class _Test:
    """Data of the tests that all candidates share."""

    data: ReplacementData
    margin: float | None
    seed: int
    n_bots: int

    @property
    def leaves_out_contexts(self) -> bool:
        """True if predictions leave out contexts of replies, because there are too few bots."""
        return self.data.rates_replies and self.n_bots < FEW_BOTS

    def objects(self) -> np.ndarray:
        """Return the (k,) rated chats, or the contexts of rated replies; ratings of one are not independent."""
        names = self.data.ratings.conversation.astype(str)
        return contexts_of(self.data.chats, names) if self.data.rates_replies else names

    def units(self) -> np.ndarray:
        """Return the (k,) resampling units: raters, or `objects` if raters are unnamed."""
        unit = self.data.ratings.unit
        return np.where(self.data.ratings.is_named, unit, self.objects()) if self.data.rates_replies else unit

    def rated(self, chats: pd.DataFrame) -> pd.DataFrame:
        """Return rated chats with the mean of each target, higher being better, and the participant."""
        means = self.means
        table = chats.drop(columns=[name for name in means.columns if name in chats])
        table = table.merge(means, left_on="conversation", right_index=True, how="inner")
        if "participant" in table:
            table["only_rater"] = table["participant"].where(table["participant"].notna(), table["only_rater"])
        return table.drop(columns="participant", errors="ignore").rename(columns={"only_rater": "participant"})

    @cached_property
    def means(self) -> pd.DataFrame:
        """One row per rated chat, with its id as index."""
        return self.data.ratings.per_conversation().drop(columns="bot").rename(columns={"rater": "only_rater"})

    def fit(
        self, preset: str, features: Sequence[str], chats: pd.DataFrame, elsewhere: pd.DataFrame | None
    ) -> HybridResult | Reason:
        """Fit without each bot in turn; return the reason if there is no fit."""
        lacking = [name for name in features if name not in chats or not chats[name].notna().any()]
        if lacking:
            return Reason("not_measured", f"not computed: {', '.join(lacking[:3])}", columns=lacking[:3])
        if self.leaves_out_contexts and chats["bot"].nunique() < FEWEST_FOLDS:
            return FEW_CONTEXTS
        try:
            return fit_hybrid(
                self.rated(chats),
                preset=preset,
                features=features,
                targets=self.data.ratings.headline,
                ratings=self.data.ratings,
                selfplay=elsewhere,
                seed=self.seed,
                has_baselines=False,
            )
        except HybridError as error:
            return Reason("in_words", str(error), words=str(error))


@with_one_blas_thread
def compare_candidates(data: ReplacementData, *, margin: float | None = None, seed: int = 0) -> ReplacementResult:
    """Ask every candidate whether it can replace people.

    Args:
        margin: largest difference from people's values that does not matter, in points; None for the study's smallest
            difference of interest.
        seed: seed of the permutations.

    Raises:
        ValueError: there is no question, or the margin is not above 0.
    """
    ratings = data.ratings.select(data.ratings.ranked)
    leading = ratings.leading
    if leading is None:
        raise ValueError("there is no question whose ratings could be replaced")
    if margin is not None and not margin > 0:
        raise ValueError(f"the margin is {margin:g}; it must be above 0")
    margin = ratings.smallest_difference() if margin is None else margin
    bots = tuple(sorted(set(ratings.bot[np.isfinite(ratings.values())].tolist())))
    chats = data.chats[data.chats["bot"].astype(str).isin(bots)]
    data = replace(data, ratings=ratings, chats=chats)
    test = _Test(data, margin, seed, len(bots))
    own_turns, own_source = (None, "replies") if test.leaves_out_contexts else _own_turns(test)
    unit: Literal["chat", "reply"] = "reply" if data.rates_replies else "chat"
    rated = "replies" if data.rates_replies else "chats"
    # Plug-ins from before replies were rated do not say what people rate.
    kinds = [kind for kind in candidate_kinds if rated in getattr(kind, "rated", ("chats",))]
    candidates = [(kind, list(kind.candidates(data))) for kind in kinds]
    verdicts = [_judge(test, candidate, own_turns) for _kind, several in candidates for candidate in several]
    n_unrated = int((~chats["conversation"].astype(str).isin(ratings.conversation.astype(str))).sum())
    return ReplacementResult(
        dimension=leading.key,
        margin=margin,
        bots=bots,
        n_ratings=int(np.isfinite(ratings.values()).sum()),
        n_unrated=n_unrated,
        units="raters" if ratings.is_named.all() else "both" if ratings.is_named.any() else "conversations",
        candidates=tuple(_correct(verdicts)),
        absent=tuple(kind.name for kind, several in candidates if not several),
        own_turns=own_source,
        unit=unit,
    )


def _own_turns(test: _Test) -> tuple[dict[str, float] | None, OwnTurns]:
    """Return predictions from the bots' own turns: in self-play, or else in the chats with people."""
    kind = candidate_kinds.get("selfplay")
    for candidate in kind.candidates(test.data):
        result = test.fit(candidate.preset, candidate.features, candidate.chats, candidate.elsewhere)
        if isinstance(result, HybridResult) and candidate.elsewhere is not None:
            predicted = fold_predictions(result, candidate.elsewhere)
            if set(predicted) >= {bot for bot, bot_result in result.bots.items() if bot_result.target is not None}:
                return predicted, "selfplay"
    columns = [name for name in OWN_TURN_COLUMNS if name in test.data.chats and test.data.chats[name].notna().any()]
    result = test.fit(MAIN_FIT, columns, test.data.chats, None) if columns else Reason("no_columns", "no columns")
    if isinstance(result, Reason):
        return None, "unknown"
    return fold_predictions(result, test.rated(test.data.chats)), "replies" if test.data.rates_replies else "chats"


def _judge(test: _Test, candidate: ReplacementCandidate, own_turns: dict[str, float] | None) -> CandidateVerdict:
    """Answer the three questions for one candidate."""
    every, elsewhere = test.rated(candidate.chats), candidate.elsewhere
    candidate = candidate.without_built_on()
    if test.leaves_out_contexts:
        candidate = replace(candidate, preset="paper", chats=fold_by_context(candidate.chats))
    rated = test.rated(candidate.chats)
    columns = [name for name in candidate.features if name in rated]
    is_scored = rated[columns].notna().all(axis=1) if columns else np.zeros(len(rated), dtype=bool)
    n_left_out = len(every) - len(rated)
    if elsewhere is not None and candidate.elsewhere is not None:
        n_left_out += len(elsewhere) - len(candidate.elsewhere)
    make_verdict = partial(
        CandidateVerdict,
        *(candidate.kind, candidate.name, candidate.title),
        share_scored=float(is_scored.mean()) if len(rated) else 0.0,
        n_left_out=n_left_out,
    )
    result: HybridResult | Reason = candidate.reason or test.fit(
        candidate.preset, candidate.features, candidate.chats, candidate.elsewhere
    )
    if isinstance(result, Reason):
        is_origin_unknown = result in test.data.unknown_origins.values()
        settled_by = Settlement(SETTLED_BY.get(result.code, "again" if is_origin_unknown else "better_candidate"))
        undecided: dict[str, Any] = {"answer": "not_known", "reason": result, "settled_by": settled_by}
        return make_verdict(BotRanking(**undecided), Equality(**undecided), RatingsWorth(**undecided))
    if test.leaves_out_contexts:
        reason, settled_by = few_bots(test.n_bots), Settlement("bots", FEW_BOTS)
        ranking = BotRanking("not_known", n_bots=test.n_bots, reason=reason, settled_by=settled_by)
    else:
        ranking = rank_bots(_predictions(result, candidate, rated), own_turns, is_own_turns=candidate.is_own_turns)
    verdict = make_verdict(ranking, _equality(test, candidate, result), _worth(test, candidate, result))
    return _require_scores(verdict) if candidate.elsewhere is None else verdict


def _predictions(result: HybridResult, candidate: ReplacementCandidate, rated: pd.DataFrame) -> BotPredictions:
    human = {bot: bot_result.target for bot, bot_result in result.bots.items()}
    means = {bot: mean for bot, mean in human.items() if mean is not None}
    played = result.selfplay if candidate.elsewhere is not None else None
    if played is None:
        folds = fold_predictions(result, rated)
        return BotPredictions(result.bot_level["pearson"], result.pairs, folds, means, result.rivals)
    folds = fold_predictions(result, candidate.elsewhere)  # type: ignore[arg-type]
    return BotPredictions(played.bot_level["pearson"], played.pairs, folds, means, played.rivals)


def _require_scores(verdict: CandidateVerdict) -> CandidateVerdict:
    """Withdraw the p-values of a candidate that skipped many rated chats."""
    if verdict.share_scored >= LEAST_SCORED:
        return verdict
    reason = Reason(
        "few_scored",
        f"it scored {percent(verdict.share_scored)} of the rated chats; {percent(LEAST_SCORED)} are needed",
        percent=verdict.share_scored,
    )
    settled_by = Settlement("chats")
    undecided = {
        question: replace(getattr(verdict, question), answer="not_known", p=None, reason=reason, settled_by=settled_by)
        for question in QUESTIONS
    }
    return replace(verdict, **undecided)


def _equality(test: _Test, candidate: ReplacementCandidate, result: HybridResult) -> Equality:
    ratings, units, chats = test.data.ratings, test.units(), test.objects()
    values = ratings.values()
    if candidate.elsewhere is None:
        scores = _scores_of_ratings(ratings, _predict_chats(candidate, result))
        return compare_values(paired_differences(values, scores, ratings.bot, units, chats, test.margin), test.margin)
    fit, bots = replace(result.fit, intercept="fold"), candidate.elsewhere["bot"].astype(str).to_numpy()
    predicted = predict_conversations(fit, candidate.elsewhere)
    by_bot = {bot: predicted[bots == bot] for bot in fit.folds if (bots == bot).any()}
    if not by_bot:
        return Equality("not_known", reason=NO_VALUES, settled_by=Settlement("chats"))
    differences = separate_differences(values, ratings.bot, units, chats, by_bot, test.margin)
    return compare_values(differences, test.margin)


def _predict_chats(candidate: ReplacementCandidate, result: HybridResult) -> dict[str, float]:
    """Return values of the candidate's chats by the fold without their bot."""
    predicted = predict_conversations(replace(result.fit, intercept="fold"), candidate.chats)
    return dict(zip(candidate.chats["conversation"].astype(str), predicted.tolist(), strict=True))


def _scores_of_ratings(ratings: Ratings, by_chat: Mapping[str, float]) -> np.ndarray:
    return np.array([by_chat.get(chat, np.nan) for chat in ratings.conversation.astype(str).tolist()])


def _worth(test: _Test, candidate: ReplacementCandidate, result: HybridResult) -> RatingsWorth:
    ratings = test.data.ratings
    n = int(np.isfinite(ratings.values()).sum())
    if candidate.elsewhere is not None or not candidate.scores_chats:
        reason = SCORES_BOTS if candidate.elsewhere is None else SCORES_ELSEWHERE
        return RatingsWorth("not_known", n, reason=reason, settled_by=Settlement("chats"))
    bots = dict(zip(test.data.chats["conversation"].astype(str), test.data.chats["bot"].astype(str), strict=True))
    by_chat = _predict_chats(candidate, result)
    scores, predicted = _scores_of_ratings(ratings, by_chat), np.array(list(by_chat.values()))
    chats = list(by_chat)
    return worth_of_scores(ratings, scores, chats, [bots[chat] for chat in chats], predicted, units=test.units())


def _correct(verdicts: Sequence[CandidateVerdict]) -> list[CandidateVerdict]:
    """Correct the p-values of each question over candidates, and say yes to the significant ones."""
    corrected = list(verdicts)
    for question in QUESTIONS:
        tested = [k for k, verdict in enumerate(corrected) if getattr(verdict, question).p is not None]
        p_values = holm([getattr(corrected[k], question).p for k in tested])
        for k, p in zip(tested, p_values, strict=True):
            assert p is not None, "only undefined p-values stay undefined"
            answers = replace(getattr(corrected[k], question), p_corrected=p)
            if p <= ALPHA and answers.answer == "not_known":
                answers = replace(answers, answer="yes", settled_by=None)
            elif answers.answer == "not_known" and answers.settled_by is None:
                answers = replace(answers, settled_by=Settlement("ratings"))  # only the correction prevents a yes
            corrected[k] = replace(corrected[k], **{question: answers})
    return corrected
