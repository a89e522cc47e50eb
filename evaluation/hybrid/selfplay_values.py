"""Where a bot's mean is expected from its conversations with itself, or why that is not told.

In self-play there is no participant: metrics of the participant describe every turn that answers another, so those of both
sides are averaged. The process was fitted to conversations with people. How far it errs on self-play is seen where bots
have ratings and self-play, each predicted by the fold without it: with e_j the error of bot j and c_j its stated variance,
noise of the human mean included, the excess max(0, mean(e² − c)) over the *other* such bots widens a bot's intervals. With
fewer of them nothing is known of that: the process states its own spread inside the range of its training bots, and beyond
it nothing but the order is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evaluation.hybrid.features import Design
from evaluation.hybrid.mixture import Mixture
from evaluation.hybrid.process_folds import Means
from evaluation.hybrid.values import Interval95
from evaluation.reasons import Reason

FEWEST_CHECKED = 4
"""So many other bots with ratings and self-play are needed to see how far predictions from self-play err."""


@dataclass(frozen=True, slots=True)
class FromSelfPlay:
    """What self-play says of the bots' means, by the intercept of each fold.

    Attributes:
        expected: by bot, where its mean is.
        refused: by bot, why that is not told.
        added: variance that errors on self-play add to what the process states; None where too few bots were checked.
    """

    expected: Mapping[str, Mixture]
    refused: Mapping[str, Reason]
    added: float | None

    def interval(self, means: Means, bot: str) -> Interval95 | None:
        """Return where this bot's mean is expected; None where it is not told."""
        found = self.expected.get(bot)
        if found is None:
            return None
        n_new, noise = means.new_ratings(bot)
        return Interval95(
            float(found.mean[0]),
            found.first_interval(0.95),
            found.widened(noise).first_interval(0.95),
            n_new,
        )


def from_selfplay(means: Means, played: Design) -> FromSelfPlay:
    """Say where the means of bots with self-play are, widened or refused as above."""
    x = {str(bot): played.x[played.bots == bot] for bot in dict.fromkeys(played.bots)}
    stated = {bot: means.expected(bot, rows) for bot, rows in x.items()}
    human = means.ratings()
    # What each rated bot's error says of the variance that is missing.
    missing = {
        bot: (human[bot] - float(found.mean[0])) ** 2
        - float(found.variance[0])
        - means.new_ratings(bot)[1]
        for bot, found in stated.items()
        if bot in human
    }
    expected: dict[str, Mixture] = {}
    refused: dict[str, Reason] = {}
    for bot, found in stated.items():
        others = [value for other, value in missing.items() if other != bot]
        if len(others) >= FEWEST_CHECKED:
            expected[bot] = found.widened(max(0.0, float(np.mean(others))))
            continue
        beyond = means.beyond(bot, x[bot].mean(axis=0))
        if beyond:
            refused[bot] = Reason(
                "selfplay_beyond",
                f"self-play lies beyond the rated bots in {', '.join(beyond)}, and {len(others)} other bots have "
                f"ratings and self-play to check it by; {FEWEST_CHECKED} are needed",
                blocks=list(beyond),
                n_bots=len(others),
                needed=FEWEST_CHECKED,
            )
        else:
            expected[bot] = found
    added = None
    if len(missing) > FEWEST_CHECKED:
        added = max(0.0, float(np.mean(list(missing.values()))))
    return FromSelfPlay(expected, refused, added)
