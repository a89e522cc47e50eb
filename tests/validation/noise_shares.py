"""What keeps `strong` from predicting bots with few conversations: noise of the target, of the features, or of the fit?

Used by `validate`. In subsamples, what a bot is predicted from is replaced part by part by what all conversations
say: the features of the bot that is predicted, the training bots' features, their ratings. Every prediction is by the
fold without the bot, with the common intercept; it is compared with the subsample's own adjusted means and with those
of all conversations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evaluation.hybrid.bot_means import BotFeatureMeans
from evaluation.hybrid.features import design_of, preset_get
from evaluation.hybrid.fit import fit_process
from evaluation.hybrid.gaussian_process import BotGaussianProcess
from evaluation.hybrid.gaussian_process_folds import FoldMeans
from evaluation.number_format import share
from tests.validation.values import subsample

if TYPE_CHECKING:
    from tests.validation.values import Tables

CASES = {
    "as it is": (False, False, False),
    "features of the predicted bot from all conversations": (True, False, False),
    "training bots' features from all": (False, True, False),
    "training bots' ratings from all": (False, False, True),
    "both": (False, True, True),
    "all three": (True, True, True),
}
"""What is taken from all conversations: features of the predicted bot, features and ratings of the training bots."""


def noise_shares(tables: Tables, per_bot: int, n_samples: int) -> dict[str, np.ndarray]:
    """Return by case (n, 2): r with the subsample's adjusted means and with those of all conversations; and the
    `ceiling`.
    """
    whole = _means(tables)
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in ("ceiling", *CASES)}
    for seed in range(n_samples):
        part = _means(subsample(tables, per_bot, seed))
        targets = part.all_bots.rating, whole.all_bots.rating
        results["ceiling"].append((1.0, _r(*targets)))
        for name, (predicted, features, ratings) in CASES.items():
            values = _predicted(whole if predicted else part, whole if features else part, whole if ratings else part)
            results[name].append((_r(values, targets[0]), _r(values, targets[1])))
    return {name: np.array(rs) for name, rs in results.items()}


def _means(tables: Tables) -> FoldMeans:
    preset = preset_get("strong")
    design = design_of(tables.human, preset.features, tables.targets)
    rated = design.rows(np.isfinite(design.y))
    kept, _ = fit_process(rated, preset, tables.targets, "common", tables.ratings, None)
    assert kept.means is not None
    return kept.means


def _predicted(predicted: FoldMeans, features: FoldMeans, ratings: FoldMeans) -> np.ndarray:
    """Return every bot's prediction, (K,), its own and the training bots' features and ratings each from its own
    source.
    """
    blocks = [np.array(columns, dtype=int) for columns in features.blocks.values()]
    results = []
    for k, bot in enumerate(features.all_bots.bots):
        process = BotGaussianProcess(_mixed(features.folds[bot], ratings.folds[bot]), blocks)
        posterior = process.posterior(process.means.rating[None])
        at, all_bots = predicted.all_bots.x[k], ratings.all_bots
        mu = process.mu_with(posterior, at, all_bots.rating[k, None], *all_bots.noise_for_fold(k, process.means))
        line = process.line(process.answers(posterior, mu), 0, ())
        results.append(float(line.predict(at[None])[0]))
    return np.array(results)


def _mixed(features: BotFeatureMeans, ratings: BotFeatureMeans) -> BotFeatureMeans:
    return replace(
        features, rating=ratings.rating, n=ratings.n, noise=ratings.noise, df=ratings.df, variance=ratings.variance
    )


def _r(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x, y)[0, 1])


def noise_shares_told(name: str, tables: Tables, per_bot: int, n_samples: int) -> str:
    """Say what each source of noise costs, as means over the subsamples."""
    result = noise_shares(tables, per_bot, n_samples)
    lines = [
        f"{name}, {per_bot} conversations a bot, mean of {n_samples}: their human means correlate with those of all "
        f"conversations at {share(result.pop('ceiling')[:, 1].mean())}; r of strong with them, and with those of all:"
    ]
    lines += [f"  {case}: {', '.join(map(share, rs.mean(axis=0)))}" for case, rs in result.items()]
    return "\n".join(lines)
