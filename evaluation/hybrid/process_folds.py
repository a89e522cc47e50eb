"""The preset `strong`, version 3: a process without one bot, for every bot, and of all bots.

Prediction is linear in the features, so a fold is kept as a line; intervals need the process itself, which is made
again from the fold's means wherever a fit is applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evaluation.hybrid.bot_level import Permuted
from evaluation.hybrid.leastsquares import Line
from evaluation.hybrid.means import BotMeans, BotSums
from evaluation.hybrid.mixture import Mixture, Noise
from evaluation.hybrid.noise import RatingNoise
from evaluation.hybrid.process import Answers, Posterior, Process
from evaluation.stats.correlation import permutations

N_PERMUTATIONS = 1_000
_AT_ONCE = 50
"""Permutations: so that what the grid makes of them stays in a core's cache."""


@dataclass(frozen=True)
class Means:
    """Means of each fold and of all bots, from which a kept fit makes its intervals.

    Attributes:
        blocks: name to the numbers of its columns.
        whole: of all rated bots.
        folds: of the other bots, by bot left out.
    """

    blocks: Mapping[str, tuple[int, ...]]
    whole: BotMeans
    folds: Mapping[str, BotMeans]

    def expected(self, bot: str, x: np.ndarray) -> Mixture:
        """Return the distribution of a bot's true mean, by the intercept of the fold.

        Args:
            bot: by the fold without it, where there is one.
            x: (n, p) its conversations. They are a sample: the variance of their mean prediction is that
                of the bootstrap, in closed form, for the prediction is linear.
        """
        process, posterior, answers = self._fitted(bot)
        line = process.line(answers, 0, ())
        again = float(line.predict(x).var()) / max(len(x), 1)
        return process.expected(posterior, x.mean(axis=0)).widened(again)

    def noise(self, bot: str, x: np.ndarray) -> Noise:
        """Return the error of a rated bot's mean rating, given the others', at the points of the fold without it.

        Args:
            x: (n, p) its conversations.
        """
        process, posterior, _ = self._fitted(bot)
        own, shared = self.whole.noise_beside(self.whole.bots.index(bot), process.means)
        return process.noise_at(posterior, x.mean(axis=0), own, shared)

    def _fitted(self, bot: str) -> tuple[Process, Posterior, Answers]:
        key = bot if bot in self.folds else ""
        if key not in self._made:
            process = self.process(key)
            posterior = process.posterior(process.means.rating[None])
            self._made[key] = (process, posterior, process.answers(posterior))
        return self._made[key]

    def process(self, bot: str) -> Process:
        """Return the process without a bot; that of all bots for one that is not rated, or for no name."""
        key = bot if bot in self.folds else ""
        if key not in self._processes:
            columns = [np.array(c, dtype=int) for c in self.blocks.values()]
            self._processes[key] = Process(self.folds.get(key, self.whole), columns)
        return self._processes[key]

    @cached_property
    def _processes(self) -> dict[str, Process]:
        return {}

    @cached_property
    def _made(self) -> dict[str, tuple[Process, Posterior, Answers]]:
        return {}

    def shares(self) -> dict[str, dict[str, float]]:
        """Return by block its share of the variance between bots, under the prior and with equal prior mass."""
        process, posterior, _ = self._fitted("")
        flat = process.posterior(self.whole.rating[None], flat=True)
        return {
            name: {"share": float(share), "share_flat_prior": float(other)}
            for name, share, other in zip(
                self.blocks, process.shares(posterior), process.shares(flat), strict=True
            )
        }

    def shifts(self, played: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
        """Return the distance of self-play from conversations with people by block, in within-bot standard deviations.

        Args:
            played: (p,) mean features of bots with themselves.

        Returns:
            `shift`, the root mean square over the columns of what self-play adds to the rated bots' means, or where no
            rated bot has any, of how far the mean of all self-play lies from the rated bots' centre; and `widest`, how
            far the rated bot furthest from the others lies from their centre with people.
        """
        if not played:
            return {}
        at = [k for k, bot in enumerate(self.whole.bots) if bot in played]
        unit = np.where(self.whole.scale > 0, self.whole.scale, np.inf)
        if at:
            added = np.stack([played[self.whole.bots[k]] - self.whole.x[k] for k in at])
        else:
            added = np.stack(list(played.values())) - self.whole.x.mean(axis=0)
        from_centre = (self.whole.x - self.whole.x.mean(axis=0)) / unit
        found = {}
        for name, columns in self.blocks.items():
            used = [c for c in columns if self.whole.scale[c] > 0]
            if used:
                shift = (added.mean(axis=0) / unit)[used]
                found[name] = {
                    "shift": float(np.sqrt((shift**2).mean())),
                    "widest": float(np.sqrt((from_centre[:, used] ** 2).mean(axis=1).max())),
                }
        return found

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values that `from_json` reads back."""
        return {
            "blocks": {name: list(columns) for name, columns in self.blocks.items()},
            "whole": self.whole.to_json(),
            "folds": {bot: means.to_json() for bot, means in self.folds.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Means:
        """Read the output of `to_json`."""
        return cls(
            blocks={name: tuple(columns) for name, columns in value["blocks"].items()},
            whole=BotMeans.from_json(value["whole"]),
            folds={bot: BotMeans.from_json(one) for bot, one in value["folds"].items()},
        )


class ProcessFolds:
    """All fits that leave out one bot, and that of all bots.

    Attributes:
        adjusted: (n,) targets less the effects of their raters, learned on all bots.

    Args:
        x: (n, p) features.
        y: (n,) targets.
        codes: (n,) number of each row's bot, 0 … K−1.
        names: (K,) the bots.
        blocks: name to the numbers of its columns.
        ratings: of these rows.
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
        everybody = np.ones(len(names), dtype=bool)
        self.counts, self.adjusted = sums.counts, sums.adjusted()
        self.means = Means(
            blocks={name: tuple(columns) for name, columns in blocks.items()},
            whole=sums.of(everybody),
            folds={
                bot: sums.of(everybody & (np.arange(len(names)) != k))
                for k, bot in enumerate(names)
            },
        )
        self._names = list(blocks)
        self._whole = self.means.process("")
        self._folds = [self.means.process(bot) for bot in names]

    def line(self) -> Line:
        """Return the fit on all bots."""
        posterior = self._whole.posterior(self.means.whole.rating[None])
        return self._whole.line(self._whole.answers(posterior), int(self.counts.sum()), self._names)

    def lines(self, *, common: bool) -> dict[str, Line]:
        """Return by bot left out the fit on the others, with their own mu or that of all bots."""
        found = {}
        for k, bot in enumerate(self.bots):
            own = self.means.folds[bot].rating[None]
            posterior, mu = self._posterior(k, own, self.means.whole.rating[k, None])
            answers = self._folds[k].answers(posterior, mu if common else None)
            n = int(self.counts.sum() - self.counts[k])
            found[bot] = self._folds[k].line(answers, n, self._names)
        return found

    def _posterior(
        self, k: int, ratings: np.ndarray, left_out: np.ndarray
    ) -> tuple[Posterior, np.ndarray]:
        """Return the posterior of fold k for (P, K − 1) mean ratings, and mu of all bots, (A, P, H).

        Args:
            left_out: (P,) mean ratings of bot k, which enter that mu alone.
        """
        process, whole = self._folds[k], self.means.whole
        posterior = process.posterior(ratings)
        noise = whole.noise_beside(k, process.means)
        return posterior, process.mu_with(posterior, whole.x[k], left_out, *noise)

    def permuted(self, means: Mapping[str, np.ndarray], *, common: bool, seed: int) -> Permuted:
        """Permute the adjusted mean ratings and weigh the grid of every fold again.

        Args:
            means: (p,) mean features per bot of the conversations predicted.
        """
        at = [k for k, bot in enumerate(self.bots) if bot in means]
        if len(at) < 3:
            return None
        shuffled = self.means.whole.rating[permutations(len(self.bots), N_PERMUTATIONS, seed)]
        predicted = np.empty((len(shuffled), len(at)))
        for column, k in enumerate(at):
            predicted[:, column] = self._permuted(k, shuffled, means[self.bots[k]], seed)[common]
        return predicted, shuffled[:, at]

    def _permuted(self, k: int, shuffled: np.ndarray, x: np.ndarray, seed: int) -> list[np.ndarray]:
        """Return fold k's predictions from (p,) features by its own mu and by that of all bots, (P,) each."""
        key = (k, seed, x.tobytes())
        if key not in self._known:
            parts = []
            for part in np.split(shuffled, range(_AT_ONCE, len(shuffled), _AT_ONCE)):
                posterior, mu = self._posterior(k, np.delete(part, k, axis=1), part[:, k])
                parts.append(self._folds[k].predicted(posterior, x, [posterior.mu, mu]))
            self._known[key] = [np.concatenate(found) for found in zip(*parts, strict=True)]
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[int, int, bytes], list[np.ndarray]]:
        """Return the cache of predictions by permutations: the levels of a fit request the same more than once."""
        return {}
