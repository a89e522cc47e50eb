"""Assessment of a fit: predictions compared with ratings and rival predictors.

Bots are predicted from their conversations with people and from self-play; both predictions are assessed in the
same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evaluation.findings import Finding, Reason, finding
from evaluation.hybrid.assessment_data import Baselines, HumanData, HumanMeans, SelfPlayData
from evaluation.hybrid.bot_level import (
    INTERCEPTS,
    BotLevel,
    BotLevelDiagnostics,
    NullOf,
    OrderedPairs,
    ceiling_of,
    interval_over_conversations,
    within_groups_of,
)
from evaluation.hybrid.bot_means import BotFeatureMeans
from evaluation.hybrid.calibration import (
    NOT_ADJUSTED,
    NOT_COMBINED,
    Combined,
    Interval95,
    PredictionAccuracy,
    combine,
    effective_ratings,
    prediction_accuracy,
)
from evaluation.hybrid.cautions import (
    beyond_scale_of,
    cautions_of,
    extrapolations_of,
    ranked,
    shifts_of,
    unused,
    with_errors,
)
from evaluation.hybrid.features import Design, lengths_by_bot
from evaluation.hybrid.gaussian_process_folds import from_selfplay
from evaluation.hybrid.levels import (
    bot_score,
    coefficients_of,
    dimensions_of,
    dimensions_of_conversations,
    features_by_bot,
    interval_of,
    scored_conversations,
    shifted_interval,
    units_of,
)
from evaluation.hybrid.results import BotResult, Fold, HybridResult, KeptFit, SelfPlayPrediction
from evaluation.hybrid.rivals import Rival
from evaluation.hybrid.verdict import Evidence, FitVerdict, verdict_of
from evaluation.stats.correlation import METHODS, Correlation, correlate_all, within_groups


@dataclass(frozen=True, slots=True)
class _HumanPrediction:
    """Prediction of the bots' ratings from conversations with people.

    Attributes:
        values: accuracy of the predicted values, using each fold's own intercept.
    """

    bot_level: dict[str, BotLevel]
    pairs: OrderedPairs
    diagnostics: BotLevelDiagnostics
    values: PredictionAccuracy
    rivals: dict[str, Rival]


def assess(
    fit: KeptFit,
    human: HumanData,
    selfplay: Design | None,
    baselines: Baselines,
    *,
    seed: int,
    null: NullOf | None,
    is_other_study: bool = False,
) -> HybridResult:
    """Predict every bot and compare the predictions with its ratings.

    Args:
        selfplay: self-play conversations of the bots.
        is_other_study: True if the conversations come from another study than the fit, so that only the order is
            meaningful.
    """
    if is_other_study:
        human = replace(human, means=None)
    played = None
    if selfplay is not None:
        process = None
        if fit.means is not None and not is_other_study:
            process = from_selfplay(fit.means, selfplay, human.means)
        played = SelfPlayData(selfplay, process)
    bots = _bot_results(fit, human, played, seed, is_other_study=is_other_study)
    if fit.means is None and not is_other_study:
        bots = with_errors(bots, _bot_scores(replace(fit, intercept="fold"), human.design))
    rated, predictions = human.rated, _predictions(fit, human.rated)
    by_bot = {bot: result.target for bot, result in bots.items() if result.target is not None}
    means = HumanMeans(by_bot, human.significant, seed, null)
    scores = {
        "predicted": {bot: r.predicted for bot, r in bots.items() if r.predicted is not None},
        "predicted_selfplay": {
            bot: r.predicted_selfplay for bot, r in bots.items() if r.predicted_selfplay is not None
        },
    }
    from_people = _assess_human(fit, human, baselines, means, bots, scores["predicted"], is_other_study=is_other_study)
    from_played = None
    if played is not None:
        from_played = _assess_selfplay(fit, played, baselines, means, bots, scores["predicted_selfplay"])
    return HybridResult(
        fit=fit,
        n_conversations=0 if rated is None else len(rated.y),
        n_bots=0 if rated is None else len(set(rated.bots)),
        coefficients=coefficients_of(fit.features, list(fit.folds.values()), fit.scale),
        bots=ranked(bots) if is_other_study else bots,
        conversation_level=_correlate_conversations(rated, predictions),
        bot_level=from_people.bot_level,
        selfplay=from_played,
        pairs=from_people.pairs,
        folds=tuple(
            Fold(bot, line.n, line.condition, unused(fit, line), line.penalty, line.blocks)
            for bot, line in fit.folds.items()
        ),
        baselines=dict(baselines.human),
        rivals=from_people.rivals,
        dimensions=dimensions_of(
            human.design, scores, {name: by_bot if fit.targets == (name,) else None for name in human.dimensions}
        ),
        dimensions_conversation_level=dimensions_of_conversations(rated, predictions, human.dimensions),
        n_dropped=0 if human.design is None else human.design.n_dropped,
        dropped={} if human.design is None else human.design.dropped,
        held_against=None if rated is None else "fit" if human.is_fitted else "given",
        cautions=_collect_cautions(fit, human, played, from_played, bots, is_other_study=is_other_study),
        frame=from_people.diagnostics,
        values=from_people.values,
        verdict=_reach_verdict(fit, human, selfplay, means, from_people, from_played),
        predictions={} if is_other_study else predictions,
    )


def _predictions(fit: KeptFit, rated: Design | None) -> dict[str, np.ndarray]:
    if rated is None:
        return {}
    return {"conversation": rated.ids, "bot": rated.bots, "target": rated.y, "predicted": _predict(fit, rated)}


def _correlate_conversations(rated: Design | None, predictions: Mapping[str, np.ndarray]) -> dict[str, Correlation]:
    if rated is None:
        reason = Reason("no_rated_conversation", "no conversation has a rating")
        return {str(method): Correlation(None, None, None, None, 0, reason=reason) for method in METHODS}
    return correlate_all(predictions["predicted"], rated.y, units=units_of(rated))


def _assess_human(
    fit: KeptFit,
    human: HumanData,
    baselines: Baselines,
    means: HumanMeans,
    bots: Mapping[str, BotResult],
    scores: Mapping[str, float],
    *,
    is_other_study: bool,
) -> _HumanPrediction:
    """Compare the predictions from conversations with people with the ratings.

    Args:
        scores: predictions with the fit's own intercept.
    """
    fold = replace(fit, intercept="fold")
    bot_level = means.correlate(scores, human.rated, fit.intercept)
    pairs = means.count_pairs(scores)
    intercepts: dict[str, tuple[BotLevel, OrderedPairs]] = {}
    for kind in INTERCEPTS:
        if kind == fit.intercept:
            intercepts[kind] = (bot_level["pearson"], pairs)
        else:
            by_kind = _bot_scores(replace(fit, intercept=kind), human.design)
            level = means.correlate(by_kind, human.rated, kind, ["pearson"])["pearson"]
            intercepts[kind] = (level, means.count_pairs(by_kind))
    return _HumanPrediction(
        bot_level=bot_level,
        pairs=pairs,
        diagnostics=BotLevelDiagnostics(
            intercepts=intercepts,
            ceiling=ceiling_of(human.ratings_by_bot()),
            influence=means.measure_influence(scores),
            over_conversations=_over_conversations(fit, human.target, means),
            within_group=within_groups_of(scores, means.by_bot, human.groups),
        ),
        values=_values(fold, human, replace(means, by_bot={}) if is_other_study else means, bots),
        rivals=baselines.compare(None, _bot_scores(fold, human.design), means.by_bot),
    )


def _assess_selfplay(
    fit: KeptFit,
    played: SelfPlayData,
    baselines: Baselines,
    means: HumanMeans,
    bots: Mapping[str, BotResult],
    scores: Mapping[str, float],
) -> SelfPlayPrediction:
    """Compare the predictions from self-play with the ratings.

    Args:
        scores: predictions with the fit's own intercept.
    """
    design, process = played.design, played.process
    fold = replace(fit, intercept="fold")
    return SelfPlayPrediction(
        n_bots=means.count_bots(scores),
        bot_level=means.correlate(scores, design, fit.intercept),
        pairs=means.count_pairs(scores),
        influence=means.measure_influence(scores),
        baselines=dict(baselines.selfplay),
        shifts={} if fit.means is None else fit.means.shifts(features_by_bot(design)),
        values=None if process is None else _values_selfplay(fold, design, means, bots),
        added=None if process is None else process.added,
        rivals=baselines.compare(design, _bot_scores(fold, design), means.by_bot),
    )


def _reach_verdict(
    fit: KeptFit,
    human: HumanData,
    selfplay: Design | None,
    means: HumanMeans,
    from_people: _HumanPrediction,
    from_played: SelfPlayPrediction | None,
) -> FitVerdict:
    """Judge the fit with the common intercept.

    It ignores the fit's own setting, so that each fit has one verdict.
    """
    common = replace(fit, intercept="common")
    is_common = fit.intercept == "common"
    scores = _bot_scores(common, human.design)
    diagnostics = from_people.diagnostics
    if not is_common:
        diagnostics = replace(
            diagnostics,
            over_conversations=_over_conversations(common, human.target, means),
            within_group=within_groups_of(scores, means.by_bot, human.groups),
        )
    level, pairs = diagnostics.intercepts["common"]
    by_people = Evidence(level, pairs, from_people.rivals, means.measure_influence(scores), from_people.values)
    by_selfplay = None
    if from_played is not None and selfplay is not None:
        selfplay_scores = _bot_scores(common, selfplay)
        levels = from_played.bot_level
        if not is_common:
            levels = means.correlate(selfplay_scores, selfplay, "common", ["pearson"])
        by_selfplay = Evidence(
            levels["pearson"],
            means.count_pairs(selfplay_scores),
            from_played.rivals,
            means.measure_influence(selfplay_scores),
            from_played.values,
        )
    return verdict_of(
        diagnostics,
        by_people,
        means.count_bots(scores),
        selfplay=by_selfplay,
        n_selfplay=0 if from_played is None else from_played.n_bots,
    )


def _collect_cautions(
    fit: KeptFit,
    human: HumanData,
    played: SelfPlayData | None,
    from_played: SelfPlayPrediction | None,
    bots: Mapping[str, BotResult],
    *,
    is_other_study: bool,
) -> tuple[Finding, ...]:
    cautions = [finding("other_study", study=fit.study)] if is_other_study else []
    if human.rated is not None and not human.is_fitted:
        cautions.append(finding("given_ratings", n_given=len(human.rated.y), n_fitted=fit.full_line.n))
    cautions += cautions_of(fit, human.design, sum(result.target is not None for result in bots.values()))
    cautions += extrapolations_of(fit, human.design, None if played is None else played.design)
    cautions += [] if is_other_study else beyond_scale_of(fit, bots)
    cautions += shifts_of({} if from_played is None else from_played.shifts)
    return tuple(cautions)


def _over_conversations(fit: KeptFit, target: Design | None, means: HumanMeans) -> tuple[float, float] | None:
    if target is None:
        return None
    predicted = _predict(fit, target)
    rows_by_bot = [target.bots == bot for bot in sorted(means.by_bot) if (target.bots == bot).any()]
    return interval_over_conversations([(predicted[rows], target.y[rows]) for rows in rows_by_bot], means.seed)


def _values(fit: KeptFit, human: HumanData, means: HumanMeans, bots: Mapping[str, BotResult]) -> PredictionAccuracy:
    """Compare the predicted values with the human means.

    Args:
        fit: predictions with each fold's own intercept, whatever the setting.
        bots: provides the intervals.
    """
    predicted, target = _bot_scores(fit, human.design), human.target
    permuted = None
    if means.null is not None and target is not None:
        features = {bot: x for bot, x in features_by_bot(target).items() if bot in means.by_bot}
        permuted = means.null(features, common=False)
    return prediction_accuracy(
        predicted,
        means.by_bot,
        {bot: result.expected for bot, result in bots.items() if result.expected is not None},
        permuted=permuted,
        lengths={} if target is None else lengths_by_bot(target),
        within_bots=None
        if target is None
        else within_groups(_predict(fit, target), target.y, [str(bot) for bot in target.bots], units=units_of(target)),
        blocks=None if fit.means is None else fit.means.shares(),
        worth=None
        if human.means is None
        else effective_ratings(
            predicted,
            means.by_bot,
            {bot: human.means.new_ratings(bot) for bot in means.by_bot},
            {bot: result.combined.worth for bot, result in bots.items() if result.combined},
        ),
    )


def _values_selfplay(
    fit: KeptFit, played: Design, means: HumanMeans, bots: Mapping[str, BotResult]
) -> PredictionAccuracy:
    """Compare values predicted from self-play with the ratings.

    Each bot is predicted by the fold without it.
    """
    permuted = None
    if means.null is not None:
        features = {bot: x for bot, x in features_by_bot(played).items() if bot in means.by_bot}
        permuted = means.null(features, common=False)
    return prediction_accuracy(
        _bot_scores(fit, played),
        means.by_bot,
        {bot: result.expected_selfplay for bot, result in bots.items() if result.expected_selfplay},
        permuted=permuted,
        lengths=lengths_by_bot(played),
    )


def _bot_scores(fit: KeptFit, design: Design | None) -> dict[str, float]:
    """Return each bot's mean prediction over its conversations with people."""
    if design is None:
        return {}
    scores = {str(bot): scored_conversations(fit, design, str(bot)) for bot in dict.fromkeys(design.bots)}
    return {bot: float(values.mean()) for bot, (_, values) in scores.items() if len(values)}


def _predict(fit: KeptFit, design: Design) -> np.ndarray:
    predicted = np.full(len(design.bots), np.nan)
    for bot in dict.fromkeys(design.bots):
        rows = design.bots == bot
        predicted[rows] = fit.predict(design.x[rows], str(bot))
    return predicted


def _bot_results(
    fit: KeptFit, human: HumanData, played: SelfPlayData | None, seed: int, *, is_other_study: bool
) -> dict[str, BotResult]:
    # Bots with equal names in two studies are different bots, and intervals are unknown for another study.
    design, means = human.design, human.means
    adjusted = {} if means is None else means.by_bot()
    fitted = None if fit.means is None else fit.means.all_bots if means is None else means
    process = None if played is None else played.process
    seen: dict[str, None] = {}
    if design is not None:
        seen.update(dict.fromkeys([*design.rated, *(str(bot) for bot in design.bots)]))
    if played is not None:
        seen.update(dict.fromkeys(str(bot) for bot in played.design.bots))
    results = {}
    for bot in sorted(seen):
        ratings, people = (None, None) if design is None else design.rated.get(bot, (None, None))
        predicted, predicted_ends, n_human = bot_score(fit, design, bot, seed)
        selfplay, selfplay_ends, n_selfplay = bot_score(fit, None if played is None else played.design, bot, seed)
        reasons = []
        if ratings is None:
            reasons.append(Reason("no_rating", "no rating"))
        if ratings is not None and not n_human:
            reasons.append(Reason("no_features", "no conversation with people has all features defined"))
        if played is not None and not n_selfplay:
            reasons.append(Reason("no_selfplay_features", "no self-play conversation has all features defined"))
        if fit.means is not None and ratings is not None and not is_other_study:
            if bot not in adjusted:
                reasons.append(NOT_ADJUSTED)
            if not human.is_fitted:
                reasons.append(NOT_COMBINED)
        expected_selfplay = None
        if fitted is not None and process is not None:
            expected_selfplay = process.interval(fitted, bot)
            selfplay_ends = shifted_interval(process.expected.get(bot), selfplay)
            if bot in process.refused:
                reasons.append(process.refused[bot])
        results[bot] = BotResult(
            human_mean=None if ratings is None else float(ratings.mean()),
            predicted=predicted,
            predicted_selfplay=selfplay,
            n=0 if ratings is None else len(ratings),
            n_selfplay=n_selfplay,
            human_interval=None if ratings is None else interval_of(ratings, people, fit.scale_range),
            predicted_interval=None if is_other_study else predicted_ends,
            selfplay_interval=None if is_other_study else selfplay_ends,
            reasons=tuple(reasons),
            adjusted_mean=None if ratings is None else adjusted.get(bot),
            adjusted_interval=means.interval_of(bot) if means is not None and bot in adjusted else None,
            expected=None if is_other_study else _expected(fit, design, bot, fitted),
            expected_selfplay=expected_selfplay,
            combined=_combined(fit, design, bot) if ratings is not None and human.is_fitted else None,
        )
    return results


def _expected(fit: KeptFit, design: Design | None, bot: str, human: BotFeatureMeans | None) -> Interval95 | None:
    """Return the interval of a bot's expected mean, or None.

    It uses each fold's own intercept. None if the fit has no intervals.
    """
    rows, values = scored_conversations(replace(fit, intercept="fold"), design, bot)
    if fit.means is None or human is None or design is None or not len(values):
        return None
    expected = fit.means.expected(bot, design.x[rows])
    n_new, noise = human.new_ratings(bot)
    return Interval95(
        float(values.mean()), expected.first_interval(0.95), expected.widened(noise).first_interval(0.95), n_new
    )


def _combined(fit: KeptFit, design: Design | None, bot: str) -> Combined | None:
    """Combine a bot's ratings with the prediction of the fold without it.

    None if the fit does not provide one.
    """
    rows, values = scored_conversations(replace(fit, intercept="fold"), design, bot)
    if fit.means is None or design is None or not len(values) or bot not in fit.means.folds:
        return None
    rated = fit.means.all_bots
    n, variance = rated.new_ratings(bot)
    return combine(
        fit.means.expected(bot, design.x[rows]),
        rated.by_bot()[bot],
        fit.means.noise(bot, design.x[rows]),
        n,
        variance=variance,
        df=rated.df_of(bot),
    )
