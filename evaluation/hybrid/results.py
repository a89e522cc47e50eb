"""Results of a hybrid fit, and stored fits.

`KeptFit` predicts without the data it was fitted to.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from chatbots import Identity
from chatbots.text import quote
from evaluation.findings import Finding, Reason
from evaluation.hybrid.bot_level import (
    INTERCEPT_NAMES,
    INTERCEPTS,
    BotLevel,
    BotLevelDiagnostics,
    Intercept,
    OrderedPairs,
    with_reason,
)
from evaluation.hybrid.calibration import Combined, Interval95, PredictionAccuracy
from evaluation.hybrid.features import HybridError, shown_names
from evaluation.hybrid.gaussian_process_folds import FoldMeans
from evaluation.hybrid.least_squares import Influence, LinearPredictor, line_from_json, line_to_json
from evaluation.hybrid.rivals import KeptRivals, Rival
from evaluation.hybrid.summary import predictions_plot, summary_of, weights_plot
from evaluation.hybrid.verdict import FitVerdict
from evaluation.number_format import plain_interval, pluralise, share
from evaluation.plots.svg import Plot
from evaluation.stats.correlation import Correlation

FORMAT = "confab-hybrid-fit-1"


@dataclass(frozen=True, slots=True)
class FeatureCoefficient:
    """Weight of a feature over the folds.

    Attributes:
        mean: per unit of the feature; None if the feature was constant in every fold.
        low, high: 90 % interval of the mean over the folds. The folds share most of their data, so it shows the
            stability of the weight, not its uncertainty.
        scaled_mean, scaled_low, scaled_high: the same per standard deviation of the feature.
    """

    mean: float | None
    low: float | None
    high: float | None
    scaled_mean: float | None
    scaled_low: float | None
    scaled_high: float | None
    reason: Reason | None = None

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "mean": self.mean,
            "ci90": plain_interval(self.low, self.high),
            "scaled_mean": self.scaled_mean,
            "scaled_ci90": plain_interval(self.scaled_low, self.scaled_high),
        }
        return with_reason(fields, self.reason)


@dataclass(frozen=True, slots=True)
class BotResult:
    """Result for one bot.

    Attributes:
        human_mean: mean rating of its rated conversations; None if there are none.
        predicted: mean prediction of its human conversations by the fit without it.
        predicted_selfplay: the same for its self-play.
        n: number of rated conversations.
        n_selfplay: number of predicted self-play conversations.
        human_interval: 90 % interval of the human mean, resampling participants or conversations.
        predicted_interval, selfplay_interval: 90 % intervals. For a fit with blocks (`strong`), they refer to the bot's
            true mean. For other fits, they refer to the mean prediction under resampling of conversations (and of bots,
            for an unrated bot) and do not state the distance from the human mean; `expected` does.
        reasons: reasons for missing values.
        adjusted_mean: `human_mean` minus rater effects, if that is what the fit predicts.
        adjusted_interval: its 95 % interval.
        expected, expected_selfplay: expected mean by the fold's own intercept, from human conversations and from
            self-play, if available. A fit without blocks derives it from the errors of the other rated bots.
        combined: combination of ratings and prediction, if there is an expected mean.
        rank, rank_selfplay: rank among all predicted bots, 1 for the best, for a fit to another study, whose values are
            withheld.
    """

    human_mean: float | None
    predicted: float | None
    predicted_selfplay: float | None
    n: int
    n_selfplay: int = 0
    human_interval: tuple[float, float] | None = None
    predicted_interval: tuple[float, float] | None = None
    selfplay_interval: tuple[float, float] | None = None
    reasons: tuple[Reason, ...] = ()
    adjusted_mean: float | None = None
    adjusted_interval: tuple[float, float] | None = None
    expected: Interval95 | None = None
    expected_selfplay: Interval95 | None = None
    combined: Combined | None = None
    rank: int | None = None
    rank_selfplay: int | None = None

    @property
    def target(self) -> float | None:
        """Human mean to compare predictions with, adjusted if possible."""
        return self.human_mean if self.adjusted_mean is None else self.adjusted_mean

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "human_mean": self.human_mean,
            "predicted": self.predicted,
            "predicted_selfplay": self.predicted_selfplay,
            "n": self.n,
            "n_selfplay": self.n_selfplay,
            "human_ci90": _list(self.human_interval),
            "predicted_ci90": _list(self.predicted_interval),
            "predicted_selfplay_ci90": _list(self.selfplay_interval),
        }
        if self.rank is not None or self.rank_selfplay is not None:
            fields |= {"rank": self.rank, "rank_selfplay": self.rank_selfplay}
        if self.adjusted_mean is not None:
            fields["adjusted_mean"] = self.adjusted_mean
            fields["adjusted_ci95"] = _list(self.adjusted_interval)
        if self.expected is not None:
            fields |= self.expected.to_json()
        if self.combined is not None:
            fields["combined"] = self.combined.to_json()
        if self.expected_selfplay is not None:
            fields["selfplay"] = self.expected_selfplay.to_json()
        reasons = [reason.to_json() for reason in self.reasons]
        return {**fields, "reasons": reasons} if reasons else fields


@dataclass(frozen=True, slots=True)
class Fold:
    """Fit without one bot: number of conversations, unusable features, and choices."""

    bot: str
    n: int
    condition: float | None
    dropped: tuple[str, ...] = ()
    penalty: float | None = None
    blocks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        infinite = self.condition is not None and not math.isfinite(self.condition)
        fields: dict[str, Any] = {
            "bot": self.bot,
            "n": self.n,
            "condition": None if infinite else self.condition,
            "dropped": list(self.dropped),
        }
        if self.penalty is not None:
            fields |= {"penalty": self.penalty, "blocks": list(self.blocks)}
        explanation = "a feature is a sum of others: the condition number is infinite"
        return with_reason(fields, Reason("sum_of_features", explanation) if infinite else None)


@dataclass(frozen=True, slots=True)
class SelfPlayPrediction:
    """Prediction of the bots' ratings from self-play, by the same fits.

    Attributes:
        n_bots: bots with both.
        influence: by bot, r over the other bots minus r over all.
        baselines: trivial predictors, fitted on conversations with people and applied to self-play.
        shifts: distance of self-play from conversations with people, by block of a Gaussian process.
        values: accuracy of the predicted values with the fold's own intercept, if the fit has intervals.
        rivals: comparison of the fit on self-play with rivals fitted on conversations with people.
        added: additional variance due to errors on self-play; None with too few bots.
    """

    n_bots: int
    bot_level: dict[str, BotLevel]
    pairs: OrderedPairs
    influence: Mapping[str, float | None]
    baselines: dict[str, dict[str, BotLevel]]
    shifts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    values: PredictionAccuracy | None = None
    added: float | None = None
    rivals: Mapping[str, Rival] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeptFit:
    """Stored fit that can be applied without its data.

    Attributes:
        identity: preset, features, targets, intercept and the metrics' identities, if given.
        centre: (p,) mean of the features over all fitted conversations.
        target_mean: mean rating over the same conversations.
        whole: line of all rated bots.
        folds: for each rated bot, the line of the others.
        draws: (B, p + 1) intercept and slopes of resampled bots, for intervals; empty for a ridge, whose folds serve as
            a jackknife.
        commons: for each rated bot, the line of the others with the level of all bots, if the common intercept is not
            that of centred features.
        means: basis of the intervals of a Gaussian process.
        scale_range: lowest and highest value of the targets' scale; None if unknown.
        study: key of the fitted study; empty if unknown.
        ratings: digest of the fitted ratings (`Design.digest`); empty in fits stored by earlier versions.
        rivals: rivals fitted to the same ratings; None in fits stored by earlier versions.
        instrument: title, scale, labels and direction of each target with a known scale.
    """

    identity: Identity
    preset: str
    features: tuple[str, ...]
    targets: tuple[str, ...]
    intercept: Intercept
    centre: np.ndarray
    scale: np.ndarray
    target_mean: float
    full_line: LinearPredictor
    folds: Mapping[str, LinearPredictor]
    draws: np.ndarray
    commons: Mapping[str, LinearPredictor] = field(default_factory=dict)
    means: FoldMeans | None = None
    scale_range: tuple[float, float] | None = None
    study: str = ""
    ratings: str = ""
    instrument: Mapping[str, Any] = field(default_factory=dict)
    rivals: KeptRivals | None = None

    @property
    def shown_features(self) -> list[str]:
        """Features, with each block of embeddings named once."""
        return shown_names(self.features)

    def predict(self, x: np.ndarray, bot: str) -> np.ndarray:
        """Predict (n,) ratings of a bot's conversations from (n, p) features.

        A bot that was part of the fit is predicted by the fold without it.
        """
        line = self.folds.get(bot)
        if line is None:
            return self.full_line.predict(x)
        if self.intercept == "fold":
            return line.predict(x)
        if bot in self.commons:
            return self.commons[bot].predict(x)
        return self.target_mean + (x - self.centre) @ line.slopes

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values that `from_json` reads back, bit for bit."""
        return {
            "format": FORMAT,
            "identity": self.identity.as_dict(),
            "preset": self.preset,
            "features": list(self.features),
            "targets": list(self.targets),
            "intercept": self.intercept,
            "centre": self.centre.tolist(),
            "scale": self.scale.tolist(),
            "target_mean": self.target_mean,
            "whole": line_to_json(self.full_line),
            "folds": {bot: line_to_json(line) for bot, line in self.folds.items()},
            "draws": self.draws.tolist(),
            "commons": {bot: line_to_json(line) for bot, line in self.commons.items()},
            "means": None if self.means is None else self.means.to_json(),
            "scale_range": _list(self.scale_range),
            "study": self.study,
            "ratings": self.ratings,
            "instrument": dict(self.instrument),
            **({} if self.rivals is None else {"rivals": self.rivals.to_json()}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> KeptFit:
        """Read the output of `to_json`.

        Raises:
            HybridError: if the values are invalid.
        """
        if not isinstance(value, Mapping) or value.get("format") != FORMAT:
            found_format = value.get("format") if isinstance(value, Mapping) else type(value).__name__
            raise HybridError(
                f"not a stored hybrid fit: its format is {quote(found_format)}; it must be {quote(FORMAT)}"
            )
        try:
            features = tuple(str(name) for name in value["features"])
            fit = cls(
                identity=Identity(**value["identity"]),
                preset=str(value["preset"]),
                features=features,
                targets=tuple(str(name) for name in value["targets"]),
                intercept=value["intercept"],
                centre=np.array(value["centre"], dtype=float),
                scale=np.array(value["scale"], dtype=float),
                target_mean=float(value["target_mean"]),
                full_line=line_from_json(value["whole"]),
                folds={bot: line_from_json(line) for bot, line in value["folds"].items()},
                draws=np.array(value["draws"], dtype=float).reshape(-1, len(features) + 1),
                commons={bot: line_from_json(line) for bot, line in value.get("commons", {}).items()},
                means=None if value.get("means") is None else FoldMeans.from_json(value["means"]),
                scale_range=None
                if value.get("scale_range") is None
                else (float(value["scale_range"][0]), float(value["scale_range"][1])),
                study=str(value.get("study", "")),
                ratings=str(value.get("ratings", "")),
                instrument=dict(value.get("instrument", {})),
                rivals=None if value.get("rivals") is None else KeptRivals.from_json(value["rivals"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise HybridError(f"the stored hybrid fit is damaged: {quote(error)}") from error
        sizes = {len(fit.centre), len(fit.full_line.slopes), *(len(f.slopes) for f in fit.folds.values())}
        if sizes != {len(features)} or fit.intercept not in INTERCEPTS:
            raise HybridError("the stored hybrid fit is damaged: its parts do not match")
        return fit

    def save(self, path: str | Path) -> None:
        """Write the fit to a JSON file."""
        Path(path).write_text(json.dumps(self.to_json(), allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> KeptFit:
        """Read a file written by `save`.

        Raises:
            HybridError: if the file is not a fit.
        """
        try:
            return cls.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise HybridError(f"{path} cannot be read as a stored hybrid fit: {error}") from error


@dataclass(frozen=True, slots=True, repr=False)
class HybridResult:
    """Fit with its accuracy for left-out bots.

    `to_json()` is the document printed by `manage.py fit_hybrid --json`. Undefined values are None, with a reason.
    `bot_level` and `baselines` use the fit's own intercept. Fields ending in `_selfplay` describe scores from
    self-play. `dimensions` correlates both scores with every rating dimension over bots,
    `dimensions_conversation_level` the predictions of single conversations.
    """

    fit: KeptFit
    n_conversations: int
    n_bots: int
    coefficients: dict[str, FeatureCoefficient]
    bots: dict[str, BotResult]
    conversation_level: dict[str, Correlation]
    bot_level: dict[str, BotLevel]
    selfplay: SelfPlayPrediction | None
    pairs: OrderedPairs
    folds: tuple[Fold, ...]
    baselines: dict[str, dict[str, BotLevel]]
    rivals: Mapping[str, Rival]
    dimensions: dict[str, dict[str, dict[str, Correlation]]]
    dimensions_conversation_level: dict[str, dict[str, Correlation]]
    n_dropped: int
    dropped: dict[str, int]
    cautions: tuple[Finding, ...]
    frame: BotLevelDiagnostics
    verdict: FitVerdict
    values: PredictionAccuracy
    held_against: Literal["fit", "given"] | None = None
    """Ratings behind all human values: those of the fit, or those to which a stored fit is applied; may be None."""
    predictions: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    """Arrays `conversation`, `bot`, `target`, `predicted` over the rated conversations, for plots."""
    carrying: Influence | None = None
    """Influence diagnostics of a least-squares fit."""

    def summary(self) -> str:
        """Return numbers, cautions and conclusions as lines of text."""
        return summary_of(self.to_json())

    def __repr__(self) -> str:
        r = share(self.bot_level["pearson"].correlation.r)
        return (
            f"HybridResult({self.fit.preset}, target {','.join(self.fit.targets)}: "
            f"{pluralise(self.n_conversations, 'conversation')} of {pluralise(self.n_bots, 'bot')}, "
            f"r over bots {r}, {INTERCEPT_NAMES[self.fit.intercept]})"
        )

    def plot(self, source: Literal["conversations", "selfplay"] = "conversations") -> Plot:
        """Draw predicted against human means over bots; notebooks display the result.

        Args:
            source: basis of the predictions: conversations with people, or self-play.
        """
        return predictions_plot(self.to_json(), source)

    def plot_weights(self) -> Plot:
        """Draw each feature's weight per standard deviation, with its interval."""
        return weights_plot(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values without NaN."""
        played = self.selfplay
        return {
            "preset": self.fit.preset,
            "n_conversations": self.n_conversations,
            "n_bots": self.n_bots,
            "held_against": self.held_against,
            "target": ",".join(self.fit.targets),
            "features": self.fit.shown_features,
            "coefficients": {name: c.to_json() for name, c in self.coefficients.items()},
            "bots": {bot: bot_result.to_json() for bot, bot_result in self.bots.items()},
            "intercept": self.fit.intercept,
            "conversation_level": {m: c.to_json() for m, c in self.conversation_level.items()},
            "bot_level": _levels(self.bot_level),
            "bot_level_selfplay": None if played is None else _levels(played.bot_level),
            "pairs": self.pairs.to_json(),
            "pairs_selfplay": None if played is None else played.pairs.to_json(),
            "folds": [fold.to_json() for fold in self.folds],
            "baselines": _baselines(self.baselines),
            "baselines_selfplay": None if played is None else _baselines(played.baselines),
            "rivals": {name: rival.to_json() for name, rival in self.rivals.items()},
            "rivals_selfplay": None
            if played is None
            else {name: rival.to_json() for name, rival in played.rivals.items()},
            "influence_selfplay": None if played is None else dict(played.influence),
            "selfplay_shifts": {} if played is None else {name: dict(shift) for name, shift in played.shifts.items()},
            "values_selfplay": None
            if played is None or played.values is None
            else {**played.values.to_json(), "added_variance": played.added},
            "dimensions": {
                name: {source: _correlations_to_json(found) for source, found in sources.items()}
                for name, sources in self.dimensions.items()
            },
            "dimensions_conversation_level": {
                name: _correlations_to_json(correlations)
                for name, correlations in self.dimensions_conversation_level.items()
            },
            "dropped": {"conversations": self.n_dropped, "undefined": dict(self.dropped)},
            "cautions": [caution.to_json() for caution in self.cautions],
            **self.frame.to_json(),
            **self.values.to_json(),
            "carrying": None if self.carrying is None else self.carrying.to_json(),
            "verdict": self.verdict.to_json(),
            "identity": self.fit.identity.as_dict(),
        }


def _levels(levels: Mapping[str, BotLevel]) -> dict[str, Any]:
    return {method: level.to_json() for method, level in levels.items()}


def _baselines(baselines: Mapping[str, Mapping[str, BotLevel]]) -> dict[str, Any]:
    return {name: {"bot_level": _levels(levels)} for name, levels in baselines.items()}


def _correlations_to_json(correlations: Mapping[str, Correlation]) -> dict[str, Any]:
    return {method: {**value.to_json(), "n": value.n} for method, value in correlations.items()}


def _list(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)
