"""Paired comparisons in words and tables, and their agreement with chats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from evaluation.analysis.ordered_choices import ChoiceResults
from evaluation.analysis.pairs import MOST_EXCHANGES, Kappa, PairOutcome, PairResults
from evaluation.analysis.single_turn import ProtocolComparison, ProtocolPair
from evaluation.data.result_tables import (
    Cell,
    NamedTable,
    count_cell,
    declared_table,
    number_cell,
    p_cell,
    share_cell,
    span_cell,
)
from evaluation.number_format import figure, percent, share, span
from evaluation.stats.bradley_terry import BradleyTerry
from evaluation.stats.means import Interval
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import Section, listed, mean_cells, named_cell, reason_text
from webapp.insights.narrative.verdicts import (
    CLEARLY_BETTER,
    equality_clause,
    one_look,
    pair_counts_sentence,
    smallest_sentences,
)
from webapp.ratings.selectors import BotInfo, study_bots
from webapp.results.item_results import PairPage
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

Bots = Mapping[str, BotInfo]
Titles = Mapping[str, str]


PairLink = Callable[..., str]
"""Address of the chats with any of these bots; "" without one."""


def pairs_section(
    study: Study, pair_results: PairResults, titles: Titles, bots: Bots, link: PairLink = lambda *bots: ""
) -> Section:
    """Return wins, ties and losses of all pairs of bots, agreement and strengths."""
    section = Section("pairs", "Preferred replies")
    leading = next(iter(titles))
    section.lead.append(pairs_conclusion(pair_results, titles, bots))
    people, choices = phrases.people_text(pair_results.n_raters), pair_results.choices
    implied = f"{phrases.judgements_text(pair_results.n)} of {phrases.pairs_text(pair_results.n_items)}"
    section.lead.append(
        f"{people} gave {implied}."
        if choices is None
        else f"{people} {choices.activity.format(n=f'{choices.n:,}')}, which implies {implied}."
    )
    alpha = share(1 - pair_results.level)
    section.methods.append(
        f"An always-valid test decides which bot is preferred, corrected by Holm, p < {alpha}, with intervals that "
        "remain valid however often you look. Closing the study does not change the verdicts."
        if pair_results.test == "always"
        else (
            "A fixed-sample test decides which bot is preferred, corrected by Holm for all pairs of bots, p < "
            f"{alpha}; errors are clustered by rater and by compared item."
        )
    )
    section.methods += smallest_sentences(study, pair_results.smallest_difference)
    leading_outcomes = [outcome for outcome in pair_results.outcomes if outcome.question == leading]
    section.points += [
        _outcome_sentence(outcome, bots, pair_results.smallest_difference) for outcome in leading_outcomes
    ]
    section.lead += [_kappa_sentence(kappa, titles) for kappa in pair_results.kappas if kappa.question == leading]
    section.tables.append(_outcomes_table(pair_results, titles, bots, link))
    section.tables.append(_ambiguous_table(pair_results, titles, bots, link))
    if pair_results.picks:
        section.tables.append(_picks_table(pair_results, bots))
    if choices is not None:
        section.lead.append(_reliability_sentence(choices, pair_results.level))
        section.methods.append(choices.method)
        section.tables.append(_choices_table(choices, pair_results, bots))
    if pair_results.strengths.reason is None:
        section.tables.append(_strengths_table(pair_results, titles[leading], bots))
    else:
        reason = reason_text(pair_results.strengths.reason)
        section.missing.append(f"Bot strengths: {reason}.")
    kappas = _kappas_table(
        "pair-kappas",
        "Agreement on single pairs",
        [(titles[kappa.question], "Single replies", kappa) for kappa in pair_results.kappas],
        pair_results.level,
    )
    section.tables.append(replace(kappas, note=one_look()) if pair_results.is_collecting else kappas)
    return section


def pairs_conclusion(pair_results: PairResults, titles: Titles, bots: Bots) -> str:
    """Return the conclusion on the leading question, and unbeaten bots."""
    leading = next(iter(titles))
    outcomes = [outcome for outcome in pair_results.outcomes if outcome.question == leading]
    beaten = {outcome.b if outcome.sign > 0 else outcome.a for outcome in outcomes if outcome.sign}
    every = dict.fromkeys(bot for outcome in outcomes for bot in (outcome.a, outcome.b))
    first = [_title(bots, bot) for bot in every if bot not in beaten]
    counts = pair_results.counts(leading)
    conclusion = pair_counts_sentence(
        f"“{titles[leading]}”",
        counts["n_told_apart"],
        [f"{_title(bots, outcome.a)} and {_title(bots, outcome.b)}" for outcome in outcomes if outcome.equal],
        counts["n_not_yet_known"],
        counts["n_pairs"],
        figure(pair_results.smallest_difference),
    )
    if not counts["n_told_apart"] or not first:
        return conclusion
    wins = [_title(bots, outcome.a if outcome.sign > 0 else outcome.b) for outcome in outcomes if outcome.sign]
    if wins.count(first[0]) == len(every) - 1:
        return f"{conclusion} First: {first[0]}, {CLEARLY_BETTER.format(other='each of the other bots')}."
    return f"{conclusion} No bot is {CLEARLY_BETTER.format(other=listed(first))}."


def protocols_section(study: Study, page: PairPage) -> Section | None:
    """Return the section on the orders by single replies and by chats.

    None if one of the two is missing.
    """
    comparison, titles = page.compared, page.titles
    if comparison is None or page.compared_study is None:
        return None
    one_turn, interactive = (
        (study, page.compared_study) if get_protocol(study).compares_pairs else (page.compared_study, study)
    )
    bots = study_bots(interactive)
    section = Section("one-turn", "Single replies compared with interactive chats")
    section.lead.append(
        f"“{one_turn.name}” compares single replies of {phrases.bots_text(len(comparison.bots))}; "
        f"in “{interactive.name}” people chatted with them."
    )
    questions = list(dict.fromkeys(row.question for row in comparison.rows))
    section.points += [_agreement_sentence(comparison, key, titles[key]) for key in questions]
    if not comparison.rows:
        section.missing.append("Two bots are needed that have both rated chats and compared replies.")
        return section
    section.tables.append(_protocols_table(comparison, titles, bots))
    kappas = [
        (titles[kappa.question], name, kappa)
        for key in questions
        for name, all_kappas in (("Single replies", comparison.one_turn), ("Chats", comparison.interactive))
        for kappa in all_kappas
        if kappa.question == key
    ]
    note = (
        "For chats, an item is a pair of bots, and the answer is the bot that the participant rated higher, or a "
        "tie. So both protocols answer the same question."
    )
    table = _kappas_table("protocol-kappas", "Agreement by protocol", kappas, comparison.level)
    section.tables.append(replace(table, note=note))
    return section


def _outcome_sentence(outcome: PairOutcome, bots: Bots, smallest: float) -> str:
    a, b = _title(bots, outcome.a), _title(bots, outcome.b)
    if outcome.sign:
        better, worse = (a, b) if outcome.sign > 0 else (b, a)
        verdict = f"{better} is preferred to {worse}"
    else:
        verdict = f"{a} and {b} do not differ significantly"
        if outcome.equal:
            verdict = f"{a} and {b} {equality_clause(smallest)}"
        elif outcome.ahead.low is not None:
            ends = f"from {figure(outcome.ahead.low)} to {figure(outcome.ahead.high)}"
            verdict += f", and the share for {a} minus the share for {b} may be anywhere {ends}"
    wins, losses, ties = (percent(part.mean) for part in (outcome.wins, outcome.losses, outcome.ties))
    return f"{verdict}: {a} wins {wins}, {b} wins {losses}, ties {ties}."


def _kappa_sentence(kappa: Kappa, titles: Titles) -> str:
    name = titles[kappa.question].lower()
    if kappa.found.value is None:
        return f"Agreement on {name} is undefined: {reason_text(kappa.found.reason)}."
    return (
        f"Median agreement of two raters on {name}: Cohen’s κ = {share(kappa.found.value)} "
        f"{span(kappa.found.low, kappa.found.high, shares=True)}."
    )


def _agreement_sentence(comparison: ProtocolComparison, key: str, title: str) -> str:
    n = comparison.count(key)
    return (
        f"{title}: of {phrases.pairs_text(sum(n.values()))} of bots, both protocols order {n['same']} the same way "
        f"and {n['contrary']} in opposite ways. {n['one_turn']} differ significantly only in single replies, "
        f"{n['interactive']} only in chats, {n['neither']} in neither."
    )


def _outcomes_table(pair_results: PairResults, titles: Titles, bots: Bots, link: PairLink) -> NamedTable:
    level = percent(pair_results.level)
    intervals, test = ("over raters", "fixed-sample")
    if pair_results.is_collecting:
        intervals, test = ("valid at any time", "always-valid")
    return declared_table(
        "outcomes",
        "Wins, ties and losses",
        pair_results.outcomes,
        (("Question", "A", "B"), lambda outcome: _pair_cells(outcome, titles, bots, link)),
        (("A wins", level), lambda outcome: mean_cells(outcome.wins, shares=True)),
        (("Same", level), lambda outcome: mean_cells(outcome.ties, shares=True)),
        (("B wins", level), lambda outcome: mean_cells(outcome.losses, shares=True)),
        ("p, Holm", lambda outcome: p_cell(outcome.p_holm, reason_text(outcome.ahead.reason))),
        method=(
            f"Shares of judgements; {level} intervals {intervals}. p: {test} test of equal preference for A and B, "
            "corrected by Holm for the pairs of a question."
        ),
    )


def _ambiguous_table(pair_results: PairResults, titles: Titles, bots: Bots, link: PairLink) -> NamedTable:
    return declared_table(
        "ambiguous",
        "Without ambiguous pairs",
        pair_results.outcomes,
        (("Question", "A", "B"), lambda outcome: _pair_cells(outcome, titles, bots, link)),
        ("Judgements", lambda outcome: count_cell(outcome.n)),
        ("Pairs", lambda outcome: count_cell(outcome.n_items)),
        ("Ambiguous", lambda outcome: count_cell(outcome.n_ambiguous)),
        ("A wins", lambda outcome: share_cell(outcome.clear.mean, 2, reason_text(outcome.clear.reason))),
        ("Same", lambda outcome: share_cell(outcome.clear_ties.mean, 2, reason_text(outcome.clear_ties.reason))),
        method="A pair is ambiguous if its two most frequent answers are equally frequent.",
    )


def _pair_cells(
    pair: PairOutcome | ProtocolPair, titles: Titles, bots: Bots, link: PairLink = lambda *bots: ""
) -> list[Cell]:
    return [Cell(titles[pair.question], link(pair.a, pair.b)), named_cell(bots, pair.a), named_cell(bots, pair.b)]


def _strengths_table(pair_results: PairResults, title: str, bots: Bots) -> NamedTable:
    level = percent(pair_results.level)
    style_fit = pair_results.held if pair_results.held is not None and pair_results.held.reason is None else None
    ranks = pair_results.strengths.rank_ranges()
    style_bots = {bot.bot: bot for bot in style_fit.bots} if style_fit else {}
    style_ranks = style_fit.rank_ranges() if style_fit else {}

    def style_equal(bot: str) -> list[Cell]:
        same = style_bots[bot]
        return [_rank_cell(*style_ranks[bot]), number_cell(same.strength), span_cell(same.low, same.high)]

    method = (
        f"Bradley–Terry model with ties (Davidson, 1970), relative to the average bot; {level} intervals clustered by "
        "rater. A range of ranks contains all ranks that the pairwise comparisons, corrected by Holm, leave open."
    )
    if pair_results.is_collecting:
        method = f"{method} {one_look()}"
    return declared_table(
        "strengths",
        f"Bot strengths in {title.lower()}",
        sorted(pair_results.strengths.bots, key=lambda bot: (-bot.strength, bot.bot)),
        ("Bot", lambda bot: named_cell(bots, bot.bot)),
        ("Rank", lambda bot: _rank_cell(*ranks[bot.bot])),
        ("Log odds", lambda bot: number_cell(bot.strength)),
        (level, lambda bot: span_cell(bot.low, bot.high)),
        *(
            [(("Rank, equal style", "Log odds, equal style", level), lambda bot: style_equal(bot.bot))]
            if style_fit
            else []
        ),
        (("Won", "Lost", "Same"), lambda bot: [*map(count_cell, (bot.wins, bot.losses, bot.ties))]),
        method=method,
        note=_style_note(style_fit, level) if style_fit else "",
    )


def _reliability_sentence(choices: ChoiceResults, level: float) -> str:
    reliability = choices.reliability
    if reliability.mean is None:
        return f"The reliability of the reply scores is undefined: {reason_text(reliability.reason)}."
    scores = phrases.replies_text(choices.n_replies)
    words = f"The scores of {scores} have a split-half reliability of {share(reliability.mean)}"
    if reliability.low is None:
        return f"{words} (Spearman–Brown); {reason_text(reliability.reason)}."
    interval = span(reliability.low, reliability.high, shares=True)
    return f"{words} {interval} (Spearman–Brown, {percent(level)} interval over raters)."


def _choices_table(choices: ChoiceResults, pair_results: PairResults, bots: Bots) -> NamedTable:
    declared, level = choices.table(pair_results.level), percent(pair_results.level)

    def cells(row: Sequence[Any], place: int) -> list[Cell]:
        value = row[place]
        return mean_cells(value) if isinstance(value, Interval) else [count_cell(value)]

    table = declared_table(
        declared.id,
        declared.title,
        declared.rows,
        ("Bot", lambda row: named_cell(bots, row[0])),
        *(
            (
                (title, level) if any(isinstance(row[place], Interval) for row in declared.rows) else (title,),
                partial(cells, place=place),
            )
            for place, title in enumerate(declared.columns, start=1)
        ),
        method=declared.method,
    )
    return replace(table, note=one_look()) if pair_results.is_collecting else table


def _picks_table(pair_results: PairResults, bots: Bots) -> NamedTable:
    table = declared_table(
        "picks",
        "Share of picked replies by exchange",
        pair_results.picks,
        ("Exchange", lambda pick: Cell(_exchange_text(pick.exchange), raw=(pick.exchange,))),
        ("Bot", lambda pick: named_cell(bots, pick.bot)),
        (("Picked", percent(pair_results.level)), lambda pick: mean_cells(pick.share, shares=True)),
        ("Replies", lambda pick: count_cell(pick.share.n)),
        method=(
            f"Share of a bot's compared replies that were picked; ties count as half. {percent(pair_results.level)} "
            "intervals clustered by participant. Later replies depend on the earlier picks, so exchanges are not "
            "independent."
        ),
    )
    return replace(table, note=one_look()) if pair_results.is_collecting else table


def _exchange_text(number: int | None) -> str:
    if number is None:
        return "all"
    return str(number) if number <= MOST_EXCHANGES else f"{number} and later"


def _rank_cell(best: int, worst: int) -> Cell:
    text = str(best) if best == worst else f"{best} to {worst}"
    return Cell(text, raw=(best, worst))


def _style_note(style_fit: BradleyTerry, level: str) -> str:
    """Explain "style equal", and give the effects of style."""
    names = {"length": "twice the length", "markup": "twice the markup"}
    effects = "; ".join(
        f"{names.get(effect.name, effect.name)} adds {figure(effect.value)} {span(effect.low, effect.high)} log odds"
        for effect in style_fit.controls
    )
    return (
        "Equal style: the comparison holds length and markup constant, because people prefer long and marked-up "
        f"replies from any bot. {effects} ({level} intervals)."
    )


def _kappas_table(table_id: str, title: str, rows: Sequence[tuple[str, str, Kappa]], level: float) -> NamedTable:
    shared = sorted({kappa.shared for _question, _way, kappa in rows})
    return declared_table(
        table_id,
        title,
        rows,
        ("Question", lambda row: Cell(row[0])),
        ("Protocol", lambda row: Cell(row[1])),
        (("κ", percent(level)), lambda row: mean_cells(row[2].found, attribute="value", shares=True)),
        ("Items", lambda row: count_cell(row[2].found.n_items)),
        ("Answers", lambda row: count_cell(row[2].found.n_ratings)),
        ("Pairs of raters", lambda row: count_cell(row[2].n_pairs)),
        method=(
            f"Median of Cohen’s κ over pairs of raters with at least {' or '.join(map(str, shared))} shared items; "
            "intervals over items."
        ),
    )


def _protocols_table(comparison: ProtocolComparison, titles: Titles, bots: Bots) -> NamedTable:
    level = percent(comparison.level)
    one_turn, chats = (
        "the always-valid test, because the study still collects" if test == "always" else "the fixed-sample test"
        for test in comparison.tests
    )
    return declared_table(
        "one-turn",
        "The same bots in both protocols",
        comparison.rows,
        (("Question", "A", "B"), lambda row: _pair_cells(row, titles, bots)),
        (("Single replies", level), lambda row: mean_cells(row.one_turn, shares=True)),
        (("Chats", level), lambda row: mean_cells(row, attribute="difference")),
        ("Significant in", lambda row: Cell(_verdict(row))),
        method=(
            "Single replies: share of comparisons won by A minus the share won by B. Chats: mean rating of A minus "
            f"that of B. {level} intervals, not corrected for the number of pairs. Significant: p < "
            f"{share(1 - comparison.level)}, corrected by Holm for all pairs of a question. Single replies are tested "
            f"by {one_turn}, chats by {chats}."
        ),
    )


def _verdict(row: ProtocolPair) -> str:
    one_turn, chats = row.signs
    if one_turn and chats:
        return "both, same order" if one_turn == chats else "both, opposite order"
    if one_turn:
        return "single replies only"
    return "chats only" if chats else "neither"


def _title(bots: Bots, bot: str) -> str:
    return bots[bot].title if bot in bots else bot
