"""Expected mean of a bot from its self-play, or the reason why there is none.

In self-play there is no participant: metrics of the participant describe every turn that answers another, so those of
both sides are averaged. The process was fitted to conversations with people. Its error on self-play is estimated from
bots with ratings and self-play, each predicted by the fold without it.

An unknown variance a, for the shift to self-play, is added to the variance that the process states. Its values (none,
and a grid of multiples of the stated variance) are equally likely a priori and are weighted by the errors of the
*other* such bots. A bot's expected mean is the mixture over these values, whose tails are longer the fewer errors are
known.

With fewer than four other bots a cannot be estimated, and only the order is reported: where self-play lies one or two
standard deviations within bots from conversations with people, the stated 95 % intervals held in 80 to 94 % of cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.hybrid.features import Design
from evaluation.hybrid.means import BotMeans
from evaluation.hybrid.mixture import Mixture
from evaluation.hybrid.process_folds import Means
from evaluation.hybrid.values import Interval95
from evaluation.reasons import Reason

FEWEST_CHECKED = 4
"""So many other bots with ratings and self-play are needed to see how far predictions from self-play err."""
_MULTIPLES = np.array([0.0, *np.geomspace(0.125, 256, 12)])
"""Of the mean variance that is stated, tried as what self-play adds to it."""


@dataclass(frozen=True, slots=True)
class FromSelfPlay:
    """Expected means of the bots from self-play, by the intercept of each fold.

    Attributes:
        expected: distribution of the mean, by bot.
        refused: reason for no such distribution, by bot.
        added: mean variance that errors on self-play add to the process's own; None where too few bots were checked.
    """

    expected: Mapping[str, Mixture]
    refused: Mapping[str, Reason]
    added: float | None

    def interval(self, human: BotMeans, bot: str) -> Interval95 | None:
        """Return the interval of this bot's mean; None where it is refused.

        Args:
            human: ratings that predictions are compared with.
        """
        found = self.expected.get(bot)
        if found is None:
            return None
        n_new, noise = human.new_ratings(bot)
        return Interval95(
            float(found.mean[0]),
            found.first_interval(0.95),
            found.widened(noise).first_interval(0.95),
            n_new,
        )


@dataclass(frozen=True, slots=True)
class _Checked:
    """A bot with ratings and self-play: where the process expects its mean rating, and that mean."""

    expected: Mixture
    rating: float


@dataclass(frozen=True, slots=True)
class _Added:
    """(A,) values of the variance that self-play adds, and (A,) weights of them."""

    values: np.ndarray
    weights: np.ndarray

    @classmethod
    def by(cls, checked: Sequence[_Checked]) -> _Added:
        """Weigh the values by the distances of these bots' mean ratings from the expected ones."""
        stated = float(np.mean([float(one.expected.variance[0]) for one in checked]))
        values = _MULTIPLES * stated
        log = np.array(
            [
                sum(one.expected.widened(value).log_density(one.rating) for one in checked)
                for value in values
            ]
        )
        weights = np.exp(log - log.max())
        return cls(values, weights / weights.sum())

    @property
    def mean(self) -> float:
        return float(self.weights @ self.values)


def from_selfplay(means: Means, played: Design, human: BotMeans | None = None) -> FromSelfPlay:
    """Predict the means of bots with self-play, widened or refused as above.

    Args:
        human: ratings that show how far these predictions err; None: those of the fit.
    """
    human = means.whole if human is None else human
    x = {str(bot): played.x[played.bots == bot] for bot in dict.fromkeys(played.bots)}
    stated = {bot: means.expected(bot, rows) for bot, rows in x.items()}
    rated = human.by_bot()
    checked = {
        bot: _Checked(found.widened(human.new_ratings(bot)[1]), rated[bot])
        for bot, found in stated.items()
        if bot in rated
    }
    expected: dict[str, Mixture] = {}
    refused: dict[str, Reason] = {}
    for bot, found in stated.items():
        others = [one for other, one in checked.items() if other != bot]
        if len(others) >= FEWEST_CHECKED:
            added = _Added.by(others)
            expected[bot] = found.widened_by(added.values, added.weights)
        else:
            why = (
                f"{len(others)} other bots have ratings and self-play to see by how far predictions from self-play "
                f"err; {FEWEST_CHECKED} are needed"
            )
            refused[bot] = Reason(
                "selfplay_unchecked", why, n_bots=len(others), needed=FEWEST_CHECKED
            )
    enough = len(checked) > FEWEST_CHECKED
    return FromSelfPlay(
        expected, refused, _Added.by(list(checked.values())).mean if enough else None
    )
