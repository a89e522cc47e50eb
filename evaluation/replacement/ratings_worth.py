"""Question 3: how many ratings is a candidate worth, and what would it save on the next 100?

Scores of single chats improve the bots' means by prediction-powered inference with a tuned weight (PPI++; see
`evaluation.analysis.prediction_powered`). With n ratings and very many unrated chats that are scored, the variance of a
bot's mean falls from V(y) to V(y − λ f), so 100 ratings can be replaced by 100 V(y − λ f) / V(y) and the scores. Both
variances are clustered by rater, or by chat if raters have no name, and summed over bots; λ is one for all bots. Its
estimation costs one degree of freedom. The interval is that of the jackknife over the same units, on the log scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, sqrt
from typing import Any

import numpy as np

from evaluation.analysis.prediction_powered import FEW_RATED, FEWEST, NO_UNRATED, powered_by
from evaluation.data.ratings import Ratings
from evaluation.findings import Reason
from evaluation.replacement.result import ALPHA, RatingsWorth, Settlement
from evaluation.stats.effect_sizes import Effect
from evaluation.stats.gls import label_codes
from evaluation.stats.means import ALL_ALIKE

NEXT = 100
MOST_GROUPS = 200
MOST_RATINGS = 100_000
SCORES_BOTS = Reason("one_score_per_bot", "it gives one score for each bot, so it says nothing about single chats")
CONSTANT_WITHIN = Reason("constant_within_bots", "its scores do not vary within bots")
SCORES_ELSEWHERE = Reason("scores_elsewhere", "it scores no chat that people rated, so PPI++ does not apply")


def worth_of_scores(
    ratings: Ratings,
    scores: np.ndarray,
    chats: Sequence[str],
    bots: Sequence[str],
    chat_scores: np.ndarray,
    *,
    units: np.ndarray | None = None,
) -> RatingsWorth:
    """Answer the question for scores of single chats, before correction over candidates.

    Args:
        ratings: ratings of bots that are ranked.
        scores: (k,) values of the candidate for the rated chats, NaN if undefined.
        chats, bots, chat_scores: (c,) all chats with people, rated or not, with their bots and values.
        units: (k,) resampling unit of each rating; None: as the ratings say.
    """
    values, units = ratings.values(), ratings.unit if units is None else units
    rated = np.isfinite(values)
    is_unrated = ~np.isin(np.asarray(chats, dtype=object).astype(str), ratings.conversation[rated].astype(str))
    n, n_unrated = int(rated.sum()), int((is_unrated & np.isfinite(chat_scores)).sum())
    effective, effective_reason = None, NO_UNRATED if not n_unrated else None
    if n_unrated:
        means = powered_by(ratings, list(chats), list(bots), {"": chat_scores})[""]
        effective = None if means.saved is None else n / (1 - means.saved)
        reasons = [powered.reason for powered in means.bots.values() if powered.reason is not None]
        effective_reason = reasons[0] if effective is None and reasons else None
    known = rated & np.isfinite(scores)
    estimate, error, df, reason = _log_ratio(values[known], scores[known], ratings.bot[known], units[known])
    fields: dict[str, Any] = {
        "n": n,
        "n_unrated": n_unrated,
        "effective": effective,
        "effective_reason": effective_reason,
    }
    if estimate is None or error is None:
        return RatingsWorth("not_known", reason=reason, settled_by=Settlement("ratings"), **fields)
    return _answer(estimate, error, df, int(known.sum()), fields)


def _answer(estimate: float, error: float, df: int, n_known: int, fields: dict[str, Any]) -> RatingsWorth:
    from scipy import stats

    half = float(stats.t.ppf(1 - ALPHA / 2, df)) * error
    low, high = (NEXT * (1 - exp(estimate + sign * half)) for sign in (1, -1))
    saved = Effect(NEXT * (1 - exp(estimate)), low, high)
    p = min(1.0, 2 * float(stats.t.cdf(estimate / error, df)))  # at most .05 exactly if the 95 % interval is above 0
    settlement = None
    if high < 1:
        return RatingsWorth("no", saved=saved, p=p, **fields)
    if low <= 0:
        needed = n_known * (half / estimate) ** 2 if estimate < 0 else float("inf")
        settlement = Settlement("ratings", ceil(needed)) if needed <= MOST_RATINGS else Settlement("better_candidate")
    return RatingsWorth("not_known", saved=saved, p=p, settled_by=settlement, **fields)


def _log_ratio(
    values: np.ndarray, scores: np.ndarray, bots: np.ndarray, units: np.ndarray
) -> tuple[float | None, float | None, int, Reason | None]:
    """Return the log of V(y − λ f) / V(y) with its jackknife error and degrees of freedom."""
    if not len(values):
        return None, None, 0, FEW_RATED
    bot, unit = label_codes(bots), label_codes(units)
    n_units = int(unit.max()) + 1
    if n_units < FEWEST:
        return None, None, 0, FEW_RATED
    centred = [_centre_within(column, bot) for column in (values, scores)]
    spread = float((centred[1] ** 2).sum())
    if spread <= 1e-12 * max(1.0, float((scores**2).sum())):
        return None, None, 0, CONSTANT_WITHIN
    n_groups = min(n_units, MOST_GROUPS)
    moments = _moments(centred[0], centred[1], bot, unit, np.arange(n_units) % n_groups)
    total = moments.sum(axis=0)
    estimate = float(_log_ratios(total))
    left_out = _log_ratios(total - moments)
    if not np.isfinite(estimate) or not np.isfinite(left_out).all():
        return None, None, 0, ALL_ALIKE
    error = sqrt((n_groups - 1) * float(left_out.var()))
    return (estimate, error, n_groups - 1, None) if error > 0 else (None, None, 0, ALL_ALIKE)


def _centre_within(column: np.ndarray, bot: np.ndarray) -> np.ndarray:
    means = np.bincount(bot, column) / np.bincount(bot)
    return np.asarray(column - means[bot])


def _moments(y: np.ndarray, f: np.ndarray, bot: np.ndarray, unit: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return (G, 12, K) sums by group of units and bot.

    First n, y, f, f² and y f over ratings; then products of the sums of a unit: y², f², n², y n, f n, y f; then the
    number of units.
    """
    n_units, n_bots = len(group), int(bot.max()) + 1
    weights = (np.ones(len(y)), y, f, f * f, y * f)
    cell = unit * n_bots + bot
    over_ratings = [np.bincount(cell, w, minlength=n_units * n_bots).reshape(n_units, n_bots) for w in weights]
    n, y_sum, f_sum = over_ratings[:3]
    products = (y_sum * y_sum, f_sum * f_sum, n * n, y_sum * n, f_sum * n, y_sum * f_sum, (n > 0) * 1.0)
    by_unit = np.stack([*over_ratings, *products], axis=1)
    by_group = np.zeros((int(group.max()) + 1, *by_unit.shape[1:]))
    np.add.at(by_group, group, by_unit)
    return by_group


def _log_ratios(moments: np.ndarray) -> np.ndarray:
    """Return the log of V(y − λ f) / V(y) from (..., 12, K) moments; NaN if undefined."""
    n, y, f, ff, yf, yy_units, ff_units, nn_units, yn_units, fn_units, yf_units, n_units = np.moveaxis(moments, -2, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        n = np.where(n > 0.5, n, np.nan)
        mean_y, mean_f = y / n, f / n
        weight = np.nansum(yf - n * mean_y * mean_f, axis=-1) / np.nansum(ff - n * mean_f**2, axis=-1)
        factor = np.where(n_units > 1.5, n_units / (n_units - 1) / n**2, np.nan)
        slope = weight[..., None]
        mean_rest = mean_y - slope * mean_f
        before = np.nansum(factor * (yy_units - 2 * mean_y * yn_units + mean_y**2 * nn_units), axis=-1)
        squares = yy_units - 2 * slope * yf_units + slope**2 * ff_units
        crossed = yn_units - slope * fn_units
        after = np.nansum(factor * (squares - 2 * mean_rest * crossed + mean_rest**2 * nn_units), axis=-1)
        free = np.where(n_units > 1.5, n_units - 1, 0).sum(axis=-1)
        return np.asarray(np.log(after / before * free / (free - 1)))
