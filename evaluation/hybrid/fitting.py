"""From a design matrix to a `KeptFit`: one line per bot left out and one of all bots, by least squares or ridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chatbots import Identity
from chatbots.storable import quote
from evaluation.hybrid.bot_level import Intercept
from evaluation.hybrid.carrying import Carrying, fitted_whole
from evaluation.hybrid.embeddings import block_columns, block_of, shown_names
from evaluation.hybrid.features import Design, HybridError
from evaluation.hybrid.leastsquares import Factors
from evaluation.hybrid.levels import bootstrap_draws
from evaluation.hybrid.means import BotMeans, BotSums, NoNoise
from evaluation.hybrid.noise import RatingNoise
from evaluation.hybrid.presets import METRICS, Preset
from evaluation.hybrid.process import PRIOR_MEDIAN, PRIOR_SIGMA, TAUS, THETAS
from evaluation.hybrid.process_folds import ProcessFolds
from evaluation.hybrid.results import KeptFit
from evaluation.hybrid.ridge import Block, Candidate, RidgeFolds
from evaluation.ratings import Ratings

if TYPE_CHECKING:
    import pandas as pd

N_DRAWS = 500


def blocks_in(preset: Preset, table: pd.DataFrame) -> list[str]:
    """Return the table's columns of the preset's embeddings.

    Raises:
        HybridError: the table lacks them.
    """
    columns = [str(column) for column in table.columns]
    for block in preset.blocks:
        if not block_columns(columns, [block]):
            raise HybridError(
                f"preset {quote(preset.name)} reads sentence embeddings and the table has no columns {block}_000 …; "
                "evaluation.hybrid.embeddings.pooled_embeddings makes them"
            )
    return block_columns(columns, preset.blocks)


def _identity(
    rated: Design,
    preset: Preset,
    targets: tuple[str, ...],
    intercept: Intercept,
    metrics: Mapping[str, Any] | None,
) -> Identity:
    params: dict[str, Any] = {
        "features": shown_names(rated.features),
        "targets": list(targets),
        "intercept": intercept,
        "metrics": dict(metrics or {}),
    }
    if preset.parts:
        params["thetas"], params["taus"] = list(THETAS), list(TAUS)
        params["prior"] = [PRIOR_MEDIAN, PRIOR_SIGMA]
        params["noise"] = "raters, conversations and ratings"
        params["blocks"] = {
            part: [rated.features[k] for k in numbers]
            for part, numbers in preset.parts_of(rated.features).items()
        }
    if preset.penalties:
        params["penalties"] = list(preset.penalties)
        params["choices"] = [list(blocks) for blocks in preset.choices]
    return Identity(f"hybrid_{preset.name.partition('@')[0]}", preset.version, params)


def fit_ridge(
    rated: Design,
    preset: Preset,
    targets: tuple[str, ...],
    intercept: Intercept,
    ratings: Ratings | None,
    metric_identities: Mapping[str, Any] | None,
) -> tuple[KeptFit, RidgeFolds]:
    codes, names = _codes(rated.bots)
    kinds = [block_of(name) or METRICS for name in rated.features]
    blocks = [
        Block(kind, np.array([i for i, k in enumerate(kinds) if k == kind]))
        for kind in dict.fromkeys(kinds)
    ]
    choices = [choice for choice in preset.choices if METRICS not in choice or METRICS in kinds]
    engine = RidgeFolds(
        rated.x,
        rated.y,
        codes,
        names,
        blocks,
        [Candidate(choice, penalty) for choice in choices for penalty in preset.penalties],
        RatingNoise.of(ratings, targets, rated.ids, codes, rated.y),
    )
    kept = KeptFit(
        identity=_identity(rated, preset, targets, intercept, metric_identities),
        preset=preset.name,
        features=rated.features,
        targets=targets,
        intercept=intercept,
        centre=engine.centre,
        scale=engine.scale,
        target_mean=engine.target_mean,
        whole=engine.line(None),
        folds={bot: engine.line(k) for k, bot in enumerate(names)},
        draws=np.zeros((0, len(rated.features) + 1)),
    )
    return kept, engine


def fit_process(
    rated: Design,
    preset: Preset,
    targets: tuple[str, ...],
    intercept: Intercept,
    ratings: Ratings | None,
    metric_identities: Mapping[str, Any] | None,
) -> tuple[KeptFit, ProcessFolds]:
    """Fit a Gaussian process of bot means, without each bot and with all of them."""
    codes, names = _codes(rated.bots)
    engine = ProcessFolds(
        rated.x,
        rated.y,
        codes,
        names,
        preset.parts_of(rated.features),
        RatingNoise.of(ratings, targets, rated.ids, codes, rated.y),
    )
    whole = engine.means.whole
    kept = KeptFit(
        identity=_identity(rated, preset, targets, intercept, metric_identities),
        preset=preset.name,
        features=rated.features,
        targets=targets,
        intercept=intercept,
        centre=whole.x.mean(axis=0),
        scale=whole.scale,
        target_mean=float(whole.rating.mean()),
        whole=engine.line(),
        folds=engine.lines(common=False),
        draws=np.zeros((0, len(rated.features) + 1)),
        commons=engine.lines(common=True),
        means=engine.means,
    )
    return kept, engine


def means_given(
    rated: Design, targets: Sequence[str], ratings: Ratings | None
) -> tuple[BotMeans | None, np.ndarray | None]:
    """Reduce ratings that a kept fit is applied to, as `fit_process` reduces those that it is fitted to.

    Returns:
        The bots' means, None where no rating of a bot differs from another; and (n,) targets less their raters'
        effects.
    """
    if not len(rated.y):
        return None, None
    codes, names = _codes(rated.bots)
    noise = RatingNoise.of(ratings, targets, rated.ids, codes, rated.y)
    sums = BotSums(rated.x, rated.y, codes, names, noise)
    try:
        return sums.of(np.ones(len(names), dtype=bool)), sums.adjusted()
    except NoNoise:
        return None, None


def _codes(bots: np.ndarray) -> tuple[np.ndarray, list[str]]:
    names, codes = np.unique(bots.astype(str), return_inverse=True)
    return codes, [str(name) for name in names]


def fit_least_squares(
    rated: Design,
    preset: Preset,
    targets: tuple[str, ...],
    intercept: Intercept,
    seed: int,
    metric_identities: Mapping[str, Any] | None,
) -> tuple[KeptFit, Factors, Carrying]:
    """Fit by least squares: each fold by the own solver, all bots by statsmodels, with influence diagnostics."""
    factors = Factors(rated.x, rated.y, rated.bots)
    folds = {bot: factors.line(factors.without(k)) for k, bot in enumerate(factors.bots)}
    whole, carrying = fitted_whole(
        rated, factors.line(range(len(factors.bots))), folds, factors.centre, factors.scale
    )
    kept = KeptFit(
        identity=_identity(rated, preset, targets, intercept, metric_identities),
        preset=preset.name,
        features=rated.features,
        targets=targets,
        intercept=intercept,
        centre=factors.centre,
        scale=factors.scale,
        target_mean=factors.target_mean,
        whole=whole,
        folds=folds,
        draws=bootstrap_draws(factors, N_DRAWS, seed),
    )
    return kept, factors, carrying
