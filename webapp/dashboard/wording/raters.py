"""Raters' agreement, use of the scale, and flags by rater filters, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from evaluation.analysis.agreement import Coefficient, RaterAgreement
from evaluation.analysis.raters import LEVEL, OwnScales, RaterAnalysis, Screening
from evaluation.printing import digits_for, percent, share, span
from evaluation.ratings import Dimension
from evaluation.stats.rater_filters import Verdict
from webapp.dashboard import counts
from webapp.dashboard.plots.figure import Cell, Header, Table
from webapp.dashboard.wording.reasons import said
from webapp.dashboard.wording.sections import (
    NamedTable,
    Section,
    count_cell,
    number_cell,
    share_cell,
    span_cell,
)
from webapp.ratings.bots import BotInfo

Bots = Mapping[str, BotInfo]

_RULES = {
    "flat": gettext_lazy("The same answer to all questions"),
    "narrow": gettext_lazy("Hardly any variation"),
    "disagrees": gettext_lazy("Opposite to the other raters"),
    "too_fast": gettext_lazy("Faster than reading allows"),
    "contradicts": gettext_lazy("Affirms opposite statements"),
    "control": gettext_lazy("Control not rated lower"),
}


def raters_section(
    found: RaterAnalysis,
    dimensions: Sequence[Dimension],
    bots: Bots,
    *,
    names: bool = True,
    of_items: bool = False,
) -> Section:
    """Return agreement, scores on each rater's own scale and rater filters.

    Args:
        dimensions: with their titles, what bots are ranked by first.
        bots: by id, those that are rated at least.
        names: whether to list flagged raters one by one (a report gives their numbers only).
        of_items: whether items were rated, not conversations.
    """
    headline = dimensions[0]
    section = Section("raters", _("The raters"))
    section.lead.extend(agreement_sentences(found.agreement, headline, of_items=of_items))
    section.tables.append(agreement_table(found.agreement, dimensions, of_items=of_items))
    if found.own_scales.reason is not None:
        why = said(found.own_scales.reason)
        section.missing.append(_("Scores on each rater’s own scale: {why}.").format(why=why))
    else:
        section.lead.append(_own_sentence(found.own_scales))
        section.tables.append(_own_table(found.own_scales, headline, bots))
    if found.screening.reason is not None:
        why = said(found.screening.reason)
        section.missing.append(_("Rater filters: {why}.").format(why=why))
        return section
    section.lead.append(_screening_sentence(found.screening))
    section.tables.append(_rules_table(found.screening))
    if found.screening.flagged:
        section.tables.append(_without(found.screening, headline, bots))
        if names:
            section.tables.append(_flagged(found.screening.flagged))
    return section


def agreement_table(
    found: RaterAgreement, dimensions: Sequence[Dimension], *, of_items: bool = False
) -> NamedTable:
    """Return each coefficient that fits, for each dimension; the others say why they do not."""
    headers = [Header(_("Dimension")), Header(_("Coefficient")), Header(_("Agreement about"))]
    headers += [Header(t, numeric=True) for t in (_("Value"), "95 %", _("Items"), _("Ratings"))]
    titles = {dimension.key: dimension.title for dimension in dimensions}
    same = _("the same item") if of_items else _("the same conversation")
    rows = [
        [
            Cell(titles[one.dimension]),
            Cell(_coefficient(one)),
            Cell(_("the same bot") if one.about == "bot" else same),
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
            "95 % intervals over items by the jackknife, of a median by resampling; of intraclass correlations by the F distribution."
        ),
        note=_("0 is what chance gives, 1 is full agreement.")
        if of_items
        else _(
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


def agreement_sentences(
    found: RaterAgreement, headline: Dimension, *, of_items: bool = False
) -> list[str]:
    """Compose sentences on raters' agreement on the same conversation, or else on the bots."""
    same, name = found.same_conversation, headline.title.lower()
    if same.value is not None:
        words = (
            _("Raters of the same item agree on {name} by Krippendorff’s α = {value} {ends}.")
            if of_items
            else _(
                "Raters of the same conversation agree on {name} by Krippendorff’s α = {value} {ends}."
            )
        )
        return [
            words.format(
                name=name, value=share(same.value), ends=span(same.low, same.high, shares=True)
            )
        ]
    told = [
        _("Agreement on single items is undefined: hardly any is rated by more than one person.")
        if of_items
        else _(
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
                many=share(many.value),
            )
        )
    return told


def _own_sentence(found: OwnScales) -> str:
    rho = found.order.r if found.order is not None else None
    if rho is None:
        words = _(
            "{raters} gave at least {least} ratings, {used} of {all} in all; on their own scales the order of the "
            "bots cannot be compared."
        )
    elif rho > 0.9999:
        words = _(
            "{raters} gave at least {least} ratings, {used} of {all} in all; on their own scales the bots come out "
            "in the same order."
        )
    elif rho > 0.8:
        words = _(
            "{raters} gave at least {least} ratings, {used} of {all} in all; on their own scales the bots come out "
            "in nearly the same order (ρ = {rho})."
        )
    else:
        words = _(
            "{raters} gave at least {least} ratings, {used} of {all} in all; on their own scales the bots come out "
            "in another order (ρ = {rho})."
        )
    return words.format(
        raters=counts.raters(found.n_raters),
        least=found.least,
        used=f"{found.n_used:,}",
        all=f"{found.n_ratings:,}",
        rho=share(rho),
    )


def _own_table(found: OwnScales, headline: Dimension, bots: Bots) -> NamedTable:
    digits = digits_for(headline.low, headline.high)
    headers = [Header(_("Bot"))]
    headers += [
        Header(text, numeric=True) for text in (_("Mean"), _("z-score"), percent(LEVEL), "n")
    ]
    rows = [
        [
            _name(bots[bot.bot]),
            number_cell(bot.mean, digits),
            number_cell(bot.own.mean, 2, said(bot.own.reason)),
            span_cell(bot.own.low, bot.own.high, why=said(bot.own.reason)),
            count_cell(bot.own.n),
        ]
        for bot in found.bots
    ]
    return NamedTable(
        "zscores",
        _("On each rater’s own scale"),
        Table(headers, rows),
        method=_(
            "Each rating minus its rater’s mean, over its rater’s standard deviation; raters with at least {n} "
            "ratings. Mean over the dimensions."
        ).format(n=found.least),
        note=_("Left out, most for having rated less: {raters}.").format(
            raters=counts.raters(found.n_left_out)
        ),
    )


def _screening_sentence(found: Screening) -> str:
    return ngettext(
        "Rater filters would flag %(flagged)s of %(n)s rater; nobody has been left out of any number here.",
        "Rater filters would flag %(flagged)s of %(n)s raters; nobody has been left out of any number here.",
        found.n_raters,
    ) % {"flagged": f"{len(found.flagged):,}", "n": f"{found.n_raters:,}"}


def _rules_table(found: Screening) -> NamedTable:
    headers = [Header(_("Rule"))]
    headers += [
        Header(text, numeric=True)
        for text in (_("Flagged"), _("Passed"), _("Cannot judge"), _("Threshold"))
    ]
    rows = [
        [
            Cell(str(_RULES.get(rule.rule, rule.rule))),
            count_cell(rule.n_flagged),
            count_cell(rule.n_passed),
            Cell(f"{rule.n_undecided:,}", why=said(rule.reason), raw=(rule.n_undecided,)),
            Cell(f"{rule.threshold:.2g}", raw=(rule.threshold,)),
        ]
        for rule in found.rules
    ]
    return NamedTable(
        "filters",
        _("What rater filters would flag"),
        Table(headers, rows),
        method=_(
            "One rule is enough to be flagged. Judged from {chats} conversations or {bots} bots on."
        ).format(chats=found.least_conversations, bots=found.least_bots),
        note=_(
            "Decide on the rules before looking at results: leaving raters out for what they say of the bots can produce any result."
        ),
    )


def _without(found: Screening, headline: Dimension, bots: Bots) -> NamedTable:
    """Return the bots' means with and without the flagged raters."""
    digits = digits_for(headline.low, headline.high)
    titles = (_("All raters"), "n", _("Without the flagged"), percent(LEVEL), "n")
    headers = [Header(_("Bot"))]
    headers += [Header(text, numeric=True) for text in (*titles, _("Flagged only"), "n")]
    rows = [
        [
            _name(bots[bot.bot]),
            number_cell(bot.mean, digits),
            count_cell(bot.n),
            number_cell(bot.kept.mean, digits, said(bot.kept.reason)),
            span_cell(bot.kept.low, bot.kept.high, digits, why=said(bot.kept.reason)),
            count_cell(bot.kept.n),
            number_cell(bot.flagged, digits, _("none of them rated it")),
            count_cell(bot.n_flagged),
        ]
        for bot in found.bots
    ]
    return NamedTable("unflagged", _("What leaving them out would change"), Table(headers, rows))


def _flagged(flagged: Sequence[Verdict]) -> NamedTable:
    headers = [Header(_("Rater")), Header(_("Ratings"), numeric=True), Header(_("Why"))]
    rows = [
        [
            Cell(verdict.rater[:8]),
            count_cell(verdict.n),
            Cell("; ".join(said(reason) for reason in verdict.reasons)),
        ]
        for verdict in flagged
    ]
    return NamedTable("flagged", _("Raters who would be flagged"), Table(headers, rows))


def _name(bot: BotInfo) -> Cell:
    return Cell(bot.title, slot=bot.slot, hollow=bot.is_control)
