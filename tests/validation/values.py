"""How well do fits predict values, at full size and with few conversations of each bot?

Used by `validate`. Subsamples are drawn of the tables that the commands fit, by a seed, and fitted by the same
functions; their figures are means over them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evaluation.data.ratings import Ratings
from evaluation.hybrid.calibration import calibration, interval_score, others_mean, q_squared
from evaluation.hybrid.features import preset_get
from evaluation.hybrid.fit import fit_hybrid
from evaluation.number_format import figure, share

if TYPE_CHECKING:
    import pandas as pd

PRESETS = ("paper", "strong")
SUBSAMPLED = ("strong",)
VALUE_HEADINGS = [
    *("set", "conv. a bot", "fit", "r common", "r fold", "Q²", "null95", "MAE", "of mean", "slope"),
    *("inside 95 %", "score", "resolvable"),
]


@dataclass(frozen=True)
class Tables:
    """What a study's fits are made of."""

    human: pd.DataFrame
    ratings: Ratings
    targets: tuple[str, ...]


def tables_of(study_key: str, targets: Sequence[str], exclude_bots: Sequence[str], more: Sequence[str] = ()) -> Tables:
    """Read one table with the columns of all presets and more of them, from the database that the commands filled."""
    from webapp.jobs.selectors.fits import FitTables
    from webapp.jobs.services.fits import fit_create
    from webapp.studies.models import Study

    study = Study.objects.get(key=study_key)
    fit = fit_create(study=study, targets=targets, exclude_bots=exclude_bots, preset="strong", enqueue=False)
    features = (*preset_get("strong").features, *more)
    tables = FitTables(fit, features)
    human, ratings = tables.rated(study)
    fit.delete()
    return Tables(human, ratings, tuple(targets))


def subsample(tables: Tables, per_bot: int, seed: int) -> Tables:
    """Draw so many conversations of each bot, without replacement."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(
        np.concatenate(
            [
                rng.choice(rows, size=min(per_bot, len(rows)), replace=False)
                for rows in tables.human.groupby("bot", sort=True).indices.values()
            ]
        )
    )
    human = tables.human.iloc[chosen].reset_index(drop=True)
    there = np.isin(tables.ratings.conversation, human["conversation"].to_numpy(dtype=object))
    return replace(tables, human=human, ratings=tables.ratings.select(there))


def samples_of(tables: Tables, per_bot: int | None, n_samples: int) -> list[Tables]:
    """Return so many subsamples of so many conversations of each bot, by the seeds 0, 1, …; None: all conversations
    alone.
    """
    if per_bot is None:
        return [tables]
    return [subsample(tables, per_bot, seed) for seed in range(n_samples)]


def fitted(tables: Tables, preset: str) -> dict[str, Any]:
    """Return the document of a fit."""
    return fit_hybrid(tables.human, targets=tables.targets, preset=preset, ratings=tables.ratings).to_json()


def figures_of(document: dict[str, Any]) -> list[float]:
    """Return the numbers of `VALUE_HEADINGS` after the fit's name, NaN where there is none."""
    kinds, bots = document["intercepts"], document["bots"].values()
    inside, score = document["coverage95"], document["interval_score95"]
    share_inside = math.nan if inside is None else inside["inside"] / inside["of"]
    if score is None:
        # Those of earlier presets are 90 % intervals of the mean prediction: widened to 95 % as a normal's are.
        score = float(np.mean([_widened_score(bot) for bot in bots if bot["predicted_ci90"]]))
    pairs = kinds["common"]["pairs"]
    results = [
        *(kinds[kind]["bot_level"]["pearson"]["r"] for kind in ("common", "fold")),
        document["q2"]["value"],
        document["q2"]["null95"],
        document["mae"],
        document["mae_of_mean"],
        document["slope"]["value"],
        share_inside,
        score,
        pairs["resolvable_ordered"] / pairs["resolvable"] if pairs["resolvable"] else None,
    ]
    return [math.nan if value is None else float(value) for value in results]


def _widened_score(bot: dict[str, Any]) -> float:
    low, high = bot["predicted_ci90"]
    middle, half = (low + high) / 2, (high - low) / 2 * 1.959964 / 1.644854
    return interval_score((middle - half, middle + half), bot["human_mean"])


def value_row(name: str, size: str, preset: str, found: Sequence[float], n: int) -> list[str]:
    """Return a line of the table; `n` fits are averaged."""
    *rs, q2, null, mae, of_mean, slope, inside, score, pairs = found
    fit = preset if n == 1 else f"{preset}, mean of {n}"
    cells = [*map(share, rs), share(q2), share(null), figure(mae), figure(of_mean), figure(slope)]
    return [name, size, fit, *cells, share(inside), figure(score), share(pairs)]


def value_rows(
    name: str, tables: Tables, whole: Mapping[str, dict[str, Any]], sizes: Sequence[int], n_samples: int
) -> list[list[str]]:
    """Return the lines of a set: whole, by the fits that each preset has made of it, and by size the mean over seeded
    subsamples.

    What a subsample predicts is compared with its own human means, which are noisy, and for `strong` with those of
    all conversations too.
    """
    rows = [value_row(name, "all", preset, figures_of(fit), 1) for preset, fit in whole.items()]
    human = {bot: found["adjusted_mean"] for bot, found in whole["strong"]["bots"].items()}
    for size in sizes:
        samples = samples_of(tables, size, n_samples)
        for preset in SUBSAMPLED:
            fits = [fitted(sample, preset) for sample in samples]
            values = np.array([figures_of(fit) for fit in fits])
            rows.append(value_row(name, str(size), preset, _means(values), n_samples))
            if preset == "strong":
                against = np.array([figures_against(fit, human) for fit in fits])
                title = f"{preset}, human means of all conversations"
                rows.append(value_row(name, str(size), title, _means(against), n_samples))
    return rows


def figures_against(document: dict[str, Any], human: Mapping[str, float]) -> list[float]:
    """Return the numbers of `VALUE_HEADINGS` by other human means, NaN for those that have no meaning then."""
    bots = [bot for bot in document["bots"] if bot in human]
    y = np.array([human[bot] for bot in bots])
    common, fold = (np.array([document["bots"][bot][name] for bot in bots]) for name in ("predicted", "predicted_fold"))
    q2 = float(q_squared(fold[None], y[None])[0])
    errors = [float(np.abs(y - x).mean()) for x in (fold, others_mean(y[None])[0])]
    slope = calibration(fold, y)[0]
    rs = [float(np.corrcoef(x, y)[0, 1]) for x in (common, fold)]
    rest = math.nan
    return [*rs, q2, rest, *errors, math.nan if slope is None else slope, rest, rest, rest]


def _means(found: np.ndarray) -> list[float]:
    """Return the mean of each column over the rows that have it, NaN where none has."""
    columns = [column[np.isfinite(column)] for column in found.T]
    return [float(column.mean()) if len(column) else math.nan for column in columns]


def permuted(tables: Tables, seed: int) -> Tables:
    """Give each bot's ratings the mean of one of the bots, drawn without replacement, and leave how they differ
    within the bot.
    """
    rng = np.random.default_rng(seed)
    bots = sorted(set(tables.human["bot"]))
    given = dict(zip(bots, np.array(bots)[rng.permutation(len(bots))].tolist(), strict=True))
    frame = tables.ratings.to_frame()
    targets = list(tables.targets)
    means = frame.groupby("bot")[targets].mean()
    for target in targets:
        moved = {bot: means[target][given[bot]] - means[target][bot] for bot in bots}
        frame[target] += frame["bot"].map(moved)
    ratings = Ratings.from_frame(frame, targets)
    answers = ratings.per_conversation()[targets]
    human = tables.human.drop(columns=targets).merge(answers, left_on="conversation", right_index=True)
    return Tables(human, ratings, tables.targets)
