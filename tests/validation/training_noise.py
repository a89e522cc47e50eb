"""What does it cost `strong` to take the training bots' mean features for exact? A bootstrap of training conversations.

Used by `validate`. In each fold the training bots' conversations are drawn again, their ratings left alone, and the
process made anew; the variance of what it then predicts of the left-out bot is held against the variance that it
states.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evaluation.hybrid.features import Design, design_of, preset_get
from evaluation.hybrid.fit import fit_process
from evaluation.hybrid.gaussian_process import BotGaussianProcess
from evaluation.number_format import percent

if TYPE_CHECKING:
    from tests.validation.values import Tables

N_DRAWS = 40


@dataclass(frozen=True)
class TrainingNoise:
    """Over the folds of one study, or of several.

    Attributes:
        added: variance of predictions that the bootstrap finds, as a share of the variance that is stated.
        inside: share of bots whose mean rating lies in their interval of further ratings.
        inside_with: the same when the bootstrap's variance is added to the stated one.
    """

    added: float
    inside: float
    inside_with: float


def training_noise(tables: Tables, n_draws: int = N_DRAWS, seed: int = 0) -> TrainingNoise:
    """Compare the stated variance with a bootstrap of training conversations."""
    preset = preset_get("strong")
    design = design_of(tables.human, preset.features, tables.targets)
    rated = design.rows(np.isfinite(design.y))
    kept, _ = fit_process(rated, preset, tables.targets, "fold", tables.ratings, None)
    assert kept.means is not None
    rng = np.random.default_rng(seed)
    drawn = _drawn_means(rated, kept.means.all_bots.bots, n_draws, rng)  # (D, K, p)
    blocks = [np.array(columns, dtype=int) for columns in kept.means.blocks.values()]
    stated, results, inside, inside_with = [], [], [], []
    for k, bot in enumerate(kept.means.all_bots.bots):
        mine = rated.x[rated.bots == bot]
        means, at = kept.means.folds[bot], mine.mean(axis=0)
        predicted = []
        for x in np.delete(drawn, k, axis=1):
            process = BotGaussianProcess(replace(means, x=x), blocks)
            answers = process.answers(process.posterior(means.rating[None]))
            predicted.append(float(process.line(answers, 0, ()).predict(at[None])[0]))
        expected = kept.means.expected(bot, mine)
        noise = kept.means.all_bots.new_ratings(bot)[1]
        stated.append(float(expected.variance[0]))
        results.append(float(np.var(predicted)))
        for variance, into in ((noise, inside), (noise + results[-1], inside_with)):
            low, high = expected.widened(variance).first_interval(0.95)
            into.append(low <= kept.means.all_bots.rating[k] <= high)
    return TrainingNoise(float(np.mean(results) / np.mean(stated)), float(np.mean(inside)), float(np.mean(inside_with)))


def _drawn_means(rated: Design, bots: tuple[str, ...], n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return mean features of conversations drawn again within each bot, (D, K, p)."""
    drawn = []
    for bot in bots:
        x = rated.x[rated.bots == bot]
        counts = rng.multinomial(len(x), np.full(len(x), 1 / len(x)), size=n_draws)
        drawn.append(counts @ x / len(x))
    return np.stack(drawn, axis=1)


def training_noise_told(name: str, per_bot: int, samples: list[Tables]) -> str:
    """Say what the bootstrap finds, as a mean over these subsamples."""
    results = [training_noise(sample) for sample in samples]
    added, inside, inside_with = (
        float(np.mean([getattr(one, part) for one in results])) for part in ("added", "inside", "inside_with")
    )
    return (
        f"{name}, {per_bot} conversations a bot: training conversations drawn again move predictions by "
        f"{percent(added)} of the variance that is stated; inside their 95 % intervals {percent(inside)} of bots, with "
        f"that variance added {percent(inside_with)}"
    )
