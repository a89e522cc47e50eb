"""Verdict on candidates that could replace people, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from evaluation.data.result_tables import Cell, NamedTable, count_cell, declared_table, linked, number_cell, share_cell
from evaluation.hybrid.rivals import LENGTH_RIVALS
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import figure, percent, pluralise, share, span
from evaluation.replacement.candidate import candidate_kinds
from evaluation.replacement.ranking import OWN_TURNS
from evaluation.replacement.result import (
    ALPHA,
    STANDINGS,
    Answer,
    BotRanking,
    CandidateVerdict,
    Equality,
    RatingsWorth,
    ReplacementResult,
    RivalErrors,
    Settlement,
    Standing,
)
from webapp.insights.narrative.phrases import Section, listed, mean_cells, named_cell, reason_text
from webapp.results.study_data import StudyFrame

ANSWERS: dict[Answer, str] = {"yes": "Yes", "no": "No", "not_known": "Not known"}
_PILLS: dict[str, str] = {"yes": "good", "ranking": "info", "not_known": "", "no": "bad"}
_RIVALS = {
    "log_turns": "the number of turns",
    "log_words": "the length of messages",
    "log_turns_and_words": "both lengths",
    "group": "the groups of bots",
    OWN_TURNS: "the bots’ own turns",
}
_BEATEN = dict.fromkeys(LENGTH_RIVALS, "length")
_OWN_TURNS = {
    "selfplay": "The bots’ own turns are those of self-play.",
    "chats": (
        "There is no self-play of all rated bots, so their own turns are those of the same chats: length, questions, "
        "sentiment, variety and repetition."
    ),
    "replies": "The bots’ own turns are the replies themselves: their length, and whether they are questions.",
    "unknown": "Nothing is known about the bots’ own turns, so no candidate can be compared with them.",
}
_INTERVAL = "95 % interval"
NO_RIVAL = "not a rival of this candidate"
FEW_BOTS_FOR_CHANCE = "too few bots"


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """Question about a candidate with its answer, evidence, and what would settle it."""

    question: str
    answer: str
    evidence: str
    settled_by: str = ""


@dataclass(frozen=True, slots=True)
class CandidateCard:
    """Candidate on the page: verdict, then the three questions.

    Attributes:
        pill: colour of the verdict.
        kind: its kind, which decides where details are.
    """

    title: str
    kind: str
    verdict: str
    pill: str
    questions: tuple[AnsweredQuestion, ...]


def candidate_cards(frame: StudyFrame, result: ReplacementResult) -> list[CandidateCard]:
    """Return all candidates, the best standing first."""
    order: list[Standing] = list(STANDINGS)
    return [
        CandidateCard(
            verdict.title,
            verdict.kind,
            STANDINGS[verdict.standing].capitalize(),
            _PILLS[verdict.standing],
            _without_repeats(
                _ranking(verdict.ranking), _equality(frame, verdict.equality, result.margin), _worth(verdict.worth)
            ),
        )
        for standing in order
        for verdict in result.of_standing(standing)
    ]


def _without_repeats(first: AnsweredQuestion, *questions: AnsweredQuestion) -> tuple[AnsweredQuestion, ...]:
    """Refer to the first question's evidence instead of repeating it."""
    return first, *(
        replace(question, evidence="For the same reason.", settled_by="")
        if (question.evidence, question.settled_by) == (first.evidence, first.settled_by)
        else question
        for question in questions
    )


def _ranking(ranking: BotRanking) -> AnsweredQuestion:
    r = ranking.r
    evidence = ""
    if r.value is not None:
        ends = span(r.low, r.high, shares=True)
        evidence = " ".join(filter(None, [f"r {share(r.value)}", ends, f"over {pluralise(ranking.n_bots, 'bot')}"]))
        rivals = [_RIVALS.get(rival.rival, rival.rival) for rival in ranking.rivals if not _is_beaten(rival)]
        if ranking.answer == "yes":
            beaten = dict.fromkeys(
                _BEATEN.get(rival.rival, _RIVALS.get(rival.rival, rival.rival)) for rival in ranking.rivals
            )
            evidence += f", better than {listed(['chance', *beaten])}"
        elif rivals and ranking.reason is None:
            evidence += f"; not clearly better than {listed(rivals, 'or')}"
        evidence += "."
    if ranking.reason is not None:
        evidence = f"{evidence} {_sentence(reason_text(ranking.reason))}".strip()
    settled_by = _settlement(ranking.settled_by, "rated bot")
    return AnsweredQuestion("Ranks bots as people do", ANSWERS[ranking.answer], evidence, settled_by)


def _is_beaten(rival: RivalErrors) -> bool:
    return rival.p is not None and (rival.ratio.value or 1.0) < 1 and rival.p <= ALPHA


def _equality(frame: StudyFrame, equality: Equality, margin: float | None) -> AnsweredQuestion:
    question = "Same values as people"
    if equality.reason is not None:
        evidence = _sentence(reason_text(equality.reason))
    else:
        furthest = equality.bots[0]
        within = (
            f"{equality.n_within} of {pluralise(len(equality.bots), 'bot')} shown to be within ±{figure(margin)} points"
        )
        evidence = f"{within}; {frame.title(furthest.bot)} differs most, by {figure(furthest.difference.value)} points."
    return AnsweredQuestion(
        question, ANSWERS[equality.answer], evidence, _settlement(equality.settled_by, "rating", " per bot")
    )


def _worth(worth: RatingsWorth) -> AnsweredQuestion:
    saved = worth.saved
    evidence = ""
    if saved.value is not None:
        ends = f" ({figure(saved.low, 0)} to {figure(saved.high, 0)})"
        evidence = f"Saves at most {figure(max(saved.value, 0.0), 0)}{ends} of the next 100 ratings."
    if worth.effective is not None:
        evidence += f" With its scores, {pluralise(worth.n, 'rating')} count as {figure(worth.effective, 0)} so far."
    if worth.reason is not None:
        evidence = f"{evidence} {_sentence(reason_text(worth.reason))}"
    return AnsweredQuestion(
        "Saves ratings", ANSWERS[worth.answer], evidence.strip(), _settlement(worth.settled_by, "rating")
    )


def _settlement(settlement: Settlement | None, noun: str, suffix: str = "") -> str:
    """Return the sentence on how to settle an open question; empty if nothing is open."""
    if settlement is None:
        return ""
    if settlement.n is not None:
        about = int(float(f"{settlement.n:.2g}"))  # a forecast has no more digits
        return f"About {pluralise(about, noun)}{suffix} in total would settle it if the results stay the same."
    return {
        "bots": "More rated bots would settle it.",
        "ratings": "More ratings would settle it.",
        "chats": "It must score what people rated.",
        "metrics": "Compute these metrics to settle it.",
        "margin": "Set the smallest difference that matters in the study’s settings.",
        "selfplay": "Self-play of the rated bots would settle it.",
        "again": "New scores by its present version would settle it.",
        "origin": "It can be tested once it is known what it was trained on.",
        "better_candidate": "If the results stay the same, more data will not settle it; only a better candidate will.",
    }[settlement.by]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def absent_sentences(result: ReplacementResult) -> list[str]:
    """Return a sentence on each kind of candidate that the study does not have."""
    return [f"{candidate_kinds.get(name).title}: {candidate_kinds.get(name).absent}" for name in result.absent]


def replacement_section(frame: StudyFrame, result: ReplacementResult) -> Section:
    """Return the verdict, a table with a row for each candidate, and the differences by bot."""
    section = Section("replacement", "Can it replace people?")
    section.conclusion = result.sentence
    section.lead = [result.sentence, *filter(None, [result.saving_sentence])]
    if result.candidates:
        margin = "unknown" if result.margin is None else f"±{figure(result.margin)} points"
        section.lead.append(
            f"The answers are based on {pluralise(result.n_ratings, 'rating')} of "
            f"{pluralise(len(result.bots), 'bot')}; the margin is {margin}."
        )
        section.tables = [_table(frame, result)]
        differences = _differences(frame, result)
        section.tables += [differences] if differences is not None else []
    section.methods = methods(result)
    section.missing = absent_sentences(result)
    return section


def methods(result: ReplacementResult) -> list[str]:
    """Return the rule behind the answers, in sentences."""
    held_out = (
        "each bot is predicted without its own ratings"
        if result.unit == "chat" or len(result.bots) >= FEW_BOTS
        else "each reply is predicted without the ratings of all replies to its context"
    )
    return [
        f"Every candidate is tested on the same ratings, and {held_out}. Chats and replies that a candidate was built "
        "on do not test it: examples in a judge’s prompt, sets that a metric was developed on, simulated chats that "
        "repeat people’s messages to the same bot. Confab cannot know whether imported scores were made with these "
        "ratings.",
        "Ranking: r over bots must exceed permuted ratings, and the errors must be smaller than those of predictions "
        "from the length of chats and from the bots’ own turns (Pitman–Morgan). The answer is no if a rival is shown "
        f"to be better, or if r is shown to be below .5. {_OWN_TURNS[result.own_turns]}",
        "Values: for every bot, two one-sided tests must show that the difference from people is within the margin, "
        "which is the study’s smallest difference of interest. The answer is no if one bot is shown to be beyond it.",
        "Ratings saved: the largest saving by prediction-powered inference (PPI++), reached if very many unrated chats "
        "are scored.",
        f"Each question is tested at {percent(1 - result.level)} over all candidates (Holm). A no is not corrected for "
        "their number.",
    ]


def _table(frame: StudyFrame, result: ReplacementResult) -> NamedTable:
    rated = "chats" if result.unit == "chat" else "replies"
    return declared_table(
        "replacement",
        "Candidates",
        result.candidates,
        ("Candidate", lambda verdict: Cell(verdict.title)),
        ("Can replace people", lambda verdict: Cell(STANDINGS[verdict.standing])),
        ("Ranks bots", lambda verdict: _answer(verdict.ranking)),
        (("r", _INTERVAL), lambda verdict: _r(verdict.ranking)),
        ("r by chance, 95 %", lambda verdict: share_cell(verdict.ranking.null95, reason=_reason(verdict.ranking))),
        ("Bots", lambda verdict: count_cell(verdict.ranking.n_bots or None, _reason(verdict.ranking))),
        (
            tuple(f"Errors relative to {_RIVALS[name]}" for name in (*LENGTH_RIVALS, OWN_TURNS)),
            lambda verdict: [_ratio(verdict, name) for name in (*LENGTH_RIVALS, OWN_TURNS)],
        ),
        ("Same values", lambda verdict: _answer(verdict.equality)),
        ("Bots within the margin", lambda verdict: _n_within(verdict.equality)),
        ("Saves ratings", lambda verdict: _answer(verdict.worth)),
        (
            ("Saved of 100", _INTERVAL),
            lambda verdict: mean_cells(
                verdict.worth.saved, 0, attribute="value", reason=reason_text(verdict.worth.reason)
            ),
        ),
        (
            "Ratings it counts as",
            lambda verdict: number_cell(
                verdict.worth.effective, 0, reason_text(verdict.worth.effective_reason or verdict.worth.reason)
            ),
        ),
        (f"Rated {rated} scored", lambda verdict: share_cell(verdict.share_scored)),
        (f"{rated.capitalize()} left out that it was built on", lambda verdict: count_cell(verdict.n_left_out)),
        method="Errors relative to a rival: below 1, the candidate predicts the bots’ means better.",
    )


def _answer(part: BotRanking | Equality | RatingsWorth) -> Cell:
    return Cell(ANSWERS[part.answer], reason=reason_text(part.reason))


def _r(ranking: BotRanking) -> list[Cell]:
    reason = reason_text(ranking.r.reason or ranking.reason)
    return mean_cells(ranking.r, shares=True, attribute="value", reason=reason)


def _reason(ranking: BotRanking) -> str:
    return reason_text(ranking.reason) or FEW_BOTS_FOR_CHANCE


def _n_within(equality: Equality) -> Cell:
    is_tested = any(bot.p_within is not None for bot in equality.bots)
    return count_cell(equality.n_within if is_tested else None, reason_text(equality.reason))


def _ratio(verdict: CandidateVerdict, name: str) -> Cell:
    ranking = verdict.ranking
    ratios: Mapping[str, float | None] = {rival.rival: rival.ratio.value for rival in ranking.rivals}
    return number_cell(ratios.get(name), reason=reason_text(ranking.reason) or NO_RIVAL)


def _differences(frame: StudyFrame, result: ReplacementResult) -> NamedTable | None:
    """Return the differences of every candidate and bot; None without any."""
    rows = [(verdict, bot) for verdict in result.candidates for bot in verdict.equality.bots]
    if not rows:
        return None
    return declared_table(
        "replacement-bots",
        "Values of candidates and people by bot",
        rows,
        ("Candidate", lambda row: Cell(row[0].title)),
        ("Bot", lambda row: linked([named_cell(frame.bots, row[1].bot)], frame.mean_link(frame.headline, row[1].bot))),
        ("Candidate’s value", lambda row: number_cell(row[1].value)),
        ("People’s mean", lambda row: number_cell(row[1].people)),
        (("Difference", "90 % interval"), lambda row: mean_cells(row[1].difference, attribute="value")),
        ("Ratings", lambda row: count_cell(row[1].n_ratings)),
        method="The 90 % interval lies within the margin exactly if both one-sided tests at 5 % are passed.",
    )
