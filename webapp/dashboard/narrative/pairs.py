"""Judgements of pairs in words and tables, and one-turn beside interactive evaluation of the same bots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evaluation.analysis.best_worst import BestWorst
from evaluation.analysis.pairs import MOST_EXCHANGES, Kappa, PairOutcome, PairResults
from evaluation.analysis.single_turn import ProtocolComparison, ProtocolPair
from evaluation.number_format import figure, percent, share, span
from evaluation.stats.bradley_terry import BradleyTerry
from webapp.dashboard.charts.figure import Cell
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import (
    NamedTable,
    Section,
    count_cell,
    declared_table,
    listed,
    mean_cells,
    named_cell,
    number_cell,
    p_cell,
    reason_text,
    share_cell,
    span_cell,
)
from webapp.dashboard.narrative.verdicts import CLEARLY_BETTER, equal_said, one_look, pairs_standing, smallest_sentences
from webapp.ratings.paired_comparisons import compares_pairs
from webapp.ratings.selectors import BotInfo, study_bots
from webapp.results.item_results import PairPage
from webapp.studies.models import Study

Bots = Mapping[str, BotInfo]
Titles = Mapping[str, str]


def pairs_section(study: Study, found: PairResults, titles: Titles, bots: Bots) -> Section:
    """Return wins, ties and losses of every two bots, agreement and strengths."""
    section = Section("pairs", "Which reply people preferred")
    leading = next(iter(titles))
    section.lead.append(pairs_conclusion(found, titles, bots))
    people, ends = phrases.people_text(found.n_raters), found.best_worst
    implied = f"{phrases.judgements_text(found.n)} of {phrases.pairs_text(found.n_items)}"
    section.lead.append(
        f"{people} gave {implied}."
        if ends is None
        else f"{people} chose the best and the worst reply {ends.n:,} times, which implies {implied}."
    )
    alpha = share(1 - found.level)
    section.how.append(
        f"An always-valid test decides which bot is preferred, corrected by Holm, p < {alpha}, with intervals that "
        "hold however often you look. Closing the study changes no verdict."
        if found.test == "always"
        else "A fixed-sample test decides which bot is preferred, corrected by Holm for all pairs of bots, p < "
        f"{alpha}; errors are clustered by rater and by what was compared."
    )
    section.how += smallest_sentences(study, found.smallest_difference)
    asked = [one for one in found.outcomes if one.question == leading]
    section.points += [_outcome_sentence(one, bots, found.smallest_difference) for one in asked]
    section.lead += [_kappa_sentence(one, titles) for one in found.kappas if one.question == leading]
    section.tables.append(_outcomes_table(found, titles, bots))
    section.tables.append(_ambiguous_table(found, titles, bots))
    if found.picks:
        section.tables.append(_picks_table(found, bots))
    if ends is not None:
        section.lead.append(_reliability_sentence(ends, found.level))
        section.how.append(
            "A choice orders five of six pairs of replies; of the two that are neither the best nor the worst nothing "
            "is known. Judgements that one choice implies depend on each other, so whole raters are the units."
        )
        section.tables.append(_best_worst_table(ends, found, bots))
    if found.strengths.reason is None:
        section.tables.append(_strengths_table(found, titles[leading], bots))
    else:
        why = reason_text(found.strengths.reason)
        section.missing.append(f"Strengths of the bots: {why}.")
    kappas = _kappas_table(
        "pair-kappas",
        "Do people agree on single pairs?",
        [(titles[one.question], "Single replies", one) for one in found.kappas],
        found.level,
    )
    section.tables.append(replace(kappas, note=one_look()) if found.is_collecting else kappas)
    return section


def pairs_conclusion(found: PairResults, titles: Titles, bots: Bots) -> str:
    """Return the conclusion as of ratings in the leading question, and the bots that no other beats."""
    leading = next(iter(titles))
    outcomes = [one for one in found.outcomes if one.question == leading]
    beaten = {one.b if one.sign > 0 else one.a for one in outcomes if one.sign}
    every = dict.fromkeys(bot for one in outcomes for bot in (one.a, one.b))
    first = [_title(bots, bot) for bot in every if bot not in beaten]
    counts = found.counts(leading)
    told = pairs_standing(
        f"“{titles[leading]}”",
        counts["n_told_apart"],
        [f"{_title(bots, one.a)} and {_title(bots, one.b)}" for one in outcomes if one.equal],
        counts["n_not_yet_known"],
        counts["n_pairs"],
        figure(found.smallest_difference),
    )
    if not counts["n_told_apart"] or not first:
        return told
    wins = [_title(bots, one.a if one.sign > 0 else one.b) for one in outcomes if one.sign]
    if wins.count(first[0]) == len(every) - 1:
        return f"{told} First: {first[0]}, {CLEARLY_BETTER.format(other='each of the other bots')}."
    return f"{told} No bot is {CLEARLY_BETTER.format(other=listed(first))}."


def protocols_section(study: Study, page: PairPage) -> Section | None:
    """Return the section that compares the order by single replies with the order by chats with the same bots.

    None where only one of the two is there.
    """
    found, titles = page.compared, page.titles
    if found is None or page.compared_study is None:
        return None
    one_turn, interactive = (study, page.compared_study) if compares_pairs(study) else (page.compared_study, study)
    bots = study_bots(interactive)
    section = Section("one-turn", "One turn against interactive evaluation")
    section.lead.append(
        f"“{one_turn.name}” compares single replies of {phrases.bots_text(len(found.bots))}; "
        f"in “{interactive.name}” people chatted with them."
    )
    asked = list(dict.fromkeys(row.question for row in found.rows))
    section.points += [_agreement_sentence(found, key, titles[key]) for key in asked]
    if not found.rows:
        section.missing.append("No two bots have both ratings of chats and compared replies yet.")
        return section
    section.tables.append(_beside_table(found, titles, bots))
    kappas = [
        (titles[kappa.question], name, kappa)
        for key in asked
        for name, all_kappas in (("Single replies", found.one_turn), ("Chats", found.interactive))
        for kappa in all_kappas
        if kappa.question == key
    ]
    note = (
        "Of chats, an item is a pair of bots, and the answer which of the two a person rated higher, or both the "
        "same: so both ways of asking answer the same question."
    )
    table = _kappas_table("protocol-kappas", "Agreement by each way of asking", kappas, found.level)
    section.tables.append(replace(table, note=note))
    return section


def _outcome_sentence(one: PairOutcome, bots: Bots, smallest: float) -> str:
    a, b = _title(bots, one.a), _title(bots, one.b)
    if one.sign:
        better, worse = (a, b) if one.sign > 0 else (b, a)
        verdict = f"{better} is preferred to {worse}"
    else:
        verdict = f"{a} and {b} do not differ significantly"
        if one.equal:
            verdict = f"{a} and {b} {equal_said(smallest)}"
        elif one.ahead.low is not None:
            ends = f"from {figure(one.ahead.low)} to {figure(one.ahead.high)}"
            verdict += f", and the share for {a} less that for {b} may be {ends}"
    wins, losses, ties = (percent(part.mean) for part in (one.wins, one.losses, one.ties))
    return f"{verdict}: {a} wins {wins}, {b} wins {losses}, the same {ties}."


def _kappa_sentence(one: Kappa, titles: Titles) -> str:
    name = titles[one.question].lower()
    if one.found.value is None:
        return f"Agreement on {name} is undefined: {reason_text(one.found.reason)}."
    return (
        f"Two people agree on {name} by Cohen’s κ = {share(one.found.value)} "
        f"{span(one.found.low, one.found.high, shares=True)} in the median."
    )


def _agreement_sentence(found: ProtocolComparison, key: str, title: str) -> str:
    n = found.count(key)
    return (
        f"{title}: of {phrases.pairs_text(sum(n.values()))} of bots, both ways put {n['same']} in the same order and "
        f"{n['contrary']} in contrary orders; {n['one_turn']} differ significantly in single replies alone, "
        f"{n['interactive']} in chats alone, {n['neither']} in neither."
    )


def _outcomes_table(found: PairResults, titles: Titles, bots: Bots) -> NamedTable:
    level = percent(found.level)
    intervals, test = ("over raters", "of one look")
    if found.is_collecting:
        intervals, test = ("that allow for looking at any time", "always valid")
    return declared_table(
        "outcomes",
        "Wins, ties and losses",
        found.outcomes,
        (("Question", "A", "B"), lambda one: _named(one, titles, bots)),
        (("A wins", level), lambda one: mean_cells(one.wins, shares=True)),
        (("Same", level), lambda one: mean_cells(one.ties, shares=True)),
        (("B wins", level), lambda one: mean_cells(one.losses, shares=True)),
        ("p, Holm", lambda one: p_cell(one.p_holm, reason_text(one.ahead.reason))),
        method=f"Shares of judgements; {level} intervals {intervals}; p: {test}, that as many prefer A as B, "
        "corrected by Holm for the pairs of a question.",
    )


def _ambiguous_table(found: PairResults, titles: Titles, bots: Bots) -> NamedTable:
    return declared_table(
        "ambiguous",
        "Without ambiguous pairs",
        found.outcomes,
        (("Question", "A", "B"), lambda one: _named(one, titles, bots)),
        ("Judgements", lambda one: count_cell(one.n)),
        ("Pairs", lambda one: count_cell(one.n_items)),
        ("Ambiguous", lambda one: count_cell(one.n_ambiguous)),
        ("A wins", lambda one: share_cell(one.clear.mean, 2, reason_text(one.clear.reason))),
        ("Same", lambda one: share_cell(one.clear_ties.mean, 2, reason_text(one.clear_ties.reason))),
        method="A pair is ambiguous where its two most frequent answers are as frequent as each other.",
    )


def _named(one: PairOutcome | ProtocolPair, titles: Titles, bots: Bots) -> list[Cell]:
    return [Cell(titles[one.question]), named_cell(bots, one.a), named_cell(bots, one.b)]


def _strengths_table(found: PairResults, title: str, bots: Bots) -> NamedTable:
    level = percent(found.level)
    held = found.held if found.held is not None and found.held.reason is None else None
    ranks = found.strengths.rank_ranges()
    of_held = {bot.bot: bot for bot in held.bots} if held else {}
    held_ranks = held.rank_ranges() if held else {}

    def style_equal(bot: str) -> list[Cell]:
        same = of_held[bot]
        return [_rank_cell(*held_ranks[bot]), number_cell(same.strength), span_cell(same.low, same.high)]

    method = (
        f"Bradley–Terry model with ties (Davidson, 1970), against the average bot; {level} intervals with whole "
        "raters as units. A range of ranks holds every place that comparisons of two bots, corrected by Holm, "
        "leave open."
    )
    if found.is_collecting:
        method = f"{method} {one_look()}"
    return declared_table(
        "strengths",
        f"Strength of the bots by {title.lower()}",
        sorted(found.strengths.bots, key=lambda bot: (-bot.strength, bot.bot)),
        ("Bot", lambda one: named_cell(bots, one.bot)),
        ("Rank", lambda one: _rank_cell(*ranks[one.bot])),
        ("Log odds", lambda one: number_cell(one.strength)),
        (level, lambda one: span_cell(one.low, one.high)),
        *([(("Rank, style equal", "Log odds, style equal", level), lambda one: style_equal(one.bot))] if held else []),
        (("Won", "Lost", "Same"), lambda one: [*map(count_cell, (one.wins, one.losses, one.ties))]),
        method=method,
        note=_held_note(held, level) if held else "",
    )


def _reliability_sentence(ends: BestWorst, level: float) -> str:
    one = ends.reliability
    if one.mean is None:
        return f"The reliability of the scores of replies is undefined: {reason_text(one.reason)}."
    words = f"The scores of {phrases.replies_text(ends.n_replies)} have a split-half reliability of {share(one.mean)}"
    if one.low is None:
        return f"{words} (Spearman–Brown); {reason_text(one.reason)}."
    return f"{words} {span(one.low, one.high, shares=True)} (Spearman–Brown, {percent(level)} interval over raters)."


def _best_worst_table(ends: BestWorst, found: PairResults, bots: Bots) -> NamedTable:
    table = declared_table(
        "best-worst",
        "How often a bot’s reply was the best or the worst",
        ends.scores,
        ("Bot", lambda one: named_cell(bots, one.bot)),
        (("Best less worst", percent(found.level)), lambda one: mean_cells(one.score)),
        (("Shown", "Best", "Worst"), lambda one: [*map(count_cell, (one.n_shown, one.n_best, one.n_worst))]),
        method="Of a bot’s replies that people saw, the share that was the best less the share that was the worst, "
        f"from −1 to 1; {percent(found.level)} intervals with whole raters as units.",
    )
    return replace(table, note=one_look()) if found.is_collecting else table


def _picks_table(found: PairResults, bots: Bots) -> NamedTable:
    table = declared_table(
        "picks",
        "Share of replies picked, by exchange",
        found.picks,
        ("Exchange", lambda one: Cell(_exchange_text(one.exchange), raw=(one.exchange,))),
        ("Bot", lambda one: named_cell(bots, one.bot)),
        (("Picked", percent(found.level)), lambda one: mean_cells(one.share, shares=True)),
        ("Replies", lambda one: count_cell(one.share.n)),
        method="Of a bot's replies that were compared, the share that was picked; equal replies count as half. "
        f"{percent(found.level)} intervals with whole participants as units. Later replies follow those that were "
        "picked before, so exchanges are not independent of each other.",
    )
    return replace(table, note=one_look()) if found.is_collecting else table


def _exchange_text(number: int | None) -> str:
    if number is None:
        return "all"
    return str(number) if number <= MOST_EXCHANGES else f"{number} and later"


def _rank_cell(best: int, worst: int) -> Cell:
    text = str(best) if best == worst else f"{best} to {worst}"
    return Cell(text, raw=(best, worst))


def _held_note(held: BradleyTerry, level: str) -> str:
    """Explain "style equal", and give the effects of style."""
    names = {"length": "twice the length", "markup": "twice the markup"}
    effects = "; ".join(
        f"{names.get(effect.name, effect.name)} adds {figure(effect.value)} {span(effect.low, effect.high)} log odds"
        for effect in held.controls
    )
    return (
        "Style equal: between replies of the same length and as much markup, as people prefer long and marked-up "
        f"replies from any bot. {effects} ({level} intervals)."
    )


def _kappas_table(table_id: str, title: str, found: Sequence[tuple[str, str, Kappa]], level: float) -> NamedTable:
    shared = sorted({one.shared for _question, _way, one in found})
    return declared_table(
        table_id,
        title,
        found,
        ("Question", lambda row: Cell(row[0])),
        ("Way of asking", lambda row: Cell(row[1])),
        (("κ", percent(level)), lambda row: mean_cells(row[2].found, of="value", shares=True)),
        ("Items", lambda row: count_cell(row[2].found.n_items)),
        ("Answers", lambda row: count_cell(row[2].found.n_ratings)),
        ("Pairs of raters", lambda row: count_cell(row[2].n_pairs)),
        method=f"Median of Cohen’s κ over pairs of raters with {' or '.join(map(str, shared))} shared items or more; "
        "intervals over items.",
    )


def _beside_table(found: ProtocolComparison, titles: Titles, bots: Bots) -> NamedTable:
    level = percent(found.level)
    one_turn, chats = (
        "the always-valid test, as more are to come" if test == "always" else "the fixed-sample test"
        for test in found.tests
    )
    return declared_table(
        "one-turn",
        "The same bots by both ways of asking",
        found.rows,
        (("Question", "A", "B"), lambda row: _named(row, titles, bots)),
        (("One turn", level), lambda row: mean_cells(row.one_turn, shares=True)),
        (("Chats", level), lambda row: mean_cells(row, of="difference")),
        ("Significant in", lambda row: Cell(_verdict(row))),
        method="One turn: share of comparisons that A wins less that of those that B wins. Chats: mean rating of A "
        f"less that of B. {level} intervals, not corrected for the number of pairs. Significant: corrected by "
        f"Holm for all pairs of a question, p < {share(1 - found.level)}; single replies by {one_turn}, chats by "
        f"{chats}.",
    )


def _verdict(row: ProtocolPair) -> str:
    one, other = row.signs
    if one and other:
        return "both, the same" if one == other else "both, contrary"
    if one:
        return "one turn alone"
    return "chats alone" if other else "neither"


def _title(bots: Bots, bot: str) -> str:
    return bots[bot].title if bot in bots else bot
