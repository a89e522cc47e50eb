"""The people who rated: whether they agree, how each uses the scale, and who may have paid no attention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from evaluation.analysis.agreement import Coefficient, RaterAgreement
from evaluation.printing import share, span
from evaluation.stats.bootstrap import mean_interval
from evaluation.stats.correlation import correlate
from evaluation.stats.rater_filters import RULES, Thresholds, Verdict, screen_raters
from evaluation.stats.zscores import MIN_RATINGS, rater_zscores
from webapp.conversations.models import Conversation
from webapp.dashboard import counts
from webapp.dashboard.analysis.study_data import StudyData
from webapp.dashboard.plots.figure import Cell, Header, Table
from webapp.dashboard.wording.reasons import said
from webapp.dashboard.wording.sections import (
    NamedTable,
    Section,
    count_cell,
    digits_for,
    number_cell,
    share_cell,
    span_cell,
)

_RULE_TITLES = {
    "flat": gettext_lazy("The same answer to all questions"),
    "narrow": gettext_lazy("Hardly any variation"),
    "disagrees": gettext_lazy("Opposite to the other raters"),
    "too_fast": gettext_lazy("Faster than reading allows"),
    "contradicts": gettext_lazy("Affirms opposite statements"),
    "control": gettext_lazy("Control not rated lower"),
}


def raters_section(data: StudyData, *, names: bool = True) -> Section:
    """Describe the raters: agreement, scores on each rater's own scale, rater filters.

    Args:
        names: whether to list flagged raters one by one (a report gives their numbers only).
    """
    section = Section("raters", _("The raters"))
    section.lead.extend(agreement_sentences(data, data.agreement))
    section.tables.append(agreement_table(data, data.agreement))
    _zscores(data, section)
    _filters(data, section, names)
    return section


def agreement_table(data: StudyData, found: RaterAgreement) -> NamedTable:
    """Tabulate each coefficient that fits, for each dimension; the others say why they do not fit."""
    headers = [Header(_("Dimension")), Header(_("Coefficient")), Header(_("Agreement about"))]
    headers += [Header(t, numeric=True) for t in (_("Value"), "95 %", _("Items"), _("Ratings"))]
    titles = {dimension.key: dimension.title for dimension in data.all_dimensions}
    rows = [
        [
            Cell(titles[one.dimension]),
            Cell(_coefficient(one)),
            Cell(_("the same bot") if one.about == "bot" else _("the same conversation")),
            share_cell(one.found.value, 2, said(one.found.reason)),
            span_cell(one.found.low, one.found.high, shares=True, why=said(one.found.reason)),
            count_cell(one.found.n_items),
            count_cell(one.found.n_ratings),
        ]
        for one in found.coefficients
    ]
    return NamedTable(
        "agreement",
        _("Do raters agree?"),
        Table(headers, rows),
        method=_(
            "95 % intervals over resampled items; of intraclass correlations by the F distribution."
        ),
        note=_(
            "0 is what chance gives, 1 is full agreement. The same bot is another chat for every rater, so "
            "agreement about bots is lower than agreement about one and the same chat would be."
        ),
    )


def _coefficient(one: Coefficient) -> str:
    """Return the coefficient's name."""
    match one.code:
        case "alpha_ordinal":
            return _("Krippendorff’s α, ordinal")
        case "alpha_interval":
            return _("Krippendorff’s α, interval")
        case "icc_one" if one.about == "bot":
            return _("ICC(1), one rater")
        case "icc_one":
            return _("ICC(1), one rating")
        case "icc_mean":
            return _("ICC(k), their mean")
        case "fleiss":
            return _("Fleiss’ κ")
        case "cohen":
            return _("Cohen’s κ, linear weights")
        case _other:
            return _("Cohen’s κ, linear weights, median of {pairs}").format(
                pairs=counts.pairs(one.n_pairs)
            )


def agreement_sentences(data: StudyData, found: RaterAgreement) -> list[str]:
    """Say what raters agree on, about one conversation or else about the bots."""
    same = found.same_conversation
    name = data.headline.title.lower()
    if same.value is not None:
        return [
            _(
                "Raters of the same conversation agree on {name} by Krippendorff’s α = {value} {ends}."
            ).format(
                name=name, value=share(same.value), ends=span(same.low, same.high, shares=True)
            )
        ]
    told = [
        _(
            "Agreement on single conversations is undefined: hardly any is rated by more than one person."
        )
    ]
    single, many = found.one_rater, found.reliability_of_bots
    if single.value is not None and many.value is not None:
        told.append(
            _(
                "About the bots, one rater’s view of {name} has a reliability of {single} {ends}; the mean of all "
                "raters of a bot has {many}."
            ).format(
                name=name,
                single=share(single.value),
                ends=span(single.low, single.high, shares=True),
                many=share(many.value, 3),
            )
        )
    return told


def _zscores(data: StudyData, section: Section) -> None:
    scores = rater_zscores(
        data.ratings.table(), data.ratings.rater.tolist(), pooled=_one_scale(data)
    )
    if not scores.n_used:
        why = _("no rater has {n} ratings").format(n=MIN_RATINGS)
        if not data.ratings.n_raters:
            why = _("nobody is named in the data")
        section.missing.append(_("Scores on each rater’s own scale: {why}.").format(why=why))
        return
    means = np.array(
        [
            row[np.isfinite(row)].mean() if np.isfinite(row).any() else np.nan
            for row in scores.values
        ]
    )
    digits = digits_for(data.headline.low, data.headline.high)
    rows, plain, own = [], [], []
    for bot in data.rated_bots:
        mine = data.bot == bot
        found = mean_interval(means[mine], data.ratings.unit[mine].tolist())
        raw = float(np.nanmean(data.values[mine]))
        info = data.bots[bot]
        rows.append(
            [
                Cell(info.title, slot=info.slot, hollow=info.is_control),
                number_cell(raw, digits),
                number_cell(found.mean, 2, said(found.reason)),
                span_cell(found.low, found.high, why=said(found.reason)),
                count_cell(found.n),
            ]
        )
        if found.mean is not None and not info.is_control:
            plain.append(raw)
            own.append(found.mean)
    same = correlate(plain, own, "spearman", interval="fisher")
    headers = [Header(_("Bot"))] + [
        Header(text, numeric=True) for text in (_("Mean"), _("z-score"), "90 %", "n")
    ]
    section.lead.append(
        _(
            "{raters} gave at least {least} ratings, {used} of {all} in all; on their own scales the bots "
            "come out in {order}."
        ).format(
            raters=counts.raters(len(scores.raters)),
            least=MIN_RATINGS,
            used=f"{scores.n_used:,}",
            all=f"{scores.n_ratings:,}",
            order=_order(same.r),
        )
    )
    section.tables.append(
        NamedTable(
            "zscores",
            _("On each rater’s own scale"),
            Table(headers, rows),
            method=_(
                "Each rating minus its rater’s mean, over its rater’s standard deviation; raters with at least {n} "
                "ratings. Mean over the dimensions."
            ).format(n=MIN_RATINGS),
            note=_("Left out, most for having rated less: {raters}.").format(
                raters=counts.raters(len([name for name in scores.left_out if name]))
            ),
        )
    )


def _order(rho: float | None) -> str:
    if rho is None:
        return _("an order that cannot be compared")
    return (
        _("the same order")
        if rho > 0.9999
        else _("nearly the same order (ρ = {rho})").format(rho=share(rho))
        if rho > 0.8
        else _("another order (ρ = {rho})").format(rho=share(rho))
    )


def _one_scale(data: StudyData) -> bool:
    return len({(d.low, d.high) for d in data.dimensions}) == 1


def screened(data: StudyData) -> list[Verdict]:
    """Judge every named rater by every rule that fits the data; all dimensions must share one scale."""
    low, high = data.dimensions[0].low, data.dimensions[0].high
    control = ~data.ratings.ranked
    turned = [d.reversed or d.key in data.turned for d in data.dimensions]
    return screen_raters(
        data.ratings.table(),
        data.ratings.rater.tolist(),
        scale=(low, high),
        bots=data.bot.tolist(),
        control=control.tolist() if control.any() else None,
        seconds=_seconds(data),
        turned=turned if any(turned) else None,
        rules=None if len(data.dimensions) > 1 else [rule for rule in RULES if rule != "flat"],
    )


def _seconds(data: StudyData) -> np.ndarray | None:
    """Return how long each chat took, in seconds; None where no chat was held here."""
    rows = data.conversations.filter(source=Conversation.Source.CHAT, ended_at__isnull=False)
    took = {
        str(pk): (end - begin).total_seconds()
        for pk, begin, end in rows.values_list("pk", "created_at", "ended_at")
        if end is not None
    }
    if not took:
        return None
    return np.array([took.get(pk, np.nan) for pk in data.ratings.conversation])


def _filters(data: StudyData, section: Section, names: bool) -> None:
    if not data.ratings.n_raters:
        section.missing.append(_("Rater filters: nobody is named in the data."))
        return
    if not _one_scale(data):
        section.missing.append(_("Rater filters: the questions have different scales."))
        return
    verdicts = screened(data)
    failed = [verdict for verdict in verdicts if not verdict.passed]
    section.lead.append(
        ngettext(
            "Rater filters would flag %(failed)d of %(n)d rater",
            "Rater filters would flag %(failed)d of %(n)d raters",
            len(verdicts),
        )
        % {"failed": len(failed), "n": len(verdicts)}
        + _("; nobody has been left out of any number here.")
    )
    section.tables.append(_rules_table(verdicts))
    if failed:
        section.tables.append(_without(data, {verdict.rater for verdict in failed}))
    if names and failed:
        section.tables.append(_flagged(failed))


def _rules_table(verdicts: Sequence[Verdict]) -> NamedTable:
    headers = [Header(_("Rule"))]
    headers += [
        Header(t, numeric=True)
        for t in (_("Flagged"), _("Passed"), _("Cannot judge"), _("Threshold"))
    ]
    rows = []
    for i, finding in enumerate(verdicts[0].findings):
        results = [verdict.findings[i].failed for verdict in verdicts]
        no_judge = next(
            (v.findings[i].reason for v in verdicts if v.findings[i].failed is None), ""
        )
        rows.append(
            [
                Cell(str(_RULE_TITLES.get(finding.rule, finding.rule))),
                count_cell(sum(r is True for r in results)),
                count_cell(sum(r is False for r in results)),
                Cell(
                    str(sum(r is None for r in results)),
                    why=no_judge.removeprefix("cannot judge: "),
                    raw=(sum(r is None for r in results),),
                ),
                Cell(f"{finding.threshold:.2g}", raw=(finding.threshold,)),
            ]
        )
    least = Thresholds()
    return NamedTable(
        "filters",
        _("What rater filters would flag"),
        Table(headers, rows),
        method=_(
            "One rule is enough to be flagged. Judged from {chats} conversations or {bots} bots on."
        ).format(chats=least.min_conversations, bots=least.min_bots),
        note=_(
            "Decide on the rules before looking at results: leaving raters out for what they say of the bots "
            "makes any result come true."
        ),
    )


def _without(data: StudyData, flagged: set[str]) -> NamedTable:
    """Tabulate the bots' means with and without the flagged raters."""
    digits = digits_for(data.headline.low, data.headline.high)
    kept = np.array([rater not in flagged for rater in data.ratings.rater], dtype=bool)
    units = data.ratings.unit
    headers = [Header(_("Bot"))]
    headers += [
        Header(t, numeric=True)
        for t in (
            _("All raters"),
            "n",
            _("Without the flagged"),
            "90 %",
            "n",
            _("Flagged only"),
            "n",
        )
    ]
    rows = []
    for bot in data.rated_bots:
        mine = (data.bot == bot) & np.isfinite(data.values)
        good, bad = mine & kept, mine & ~kept
        found = mean_interval(data.values[good], list(units[good]))
        only = float(data.values[bad].mean()) if bad.any() else None
        info = data.bots[bot]
        rows.append(
            [
                Cell(info.title, slot=info.slot, hollow=info.is_control),
                number_cell(float(data.values[mine].mean()), digits),
                count_cell(int(mine.sum())),
                number_cell(found.mean, digits, said(found.reason)),
                span_cell(found.low, found.high, digits, why=said(found.reason)),
                count_cell(int(good.sum())),
                number_cell(only, digits, _("none of them rated it")),
                count_cell(int(bad.sum())),
            ]
        )
    return NamedTable("unflagged", _("What leaving them out would change"), Table(headers, rows))


def _flagged(failed: Sequence[Verdict]) -> NamedTable:
    headers = [Header(_("Rater")), Header(_("Ratings"), numeric=True), Header(_("Why"))]
    rows = [
        [Cell(verdict.rater[:8]), count_cell(verdict.n), Cell("; ".join(verdict.reasons))]
        for verdict in failed
    ]
    return NamedTable("flagged", _("Raters who would be flagged"), Table(headers, rows))
