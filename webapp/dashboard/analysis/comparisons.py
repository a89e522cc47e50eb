"""What people thought of each bot, which bots can be told apart, and how many raters it takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from django.utils.translation import gettext as _

from evaluation.printing import figure, share
from evaluation.ratings import MEAN_KEY
from evaluation.stats.compare import ORDER_ALPHA
from evaluation.stats.sample_size import (
    PairPlan,
    detectable_difference,
    n_pairs,
    plan_from_ratings,
    raters_needed,
)
from webapp.dashboard import counts
from webapp.dashboard.agreement import spread_of, steps_of
from webapp.dashboard.analysis.study_data import StudyData
from webapp.dashboard.plots.bots import bots_figure
from webapp.dashboard.plots.differences import differences_figure
from webapp.dashboard.plots.figure import Cell, Header, Table
from webapp.dashboard.plots.likert import spread_figure
from webapp.dashboard.wording.sections import (
    NamedTable,
    Section,
    count_cell,
    digits_for,
    number_cell,
    span_cell,
    two_digits,
)
from webapp.dashboard.wording.verdicts import overall_verdict, pair_verdict, ranking_verdicts
from webapp.ratings.summary import StudySummary

POWER = 0.8
_SHARES = (0.025, 0.05, 0.1, 0.15, 0.2)
"""Differences planned for, as shares of the scale."""


def ratings_section(data: StudyData, summary: StudySummary) -> Section:
    """Means with intervals, and how the answers spread."""
    steps = steps_of(data.headline, data.values)
    spreads = [
        spread_of(data.bots[bot], data.values[data.bot == bot], steps) for bot in data.rated_bots
    ]
    return Section(
        "ratings",
        _("Ratings by bot"),
        figures=[
            bots_figure(summary, lambda bot: data.link(bot.bot.bot_id)),
            spread_figure(spreads, data.headline, steps),
        ],
        tables=[_distributions(data)],
    )


def _distributions(data: StudyData) -> NamedTable:
    """Every bot's answers to every question in five numbers."""
    headers = [Header(_("Bot")), Header(_("Dimension"))]
    titles = ("n", _("Mean"), _("SD"), _("Lowest"), "25 %", _("Median"), "75 %", _("Highest"))
    headers += [Header(title, numeric=True) for title in titles]
    rows = []
    for bot in data.rated_bots:
        info = data.bots[bot]
        for dimension in data.all_dimensions:
            mine = data.ratings.values(dimension.key)[data.bot == bot]
            mine = mine[np.isfinite(mine)]
            name = Cell(info.title, slot=info.slot, hollow=info.is_control)
            if not len(mine):
                blank = [Cell("–", why=_("no rating of this dimension"))] * 7
                rows.append([name, Cell(dimension.title), count_cell(0), *blank])
                continue
            digits = digits_for(dimension.low, dimension.high)
            spread = float(mine.std(ddof=1)) if len(mine) > 1 else None
            numbers = [float(mine.mean()), spread, *np.quantile(mine, [0, 0.25, 0.5, 0.75, 1])]
            cells = [number_cell(v, digits, _("one rating has no spread")) for v in numbers]
            rows.append([name, Cell(dimension.title), count_cell(len(mine)), *cells])
    return NamedTable(
        "distributions", _("Distribution of the ratings of each bot"), Table(headers, rows)
    )


def comparisons_section(data: StudyData, summary: StudySummary) -> Section:
    """Which bots can be put in order, in words, and what it would take for the others."""
    digits = digits_for(data.headline.low, data.headline.high)
    titles = {bot: info.title for bot, info in data.bots.items()}
    pairs = {(found.a, found.b): found for found in summary.comparisons}
    order = [bot for bot in data.rated_bots if not data.bots[bot].is_control]
    section = Section("comparisons", _("Which bots can be told apart"))
    if len(data.rated_bots) < 2:
        section.missing.append(_("Only one bot is rated, so there is nothing to compare."))
        return section
    plans = _plans(data)
    verdicts = {
        key: pair_verdict(found, plans.get(key), titles, digits) for key, found in pairs.items()
    }
    section.lead.append(overall_verdict(order, pairs, titles))
    section.lead.append(
        _(
            "People can tell {ordered} of {pairs} of bots apart by {name} (Holm, p < {alpha})."
        ).format(
            ordered=summary.n_told_apart,
            pairs=counts.pairs(summary.n_pairs),
            name=data.headline.title.lower(),
            alpha=share(ORDER_ALPHA),
        )
    )
    section.points.extend(ranking_verdicts(order, pairs, plans, titles, digits))
    controls = [bot for bot in data.rated_bots if data.bots[bot].is_control]
    if controls:
        section.lead.append(_controls(controls, order, pairs, titles))
    section.figures.append(
        differences_figure(
            [data.bots[bot] for bot in data.rated_bots],
            pairs,
            verdicts,
            digits=digits,
            title=_("How far apart are they?"),
            method=_(
                "{name}: the row’s mean minus the column’s; coloured where the two can be put in order "
                "(p < {alpha}, Holm’s correction for {pairs})."
            ).format(
                name=data.headline.title,
                alpha=share(ORDER_ALPHA),
                pairs=counts.pairs(summary.n_pairs),
            ),
            level=1 - ORDER_ALPHA,
            note=_("Intervals of single differences are not widened for the number of pairs."),
        )
    )
    section.tables.append(_plan_table(data, plans))
    section.tables.append(planning_table(data))
    return section


def _controls(
    controls: Sequence[str], order: Sequence[str], pairs: dict, titles: dict[str, str]
) -> str:
    """Whether bots made to be bad came out so."""
    told = []
    for control in controls:
        found = [pairs.get((control, bot)) or pairs.get((bot, control)) for bot in order]
        below = sum(
            c is not None and c.ordered and (c.difference or 0) * (1 if c.a == control else -1) < 0
            for c in found
        )
        told.append(
            _("The control {name} is rated below {n} of {all} other bots.").format(
                name=titles[control], n=below, all=len(order)
            )
        )
    return " ".join(told)


def _plans(data: StudyData) -> dict[tuple[str, str], PairPlan]:
    plans = plan_from_ratings(
        data.values, data.bot.tolist(), data.ratings.unit.tolist(), power=POWER, alpha=ORDER_ALPHA
    )
    return {(plan.a, plan.b): plan for plan in plans}


def _plan_table(data: StudyData, plans: dict[tuple[str, str], PairPlan]) -> NamedTable:
    digits = digits_for(data.headline.low, data.headline.high)
    headers = [
        Header(_("Pair")),
        Header(_("Raters now"), numeric=True),
        Header(_("Difference"), numeric=True),
        Header(f"{round((1 - ORDER_ALPHA) * 100)} %", numeric=True),
        Header(_("Raters needed"), numeric=True),
        Header(_("if the interval’s ends are true"), numeric=True),
    ]
    rows = []
    for plan in plans.values():
        low = "–" if plan.needed_least is None else two_digits(plan.needed_least)
        high = _("no end") if plan.needed_most is None else two_digits(plan.needed_most)
        rows.append(
            [
                Cell(f"{data.title(plan.a)} − {data.title(plan.b)}"),
                Cell(
                    str(plan.n_a) if plan.n_a == plan.n_b else f"{plan.n_a}, {plan.n_b}",
                    raw=(plan.n_a, plan.n_b),
                ),
                number_cell(plan.difference, digits, plan.reason),
                span_cell(plan.low, plan.high, digits),
                Cell(
                    "–" if plan.needed is None else two_digits(plan.needed),
                    why=(plan.reason or "") if plan.needed is None else "",
                    raw=(plan.needed,),
                ),
                Cell(
                    _("{low} to {high}").format(low=low, high=high),
                    why=plan.reason or "",
                    raw=(plan.needed_least, plan.needed_most),
                ),
            ]
        )
    return NamedTable(
        "needed",
        _("How many raters each pair would have taken"),
        Table(headers, rows),
        method=_(
            "Raters per bot for a power of {power} at p < {alpha} shared among {n} pairs; error by the "
            "mixed model where raters rate several bots."
        ).format(power=share(POWER), alpha=share(ORDER_ALPHA), n=len(plans)),
        note=_(
            "A plan for the difference observed is too hopeful about half of the time: plan for the "
            "smallest difference that would matter to you."
        ),
    )


def planning_table(
    data: StudyData, differences: Sequence[float] = (), *, power: float = POWER
) -> NamedTable:
    """Raters per bot for differences that might matter, by this study's spread.

    Args:
        differences: in points of the scale; by default shares of it.
        power: chance to show them.
    """
    digits = digits_for(data.headline.low, data.headline.high)
    reach = data.headline.high - data.headline.low
    wanted = list(differences) or [part * reach for part in _SHARES]
    sd, rater_share = _spread(data)
    n_bots = len([bot for bot in data.rated_bots if not data.bots[bot].is_control])
    compared = max(n_pairs(n_bots), 1)
    headers = [Header(_("Difference")), Header(_("Share of the scale"), numeric=True)]
    headers += [
        Header(_("Each bot its own raters"), numeric=True),
        Header(_("Every rater rates both"), numeric=True),
    ]
    rows = []
    for difference in wanted:
        cells = [number_cell(difference, digits), Cell(f"{100 * difference / reach:.3g} %")]
        for paired in (False, True):
            if sd is None:
                cells.append(Cell("–", why=_("the ratings of a bot do not vary")))
                continue
            need = raters_needed(
                difference,
                sd,
                power=power,
                alpha=ORDER_ALPHA,
                n_comparisons=compared,
                design="paired" if paired else "independent",
                correlation=rater_share if paired else 0.0,
            )
            shown = "–" if need.n is None else two_digits(need.n)
            cells.append(Cell(shown, why=need.reason or "", raw=(need.n,)))
        rows.append(cells)
    note = ""
    per_bot = [int((data.bot == bot).sum()) for bot in data.rated_bots]
    if sd is not None and min(per_bot) > 1:
        least = detectable_difference(
            min(per_bot), sd, power=power, alpha=ORDER_ALPHA, n_comparisons=compared
        )
        note = _(
            "With {ratings} per bot, the fewest here, a difference of {gap} points is shown with a "
            "chance of {power}."
        ).format(
            ratings=counts.ratings(min(per_bot)),
            gap=figure(least, digits),
            power=f"{power:.0%}".replace("%", " %"),
        )
    return NamedTable(
        "planning",
        _("How many raters for a difference that matters?"),
        Table(headers, rows),
        method=_(
            "Raters per bot for a power of {power}, {pairs} compared; standard deviation {sd}, "
            "{share} of the variance between raters."
        ).format(
            power=share(power),
            pairs=counts.pairs(compared),
            sd=figure(sd, digits),
            share=f"{rater_share:.0%}".replace("%", " %"),
        ),
        note=note,
    )


def _spread(data: StudyData) -> tuple[float | None, float]:
    """Standard deviation of the ratings of one bot, and the raters' share of its square."""
    from evaluation.stats.mixed import mixed_model

    keep = np.isfinite(data.values)
    values, bots = data.values[keep], data.bot[keep]
    apart = np.concatenate(
        [values[bots == bot] - values[bots == bot].mean() for bot in data.rated_bots]
    )
    free = len(apart) - len(data.rated_bots)
    sd = float(np.sqrt((apart**2).sum() / free)) if free > 0 else 0.0
    rater_share = 0.0
    units = data.ratings.unit[keep]
    if len(set(units)) < len(units):
        rater_share = mixed_model(values, bots.tolist(), units.tolist()).rater_share or 0.0
    return (sd if sd > 0 else None), min(rater_share, 0.99)


def headline_sentence(data: StudyData, summary: StudySummary) -> str:
    """Who leads, with its mean and interval."""
    order = [bot for bot in data.rated_bots if not data.bots[bot].is_control]
    if not order:
        return ""
    best = next(bot for bot in summary.bots if bot.bot.bot_id == order[0])
    found = best.intervals[data.headline.key]
    digits = digits_for(data.headline.low, data.headline.high)
    ends = (
        found.reason or ""
        if found.low is None
        else _("{level} % interval {low} to {high}").format(
            level=round(summary.level * 100),
            low=figure(found.low, digits),
            high=figure(found.high, digits),
        )
    )
    return _("{name} has the highest {what} ({mean} of {most}, {ends})").format(
        name=best.bot.title,
        what=_("mean of all dimensions")
        if data.headline.key == MEAN_KEY
        else _("mean {name}").format(name=data.headline.title.lower()),
        mean=figure(found.mean, digits),
        most=f"{data.headline.high:g}",
        ends=ends,
    )
