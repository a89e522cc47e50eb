"""Statistical models of the ratings: analysis of variance, raters as a random effect, ordinal answers."""

from __future__ import annotations

import numpy as np
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from evaluation.printing import figure, probability, share
from evaluation.ratings import MEAN_KEY
from evaluation.stats.anova import Anova, anova, sum_of_ratings
from evaluation.stats.mixed import MixedModel, mixed_model
from evaluation.stats.ordinal import OrdinalModel, ordinal_model
from webapp.dashboard import counts
from webapp.dashboard.analysis.study_data import StudyData
from webapp.dashboard.plots.figure import Cell, Header, Table
from webapp.dashboard.wording.reasons import said
from webapp.dashboard.wording.sections import (
    NamedTable,
    Section,
    count_cell,
    digits_for,
    listed,
    number_cell,
    p_cell,
    share_cell,
    span_cell,
)

LEVEL = 0.90
MOST_POINTS = 101
"""More different answers than this are rounded to whole points for the ordinal model."""
MOST_FACTORS = 3


def models_section(data: StudyData) -> Section:
    """What the ratings depend on, by three models that make different assumptions."""
    section = Section("models", _("What the ratings depend on"))
    _anova(data, section)
    keep = data.ratings.ranked & np.isfinite(data.values)
    bots, units = data.bot[keep].tolist(), data.ratings.unit[keep].tolist()
    if len(set(bots)) < 2:
        section.missing.append(_("Fewer than two bots are rated, so there is nothing to model."))
        return section
    _mixed(data, section, mixed_model(data.values[keep], bots, units, level=LEVEL), keep)
    _ordinal(data, section, keep, bots, units)
    return section


def chosen_factors(data: StudyData) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Up to three factors with at least two levels that every rated bot (controls aside) has, and why others are not used."""
    bots = [bot for bot in data.rated_bots if not data.bots[bot].is_control]
    used: dict[str, dict[str, str]] = {}
    why = []
    for name, levels in data.factors.items():
        lacking = [data.title(bot) for bot in bots if bot not in levels]
        if lacking:
            why.append(
                _("Factor “{name}” is not used: it is unknown for {bots}.").format(
                    name=name, bots=listed(lacking)
                )
            )
        elif len({levels[bot] for bot in bots}) < 2:
            why.append(
                _("Factor “{name}” is not used: all bots are alike in it.").format(name=name)
            )
        elif len(used) == MOST_FACTORS:
            why.append(
                _("Factor “{name}” is not used: {n} factors are analysed.").format(
                    name=name, n=MOST_FACTORS
                )
            )
        else:
            used[name] = levels
    return used, why


def _anova(data: StudyData, section: Section) -> None:
    factors, why = chosen_factors(data)
    section.missing.extend(why)
    keep = data.ratings.ranked
    what = _("sum of the {n} ratings").format(n=len(data.dimensions))
    scales = {(d.low, d.high) for d in data.dimensions}
    values = sum_of_ratings(data.ratings.table())[keep]
    if len(scales) > 1 or len(data.dimensions) == 1:
        what, values = data.headline.title.lower(), data.values[keep]
    bots = data.bot[keep]
    if len(set(bots.tolist())) < 2:
        return
    table, tried = None, ""
    if factors:
        levels = {name: [found[bot] for bot in bots] for name, found in factors.items()}
        for order in (None, 2, 1):
            table = anova(values, levels, max_order=order, level=LEVEL)
            if table.terms:
                tried = {None: "", 2: _(", interactions of two factors")}.get(
                    order,
                    _(", main effects only: not every combination of levels is rated"),
                )
                break
        if table is not None and not table.terms and table.reason:
            section.missing.append(
                _("Analysis of variance by {names}: {why}.").format(
                    names=listed(list(factors)), why=said(table.reason)
                )
            )
    if table is None or not table.terms:
        table = anova(values, {_("bot"): bots.tolist()}, level=LEVEL)
        if not factors:
            section.missing.append(
                _(
                    "No factors of the bots’ making are known, so bots are compared one by one. Upload a "
                    "table of bots with columns of words (architecture, corpus, EI) to analyse them."
                )
            )
    if not table.terms:
        section.missing.append(_("Analysis of variance: {why}.").format(why=said(table.reason)))
        return
    section.lead.append(_anova_sentence(table, what))
    section.tables.append(_anova_table(table, what, tried))
    if len(table.marginals) and factors:
        section.tables.append(_marginals(table, digits=1))


def _anova_sentence(table: Anova, what: str) -> str:
    told = [
        f"{term.name.replace(':', ' × ')} (F({term.df}, {table.residual_df}) = {figure(term.f)}, {probability(term.p)})"
        for term in table.terms
        if term.p is not None and term.p < 0.05
    ]
    not_told = [
        term.name.replace(":", " × ") for term in table.terms if term.p is None or term.p >= 0.05
    ]
    sentence = (
        _("The {what} depends on {terms}").format(what=what, terms=listed(told))
        if told
        else _("No effect on the {what} is significant").format(what=what)
    )
    if told and not_told:
        sentence += _("; not shown: {terms}").format(terms=listed(not_told))
    return sentence + "."


def _anova_table(table: Anova, what: str, tried: str) -> NamedTable:
    headers = [Header(_("Term"))]
    headers += [
        Header(text, numeric=True)
        for text in ("SS", "df", "F", "p", _("partial η²"), f"{round(LEVEL * 100)} %")
    ]
    rows = [
        [
            Cell(term.name.replace(":", " × ")),
            number_cell(term.ss, 1),
            count_cell(term.df),
            number_cell(term.f, 2, said(table.reason)),
            p_cell(term.p, said(table.reason)),
            share_cell(term.partial_eta2, 3, said(table.reason)),
            span_cell(term.low, term.high, 3, shares=True, why=said(table.reason)),
        ]
        for term in table.terms
    ]
    rows.append(
        [
            Cell(_("Residual")),
            number_cell(table.residual_ss, 1),
            count_cell(table.residual_df),
            *[Cell("–", why=_("what the terms leave"))] * 4,
        ]
    )
    return NamedTable(
        "anova",
        _("Analysis of variance of the {what}").format(what=what),
        Table(headers, rows),
        method=_(
            "Type III sums of squares, sum-to-zero contrasts{tried}; {ratings}, {dropped} left out for a missing "
            "value, controls left out."
        ).format(
            tried=tried or _(", all interactions"),
            ratings=counts.ratings(table.n),
            dropped=table.n_dropped,
        ),
        note=_(
            "Ratings count as independent here. Where raters rate several bots, the mixed model is the honest one."
        ),
    )


def _marginals(table: Anova, digits: int) -> NamedTable:
    headers = [Header(_("Factor")), Header(_("Level"))]
    headers += [
        Header(_("Mean"), numeric=True),
        Header(f"{round(LEVEL * 100)} %", numeric=True),
        Header("n", numeric=True),
    ]
    rows = [
        [
            Cell(found.factor),
            Cell(found.level),
            number_cell(found.mean, digits),
            span_cell(found.low, found.high, digits),
            count_cell(found.n),
        ]
        for found in table.marginals
    ]
    return NamedTable(
        "marginals", _("Means of the levels, all cells counting alike"), Table(headers, rows)
    )


def _mixed(data: StudyData, section: Section, model: MixedModel, keep: np.ndarray) -> None:
    if not model.converged:
        section.missing.append(_("Mixed model: {why}.").format(why=said(model.reason)))
        return
    digits = digits_for(data.headline.low, data.headline.high)
    section.lead.append(
        _(
            "With raters as a random effect the bots differ in {name} by F({df1}, {df2}) = {f}, {p}; {share} of the "
            "variance around the bots’ means lies between raters."
        ).format(
            name=data.headline.title.lower(),
            df1=model.df1,
            df2=model.df2,
            f=figure(model.f),
            p=probability(model.p),
            share="–"
            if model.rater_share is None
            else f"{model.rater_share:.0%}".replace("%", " %"),
        )
    )
    # Who is not named stands as a conversation.
    named = data.ratings.named[keep].all()
    raters = _("Raters") if named else _("Raters or chats")
    headers = [Header(_("Bot"))]
    headers += [
        Header(text, numeric=True)
        for text in (_("Mean"), f"{round(LEVEL * 100)} %", _("Plain mean"), "n", raters)
    ]
    rows = [
        [
            Cell(data.title(found.bot), slot=data.bots[found.bot].slot),
            number_cell(found.mean, digits),
            span_cell(found.low, found.high, digits),
            number_cell(found.raw_mean, digits),
            count_cell(found.n),
            count_cell(found.n_raters),
        ]
        for found in sorted(model.bots, key=lambda bot: -bot.mean)
    ]
    section.tables.append(
        NamedTable(
            "mixed",
            _("{name} as the average rater would see it").format(name=data.headline.title),
            Table(headers, rows),
            method=_(
                "Bots fixed, raters random, restricted maximum likelihood; {ratings} by {raters}, controls left "
                "out; sd of raters {sd}, of what is left {rest}; raters’ share {share} [{low}, {high}]."
            ).format(
                ratings=counts.ratings(model.n),
                raters=_by_whom(data, keep),
                sd=figure(model.rater_sd, digits),
                rest=figure(model.residual_sd, digits),
                share=share(model.rater_share),
                low=share(model.share_low),
                high=share(model.share_high),
            ),
            note=f"{model.note[0].upper()}{model.note[1:]}." if model.note else "",
        )
    )


def _by_whom(data: StudyData, keep: np.ndarray) -> str:
    """Who gave these ratings: `Ratings.n_raters` of them, and conversations that stand for a rater each."""
    kept = data.ratings.where(keep)
    parts = []
    if kept.n_raters:
        parts.append(counts.raters(kept.n_raters))
    if not kept.named.all():
        n = len(set(kept.unit[~kept.named]))
        parts.append(
            ngettext(
                "nobody named in %(n)s conversation, which counts as a rater",
                "nobody named in %(n)s conversations, each of which counts as a rater",
                n,
            )
            % {"n": f"{n:,}"}
        )
    return listed(parts)


def _ordinal(
    data: StudyData, section: Section, keep: np.ndarray, bots: list[str], units: list[str]
) -> None:
    values = data.values[keep]
    rounded = ""
    if len(np.unique(values)) > MOST_POINTS or data.headline.key == MEAN_KEY:
        values = np.round(values)
        rounded = _(", rounded to whole points")
    model = ordinal_model(values, bots, units, level=LEVEL)
    if not model.converged:
        section.missing.append(_("Ordinal model: {why}.").format(why=said(model.reason)))
        return
    section.tables.append(_ordinal_table(data, model, rounded))


def _ordinal_table(data: StudyData, model: OrdinalModel, rounded: str) -> NamedTable:
    best = max(model.bots, key=lambda bot: bot.effect).bot
    headers = [Header(_("Bot"))]
    headers += [
        Header(text, numeric=True)
        for text in (
            _("Log odds"),
            f"{round(LEVEL * 100)} %",
            _("Chance to be rated above {bot}").format(bot=data.title(best)),
            "n",
        )
    ]
    rows = [
        [
            Cell(data.title(found.bot), slot=data.bots[found.bot].slot),
            number_cell(found.effect),
            span_cell(found.low, found.high),
            share_cell(
                None if found.bot == best else model.probability_higher(found.bot, best),
                2,
                _("the bot itself"),
            ),
            count_cell(found.n),
        ]
        for found in sorted(model.bots, key=lambda bot: -bot.effect)
    ]
    fit = ""
    if model.deviance_p is not None:
        fit = _("Deviance {value} on {df} df, {p}").format(
            value=figure(model.deviance, 1), df=model.deviance_df, p=probability(model.deviance_p)
        )
        fit += (
            _(": the odds are not proportional, so read the log odds as averages.")
            if model.deviance_p < 0.05
            else _(": nothing speaks against proportional odds.")
        )
    return NamedTable(
        "ordinal",
        _("The same without taking the points of the scale for equal steps"),
        Table(headers, rows),
        method=_(
            "Proportional odds of {name}{rounded}; log odds against the average bot; {interval}; Wald χ²({df}) = "
            "{chi2}, {p}."
        ).format(
            name=data.headline.title.lower(),
            rounded=rounded,
            interval=model.interval,
            df=model.df,
            chi2=figure(model.chi2, 1),
            p=probability(model.p),
        ),
        note=fit,
    )
