"""Assessment of a fit: every bot predicted, and compared with its ratings and with rival predictors.

A bot can be predicted from its conversations with people or from those with itself; both are judged alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from evaluation.findings import Reason, finding
from evaluation.hybrid.bot_level import (
    INTERCEPTS,
    BotLevel,
    BotLevelDiagnostics,
    Intercept,
    NullOf,
    ceiling_of,
    influence_of,
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
from evaluation.hybrid.gaussian_process_folds import FromSelfPlay, from_selfplay
from evaluation.hybrid.levels import (
    SignificantPairs,
    bot_levels,
    bot_score,
    coefficients_of,
    dimensions_of,
    dimensions_of_conversations,
    features_by_bot,
    interval_of,
    pairs_of,
    scored_conversations,
    shifted_interval,
    units_of,
)
from evaluation.hybrid.results import BotResult, Fold, HybridResult, KeptFit, SelfPlayPrediction
from evaluation.hybrid.rivals import compare_rivals
from evaluation.hybrid.verdict import Evidence, verdict_of
from evaluation.stats.correlation import METHODS, Correlation, Method, correlate_all, within_groups

Baselines = Mapping[str, dict[str, BotLevel]]
"""By name and method."""
RivalsOf = Callable[[Design | None], Mapping[str, Any]]
"""As `rival_folds`; takes the self-play to predict from, None: the rated conversations."""


def assess(
    fit: KeptFit,
    design: Design | None,
    played: Design | None,
    *,
    seed: int,
    null: NullOf | None,
    told_apart: SignificantPairs = SignificantPairs(),  # noqa: B008
    baselines: Baselines | None = None,
    baselines_selfplay: Baselines | None = None,
    rivals: RivalsOf | None = None,
    dimensions: Sequence[str] = (),
    groups: Mapping[str, str] | None = None,
    adjusted: np.ndarray | None = None,
    held: BotFeatureMeans | None = None,
    own: bool = True,
    elsewhere: bool = False,
) -> HybridResult:
    """Predict every bot and compare with its ratings.

    Args:
        design: conversations with people; played: bots with themselves.
        told_apart: pairs of bots whose ratings differ significantly.
        rivals: fits the rivals, and predicts from conversations with people or from self-play.
        dimensions: rating dimensions to correlate the predictions with.
        groups: label of each bot.
        adjusted: (n,) targets of the rated conversations less their raters' effects, where the fit takes these out:
            what is compared over and within bots then. Single conversations are compared as they were rated.
        held: what the same ratings say of the bots' means; None where nothing is rated or the fit takes no rater
            effects out.
        own: these are the ratings that the fit was fitted to.
        elsewhere: the conversations are of another study than the fit's, so that only the order counts.
    """
    from_played = None if fit.means is None or played is None or elsewhere else from_selfplay(fit.means, played, held)
    given = None if elsewhere else held
    bots = _bot_results(fit, design, played, from_played, given, seed, own=own, elsewhere=elsewhere)
    if fit.means is None and not elsewhere:
        bots = with_errors(bots, _bot_scores(replace(fit, intercept="fold"), design))
    rated = None if design is None else design.rows(np.isfinite(design.y))
    if rated is None or not len(rated.y):
        why = Reason("no_rated_conversation", "no conversation has a rating")
        conversation_level = {str(method): Correlation(None, None, None, None, 0, reason=why) for method in METHODS}
        predictions: dict[str, np.ndarray] = {}
    else:
        predicted = _predict(fit, rated)
        conversation_level = correlate_all(predicted, rated.y, units=units_of(rated))
        predictions = {"bot": rated.bots, "target": rated.y, "predicted": predicted}

    human = {b: r.target for b, r in bots.items() if r.target is not None}
    scores = {
        "predicted": {b: r.predicted for b, r in bots.items() if r.predicted is not None},
        "predicted_selfplay": {b: r.predicted_selfplay for b, r in bots.items() if r.predicted_selfplay is not None},
    }

    def level(
        found: Mapping[str, float], of: Design | None, common: bool, methods: Sequence[Method] = METHODS
    ) -> dict[str, BotLevel]:
        both = [bot for bot in found if bot in human]
        refit = None
        if null is not None and of is not None:
            at = {bot: mean for bot, mean in features_by_bot(of).items() if bot in both}
            refit = partial(null, at, common=common)
        return bot_levels([found[b] for b in both], [human[b] for b in both], seed=seed, null=refit, methods=methods)

    def influence(found: Mapping[str, float]) -> dict[str, float | None]:
        both = [bot for bot in found if bot in human]
        return influence_of([found[b] for b in both], [human[b] for b in both], both)

    is_common = fit.intercept == "common"
    common, fold = replace(fit, intercept="common"), replace(fit, intercept="fold")
    bot_level = level(scores["predicted"], rated, is_common)
    pairs = pairs_of(scores["predicted"], human, told_apart)
    intercepts = {fit.intercept: (bot_level["pearson"], pairs)}
    by_common, by_fold = _bot_scores(common, design), _bot_scores(fold, design)
    kinds: dict[Intercept, Any] = {"fold": by_fold, "common": by_common}
    for kind, other in kinds.items():
        if kind != fit.intercept:
            found = level(other, rated, kind == "common", ["pearson"])["pearson"]
            intercepts[kind] = (found, pairs_of(other, human, told_apart))
    target = rated if rated is None or adjusted is None else replace(rated, y=adjusted)
    by_bot = {} if design is None else {bot: values for bot, (values, _) in design.rated.items()}
    if target is not None and adjusted is not None:
        by_bot = {bot: target.y[target.bots == bot] for bot in by_bot}
    frame = BotLevelDiagnostics(
        intercepts={kind: intercepts[kind] for kind in INTERCEPTS},
        ceiling=ceiling_of(by_bot),
        influence=influence(scores["predicted"]),
        over_conversations=_over_conversations(fit, target, human, seed),
        within_group=within_groups_of(scores["predicted"], human, groups or {}),
    )
    selfplay = None
    if played is not None:
        selfplay = SelfPlayPrediction(
            n_bots=sum(bot in human for bot in scores["predicted_selfplay"]),
            bot_level=level(scores["predicted_selfplay"], played, is_common),
            pairs=pairs_of(scores["predicted_selfplay"], human, told_apart),
            influence=influence(scores["predicted_selfplay"]),
            baselines=dict(baselines_selfplay or {}),
            shifts={} if fit.means is None else fit.means.shifts(features_by_bot(played)),
            values=None if from_played is None else _values_selfplay(fold, played, human, bots, null),
            added=None if from_played is None else from_played.added,
            rivals={} if rivals is None else compare_rivals(rivals(played), _bot_scores(fold, played), human),
        )
    values = _values(fold, design, target, {} if elsewhere else human, bots, null, given)
    compared = {} if rivals is None else compare_rivals(rivals(None), by_fold, human)
    # The verdict is by one intercept for all folds, whichever one the fit has: a fit has one verdict.
    frame_common = frame
    if not is_common:
        frame_common = replace(
            frame,
            over_conversations=_over_conversations(common, target, human, seed),
            within_group=within_groups_of(by_common, human, groups or {}),
        )
    by_people = Evidence(*intercepts["common"], compared, influence(by_common), values)
    by_selfplay = None
    if selfplay is not None and played is not None:
        of_common = _bot_scores(common, played)
        by_selfplay = Evidence(
            selfplay.bot_level["pearson"] if is_common else level(of_common, played, True, ["pearson"])["pearson"],
            pairs_of(of_common, human, told_apart),
            selfplay.rivals,
            influence(of_common),
            selfplay.values,
        )
    return HybridResult(
        fit=fit,
        n_conversations=0 if rated is None else len(rated.y),
        n_bots=0 if rated is None else len(set(rated.bots)),
        coefficients=coefficients_of(fit.features, list(fit.folds.values()), fit.scale),
        bots=ranked(bots) if elsewhere else bots,
        conversation_level=conversation_level,
        bot_level=bot_level,
        selfplay=selfplay,
        pairs=pairs,
        folds=tuple(
            Fold(bot, line.n, line.condition, unused(fit, line), line.penalty, line.blocks)
            for bot, line in fit.folds.items()
        ),
        baselines=dict(baselines or {}),
        rivals=compared,
        dimensions=dimensions_of(
            design, scores, {name: human if fit.targets == (name,) else None for name in dimensions}
        ),
        dimensions_conversation_level=dimensions_of_conversations(rated, predictions, dimensions),
        n_dropped=0 if design is None else design.n_dropped,
        dropped={} if design is None else design.dropped,
        held_against=None if rated is None or not len(rated.y) else "fit" if own else "given",
        cautions=(
            *([finding("other_study", study=fit.study)] if elsewhere else []),
            *(
                []
                if own or rated is None or not len(rated.y)
                else [finding("given_ratings", n_given=len(rated.y), n_fitted=fit.whole.n)]
            ),
            *cautions_of(fit, design, len(human)),
            *extrapolations_of(fit, design, played),
            *([] if elsewhere else beyond_scale_of(fit, bots)),
            *shifts_of({} if selfplay is None else selfplay.shifts),
        ),
        frame=frame,
        values=values,
        verdict=verdict_of(
            frame_common,
            by_people,
            sum(bot in human for bot in by_common),
            selfplay=by_selfplay,
            n_selfplay=0 if selfplay is None else selfplay.n_bots,
        ),
        predictions={} if elsewhere else predictions,
    )


def _over_conversations(
    fit: KeptFit, target: Design | None, human: Mapping[str, float], seed: int
) -> tuple[float, float] | None:
    if target is None or not len(target.y):
        return None
    predicted = _predict(fit, target)
    mine = [target.bots == bot for bot in sorted(human) if (target.bots == bot).any()]
    return interval_over_conversations([(predicted[rows], target.y[rows]) for rows in mine], seed)


def _values(
    fit: KeptFit,
    design: Design | None,
    rated: Design | None,
    human: Mapping[str, float],
    bots: Mapping[str, BotResult],
    null: NullOf | None,
    held: BotFeatureMeans | None,
) -> PredictionAccuracy:
    """Compare values.

    Args:
        fit: by the fold's own intercept, whichever one was requested.
        human: what is to be predicted of each bot.
        bots: has their intervals.
        held: the ratings behind `human`, as of `assess`.
    """
    predicted = _bot_scores(fit, design)
    permuted = None
    if null is not None and rated is not None:
        at = {bot: x for bot, x in features_by_bot(rated).items() if bot in human}
        permuted = null(at, common=False)
    return prediction_accuracy(
        predicted,
        human,
        {bot: found.expected for bot, found in bots.items() if found.expected is not None},
        permuted=permuted,
        lengths={} if rated is None else lengths_by_bot(rated),
        within_bots=None
        if rated is None or not len(rated.y)
        else within_groups(_predict(fit, rated), rated.y, [str(bot) for bot in rated.bots], units=units_of(rated)),
        blocks=None if fit.means is None else fit.means.shares(),
        worth=None
        if held is None
        else effective_ratings(
            predicted,
            human,
            {bot: held.new_ratings(bot) for bot in human},
            {bot: found.combined.worth for bot, found in bots.items() if found.combined},
        ),
    )


def _values_selfplay(
    fit: KeptFit, played: Design, human: Mapping[str, float], bots: Mapping[str, BotResult], null: NullOf | None
) -> PredictionAccuracy:
    """Compare the values that self-play predicts of rated bots, each by the fold without it."""
    permuted = None
    if null is not None:
        at = {bot: x for bot, x in features_by_bot(played).items() if bot in human}
        permuted = null(at, common=False)
    return prediction_accuracy(
        _bot_scores(fit, played),
        human,
        {bot: one.expected_selfplay for bot, one in bots.items() if one.expected_selfplay},
        permuted=permuted,
        lengths=lengths_by_bot(played),
    )


def _bot_scores(fit: KeptFit, design: Design | None) -> dict[str, float]:
    """Return the mean prediction of each bot's conversations with people."""
    if design is None:
        return {}
    scores = {str(bot): scored_conversations(fit, design, str(bot)) for bot in dict.fromkeys(design.bots)}
    return {bot: float(values.mean()) for bot, (_, values) in scores.items() if len(values)}


def _predict(fit: KeptFit, design: Design) -> np.ndarray:
    predicted = np.full(len(design.bots), np.nan)
    for bot in dict.fromkeys(design.bots):
        mine = design.bots == bot
        predicted[mine] = fit.predict(design.x[mine], str(bot))
    return predicted


def _bot_results(
    fit: KeptFit,
    design: Design | None,
    played: Design | None,
    from_played: FromSelfPlay | None,
    held: BotFeatureMeans | None,
    seed: int,
    *,
    own: bool,
    elsewhere: bool,
) -> dict[str, BotResult]:
    # A bot of the same name in another study is another one; and what intervals say of that study is not known.
    adjusted = {} if held is None else held.by_bot()
    fitted = None if fit.means is None else fit.means.whole if held is None else held
    seen: dict[str, None] = {}
    if design is not None:
        seen.update(dict.fromkeys([*design.rated, *(str(bot) for bot in design.bots)]))
    if played is not None:
        seen.update(dict.fromkeys(str(bot) for bot in played.bots))
    found = {}
    for bot in sorted(seen):
        ratings, people = (None, None) if design is None else design.rated.get(bot, (None, None))
        predicted, predicted_ends, n_human = bot_score(fit, design, bot, seed)
        selfplay, selfplay_ends, n_selfplay = bot_score(fit, played, bot, seed)
        reasons = []
        if ratings is None:
            reasons.append(Reason("no_rating", "no rating"))
        if ratings is not None and not n_human:
            why = "no conversation with people has all features defined"
            reasons.append(Reason("no_features", why))
        if played is not None and not n_selfplay:
            why = "no self-play conversation has all features defined"
            reasons.append(Reason("no_selfplay_features", why))
        if fit.means is not None and ratings is not None and not elsewhere:
            if bot not in adjusted:
                reasons.append(NOT_ADJUSTED)
            if not own:
                reasons.append(NOT_COMBINED)
        expected_selfplay = None
        if fitted is not None and from_played is not None:
            expected_selfplay = from_played.interval(fitted, bot)
            selfplay_ends = shifted_interval(from_played.expected.get(bot), selfplay)
            if bot in from_played.refused:
                reasons.append(from_played.refused[bot])
        found[bot] = BotResult(
            human_mean=None if ratings is None else float(ratings.mean()),
            predicted=predicted,
            predicted_selfplay=selfplay,
            n=0 if ratings is None else len(ratings),
            n_selfplay=n_selfplay,
            human_interval=None if ratings is None else interval_of(ratings, people, fit.scale_range),
            predicted_interval=None if elsewhere else predicted_ends,
            selfplay_interval=None if elsewhere else selfplay_ends,
            reasons=tuple(reasons),
            adjusted_mean=None if ratings is None else adjusted.get(bot),
            adjusted_interval=held.interval_of(bot) if held is not None and bot in adjusted else None,
            expected=None if elsewhere else _expected(fit, design, bot, fitted),
            expected_selfplay=expected_selfplay,
            combined=_combined(fit, design, bot) if ratings is not None and own else None,
        )
    return found


def _expected(fit: KeptFit, design: Design | None, bot: str, human: BotFeatureMeans | None) -> Interval95 | None:
    """Return the interval of a bot's expected mean, by the fold's own intercept; None if the fit has none."""
    mine, values = scored_conversations(replace(fit, intercept="fold"), design, bot)
    if fit.means is None or human is None or design is None or not len(values):
        return None
    expected = fit.means.expected(bot, design.x[mine])
    n_new, noise = human.new_ratings(bot)
    return Interval95(
        float(values.mean()), expected.first_interval(0.95), expected.widened(noise).first_interval(0.95), n_new
    )


def _combined(fit: KeptFit, design: Design | None, bot: str) -> Combined | None:
    """Return a bot's ratings and prediction together, by the fold without it; None where the fit does not know."""
    mine, values = scored_conversations(replace(fit, intercept="fold"), design, bot)
    if fit.means is None or design is None or not len(values) or bot not in fit.means.folds:
        return None
    rated = fit.means.whole
    n, variance = rated.new_ratings(bot)
    return combine(
        fit.means.expected(bot, design.x[mine]),
        rated.by_bot()[bot],
        fit.means.noise(bot, design.x[mine]),
        n,
        variance=variance,
        df=rated.df_of(bot),
    )
