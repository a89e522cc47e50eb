"""Judgements of pairs in words and tables, and one-turn beside interactive evaluation of the same bots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.analysis.pairs import Kappa, PairOutcome, PairResults
from evaluation.analysis.single_turn import ProtocolComparison, ProtocolPair
from evaluation.number_format import figure, percent, share, span
from evaluation.stats.bradley_terry import BradleyTerry
from webapp.core.language import plural
from webapp.dashboard.charts.figure import Cell, PageTable
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import (
    NamedTable,
    Section,
    count_cell,
    headers,
    listed,
    mean_cells,
    named_cell,
    number_cell,
    p_cell,
    reason_text,
    share_cell,
    span_cell,
)
from webapp.dashboard.narrative.verdicts import one_look
from webapp.ratings.selectors import BotInfo

Bots = Mapping[str, BotInfo]
Titles = Mapping[str, str]


def pairs_section(found: PairResults, titles: Titles, bots: Bots) -> Section:
    """Return wins, ties and losses of every two bots, agreement and strengths."""
    section = Section("pairs", "Which reply people preferred")
    leading = next(iter(titles))
    section.lead.append(pairs_conclusion(found, titles, bots))
    section.lead.append(
        "{people} gave {judgements} of {pairs}.".format(
            people=phrases.people_text(found.n_raters),
            judgements=plural(found.n, "%(n)s judgement", "%(n)s judgements") % {"n": f"{found.n:,}"},
            pairs=phrases.pairs_text(found.n_items),
        )
    )
    alpha = share(1 - found.level)
    section.how.append(
        "While the study collects, who is preferred is what the page People says: an always-valid test, corrected by "
        f"Holm, p < {alpha}, and intervals that allow for looking at any time."
        if found.test == "always"
        else "The study is closed or has its planned size, so a fixed-sample test decides who is preferred, corrected "
        f"by Holm for all pairs of bots, p < {alpha}; errors are clustered by rater and by what was compared."
    )
    section.points += [_outcome_sentence(one, bots) for one in found.outcomes if one.question == leading]
    section.lead += [_kappa_sentence(one, titles) for one in found.kappas if one.question == leading]
    section.tables.append(_outcomes_table(found, titles, bots))
    section.tables.append(_ambiguous_table(found, titles, bots))
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
    section.tables.append(_noted(kappas, one_look()) if found.is_collecting else kappas)
    return section


def pairs_conclusion(found: PairResults, titles: Titles, bots: Bots) -> str:
    """Return the conclusion: significantly different pairs in the leading question, and bots that no other beats."""
    leading = next(iter(titles))
    outcomes = [one for one in found.outcomes if one.question == leading]
    beaten = {one.b if one.sign > 0 else one.a for one in outcomes if one.sign}
    every = dict.fromkeys(bot for one in outcomes for bot in (one.a, one.b))
    first = [_title(bots, bot) for bot in every if bot not in beaten]
    n = sum(bool(one.sign) for one in outcomes)
    told = f"{n} of {phrases.pairs_text(len(outcomes))} of bots differ significantly in {titles[leading].lower()}."
    if not n or not first:
        return told
    return f"{told} First: {first[0]}." if len(first) == 1 else f"{told} No bot is preferred to {listed(first)}."


def protocols_section(
    found: ProtocolComparison, titles: Titles, bots: Bots, *, one_turn: str, interactive: str
) -> Section:
    """Return the section that compares the order by single replies with the order by chats.

    Args:
        one_turn, interactive: names of the two studies.
    """
    section = Section("one-turn", "One turn against interactive evaluation")
    section.lead.append(
        f"“{one_turn}” compares single replies of {phrases.bots_text(len(found.bots))}; "
        f"in “{interactive}” people chatted with them."
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
    section.tables.append(_kappas_table("protocol-kappas", "Agreement by each way of asking", kappas, found.level))
    section.tables[-1] = _noted(
        section.tables[-1],
        (
            "Of chats, an item is a pair of bots, and the answer which of the two a person rated higher, or both the "
            "same: so both ways of asking answer the same question."
        ),
    )
    return section


def _noted(table: NamedTable, note: str) -> NamedTable:
    return NamedTable(table.id, table.title, table.table, table.method, note)


def _outcome_sentence(one: PairOutcome, bots: Bots) -> str:
    a, b = _title(bots, one.a), _title(bots, one.b)
    numbers = {
        "a": a,
        "b": b,
        "wins": percent(one.wins.mean),
        "losses": percent(one.losses.mean),
        "ties": percent(one.ties.mean),
    }
    if one.sign:
        better, worse = (a, b) if one.sign > 0 else (b, a)
        verdict = f"{better} is preferred to {worse}"
    else:
        verdict = f"{a} and {b} do not differ significantly"
    return "{verdict}: {a} wins {wins}, {b} wins {losses}, the same {ties}.".format(verdict=verdict, **numbers)


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
    told = (
        "{title}: of {pairs} of bots, both ways put {same} in the same order and {contrary} in contrary orders; "
        "{one_turn} differ significantly in single replies alone, {interactive} in chats alone, {neither} in "
        "neither."
    )
    return told.format(title=title, pairs=phrases.pairs_text(sum(n.values())), **n)


def _outcomes_table(found: PairResults, titles: Titles, bots: Bots) -> NamedTable:
    level = percent(found.level)
    numeric = ["A wins", level, "Same", level, "B wins", level, "p, Holm"]
    rows = []
    for one in found.outcomes:
        cells = [cell for part in (one.wins, one.ties, one.losses) for cell in mean_cells(part, shares=True)]
        rows.append([*_named(one, titles, bots), *cells, p_cell(one.p_holm, reason_text(one.ahead.reason))])
    return NamedTable(
        "outcomes",
        "Wins, ties and losses",
        PageTable(headers("Question", "A", "B", numeric=numeric), rows),
        method=(
            (
                "Shares of judgements; {level} intervals that allow for looking at any time; p: always valid, that as "
                "many prefer A as B, corrected by Holm for the pairs of a question."
            )
            if found.is_collecting
            else (
                "Shares of judgements; {level} intervals over raters; p: of one look, that as many prefer A as B, "
                "corrected by Holm for the pairs of a question."
            )
        ).format(level=level),
    )


def _ambiguous_table(found: PairResults, titles: Titles, bots: Bots) -> NamedTable:
    rows = [
        [
            *_named(one, titles, bots),
            *map(count_cell, (one.n, one.n_items, one.n_ambiguous)),
            share_cell(one.clear.mean, 2, reason_text(one.clear.reason)),
            share_cell(one.clear_ties.mean, 2, reason_text(one.clear_ties.reason)),
        ]
        for one in found.outcomes
    ]
    numeric = ["Judgements", "Pairs", "Ambiguous", "A wins", "Same"]
    return NamedTable(
        "ambiguous",
        "Without ambiguous pairs",
        PageTable(headers("Question", "A", "B", numeric=numeric), rows),
        method="A pair is ambiguous where its two most frequent answers are as frequent as each other.",
    )


def _named(one: PairOutcome | ProtocolPair, titles: Titles, bots: Bots) -> list[Cell]:
    return [Cell(titles[one.question]), named_cell(bots, one.a), named_cell(bots, one.b)]


def _strengths_table(found: PairResults, title: str, bots: Bots) -> NamedTable:
    level = percent(found.level)
    held = found.held if found.held is not None and found.held.reason is None else None
    titles = ["Rank", "Log odds", level]
    titles += ["Rank, style equal", "Log odds, style equal", level] if held else []
    titles += ["Won", "Lost", "Same"]
    ordered = sorted(found.strengths.bots, key=lambda bot: (-bot.strength, bot.bot))
    ranks = found.strengths.rank_ranges()
    of_held = {bot.bot: bot for bot in held.bots} if held else {}
    held_ranks = held.rank_ranges() if held else {}
    rows = []
    for bot in ordered:
        cells = [named_cell(bots, bot.bot), _rank_cell(*ranks[bot.bot]), number_cell(bot.strength)]
        cells.append(span_cell(bot.low, bot.high))
        if bot.bot in of_held:
            same = of_held[bot.bot]
            cells += [_rank_cell(*held_ranks[bot.bot]), number_cell(same.strength)]
            cells.append(span_cell(same.low, same.high))
        rows.append([*cells, *map(count_cell, (bot.wins, bot.losses, bot.ties))])
    method = (
        f"Bradley–Terry model with ties (Davidson, 1970), against the average bot; {level} intervals with whole "
        "raters as units. A range of ranks holds every place that comparisons of two bots, corrected by Holm, "
        "leave open."
    )
    if found.is_collecting:
        method = f"{method} {one_look()}"
    return NamedTable(
        "strengths",
        f"Strength of the bots by {title.lower()}",
        PageTable(headers("Bot", numeric=titles), rows),
        method=method,
        note=_held_note(held, level) if held else "",
    )


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
    numeric = ["κ", percent(level), "Items", "Answers", "Pairs of raters"]
    shared = sorted({one.shared for _question, _way, one in found})
    rows = [
        [
            Cell(question),
            Cell(way),
            share_cell(one.found.value, 2, reason_text(one.found.reason)),
            span_cell(one.found.low, one.found.high, shares=True, why=reason_text(one.found.reason)),
            *map(count_cell, (one.found.n_items, one.found.n_ratings, one.n_pairs)),
        ]
        for question, way, one in found
    ]
    return NamedTable(
        table_id,
        title,
        PageTable(headers("Question", "Way of asking", numeric=numeric), rows),
        method="Median of Cohen’s κ over pairs of raters with {n} shared items or more; intervals over items.".format(
            n=" or ".join(map(str, shared))
        ),
    )


def _beside_table(found: ProtocolComparison, titles: Titles, bots: Bots) -> NamedTable:
    level = percent(found.level)
    heads = [*headers("Question", "A", "B", numeric=["One turn", level, "Chats", level]), *headers("Significant in")]
    rows = [
        [
            *_named(row, titles, bots),
            *mean_cells(row.one_turn, shares=True),
            number_cell(row.difference, 2, reason_text(row.reason)),
            span_cell(row.low, row.high, why=reason_text(row.reason)),
            Cell(_verdict(row)),
        ]
        for row in found.rows
    ]
    return NamedTable(
        "one-turn",
        "The same bots by both ways of asking",
        PageTable(heads, rows),
        method=(
            "One turn: share of comparisons that A wins less that of those that B wins. Chats: mean rating of A "
            "less that of B. {level} intervals, not corrected for the number of pairs. Significant: corrected by "
            "Holm for all pairs of a question, p < {alpha}; single replies by {one_turn}, chats by {chats}."
        ).format(
            level=level,
            alpha=share(1 - found.level),
            **{
                name: "the always-valid test, as more are to come" if test == "always" else "the fixed-sample test"
                for name, test in zip(("one_turn", "chats"), found.tests, strict=True)
            },
        ),
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
