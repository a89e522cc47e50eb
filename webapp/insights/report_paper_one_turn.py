"""One-turn comparisons in the numbering of Ghandeharioun et al. (2019): Tables 1, 4, 6 and 7, and Figure 9.

The comparisons are those of the study of pairs that shares most recently at least two bots with the reported one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evaluation.analysis.pairs import PairOutcome, PairResults
from evaluation.data.result_tables import (
    Cell,
    NamedTable,
    count_cell,
    declared_table,
    estimate_cells,
    number_cell,
    share_cell,
    span_cell,
    with_footnotes,
)
from evaluation.number_format import percent
from evaluation.published.ghandeharioun2019 import CORPORA, LEVEL, MODELS, NAME, PaperBot
from evaluation.published.papers import GapReason, other_values, published_cell, published_span
from evaluation.stats.means import Interval
from webapp.insights.narrative.pairs import protocols_section
from webapp.insights.narrative.phrases import Section, mean_cells
from webapp.jobs.selectors.fits import fit_leading
from webapp.results.compute import StudyComparisons
from webapp.results.item_results import PairPage, study_pairs
from webapp.results.study_data import StudyFrame

QUESTIONS = ("quality", "fluency", "relatedness", "empathy")
"""Questions of the paper's one-turn comparisons."""
_KINDS = ("wins", "losses", "ties")


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A row of bots: those of the paper, and the study's two bots, of which the first is seen as the winner.

    Attributes:
        key: model and corpus in the paper's tables; empty for bots that are not in the paper.
        first, second: bots of the study; empty if it has none.
    """

    key: str
    first: str = ""
    second: str = ""

    def get_outcome(self, results: PairResults | None, question: str) -> PairOutcome | None:
        """Return the outcome from the view of the first bot."""
        if results is None or not (self.first and self.second):
            return None
        outcome = results.get_outcome(question, *sorted((self.first, self.second)))
        if outcome is None or outcome.a == self.first:
            return outcome
        return replace(outcome, a=outcome.b, b=outcome.a, wins=outcome.losses, losses=outcome.wins)


class OneTurn:
    """One-turn comparisons next to the paper's.

    Args:
        by_paper: bots of the study that match the paper's.
    """

    def __init__(self, frame: StudyFrame, by_paper: Mapping[PaperBot, str]) -> None:
        self.frame = frame
        self.page: PairPage = study_pairs(frame.study, **frame.counted_work)
        self.results = self.page.results
        self.comparisons = list(self._comparisons(by_paper))

    def _comparisons(self, by_paper: Mapping[PaperBot, str]) -> Iterator[_Comparison]:
        compared: set[frozenset[str]] = set()
        for corpus in CORPORA:
            for model in MODELS:
                ei, baseline = (by_paper.get(PaperBot(model, corpus, v), "") for v in ("EI", "baseline"))
                compared.add(frozenset({ei, baseline}))
                yield _Comparison(f"{model}, {corpus}", ei, baseline)
        for outcome in self.results.outcomes if self.results else ():
            pair = frozenset({outcome.a, outcome.b})
            if pair not in compared:
                compared.add(pair)
                yield _Comparison("", outcome.a, outcome.b)

    def _name(self, comparison: _Comparison) -> Cell:
        if comparison.key:
            return Cell(f"{comparison.key}: EI against baseline")
        return Cell(f"{self.frame.title(comparison.first)} against {self.frame.title(comparison.second)}")

    @property
    def question_keys(self) -> list[str]:
        """Keys of the paper's questions, then of further ones here."""
        return list(dict.fromkeys([*QUESTIONS, *self.page.titles]))

    def shares(self, item: str, questions: Sequence[str]) -> Section:
        """Return Table 4 or 6: shares of wins, losses and ties."""
        theirs = other_values(NAME, "Table 6")
        rows = [(comparison, question) for question in questions for comparison in self.comparisons]

        def ours(row: tuple[_Comparison, str]) -> list[Cell]:
            outcome = row[0].get_outcome(self.results, row[1])
            if outcome is None:
                return [share_cell(None, reason=GapReason.NO_DATA), span_cell(None, None, reason=GapReason.NO_DATA)] * 3
            return [
                cell
                for kind in _KINDS
                for cell in estimate_cells(getattr(outcome, kind), 3, shares=True, reason=GapReason.UNDEFINED)
            ]

        level = percent(self.results.level) if self.results else "interval"
        table = declared_table(
            item.lower().replace(" ", "-"),
            "Shares of wins, losses and ties",
            rows,
            ("Bots", lambda row: self._name(row[0])),
            ("Question", lambda row: Cell(self.page.titles.get(row[1], row[1]))),
            (
                [f"{kind}, published{ends}" for kind in _KINDS for ends in ("", f", {LEVEL:.0%}")],
                lambda row: [
                    cell
                    for kind in _KINDS
                    for cell in (
                        published_cell(theirs, row[0].key, f"{row[1]} {kind}", 3, is_share=True),
                        published_span(theirs, row[0].key, f"{row[1]} {kind}"),
                    )
                ],
            ),
            ([f"{kind}, here{ends}" for kind in _KINDS for ends in ("", f", {level}")], ours),
            method="Shares of judgements, seen from the first bot. Intervals here are over raters and items.",
            note="In the paper, the row of VHCR, Cornell, fluency adds up to 105 %." if len(questions) > 1 else "",
        )
        return self._section(item, [table])

    def ambiguous(self) -> Section:
        """Return Table 7 and the raters' kappa."""
        theirs, kappas = other_values(NAME, "Table 7"), other_values(NAME, "one-turn")
        rows = [(comparison, question) for question in self.question_keys for comparison in self.comparisons]

        def ours(row: tuple[_Comparison, str]) -> list[Cell]:
            outcome = row[0].get_outcome(self.results, row[1])
            values = (None, None) if outcome is None else (outcome.n_ambiguous, outcome.n_items)
            return [count_cell(value, GapReason.NO_DATA) for value in values]

        kappas_here = {kappa.question: kappa for kappa in self.results.kappas} if self.results else {}

        def kappa_cells(row: str) -> list[Cell]:
            kappa = kappas_here.get(row)
            if kappa is None:
                gap = GapReason.NO_DATA
                return [share_cell(None, reason=gap), span_cell(None, None, reason=gap), count_cell(None, gap)]
            estimate = estimate_cells(kappa.found, 3, shares=True, attribute="value", reason=GapReason.UNDEFINED)
            return [*estimate, count_cell(kappa.n_pairs)]

        kappa_table = declared_table(
            "table-7-kappa",
            "Agreement of two raters",
            [*CORPORA, *kappas_here] if kappas_here else [*CORPORA, "all questions"],
            ("Corpus or question", lambda row: Cell(self.page.titles.get(row, row))),
            ("Published κ", lambda row: published_cell(kappas, row, "kappa", 3, is_share=True)),
            (("κ here", "95 %", "Pairs of raters"), kappa_cells),
            method="Cohen’s κ, the median over pairs of raters; the paper gives it by corpus, this study by question.",
        )
        table = declared_table(
            "table-7",
            "Ambiguous examples",
            rows,
            ("Bots", lambda row: self._name(row[0])),
            ("Question", lambda row: Cell(self.page.titles.get(row[1], row[1]))),
            ("Published, of 100", lambda row: published_cell(theirs, row[0].key, row[1])),
            (("Here", "of"), ours),
            method="Examples for which as many raters preferred one reply as the other.",
        )
        return self._section("Table 7", [table, kappa_table])

    def forms(self, comparisons: StudyComparisons) -> Section:
        """Return Table 1: each bot by one-turn comparisons, interactive chats and self-play."""
        fit = fit_leading(self.frame.study, self.frame.excluded_flags)
        result = (fit.result or {}) if fit is not None else {}
        played = {bot: row.get("predicted_selfplay") for bot, row in (result.get("bots") or {}).items()}
        strengths = {bot.bot: bot for bot in self.results.strengths.bots} if self.results else {}
        headline = self.frame.headline

        def one_turn(bot: str) -> list[Cell]:
            strength = strengths.get(bot)
            if strength is None:
                return [number_cell(None, reason=GapReason.NO_DATA), span_cell(None, None, reason=GapReason.NO_DATA)]
            ends = Interval(strength.strength, strength.low, strength.high, 0, None)
            return estimate_cells(ends, reason=GapReason.UNDEFINED)

        def interactive(bot: str) -> list[Cell]:
            row = comparisons.means.rows.get((bot, headline.key))
            if row is None:
                return [number_cell(None, reason=GapReason.NO_DATA), span_cell(None, None, reason=GapReason.NO_DATA)]
            return mean_cells(row.interval, 2, reason=GapReason.UNDEFINED)

        table = declared_table(
            "table-1",
            "Each bot in three forms of evaluation",
            self.frame.rated_bots,
            ("Bot", lambda bot: Cell(self.frame.title(bot))),
            (("One-turn: strength", "95 %"), one_turn),
            ((f"Interactive: mean {headline.title.lower()}", percent(comparisons.means.level)), interactive),
            ("Self-play: predicted rating", lambda bot: number_cell(played.get(bot), reason=GapReason.NOT_COMPUTED)),
            method="Bradley–Terry strength of single replies, mean rating of chats, and the hybrid metric’s prediction "
            "from self-play.",
            note="The paper shows one example of each form. Chats are left out here, because a report may be shared; "
            "read them under *Conversations*.",
        )
        return self._section("Table 1", [table], "Table 1. Three forms of evaluation")

    def questions(self) -> Section:
        """Return Figure 9: the questions that raters of pairs see."""
        table = declared_table(
            "figure-9",
            "Questions of the one-turn comparisons",
            list(self.page.titles.items()) or [("", "")],
            ("Question", lambda row: Cell(row[1]) if row[1] else Cell("–", reason=GapReason.NO_DATA)),
            ("In the paper", lambda row: Cell("yes" if row[0] in QUESTIONS else "no")),
            note="The paper shows a screenshot.",
        )
        return self._section("Figure 9", [table])

    def against_interactive(self) -> Section:
        """Return the chapter on one-turn and interactive evaluation."""
        section = protocols_section(self.frame.study, self.page)
        if section is None:
            section = Section("one-turn", "Single replies compared with interactive chats")
            section.missing.append("No study compares single replies of at least two of these bots.")
        return section

    def _section(self, item: str, tables: Sequence[NamedTable], title: str = "") -> Section:
        section = Section(tables[0].id, title or f"{item}. {tables[0].title}")
        if self.results is None:
            section.lead.append("No study compares single replies of at least two of these bots.")
        elif self.page.compared_study is not None:
            section.lead.append(f"The comparisons are those of “{self.page.compared_study.name}”.")
        section.tables.extend(with_footnotes(table) for table in tables)
        return section
