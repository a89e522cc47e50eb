"""Inputs of an assessment: human chats, self-play, and rival predictors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from evaluation.hybrid.bot_level import BotLevel, Intercept, NullOf, OrderedPairs, influence_of
from evaluation.hybrid.bot_means import BotFeatureMeans
from evaluation.hybrid.features import Design
from evaluation.hybrid.gaussian_process_folds import FromSelfPlay
from evaluation.hybrid.levels import SignificantPairs, bot_levels, features_by_bot, pairs_of
from evaluation.hybrid.rivals import Rival, compare_rivals
from evaluation.stats.correlation import METHODS, Method

BaselineLevels = Mapping[str, dict[str, BotLevel]]
"""Correlation over bots by baseline and method."""
RivalsOf = Callable[[Design | None], Mapping[str, Any]]
"""Function like `rival_folds`; takes the self-play to predict from, or None for the rated conversations."""


@dataclass(frozen=True)
class HumanData:
    """Conversations with people, with their ratings.

    Attributes:
        design: the conversations; None without any.
        adjusted: (n,) targets of the rated conversations minus rater effects, for fits that estimate them. Comparisons
            over bots and within bots use these; single conversations are compared with their own ratings.
        means: bot means of the same ratings; None without ratings, or for a fit that estimates no rater effects.
        significant: pairs of bots whose ratings differ significantly.
        dimensions: rating dimensions to correlate the predictions with.
        groups: label of each bot.
        is_fitted: True if the fit was fitted to these ratings.
    """

    design: Design | None
    adjusted: np.ndarray | None = None
    means: BotFeatureMeans | None = None
    significant: SignificantPairs = field(default_factory=SignificantPairs)
    dimensions: Sequence[str] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    is_fitted: bool = True

    @cached_property
    def rated(self) -> Design | None:
        """Rated conversations; None if there are none."""
        if self.design is None:
            return None
        rated = self.design.rows(np.isfinite(self.design.y))
        return rated if len(rated.y) else None

    @cached_property
    def target(self) -> Design | None:
        """Rated conversations, with adjusted targets if available."""
        if self.rated is None or self.adjusted is None:
            return self.rated
        return replace(self.rated, y=self.adjusted)

    def ratings_by_bot(self) -> dict[str, np.ndarray]:
        """Return each bot's targets of rated conversations, adjusted if applicable."""
        ratings = {} if self.design is None else {bot: values for bot, (values, _) in self.design.rated.items()}
        if self.target is not None and self.adjusted is not None:
            ratings = {bot: self.target.y[self.target.bots == bot] for bot in ratings}
        return ratings


@dataclass(frozen=True, slots=True)
class SelfPlayData:
    """Self-play, and the bot means that a Gaussian process predicts from it.

    Attributes:
        process: None for other kinds of fit and for a fit from another study.
    """

    design: Design
    process: FromSelfPlay | None


@dataclass(frozen=True, slots=True)
class Baselines:
    """Simple predictors to compare a fit with.

    Attributes:
        human: trivial predictors, applied to conversations with people.
        selfplay: the same, applied to self-play.
        rivals: fits the rivals; None if there are none.
    """

    human: BaselineLevels = field(default_factory=dict)
    selfplay: BaselineLevels = field(default_factory=dict)
    rivals: RivalsOf | None = None

    def compare(
        self, selfplay: Design | None, predicted: Mapping[str, float], human: Mapping[str, float]
    ) -> dict[str, Rival]:
        """Compare the rivals with the fit's predictions.

        Args:
            selfplay: as in `RivalsOf`.
            predicted: predictions of the fit, with each fold's own intercept.
        """
        return {} if self.rivals is None else compare_rivals(self.rivals(selfplay), predicted, human)


@dataclass(frozen=True, slots=True)
class HumanMeans:
    """Mean rating of each bot, with tests of scores that predict it."""

    by_bot: Mapping[str, float]
    significant: SignificantPairs
    seed: int
    null: NullOf | None

    def correlate(
        self,
        scores: Mapping[str, float],
        design: Design | None,
        intercept: Intercept,
        methods: Sequence[Method] = METHODS,
    ) -> dict[str, BotLevel]:
        """Correlate scores with the means over bots.

        Args:
            design: conversations behind the scores. Without them, the null distribution permutes the bot means only.
        """
        bots = [bot for bot in scores if bot in self.by_bot]
        refit = None
        if self.null is not None and design is not None:
            features = {bot: mean for bot, mean in features_by_bot(design).items() if bot in bots}
            refit = partial(self.null, features, common=intercept == "common")
        predicted, human = [scores[bot] for bot in bots], [self.by_bot[bot] for bot in bots]
        return bot_levels(predicted, human, seed=self.seed, null=refit, methods=methods)

    def measure_influence(self, scores: Mapping[str, float]) -> dict[str, float | None]:
        bots = [bot for bot in scores if bot in self.by_bot]
        return influence_of([scores[bot] for bot in bots], [self.by_bot[bot] for bot in bots], bots)

    def count_pairs(self, scores: Mapping[str, float]) -> OrderedPairs:
        return pairs_of(scores, self.by_bot, self.significant)

    def count_bots(self, scores: Mapping[str, float]) -> int:
        return sum(bot in self.by_bot for bot in scores)
