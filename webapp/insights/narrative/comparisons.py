"""Means of bots, significant differences, raters needed, and prediction-powered gain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from evaluation.analysis.answers import DimensionAnswers
from evaluation.analysis.bot_means import BotMeans
from evaluation.analysis.comparisons import Comparisons, Units
from evaluation.analysis.planning import PredictionWorth, RaterPlan, prediction_worth
from evaluation.analysis.prediction_powered import PoweredMeans
from evaluation.data.ratings import MEAN_KEY, RatingDimension
from evaluation.data.result_tables import (
    Cell,
    NamedTable,
    count_cell,
    declared_table,
    number_cell,
    share_cell,
    span_cell,
)
from evaluation.number_format import digits_for, figure, percent, share
from evaluation.stats.comparisons import Comparison
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.effect_sizes import Effect, EffectSizes
from evaluation.stats.power import RaterNeed
from webapp.insights.charts.bots import bots_figure
from webapp.insights.charts.distributions import answers_figure
from webapp.insights.charts.matrix import differences_figure
from webapp.insights.narrative import phrases
from webapp.insights.narrative.conditions import within_sentence
from webapp.insights.narrative.phrases import Section, listed, mean_cells, named_cell, reason_text, two_digits
from webapp.insights.narrative.verdicts import (
    by_units,
    deciding_sentences,
    name_comparison_test,
    one_look,
    overall_verdict,
    pair_counts_sentence,
    pair_verdict,
    ranking_verdicts,
    smallest_sentences,
    untested_reasons,
)
from webapp.jobs.selectors.fits import fit_leading
from webapp.jobs.selectors.metrics import metric_titles
from webapp.ratings.selectors import study_whole
from webapp.results.bot_means import HYBRID_SOURCE, BotSummary, StudyPowered, StudySummary
from webapp.results.compute import StudyComparisons
from webapp.results.study_data import StudyFrame
from webapp.search.chat_selection import FEEDBACK, ChatSelection
from webapp.studies.assignment.capacity import keeps_always_valid


def bot_link(frame: StudyFrame, bot: BotSummary, dimension: RatingDimension | None) -> str:
    """Return the address of the conversations behind a bot's mean, or behind the votes on its replies (None)."""
    if dimension is not None:
        return frame.mean_link(dimension, bot.bot.bot_id)
    return frame.link(ChatSelection.of(sort="-down", highlight=FEEDBACK, bot=bot.bot.bot_id, is_="voted"))


def ratings_section(frame: StudyFrame, summary: StudySummary, answers: DimensionAnswers) -> Section:
    """Show the means with intervals, and the distribution of answers.

    Args:
        answers: distribution of the ratings that bots are ranked by.
    """
    return Section(
        "ratings",
        "Ratings by bot",
        figures=[bots_figure(summary, partial(bot_link, frame)), answers_figure(answers, frame.headline, frame.bots)],
        tables=[] if summary.means is None else [_distributions(frame, summary.means)],
    )


def _distributions(frame: StudyFrame, means: BotMeans) -> NamedTable:
    """Tabulate every bot's answers to every question by five numbers."""

    def numbers(row: tuple[str, RatingDimension]) -> list[Cell]:
        bot, dimension = row
        distribution = means.rows[bot, dimension.key]
        n, digits = distribution.interval.n, digits_for(dimension.low, dimension.high)
        reason = "a single rating has no spread" if n else "no ratings on this dimension"
        values = [distribution.interval.mean, distribution.sd, *distribution.quantiles] if n else [None] * 7
        return [count_cell(n), *(number_cell(value, digits, reason) for value in values)]

    return declared_table(
        "distributions",
        "Distribution of the ratings of each bot",
        [(bot, dimension) for bot in frame.rated_bots for dimension in frame.all_dimensions],
        ("Bot", lambda row: named_cell(frame.bots, row[0])),
        ("Dimension", lambda row: Cell(row[1].title)),
        (("n", "Mean", "SD", "Lowest", "25 %", "Median", "75 %", "Highest"), numbers),
    )


def prediction_of(frame: StudyFrame) -> PredictionWorth | None:
    """Return the ratings that predictions save for additional bots.

    None without a fit.
    """
    fit = fit_leading(frame.study, frame.excluded_flags)
    return prediction_worth(fit.result, study_whole(frame.study)) if fit is not None and fit.result else None


def comparisons_section(frame: StudyFrame, comparisons: StudyComparisons) -> Section:
    """Return the section on the ranking, and on undecided pairs."""
    compared = comparisons.compared
    digits = digits_for(frame.headline.low, frame.headline.high)
    titles = {bot: info.title for bot, info in frame.bots.items()}
    section = Section("comparisons", "Which bots differ significantly")
    if len(frame.rated_bots) < 2:
        section.missing.append("Only one bot is rated, so there is nothing to compare.")
        return section
    section.lead.append(conclusion(frame, compared, frame.headline))
    section.methods.extend(filter(None, [within_sentence(compared)]))
    section.methods.extend([*deciding_sentences(compared), *smallest_sentences(frame.study, compared.smallest, digits)])
    section.points.extend(ranking_verdicts(compared, titles, digits))
    section.points_title = "Each bot and the next one in the ranking"
    if compared.controls:
        section.lead.append(_controls(compared, titles))
    section.figures.append(
        differences_figure(
            [frame.bots[bot] for bot in frame.rated_bots],
            {(pair.a, pair.b): pair for pair in compared.pairs},
            {(pair.a, pair.b): pair_verdict(pair, compared, titles, digits) for pair in compared.pairs},
            digits=digits,
            title="How far apart are they?",
            method=(
                f"{frame.headline.title}: the first bot’s mean minus the second’s, by least squares "
                f"({name_comparison_test(compared)}, corrected for {phrases.pairs_text(compared.n_pairs)})."
            ),
            marks="Row minus column. Coloured cells: significant differences.",
            level=1 - compared.alpha,
            link=partial(frame.mean_link, frame.headline),
            note="The intervals are not corrected for the number of pairs.",
        )
    )
    sizes = [
        (f"{titles.get(a, a)} − {titles.get(b, b)}", effect_sizes, frame.mean_link(frame.headline, a, b))
        for (a, b), effect_sizes in compared.effects.items()
    ]
    section.tables += [effects_table("Pair", sizes, compared), _plan_table(frame, compared)]
    if comparisons.planned is not None:
        other_rows = tuple(row for row in comparisons.planned.rows if row.difference != comparisons.planned.smallest)
        plan = replace(comparisons.planned, rows=other_rows)
        section.tables.append(planning_table(frame, plan, prediction_of(frame)))
    return section


def conclusion(frame: StudyFrame, compared: Comparisons, dimension: RatingDimension) -> str:
    """Return the conclusion on the pairs, and the leading bot.

    Pairs are clearly different, equal, or not yet known.

    Args:
        dimension: the question that was compared, with its title for people.
    """
    if not compared.n_pairs:
        return overall_verdict(compared, {})
    question_text = f"the {dimension.title.lower()}" if dimension.key == MEAN_KEY else f"“{dimension.title}”"
    titles = {bot: info.title for bot, info in frame.bots.items()}
    summary = pair_counts_sentence(
        question_text,
        compared.n_told_apart,
        [f"{titles.get(pair.a, pair.a)} and {titles.get(pair.b, pair.b)}" for pair in compared.equal],
        len(compared.unknown),
        compared.n_pairs,
        figure(compared.smallest, digits_for(dimension.low, dimension.high)),
    )
    if compared.untested:
        n_pairs, reasons = phrases.pairs_text(len(compared.untested)), untested_reasons(compared)
        summary = f"{summary} {n_pairs} cannot be compared: {reasons}."
    return f"{summary} {overall_verdict(compared, titles)}"


def _controls(compared: Comparisons, titles: dict[str, str]) -> str:
    """Compose a sentence on the bots rated above each control."""
    return " ".join(
        f"The control {titles[control]} is rated below {compared.below(control)} of {len(compared.order)} other bots."
        for control in compared.controls
    )


EffectsRow = tuple[str, EffectSizes | None, str]
"""Name of a difference, its effect sizes, and the address of its conversations."""


def effects_table(row_title: str, rows: Iterable[EffectsRow], compared: Comparisons) -> NamedTable:
    """Tabulate effect sizes of differences.

    Args:
        row_title: title of the first column.
        compared: comparisons that define units and level.
    """
    none = EffectSizes(Effect(), Effect(), Effect())
    level = percent(1 - compared.alpha)

    def cells(size: Callable[[EffectSizes], Effect]) -> Callable[[EffectsRow], list[Cell]]:
        return lambda row: mean_cells(size(row[1] or none), attribute="value")

    return declared_table(
        "effects",
        "Effect sizes of the differences",
        rows,
        (row_title, lambda row: Cell(row[0], row[2])),
        (("Standard deviations", level), cells(lambda sizes: sizes.standardised)),
        (("Share of the scale", level), cells(lambda sizes: sizes.share)),
        (("Chance of a higher rating", level), cells(lambda sizes: sizes.superiority)),
        method=(
            "Standard deviations: the difference divided by the standard deviation of the two bots’ ratings. Share "
            "of the scale: the difference divided by the range from the lowest to the highest answer. Chance of a "
            "higher rating: the probability that a rating of the first bot exceeds one of the second. Ties count "
            f"half, so 0.50 means no difference. Intervals are clustered by {compared.units.replace('_', ' ')}, like "
            "the tests, and not corrected for the number of pairs."
        ),
    )


def _plan_table(frame: StudyFrame, compared: Comparisons) -> NamedTable:
    """Tabulate the sample-size plan of each pair for the deciding test."""
    digits = digits_for(frame.headline.low, frame.headline.high)
    units = "raters" if compared.units == "raters" else "units"
    is_always = compared.test == "always"

    def needed(pair: Comparison) -> Cell:
        plan = compared.plan(pair.a, pair.b)
        if is_always and compared.need(pair) == "enough":
            return Cell("none", raw=(0,))
        n = compared.more.get((pair.a, pair.b))
        if not is_always:
            n = None if plan is None else plan.needed
        if n is None:
            reason = pair.reason or (None if plan is None else plan.reason)
            return count_cell(None, reason_text(reason) or "no number is enough")
        return Cell(two_digits(n), raw=(n,))

    def now(pair: Comparison) -> Cell:
        plan = compared.plan(pair.a, pair.b)
        counts = () if plan is None else (plan.n_a, plan.n_b)
        return Cell(", ".join(map(str, dict.fromkeys(counts))), raw=counts)

    unit_title = _units_named(compared.units)
    return declared_table(
        "needed",
        f"{'Raters' if units == 'raters' else 'Conversations'} needed for each pair",
        compared.pairs if compared.plans else (),
        (
            "Pair",
            lambda pair: Cell(
                f"{frame.title(pair.a)} − {frame.title(pair.b)}", frame.mean_link(frame.headline, pair.a, pair.b)
            ),
        ),
        (f"{units.capitalize()} now", now),
        ("Difference", lambda pair: number_cell(pair.difference, digits, reason_text(pair.reason))),
        (percent(1 - compared.alpha), lambda pair: span_cell(pair.low, pair.high, digits)),
        (f"More {units} needed" if is_always else f"{units.capitalize()} needed", needed),
        method=(
            f"Additional {unit_title.lower()} per bot that the always-valid test needs to show the smallest "
            f"difference of interest, {figure(compared.smallest, digits)}, if the spread of ratings stays the same."
            if is_always
            else (
                f"{unit_title} per bot needed to show the smallest difference of interest, "
                f"{figure(compared.smallest, digits)}, with a power of {share(compared.power)} at p < "
                f"{share(compared.alpha)} shared among {len(compared.plans)} pairs. Standard errors come from the "
                "test of these two bots alone."
            )
        ),
        note="The plan does not use the observed difference, which is uncertain when there are few ratings.",
    )


def _plans_one_look() -> str:
    return (
        "The plan assumes the fixed-sample test, in a study opened with this planned number. Without a planned "
        "number, more are needed."
    )


def planning_table(frame: StudyFrame, plan: RaterPlan, worth: PredictionWorth | None = None) -> NamedTable:
    """Tabulate the raters needed for other differences.

    They are per bot, at this study's variance.

    Args:
        worth: ratings saved by the hybrid metric's predictions of additional bots.
    """
    digits = digits_for(frame.headline.low, frame.headline.high)
    # A conversation has one bot, so raters without an ID never rate both bots.
    is_paired = plan.units != "conversations"
    paired = ("Same raters for both", lambda row: _need_cell(row.paired_least, row.paired))
    predicted = ("With the prediction", lambda row: _need_cell(row.independent_least, row.independent, worth))
    note = ""
    if plan.smallest is not None:
        note = f"The smallest difference of interest is {figure(plan.smallest, digits)} points. "
    if plan.detectable is not None:
        note += (
            f"With {by_units(plan.units, plan.n_fewest)} per bot, the fewest here, a difference of "
            f"{figure(plan.detectable, digits)} points is detected with a probability of {percent(plan.power)}."
        )
    if worth is not None:
        note = f"{note} {_prediction(frame, worth)}".strip()
    note = f"{note} {_plans_one_look()}".strip()
    return declared_table(
        "planning",
        f"{'Raters' if is_paired else 'Conversations'} per bot for other differences, in a new study",
        plan.rows,
        ("Difference", lambda row: number_cell(row.difference, digits)),
        ("Share of the scale", lambda row: Cell(f"{100 * row.share:.3g} %")),
        (
            "Separate raters per bot" if is_paired else "Conversations needed",
            lambda row: _need_cell(row.independent_least, row.independent),
        ),
        *([] if worth is None else [predicted]),
        *([paired] if is_paired else []),
        method=(
            f"{_units_named(plan.units)} per bot, with one rating each, for a power of {share(plan.power)}, "
            f"{phrases.pairs_text(plan.n_comparisons)} compared; {percent(plan.rater_share)} of the variance between "
            f"{_units_named(plan.units).lower()}. {_spreads(frame, plan, digits)}"
        ),
        note=note,
    )


def _units_named(units: Units) -> str:
    """Return the name of the units."""
    return {
        "raters": "Raters",
        "conversations": "Conversations",
        "raters_and_conversations": "Raters or unnamed conversations",
    }[units]


def _need_cell(minimum: RaterNeed | None, maximum: RaterNeed | None, worth: PredictionWorth | None = None) -> Cell:
    """Show the smallest and the largest number needed by any pair."""
    if minimum is None or maximum is None:
        return Cell("–", reason="all ratings of a bot are equal")
    numbers = [
        need.n if need.n is None or worth is None else worth.count_remaining(need.n) for need in (minimum, maximum)
    ]
    ends = ["–" if n is None else two_digits(n) for n in numbers]
    text = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    return Cell(text, reason=reason_text(maximum.reason), raw=tuple(numbers))


def _prediction(frame: StudyFrame, worth: PredictionWorth) -> str:
    """Describe the bots for which a prediction saves ratings, and its limits."""
    return (
        f"With the prediction: for additional bots similar to {listed([frame.title(bot) for bot in worth.bots])}, "
        "whose ratings the hybrid metric uses for its predictions. A prediction is worth about "
        f"{two_digits(round(worth.ratings))} ratings per bot (empirical Bayes). Such a mean alone never supports “A "
        "is better than B”."
    )


def _spreads(frame: StudyFrame, plan: RaterPlan, digits: int) -> str:
    """Name the pairs with the most and the least variable ratings.

    They define the range of a plan.
    """
    if not plan.pairs:
        return ""
    widest, narrowest = plan.pairs[0], plan.pairs[-1]
    if widest is narrowest:
        return f"The standard deviation of a rating is {figure(widest.sd, digits)}."
    return (
        f"{frame.title(narrowest.a)} and {frame.title(narrowest.b)} need the fewest, because their ratings vary least "
        f"(standard deviation {figure(narrowest.sd, digits)}). {frame.title(widest.a)} and {frame.title(widest.b)} "
        f"need the most ({figure(widest.sd, digits)})."
    )


def headline_sentence(frame: StudyFrame, summary: StudySummary) -> str:
    """Compose the sentence on the leading bot, with its mean and interval."""
    order = [bot for bot in frame.rated_bots if not frame.bots[bot].is_control]
    if not order:
        return ""
    best = next(bot for bot in summary.bots if bot.bot.bot_id == order[0])
    estimate = best.intervals[frame.headline.key]
    digits = digits_for(frame.headline.low, frame.headline.high)
    question_text = "of all dimensions" if frame.headline.key == MEAN_KEY else frame.headline.title.lower()
    mean = f"{figure(estimate.mean, digits)} of {frame.headline.high:g}"
    sentence = f"{best.bot.title} is rated highest, with a mean {question_text} of {mean}"
    if estimate.low is None:
        return f"{sentence} ({reason_text(estimate.reason)})."
    level = percent(RATING_LEVEL if summary.means is None else summary.means.level)
    return f"{sentence}, {level} interval {figure(estimate.low, digits)} to {figure(estimate.high, digits)}."


def predictor_title(name: str) -> str:
    """Return the title of a predictor."""
    return "the hybrid metric" if name == HYBRID_SOURCE else metric_titles().get(name, name)


def powered_section(frame: StudyFrame, powered: StudyPowered, predictor: str = "") -> Section:
    """Return the section on the gain by predictions.

    It has a table if there is a gain.

    Args:
        predictor: name of the predictor; "" for the first.
    """
    section = Section("powered", "Gain from unrated conversations")
    means = powered.by.get(predictor) or powered.by.get(powered.first or "")
    if not powered.n_unrated:
        section.missing.append("All finished conversations are rated.")
    elif means is None:
        section.missing.append(
            f"Metrics have not been computed for the {phrases.conversations_text(powered.n_unrated)} without a rating."
        )
    if means is None:
        return section
    section.lead.append(_gain_sentence(means))
    if means.gains:
        if means.unlike:
            section.caution = (
                "The predictor differs significantly between rated and unrated conversations of "
                f"{listed([frame.title(bot) for bot in means.unlike])}. If participants chose what to rate, or left "
                "before rating, report the means of the ratings alone."
            )
        section.tables.append(_table(frame, means))
    return section


def _quote_predictor(name: str) -> str:
    """Return the title of a predictor as a part of a sentence."""
    return predictor_title(name) if name == HYBRID_SOURCE else f"“{predictor_title(name)}”"


def _gain_sentence(means: PoweredMeans) -> str:
    predictor = _quote_predictor(means.by)
    if means.saved is None:
        reasons = dict.fromkeys(
            reason_text(powered_mean.reason) for powered_mean in means.bots.values() if powered_mean.reason
        )
        return f"Predictions by {predictor} cannot be used: {'; '.join(reasons) or 'no bot is rated'}."
    if not means.gains:
        return f"Predictions by {predictor} do not help here. Report the means of the ratings alone."
    return (
        f"Predicting unrated conversations by {predictor} reduces the variance of the bots’ means by "
        f"{percent(means.saved)}, as much as {percent(1 / (1 - means.saved) - 1)} more ratings would."
    )


def _table(frame: StudyFrame, means: PoweredMeans) -> NamedTable:
    digits = digits_for(frame.headline.low, frame.headline.high)
    ends = percent(means.level)
    alone = {
        "raters": "one rater only",
        "conversations": "one conversation only",
        "raters_and_conversations": "one rater or unnamed conversation only",
    }[means.units]
    clusters = {
        "raters": "clustered by rater",
        "conversations": "clustered by conversation, as there are no rater IDs",
        "raters_and_conversations": "clustered by rater, or by conversation if there is no rater ID",
    }[means.units]
    return declared_table(
        "powered",
        f"{frame.headline.title} with and without predictions for unrated conversations",
        [(bot, means.bots[bot]) for bot in frame.rated_bots if bot in means.bots],
        ("Bot", lambda row: named_cell(frame.bots, row[0])),
        ("Ratings", lambda row: count_cell(row[1].n)),
        ("Unrated", lambda row: count_cell(row[1].n_unrated)),
        ("Mean of the ratings", lambda row: number_cell(row[1].ratings, digits)),
        (ends, lambda row: span_cell(row[1].ratings_low, row[1].ratings_high, digits, reason=alone)),
        (("With predictions", ends), lambda row: mean_cells(row[1], digits)),
        (
            "Ratings saved",
            lambda row: share_cell(row[1].saved, reason=reason_text(row[1].reason) or "all ratings are equal"),
        ),
        method=(
            f"Prediction-powered means (PPI++; Angelopoulos, Duchi and Zrnic, 2023) by {_quote_predictor(means.by)}, "
            f"with separate weights for each bot. Both intervals use Student’s t, {clusters}. Ratings saved: the "
            "share of ratings that could be omitted at the same precision. It is negative if predictions reduce "
            "precision."
        ),
        note=(
            "Valid if rated and unrated conversations come from the same population. Choose the predictor before you "
            "look at the results: the best of many looks better than it is."
        )
        + (f" {one_look()}" if keeps_always_valid(frame.study) else ""),
    )
