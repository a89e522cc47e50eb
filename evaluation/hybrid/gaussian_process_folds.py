"""Leave-bot-out folds of the Gaussian process, also applied to self-play.

The preset `strong`, version 3. Predictions are linear in the features, so a fold is stored as a line. Intervals need
the process itself, which is rebuilt from the fold's means when a fit is applied.

Expected mean of a bot from its self-play. Self-play has no participant, so participant metrics are computed on every
turn that answers another, averaging both sides. The process was fitted to conversations with people; its error on
self-play is estimated from bots with ratings and self-play, each predicted by the fold without it.

An unknown variance a, for the shift to self-play, is added to the variance of the process. Its possible values (0 and a
grid of multiples of that variance) are equally likely a priori and are weighted by the errors of the *other* such bots.
A bot's expected mean is the mixture over these values, with longer tails if fewer errors are known.

With fewer than four other bots, a cannot be estimated and only the order is reported: if self-play is one or two
within-bot standard deviations from conversations with people, nominal 95 % intervals without a cover 80 to 94 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.hybrid.bot_level import Permuted
from evaluation.hybrid.bot_means import BotFeatureMeans, BotSums
from evaluation.hybrid.calibration import Interval95
from evaluation.hybrid.features import Design
from evaluation.hybrid.gaussian_process import BotGaussianProcess, Mixture, Noise, Posterior, ProcessPredictions
from evaluation.hybrid.least_squares import LinearPredictor
from evaluation.hybrid.rating_noise import RatingNoise
from evaluation.stats.correlation import permutations

N_PERMUTATIONS = 1_000
_AT_ONCE = 50
"""Permutations per step, so that the grid's arrays stay in a core's cache."""


@dataclass(frozen=True)
class FoldMeans:
    """Means of each fold and of all bots, for a stored fit's intervals.

    Attributes:
        blocks: column indices by block name.
        all_bots: means of all rated bots.
        folds: means of the other bots, by left-out bot.
    """

    blocks: Mapping[str, tuple[int, ...]]
    all_bots: BotFeatureMeans
    folds: Mapping[str, BotFeatureMeans]

    def expected(self, bot: str, x: np.ndarray) -> Mixture:
        """Return the distribution of a bot's true mean, using the fold's intercept.

        Args:
            bot: predicted by the fold without it, if there is one.
            x: (n, p) features of its conversations. The sampling variance of their mean prediction is added; it equals
                the bootstrap's and has a closed form because predictions are linear.
        """
        process, posterior, answers = self._fitted(bot)
        line = process.line(answers, 0, ())
        again = float(line.predict(x).var()) / max(len(x), 1)
        return process.expected(posterior, x.mean(axis=0)).widened(again)

    def noise(self, bot: str, x: np.ndarray) -> Noise:
        """Return the error of a rated bot's mean, given the others' ratings.

        It is defined at the grid points of the fold without the bot.

        Args:
            x: (n, p) its conversations.
        """
        process, posterior, _ = self._fitted(bot)
        variance, shared = self.all_bots.noise_for_fold(self.all_bots.bots.index(bot), process.means)
        return process.noise_at(posterior, x.mean(axis=0), variance, shared)

    def _fitted(self, bot: str) -> tuple[BotGaussianProcess, Posterior, ProcessPredictions]:
        key = bot if bot in self.folds else ""
        if key not in self._fit_cache:
            process = self.process(key)
            posterior = process.posterior(process.means.rating[None])
            self._fit_cache[key] = (process, posterior, process.answers(posterior))
        return self._fit_cache[key]

    def process(self, bot: str) -> BotGaussianProcess:
        """Return the process without a bot.

        For an unrated bot or no name, it includes all bots.
        """
        key = bot if bot in self.folds else ""
        if key not in self._processes:
            columns = [np.array(c, dtype=int) for c in self.blocks.values()]
            self._processes[key] = BotGaussianProcess(self.folds.get(key, self.all_bots), columns)
        return self._processes[key]

    @cached_property
    def _processes(self) -> dict[str, BotGaussianProcess]:
        return {}

    @cached_property
    def _fit_cache(self) -> dict[str, tuple[BotGaussianProcess, Posterior, ProcessPredictions]]:
        return {}

    def posterior(self, bot: str, ratings: np.ndarray, left_out: np.ndarray) -> tuple[Posterior, np.ndarray]:
        """Return the fold's posterior without a bot, and mu of all bots.

        mu is (A, P, H).

        Args:
            ratings: (P, K − 1) mean ratings of the others.
            left_out: (P,) mean ratings of the bot, which affect only mu.
        """
        process, index = self.process(bot), self.all_bots.bots.index(bot)
        posterior = process.posterior(ratings)
        noise = self.all_bots.noise_for_fold(index, process.means)
        return posterior, process.mu_with(posterior, self.all_bots.x[index], left_out, *noise)

    def left_out(self, bot: str, x: np.ndarray, shuffled: np.ndarray | None = None) -> list[np.ndarray]:
        """Predict a rated bot with both intercepts, (P,) each.

        The first uses the fold's mu, the second that of all bots.

        Args:
            shuffled: (P, K) permuted mean ratings of all bots.
        """
        ratings, index = self.all_bots.rating[None] if shuffled is None else shuffled, self.all_bots.bots.index(bot)
        posterior, mu = self.posterior(bot, np.delete(ratings, index, axis=1), ratings[:, index])
        return self.process(bot).predicted(posterior, x, [posterior.mu, mu])

    def shares(self) -> dict[str, dict[str, float]]:
        """Return each block's share of variance between bots.

        Shares are given under the prior and with equal prior mass.
        """
        process, posterior, _ = self._fitted("")
        flat = process.posterior(self.all_bots.rating[None], flat=True)
        return {
            name: {"share": float(share), "share_flat_prior": float(flat_share)}
            for name, share, flat_share in zip(
                self.blocks, process.shares(posterior), process.shares(flat), strict=True
            )
        }

    def shifts(self, played: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
        """Return each block's distance of self-play from human conversations.

        The unit is the within-bot standard deviation.

        Args:
            played: (p,) mean self-play features by bot.

        Returns:
            `shift`, the root mean square over columns of the differences between self-play and human chats of the rated
            bots (if no rated bot has self-play, between the mean of all self-play and the rated bots' centre); and
            `widest`, the distance in human chats of the most extreme rated bot from the centre of the others.
        """
        if not played:
            return {}
        indices = [k for k, bot in enumerate(self.all_bots.bots) if bot in played]
        unit = np.where(self.all_bots.scale > 0, self.all_bots.scale, np.inf)
        if indices:
            added = np.stack([played[self.all_bots.bots[k]] - self.all_bots.x[k] for k in indices])
        else:
            added = np.stack(list(played.values())) - self.all_bots.x.mean(axis=0)
        from_centre = (self.all_bots.x - self.all_bots.x.mean(axis=0)) / unit
        shifts = {}
        for name, columns in self.blocks.items():
            used = [c for c in columns if self.all_bots.scale[c] > 0]
            if used:
                shift = (added.mean(axis=0) / unit)[used]
                shifts[name] = {
                    "shift": float(np.sqrt((shift**2).mean())),
                    "widest": float(np.sqrt((from_centre[:, used] ** 2).mean(axis=1).max())),
                }
        return shifts

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values that `from_json` reads back."""
        return {
            "blocks": {name: list(columns) for name, columns in self.blocks.items()},
            "whole": self.all_bots.to_json(),
            "folds": {bot: means.to_json() for bot, means in self.folds.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FoldMeans:
        """Read the output of `to_json`."""
        return cls(
            blocks={name: tuple(columns) for name, columns in value["blocks"].items()},
            all_bots=BotFeatureMeans.from_json(value["whole"]),
            folds={bot: BotFeatureMeans.from_json(means) for bot, means in value["folds"].items()},
        )


def fold_means(sums: BotSums, blocks: Mapping[str, Sequence[int]]) -> FoldMeans:
    """Reduce the ratings of all bots, and of each leave-one-out set."""
    everybody = np.ones(len(sums.bots), dtype=bool)
    return FoldMeans(
        blocks={name: tuple(columns) for name, columns in blocks.items()},
        all_bots=sums.compute_means(everybody),
        folds={
            bot: sums.compute_means(everybody & (np.arange(len(sums.bots)) != k)) for k, bot in enumerate(sums.bots)
        },
    )


class ProcessFolds:
    """Leave-one-out fits and the fit on all bots.

    Attributes:
        adjusted: (n,) targets minus rater effects, estimated on all bots.

    Args:
        x: (n, p) features.
        y: (n,) targets.
        codes: (n,) number of each row's bot, 0 … K−1.
        names: (K,) the bots.
        blocks: column indices by block name.
        ratings: ratings of these rows.
    """

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        codes: np.ndarray,
        names: Sequence[str],
        blocks: Mapping[str, Sequence[int]],
        ratings: RatingNoise,
    ) -> None:
        self.bots = tuple(names)
        sums = BotSums(x, y, codes, names, ratings)
        self.counts, self.adjusted = sums.counts, sums.adjusted()
        self.means = fold_means(sums, blocks)
        self._names = list(blocks)
        self._whole = self.means.process("")
        self._folds = [self.means.process(bot) for bot in names]

    def line(self) -> LinearPredictor:
        """Return the fit on all bots."""
        posterior = self._whole.posterior(self.means.all_bots.rating[None])
        return self._whole.line(self._whole.answers(posterior), int(self.counts.sum()), self._names)

    def lines(self, *, common: bool) -> dict[str, LinearPredictor]:
        """Return the fits on the other bots, by left-out bot.

        They use their own mu or that of all bots.
        """
        lines = {}
        for k, bot in enumerate(self.bots):
            fold_ratings = self.means.folds[bot].rating[None]
            posterior, mu = self.means.posterior(bot, fold_ratings, self.means.all_bots.rating[k, None])
            answers = self._folds[k].answers(posterior, mu if common else None)
            n = int(self.counts.sum() - self.counts[k])
            lines[bot] = self._folds[k].line(answers, n, self._names)
        return lines

    def permuted(self, means: Mapping[str, np.ndarray], *, common: bool, seed: int) -> Permuted:
        """Permute the adjusted mean ratings and recompute every fold's grid weights.

        Args:
            means: (p,) mean features per bot of the conversations predicted.
        """
        indices = [k for k, bot in enumerate(self.bots) if bot in means]
        if len(indices) < 3:
            return None
        shuffled = self.means.all_bots.rating[permutations(len(self.bots), N_PERMUTATIONS, seed)]
        predicted = np.empty((len(shuffled), len(indices)))
        for column, k in enumerate(indices):
            predicted[:, column] = self._permuted(k, shuffled, means[self.bots[k]], seed)[common]
        return predicted, shuffled[:, indices]

    def _permuted(self, k: int, shuffled: np.ndarray, x: np.ndarray, seed: int) -> list[np.ndarray]:
        """Return fold k's predictions with both intercepts, (P,) each."""
        key = (k, seed, x.tobytes())
        if key not in self._known:
            parts = []
            for part in np.split(shuffled, range(_AT_ONCE, len(shuffled), _AT_ONCE)):
                parts.append(self.means.left_out(self.bots[k], x, part))
            self._known[key] = [np.concatenate(chunks) for chunks in zip(*parts, strict=True)]
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[int, int, bytes], list[np.ndarray]]:
        """Return the cache of permuted predictions, which a fit requests repeatedly."""
        return {}


FEWEST_CHECKED = 4
"""Minimum number of other bots with ratings and self-play for estimating the error of predictions from self-play."""
_MULTIPLES = np.array([0.0, *np.geomspace(0.125, 256, 12)])
"""Candidate additional variances due to self-play, as multiples of the stated mean variance."""


@dataclass(frozen=True, slots=True)
class FromSelfPlay:
    """Expected bot means from self-play, using each fold's intercept.

    Attributes:
        expected: distribution of the mean, by bot.
        refused: reason for a missing distribution, by bot.
        added: mean additional variance due to errors on self-play; None with too few bots.
    """

    expected: Mapping[str, Mixture]
    refused: Mapping[str, Reason]
    added: float | None

    def interval(self, human: BotFeatureMeans, bot: str) -> Interval95 | None:
        """Return the interval of a bot's mean; None if refused.

        Args:
            human: ratings to compare the predictions with.
        """
        expected = self.expected.get(bot)
        if expected is None:
            return None
        n_new, noise = human.new_ratings(bot)
        return Interval95(
            float(expected.mean[0]), expected.first_interval(0.95), expected.widened(noise).first_interval(0.95), n_new
        )


@dataclass(frozen=True, slots=True)
class _Checked:
    """Expected and observed mean rating of a bot with ratings and self-play."""

    expected: Mixture
    rating: float


@dataclass(frozen=True, slots=True)
class _Added:
    """(A,) values of the additional self-play variance, and their (A,) weights."""

    values: np.ndarray
    weights: np.ndarray

    @classmethod
    def estimate(cls, checked: Sequence[_Checked]) -> _Added:
        """Weight the values by the errors of these bots' expected means."""
        stated = float(np.mean([float(bot.expected.variance[0]) for bot in checked]))
        values = _MULTIPLES * stated
        log = np.array(
            [sum(bot.expected.widened(value).log_density(bot.rating) for bot in checked) for value in values]
        )
        weights = np.exp(log - log.max())
        return cls(values, weights / weights.sum())

    @property
    def mean(self) -> float:
        return float(self.weights @ self.values)


def from_selfplay(means: FoldMeans, played: Design, human: BotFeatureMeans | None = None) -> FromSelfPlay:
    """Predict bot means from self-play, with widened intervals or a refusal.

    Args:
        human: ratings for estimating the prediction errors; None: those of the fit.
    """
    human = means.all_bots if human is None else human
    x = {str(bot): played.x[played.bots == bot] for bot in dict.fromkeys(played.bots)}
    stated = {bot: means.expected(bot, rows) for bot, rows in x.items()}
    rated = human.by_bot()
    checked = {
        bot: _Checked(mixture.widened(human.new_ratings(bot)[1]), rated[bot])
        for bot, mixture in stated.items()
        if bot in rated
    }
    expected: dict[str, Mixture] = {}
    refused: dict[str, Reason] = {}
    for bot, mixture in stated.items():
        other_bots = [checked_bot for other, checked_bot in checked.items() if other != bot]
        if len(other_bots) >= FEWEST_CHECKED:
            added = _Added.estimate(other_bots)
            expected[bot] = mixture.widened_by(added.values, added.weights)
        else:
            explanation = (
                f"{len(other_bots)} other bots have ratings and self-play; {FEWEST_CHECKED} are needed to estimate "
                "the error of predictions from self-play"
            )
            refused[bot] = Reason("selfplay_unchecked", explanation, n_bots=len(other_bots), needed=FEWEST_CHECKED)
    enough = len(checked) > FEWEST_CHECKED
    return FromSelfPlay(expected, refused, _Added.estimate(list(checked.values())).mean if enough else None)
