"""What moves together: people's answers, metrics of their chats, and what is known of the bots."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from django.utils.translation import gettext as _

from evaluation.metrics.registry import metric_list
from evaluation.printing import share
from evaluation.stats.compare import holm
from evaluation.stats.correlation import correlate, within_groups
from webapp.dashboard import counts
from webapp.dashboard.agreement import dimension_correlations
from webapp.dashboard.analysis.hybrid_matrix import HybridRows, cells
from webapp.dashboard.analysis.study_data import StudyData
from webapp.dashboard.plots.heatmap import heatmap_figure
from webapp.dashboard.plots.matrix import Found, matrix_figure
from webapp.dashboard.wording.sections import Section, listed
from webapp.runs.models import SelfPlayRun
from webapp.runs.selectors.fits import fit_leading
from webapp.runs.selectors.frames import metric_frame

if TYPE_CHECKING:
    import pandas as pd

ALPHA = 0.05
_SPEAKER = re.compile(r", (?:participant and bot|bot and answer|participant|bot)(?= \(|$)")
"""Whose words a column of a metric is about, in its title."""


def correlations_section(data: StudyData, run: SelfPlayRun | None = None) -> Section:
    """The three matrices of the paper.

    Args:
        run: self-play whose metrics are set against the bots' ratings; None: that of the hybrid fit, or
            the newest that has enough of the bots.
    """
    section = Section("correlations", _("What moves together"))
    fit = fit_leading(data.study)
    rows = HybridRows.of(data, fit)
    section.missing.extend(rows.missing)
    _among_dimensions(data, section)
    _with_metrics(data, section, rows)
    _bot_level(data, section, run or (fit.run if fit is not None else None), rows)
    return section


def _among_dimensions(data: StudyData, section: Section) -> None:
    if len(data.dimensions) < 2:
        section.missing.append(_("Dimensions among themselves: there is only one."))
        return
    frame = data.per_conversation
    found = dimension_correlations(data.ratings)
    best = max(found, key=lambda key: -2 if found[key].r is None else found[key].r or 0)
    if found[best].r is not None:
        section.lead.append(
            _("{a} and {b} go together most closely, ρ = {r}.").format(
                a=data.dimensions[best[0]].title,
                b=data.dimensions[best[1]].title.lower(),
                r=share(found[best].r),
            )
        )
    section.figures.append(
        heatmap_figure(
            [d.title for d in data.dimensions],
            found,
            id="dimensions",
            title=_("Which ratings move together"),
            method=_("Spearman over {chats}, 95 % intervals by Fisher’s z.").format(
                chats=counts.conversations(len(frame))
            ),
            note=_("Raters who like one thing tend to like all: part of this is halo."),
        )
    )


def _titles() -> dict[str, str]:
    """Titles of conversation-level columns."""
    return {
        column.name: column.title.removesuffix(", mean")
        for metric in metric_list()
        for column in metric.columns
        if column.level == "conversation"
    }


def _with_metrics(data: StudyData, section: Section, hybrid: HybridRows) -> None:
    ratings = data.per_conversation
    frame = data.metrics.reindex(ratings.index)
    titles = _titles()
    columns = [name for name in titles if name in frame and frame[name].notna().sum() > 2]
    if not columns:
        section.missing.append(
            _(
                "Ratings against metrics: none is computed yet; run `manage.py compute_metrics --study {key}`."
            ).format(key=data.study.key)
        )
        return
    keep = ~ratings["bot"].isin([bot for bot, info in data.bots.items() if info.is_control])
    frame, ratings = frame[keep], ratings[keep]
    dimensions = data.all_dimensions
    found: Found = {}
    within: Found = {}
    own, own_within = hybrid.of_conversations
    for i, name in enumerate(columns, start=len(own)):
        x = frame[name].to_numpy(dtype=float)
        for j, dimension in enumerate(dimensions):
            y = ratings[dimension.key].to_numpy(dtype=float)
            found[i, j] = correlate(x, y, "spearman", interval="fisher")
            within[i, j] = within_groups(x, y, ratings["bot"].tolist())
    shown = [*own, *(titles[name] for name in columns)]
    sure = survivors(found)
    section.lead.extend(_strongest(shown, found, sure, data.headline.title))
    section.figures.append(
        matrix_figure(
            shown,
            [d.title for d in dimensions],
            {**cells(own), **found},
            id="metrics-dimensions",
            title=_("Which metrics go with which ratings?"),
            method=_(
                "Spearman over {chats}, controls left out; bold: p < .05 after Holm’s correction for {m} "
                "correlations. The table has Pearson’s r within bots beside."
            ).format(chats=counts.conversations(len(ratings)), m=len(found)),
            symbol="ρ",
            sure=sure,
            beside=(_("r within bots"), {**cells(own_within), **within}),
            note=_(
                "A correlation over all bots may be a difference between bots alone; within bots it is about "
                "single chats. {hybrid}"
            )
            .format(hybrid=hybrid.note)
            .strip(),
        )
    )


def survivors(found: Found) -> set[tuple[int, int]]:
    """Cells whose p-value stays below 5 % after Holm's correction over the whole matrix."""
    corrected = holm([value.p for value in found.values()])
    return {key for key, p in zip(found, corrected, strict=True) if p is not None and p < ALPHA}


def _strongest(
    rows: Sequence[str], found: Found, sure: set[tuple[int, int]], headline: str
) -> list[str]:
    """The strongest relations with the headline, which is the first column."""
    first = {i: value for (i, j), value in found.items() if j == 0 and (i, j) in sure}
    if not first:
        return [_("No metric is related to {name} beyond chance.").format(name=headline.lower())]
    ranked = sorted(first, key=lambda i: -abs(first[i].r or 0))[:3]
    named = [f"{rows[i].lower()} (ρ = {share(first[i].r)})" for i in ranked]
    return [
        _("Of single chats, {names} go most closely with {name}.").format(
            names=listed(named), name=headline.lower()
        )
    ]


def _bot_level(
    data: StudyData, section: Section, run: SelfPlayRun | None, hybrid: HybridRows
) -> None:
    bots = [bot for bot in data.rated_bots if not data.bots[bot].is_control]
    means = {
        d.key: {bot: _mean(data.ratings.values(d.key)[data.bot == bot]) for bot in bots}
        for d in data.all_dimensions
    }
    titles = _titles()
    rows: list[tuple[str, Mapping[str, float]]] = []
    chosen = run or selfplay_of(bots)
    if chosen is None:
        section.missing.append(
            _(
                "Self-play against ratings: no finished self-play run has metrics for three of these bots."
            )
        )
    else:
        table = metric_frame(run=chosen)
        grouped = table.groupby("bot")[[c for c in titles if c in table]].mean()
        for title, name in counted_once(grouped, titles).items():
            rows.append((_("{title} (self-play)").format(title=title), _by_bot(grouped[name])))
    rows += [(_("{name} (of the bot)").format(name=n), v) for n, v in data.bot_columns.items()]
    chats = data.metrics.groupby("bot")[[c for c in titles if c in data.metrics]].mean()
    for name in chats.columns:
        rows.append((_("{title} (rated chats)").format(title=titles[name]), _by_bot(chats[name])))
    rows = [(title, values) for title, values in rows if sum(_there(values, bots)) > 2]
    if not rows:
        section.missing.append(_("Bots against bots: nothing is known of three rated bots."))
        return
    found: Found = {}
    own = hybrid.of_bots
    for i, (_title, values) in enumerate(rows, start=len(own)):
        x = [values.get(bot, np.nan) for bot in bots]
        for j, dimension in enumerate(data.all_dimensions):
            y = [means[dimension.key][bot] for bot in bots]
            found[i, j] = correlate(x, y, "pearson", interval="fisher")
    sure = survivors(found)
    section.figures.append(
        matrix_figure(
            [*own, *(title for title, _values in rows)],
            [d.title for d in data.all_dimensions],
            {**cells(own), **found},
            id="bots-dimensions",
            title=_("Which figures of a bot go with its ratings?"),
            method=_(
                "Pearson over the means of {bots}, controls left out{run}; bold: p < .05 after Holm’s correction "
                "for {m} correlations."
            ).format(
                bots=counts.bots(len(bots)),
                m=len(found),
                run=_("; self-play run {pk}").format(pk=chosen.pk) if chosen else "",
            ),
            symbol="r",
            sure=sure,
            note_lead=_few(len(bots), len(found)),
            note=_(
                "Two families of bots make everything correlate, and of {m} correlations one in twenty passes p < .05 "
                "by chance. {hybrid}"
            )
            .format(m=len(found), hybrid=hybrid.note)
            .strip(),
        )
    )
    section.caution = _(
        "Correlations over {bots} say little alone: their intervals are wide, and what distinguishes the bots in "
        "one way distinguishes them in others."
    ).format(bots=counts.bots(len(bots)))


def counted_once(means: pd.DataFrame, titles: Mapping[str, str]) -> dict[str, str]:
    """Columns of self-play by title, the same numbers once.

    There the bot is its own participant, so `words_user` and `words_bot` are one thing: the title names
    nobody, and of columns that are alike the first is kept.

    Args:
        means: a row per bot, a column per metric.
        titles: of the columns.
    """
    kept: dict[str, str] = {}
    for name in means.columns:
        title = _SPEAKER.sub("", titles[name])
        values = means[name].to_numpy(dtype=float)
        twins = [
            other
            for other in kept.values()
            if np.allclose(values, means[other].to_numpy(dtype=float), rtol=1e-9, equal_nan=True)
            # What is the same for all bots is alike by chance, unless only the speaker differs.
            and (np.ptp(values) > 0 or _SPEAKER.sub("", titles[other]) == title)
        ]
        if not twins:
            kept[titles[name] if title in kept else title] = name
    return kept


def _by_bot(column: pd.Series) -> dict[str, float]:
    return {str(bot): float(value) for bot, value in column.items()}


def _few(n_bots: int, n_found: int) -> str:
    from evaluation.stats.correlation import fisher_interval

    low, high = fisher_interval(0.5, n_bots) if n_bots > 3 else (None, None)
    if low is None or high is None:
        return _("Too few for an interval: {bots}.").format(bots=counts.bots(n_bots))
    return _("With {bots} an r of .50 may be anything from {low} to {high}.").format(
        bots=counts.bots(n_bots), low=share(low), high=share(high)
    )


def _there(values: Mapping[str, float], bots: Sequence[str]) -> list[bool]:
    return [bot in values and bool(np.isfinite(values[bot])) for bot in bots]


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def selfplay_of(bots: Sequence[str]) -> SelfPlayRun | None:
    """The newest finished self-play run with at least three of the bots and metrics computed."""
    runs = (
        SelfPlayRun.objects.filter(
            state=SelfPlayRun.State.DONE, conversations__conversation__metric_results__isnull=False
        )
        .distinct()
        .order_by("-pk")
    )
    return next((run for run in runs if len(set(run.plan.get("bots", ())) & set(bots)) > 2), None)
