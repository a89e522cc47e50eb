"""Four designs of docs/research/hybrid_designs.md: do features with less noise help `strong` with few conversations?

    python -m tests.validation.denoised [--data FOLDER]

Each replaces the training bots' mean features in a fold, and those of the bot that is predicted, by others; the process
stays that of version 3, which is scored beside them in the same way. All conversations, and ten seeded subsamples of 60
and 30 a bot, by the seeds of `validate`. Prints only.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from evaluation.hybrid.bot_means import BotFeatureMeans, BotSums
from evaluation.hybrid.calibration import interval_score, q_squared
from evaluation.hybrid.features import EMOTION_FEATURES, Preset, design_of, preset_get
from evaluation.hybrid.gaussian_process import BotGaussianProcess, Mixture, Posterior
from evaluation.hybrid.rating_noise import RatingNoise
from evaluation.metrics.emotion import FLOOR
from evaluation.number_format import share

if TYPE_CHECKING:
    from tests.validation.values import Tables

SIZES, N_SAMPLES, N_DRAWS = (60, 30), 10, 200
HEADINGS = ["r common", "r fold", "Q²", "inside 95 %", "score"]


@dataclass(frozen=True)
class Studied:
    """Rated conversations of K bots.

    Attributes:
        x: (n, p) features; codes: (n,) number of each one's bot; exchanges: (n,) of each.
        blocks: columns of each block; emotions: columns that are logs of probabilities.
        sums: what the means of a fold are made of.
        whole: of all bots.
    """

    x: np.ndarray
    codes: np.ndarray
    exchanges: np.ndarray
    blocks: list[np.ndarray]
    emotions: np.ndarray
    sums: BotSums
    whole: BotFeatureMeans

    @classmethod
    def of(cls, tables: Tables, preset: Preset | None = None) -> Studied:
        """Read what a preset of blocks reads, `strong` by default."""
        preset = preset or preset_get("strong")
        design = design_of(tables.human, preset.features, tables.targets, extra=["n_exchanges"])
        rated = design.rows(np.isfinite(design.y))
        names, codes = np.unique(rated.bots.astype(str), return_inverse=True)
        ratings = RatingNoise.of(tables.ratings, tables.targets, rated.ids, codes, rated.y)
        sums = BotSums(rated.x, rated.y, codes, names.tolist(), ratings)
        parts = preset.parts_of(rated.features)
        return cls(
            x=rated.x,
            codes=codes,
            exchanges=np.maximum(rated.extra["n_exchanges"], 1.0),
            blocks=[np.array(columns) for columns in parts.values()],
            emotions=np.array([k for k, name in enumerate(rated.features) if name in EMOTION_FEATURES], dtype=int),
            sums=sums,
            whole=sums.of(np.ones(len(names), dtype=bool)),
        )


@dataclass(frozen=True)
class Replaced:
    """What a design puts in place of a fold's features.

    Attributes:
        training: the fold's bots; more than one where features are drawn.
        rows: (J, p) of the bot that is predicted: their mean is its features, their variance over J that of drawing its
            conversations again.
    """

    training: list[BotFeatureMeans]
    rows: np.ndarray


@dataclass(frozen=True)
class Fold:
    """All bots but number k, and the bot left out."""

    data: Studied
    k: int

    @cached_property
    def others(self) -> np.ndarray:
        """(K − 1,) numbers of the training bots."""
        return np.delete(np.arange(len(self.data.whole.bots)), self.k)

    @cached_property
    def means(self) -> BotFeatureMeans:
        """Means of the training bots, as version 3 has them."""
        return self.data.sums.of(np.arange(len(self.data.whole.bots)) != self.k)

    @cached_property
    def counts(self) -> np.ndarray:
        """(K − 1,) conversations of each training bot."""
        return np.bincount(self.data.codes)[self.others].astype(float)

    def own(self, k: int) -> np.ndarray:
        """Return the (J, p) conversations of a bot."""
        return self.data.x[self.data.codes == k]

    @cached_property
    def centre(self) -> np.ndarray:
        """(p,) mean of the training bots, weighted by their conversations."""
        return self.counts @ self.means.x / self.counts.sum()

    @cached_property
    def used(self) -> np.ndarray:
        """Numbers of the columns that vary within bots."""
        return np.flatnonzero(self.means.scale > 0)

    @cached_property
    def roots(self) -> tuple[np.ndarray, np.ndarray]:
        """S^(½) and S^(−½) in units of the standard deviation within bots."""
        from sklearn.covariance import ledoit_wolf

        within = [self.own(k) - self.own(k).mean(axis=0) for k in self.others]
        left = np.concatenate(within)[:, self.used] / self.means.scale[self.used]
        covariance = ledoit_wolf(left, assume_centered=True)[0]
        values, vectors = np.linalg.eigh(covariance * len(left) / (len(left) - len(within)))
        half = np.sqrt(values)
        return (vectors * half) @ vectors.T, (vectors / half) @ vectors.T

    @cached_property
    def white(self) -> np.ndarray:
        """(K − 1, used) training bots' means from the centre, whose noise has the covariance I / n_j."""
        z = (self.means.x - self.centre)[:, self.used] / self.means.scale[self.used]
        return z @ self.roots[1]

    def turned_back(self, white: np.ndarray) -> BotFeatureMeans:
        """Return the training bots with other whitened features."""
        x = np.tile(self.centre, (len(white), 1))
        x[:, self.used] += white @ self.roots[0] * self.means.scale[self.used]
        return replace(self.means, x=x)

    def mapped(self, turn: np.ndarray) -> np.ndarray:
        """Return the conversations of the bot left out by a linear map of whitened features."""
        rows = self.own(self.k).copy()
        z = (rows - self.centre)[:, self.used] / self.means.scale[self.used]
        kept = z @ self.roots[1] @ turn @ self.roots[0]
        rows[:, self.used] = self.centre[self.used] + kept * self.means.scale[self.used]
        return rows


def version_3(fold: Fold) -> Replaced:
    return Replaced([fold.means], fold.own(fold.k))


def pooled(fold: Fold) -> Replaced:
    """Return means over answers, emotions as logs of bots' mean probabilities."""

    def rows_of(k: int) -> np.ndarray:
        mine = fold.data.codes == k
        x, weight = fold.data.x[mine].copy(), fold.data.exchanges[mine]
        weight = weight / weight.mean()
        at = fold.data.emotions
        probability = np.exp(x[:, at]) - FLOOR
        x[:, at] = probability
        mean = weight @ x / len(x)
        away = weight[:, None] * (x - mean)
        level = mean.copy()
        level[at] = np.log(mean[at] + FLOOR)
        away[:, at] /= mean[at] + FLOOR
        return np.asarray(level + away)

    x = np.stack([rows_of(k).mean(axis=0) for k in fold.others])
    return Replaced([replace(fold.means, x=x)], rows_of(fold.k))


def singular(fold: Fold) -> Replaced:
    """Return features whose singular values are shrunk (Gavish and Donoho 2017)."""
    n = fold.counts
    left, values, right = np.linalg.svd(np.sqrt(n)[:, None] * fold.white, full_matrices=False)
    p = fold.white.shape[1]
    beta, y2 = (len(n) - 1) / p, values**2 / p
    kept = y2 > (1 + np.sqrt(beta)) ** 2
    inner = np.sqrt(np.maximum((y2 - beta - 1) ** 2 - 4 * beta, 0.0))
    shrunk = np.where(kept, inner / np.sqrt(np.maximum(y2, 1e-300)), 0.0)
    signal = np.where(kept, (y2 - beta - 1 + inner) / 2, 0.0) * p / n.sum()
    white = np.sqrt(p) * (left * shrunk) @ right / np.sqrt(n)[:, None]
    own = len(fold.own(fold.k))
    turn = (right.T * (signal / (signal + 1 / own))) @ right
    return Replaced([fold.turned_back(white)], fold.mapped(turn))


def _between(fold: Fold) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors of the covariance of true whitened means."""
    from sklearn.covariance import ledoit_wolf

    n_bots = len(fold.counts)
    total = ledoit_wolf(fold.white)[0] * n_bots / (n_bots - 1)
    values, vectors = np.linalg.eigh(total - np.eye(len(total)) * (1 / fold.counts).mean())
    return np.maximum(values, 0.0), vectors


def posterior_means(fold: Fold) -> Replaced:
    values, vectors = _between(fold)
    kept = values / (values + 1 / fold.counts[:, None])
    white = (fold.white @ vectors * kept) @ vectors.T
    own = values / (values + 1 / len(fold.own(fold.k)))
    return Replaced([fold.turned_back(white)], fold.mapped((vectors * own) @ vectors.T))


def posterior_draws(fold: Fold) -> Replaced:
    values, vectors = _between(fold)
    kept = values / (values + 1 / fold.counts[:, None])
    mean, spread = fold.white @ vectors * kept, np.sqrt(kept / fold.counts[:, None])
    rng = np.random.default_rng(fold.k)
    drawn = [mean + spread * rng.normal(size=mean.shape) for _ in range(N_DRAWS)]
    rows = posterior_means(fold).rows
    return Replaced([fold.turned_back(one @ vectors.T) for one in drawn], rows)


DESIGNS: dict[str, Callable[[Fold], Replaced]] = {
    "version 3": version_3,
    "pooled": pooled,
    "singular values": singular,
    "posterior means": posterior_means,
    "posterior draws": posterior_draws,
}


def evidence(process: BotGaussianProcess, posterior: Posterior) -> float:
    """Return the log of the restricted likelihood summed over the grid and its prior, but for a constant."""
    inverse = process._inverse.swapaxes(1, 2)
    squared = posterior.turned**2 @ inverse - posterior.mu**2 * process._information[:, None]
    log = process._constant[:, None] - 0.5 * squared / process.means.variance
    return float(logsumexp((log + process._prior[:, None])[:, 0]))


def figures(data: Studied, design: Callable[[Fold], Replaced]) -> list[float]:
    """Return the numbers of `HEADINGS`."""
    whole = data.whole
    common, own, inside, scores = [], [], [], []
    for k in range(len(whole.bots)):
        replaced = design(Fold(data, k))
        at, logs = replaced.rows.mean(axis=0), []
        values: list[tuple[float, float]] = []
        mixtures: list[Mixture] = []
        for means in replaced.training:
            process = BotGaussianProcess(means, data.blocks)
            posterior = process.posterior(means.rating[None])
            noise = whole.noise_beside(k, means)
            mu = process.mu_with(posterior, at, whole.rating[k, None], *noise)
            lines = [process.line(process.answers(posterior, level), 0, ()) for level in (mu, None)]
            again = float(lines[1].predict(replaced.rows).var()) / len(replaced.rows)
            values.append((float(lines[0].predict(at[None])[0]), float(lines[1].predict(at[None])[0])))
            mixtures.append(process.expected(posterior, at).widened(again))
            logs.append(evidence(process, posterior))
        weight = np.exp(np.array(logs) - logsumexp(logs))
        joined = Mixture(
            np.concatenate([w * one.weights for w, one in zip(weight, mixtures, strict=True)], axis=1),
            np.concatenate([one.means for one in mixtures], axis=1),
            np.concatenate([one.variances for one in mixtures], axis=1),
        )
        noise = whole.variance / float(whole.n_eff[k])
        ends = joined.widened(noise).first_interval(0.95)
        by_common, by_fold = weight @ np.array(values)
        common.append(by_common)
        own.append(by_fold)
        inside.append(ends[0] <= whole.rating[k] <= ends[1])
        scores.append(interval_score(ends, float(whole.rating[k])))
    y = whole.rating
    r = [float(np.corrcoef(found, y)[0, 1]) for found in (common, own)]
    q2 = float(q_squared(np.array(own)[None], y[None])[0])
    return [*r, q2, float(np.mean(inside)), float(np.mean(scores))]


def scored(name: str, tables: Tables) -> list[list[str]]:
    """Return the lines of a set: every design at every size."""
    from tests.validation.values import samples_of

    rows = []
    for size in (None, *SIZES):
        studied = [Studied.of(sample) for sample in samples_of(tables, size, N_SAMPLES)]
        for title, design in DESIGNS.items():
            found = np.array([figures(one, design) for one in studied]).mean(axis=0)
            cells = [*map(share, found[:-1]), f"{found[-1]:.3g}"]
            rows.append([name, str(size or "all"), title, *cells])
    return rows


def main() -> int:
    """Score all designs on the sets of `validate`."""
    from tests.validation.validate import DATA, SETS, Confab, measured, table
    from tests.validation.values import tables_of

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    data = parser.parse_args().data
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="confab-validate-") as work:
        confab = Confab(Path(work))
        for rated in SETS[:2]:
            measured(confab, rated, data, "full", Path(work))
            rows += scored(rated.name, tables_of(rated.name, rated.targets, rated.exclude_bots))
    print(table(rows, ["set", "conv. a bot", "design", *HEADINGS]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
