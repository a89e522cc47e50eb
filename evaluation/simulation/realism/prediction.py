"""Predictions of human bot ratings from simulated chats.

The predictors are the hybrid metric and the two lengths.

Folds, permutations and intervals are those of the hybrid metric (`evaluation.hybrid`). A fit on simulated chats uses
human ratings, and features of simulated chats with the same bot instead of those of the rated ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evaluation.data.ratings import Ratings
from evaluation.findings import Reason
from evaluation.hybrid.calibration import others_mean
from evaluation.hybrid.features import PAPER_FEATURES, HybridError, preset_get
from evaluation.hybrid.fit import fit_hybrid
from evaluation.hybrid.levels import predict_conversations
from evaluation.hybrid.results import HybridResult
from evaluation.hybrid.rivals import FEWEST_BOTS_COMPARED, error_ratio
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import pluralise
from evaluation.simulation.realism.result import NO_SELFPLAY, BotPrediction, Source
from evaluation.stats.effect_sizes import Effect

if TYPE_CHECKING:
    import pandas as pd

FITS: dict[str, tuple[str, tuple[str, ...]]] = {
    "paper": ("paper", ()),
    "strong": ("strong", ()),
    "log_turns": ("strong", ("log_turns",)),
    "log_words": ("strong", ("log_words",)),
}
"""Fits by name, with preset, and features if they differ from the preset's."""
FEATURES = tuple(dict.fromkeys((*PAPER_FEATURES, *preset_get("strong").features)))
"""Metric columns used by the fits, in addition to the lengths."""


def bot_predictions(
    human: pd.DataFrame,
    simulated: pd.DataFrame,
    *,
    targets: Sequence[str],
    ratings: Ratings | None = None,
    selfplay: pd.DataFrame | None = None,
    is_within: bool = False,
    seed: int = 0,
) -> tuple[BotPrediction, ...]:
    """Predict every rated bot from each kind of chats.

    Args:
        human: one row per rated human conversation, as for `fit_hybrid`, with `words_user` and `n_turns`.
        simulated, selfplay: `conversation`, `bot` and the same features.
        is_within: True if simulated chats have the length of stored ones, so that length is not a prediction.
    """
    human, simulated = with_lengths(human), with_lengths(simulated)
    tables: dict[Source, pd.DataFrame] = {"simulated": simulated}
    if selfplay is not None:
        tables["selfplay"] = with_lengths(selfplay)
    swapped = with_features_of(human, simulated, seed)

    fitted = partial(fit_hybrid, targets=targets, ratings=ratings, seed=seed)

    def fit(name: str, table: pd.DataFrame, played: pd.DataFrame | None = None) -> HybridResult | Reason:
        preset, features = FITS[name]
        try:
            return fitted(table, preset=preset, features=features or None, selfplay=played)
        except HybridError as error:
            return Reason("no_fit", str(error))

    predictions: list[BotPrediction] = []
    for name in FITS:
        if name == "log_turns" and is_within:
            continue
        fits = {source: fit(name, human, table) for source, table in tables.items()}
        predictions.append(_row(name, "people", "people", fits["simulated"], human))
        rows = {source: _row(name, "people", source, fits[source], table) for source, table in tables.items()}
        rows["simulated"] = replace(rows["simulated"], selfplay_ratio=_get_selfplay_ratio(fits, tables))
        predictions += rows.values()
        predictions.append(_row(name, "simulated", "simulated", fit(name, swapped), swapped))
    return tuple(predictions)


def with_lengths(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with log turns and log words per message.

    Rivals of a fit use these columns.
    """
    words, turns = (table[name].astype(float) for name in ("words_user", "n_turns"))
    return table.assign(log_words=np.log1p(words.where(words >= 0)), log_turns=np.log(turns.where(turns > 0)))


def with_features_of(human: pd.DataFrame, simulated: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return rated human conversations with features of simulated ones.

    Both have the same bot; the order is random. Simulated chats with an undefined feature are skipped; if a bot has
    fewer of them than rated ones, they are reused.
    """
    import pandas as pd

    keys = ("conversation", "bot")
    candidates = [name for name in (*FEATURES, "words_user", "n_turns", "log_words", "log_turns") if name in simulated]
    columns = [name for name in dict.fromkeys(candidates) if name in human and name not in keys]
    defined = simulated[np.isfinite(simulated[columns].to_numpy(dtype=float)).all(axis=1)]
    rng = np.random.default_rng(seed)
    parts = []
    for bot, rows in human.groupby(human["bot"].astype(str), sort=True):
        features = defined.loc[defined["bot"].astype(str) == bot, columns].to_numpy(dtype=float)
        if not len(features):
            continue
        rated, number = np.unique(rows["conversation"].astype(str), return_inverse=True)
        chosen = np.resize(rng.permutation(len(features)), len(rated))
        parts.append(rows.assign(**dict(zip(columns, features[chosen[number]].T, strict=True))))
    return pd.concat(parts) if parts else human.iloc[:0]


def _row(
    name: str, fitted_on: Source, applied_to: Source, result: HybridResult | Reason, table: pd.DataFrame
) -> BotPrediction:
    """Return a fit's accuracy on its own or on other chats.

    Args:
        table: chats to predict bots from.
    """
    if isinstance(result, Reason):
        return BotPrediction(name, fitted_on, applied_to, 0, reason=result)
    played = None if fitted_on == applied_to else result.selfplay
    levels, values, pairs = (
        (result.bot_level, result.values, result.pairs)
        if played is None
        else (played.bot_level, played.values, played.pairs)
    )
    if played is None:
        rated = np.isfinite(table[list(result.fit.targets)].to_numpy(dtype=float)).all(axis=1)
        table = table[rated].drop_duplicates("conversation")
    pearson, kendall = levels["pearson"].correlation, levels["kendall"].correlation
    low, high = (None if end is None else (1 + end) / 2 for end in (kendall.low, kendall.high))
    return BotPrediction(
        fit=name,
        fitted_on=fitted_on,
        applied_to=applied_to,
        n_bots=pearson.n,
        r=Effect(pearson.r, pearson.low, pearson.high, pearson.reason),
        r_null95=levels["pearson"].null95,
        q2=q2_of(fold_predictions(result, table), {bot: bot_result.target for bot, bot_result in result.bots.items()}),
        q2_null95=None if values is None else values.q2_null95,
        accuracy=Effect(pairs.ordered / pairs.all if pairs.all else None, low, high, kendall.reason),
        n_pairs=pairs.all,
    )


def _get_selfplay_ratio(fits: Mapping[Source, HybridResult | Reason], tables: Mapping[Source, pd.DataFrame]) -> Effect:
    """Return the error ratio of simulated chats to self-play, paired by bot.

    With the interval of Pitman and Morgan.

    Args:
        fits: by the chats they are applied to.
        tables: these chats.
    """
    if "selfplay" not in fits:
        return Effect(reason=NO_SELFPLAY)
    predicted, human = [], {}
    for source in ("simulated", "selfplay"):
        result = fits[source]
        if isinstance(result, Reason):
            return Effect(reason=result)
        predicted.append(fold_predictions(result, tables[source]))
        human = {bot: scores.target for bot, scores in result.bots.items() if scores.target is not None}
    bots = [bot for bot in human if all(bot in values for values in predicted)]
    if len(bots) < FEWEST_BOTS_COMPARED:
        return Effect(
            reason=Reason("few_bots_for_values", f"{pluralise(len(bots), 'bot')}", n_bots=len(bots), needed=3)
        )
    simulated, selfplay, means = (np.array([values[bot] for bot in bots]) for values in (*predicted, human))
    ratio = error_ratio(simulated, selfplay, means)
    return Effect(ratio.value, ratio.low, ratio.high)


def fold_predictions(result: HybridResult, table: pd.DataFrame) -> dict[str, float]:
    """Return each bot's mean prediction by the fold without it.

    It uses the fold's intercept.
    """
    values = predict_conversations(replace(result.fit, intercept="fold"), table)
    bots = table["bot"].astype(str).to_numpy()
    is_defined = np.isfinite(values)
    return {
        str(bot): float(values[of_bot].mean())
        for bot in np.unique(bots)
        if (of_bot := is_defined & (bots == bot)).any()
    }


def q2_of(predicted: Mapping[str, float], human: Mapping[str, float | None]) -> Effect:
    """Return Q² with the Pitman-Morgan interval of the error ratio.

    The ratio is to the errors of the mean of the other bots.
    """
    known = {bot: mean for bot, mean in human.items() if mean is not None and bot in predicted}
    x, y = np.array([predicted[bot] for bot in known]), np.array(list(known.values()))
    n = len(y)
    few = Reason("few_bots_for_values", f"{pluralise(n, 'bot')}; {FEW_BOTS} are needed", n_bots=n, needed=FEW_BOTS)
    if n < FEWEST_BOTS_COMPARED or y.min() == y.max():
        return Effect(reason=few)
    ratio = error_ratio(x, others_mean(y[None])[0], y)
    value = 1 - ratio.value**2
    if ratio.low is None or ratio.high is None:
        return Effect(value, reason=few)
    return Effect(value, 1 - ratio.high**2, 1 - ratio.low**2)
