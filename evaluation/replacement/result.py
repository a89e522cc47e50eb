"""Result of asking whether candidates can replace people.

`docs/background/replacement.md` defines each figure. An undefined value is None, with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evaluation.data.ratings import MEAN_KEY
from evaluation.data.tables import SummarisedResult, text_table
from evaluation.findings import Reason
from evaluation.number_format import figure, pluralise, result_dump, result_load, share, span
from evaluation.stats.effect_sizes import Effect

Answer = Literal["yes", "not_known", "no"]
Standing = Literal["yes", "ranking", "not_known", "no"]
"""`yes`: it ranks bots as people do, and its values are within the margin; `ranking`: only the first is shown; `no`: it
is shown that it does not rank bots as people do; `not_known`: none of these."""
STANDINGS: dict[Standing, str] = {"yes": "yes", "ranking": "for ranking only", "not_known": "not known", "no": "no"}
Settles = Literal["bots", "ratings", "better_candidate", "chats", "metrics", "margin", "selfplay", "again", "origin"]
"""Data that would settle an open question."""
OwnTurns = Literal["selfplay", "chats", "replies", "unknown"]
"""Source of the bots' own turns."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """Data that would settle an open question.

    Attributes:
        by: what is needed; `better_candidate`: more data of the same kind would not do; `again`: new scores, made in a
            known way; `origin`: what the candidate was trained on.
        n: how many of it in all, if the results stay the same; None if unknown.
    """

    by: Settles
    n: int | None = None


@dataclass(frozen=True, slots=True)
class RivalErrors:
    """Errors of a candidate divided by those of a rival, over bots.

    Attributes:
        ratio: below 1, the candidate is better.
        p: two-sided, for equal errors.
    """

    rival: str
    ratio: Effect
    p: float | None = None


@dataclass(frozen=True, slots=True)
class BotRanking:
    """Order of bots by a candidate, compared with that of people.

    Attributes:
        r: Pearson's r over bots, each predicted without its own ratings.
        null95: value that permuted ratings exceed 5 % of the time.
        n_pairs, n_ordered: pairs of bots, and those in people's order.
        rivals: lengths of the chats, and the bots' own turns.
        p: largest p-value over chance and all rivals; p_corrected: the same, corrected over candidates.
    """

    answer: Answer
    r: Effect = Effect()  # noqa: RUF009
    null95: float | None = None
    n_bots: int = 0
    n_pairs: int = 0
    n_ordered: int = 0
    rivals: tuple[RivalErrors, ...] = ()
    p: float | None = None
    p_corrected: float | None = None
    settled_by: Settlement | None = None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class BotDifference:
    """Value of a candidate minus that of people, for one bot.

    Attributes:
        value: candidate's value, on people's scale, without the bot's own ratings.
        people: mean rating of the same chats, or of all rated chats of the bot.
        difference: with its interval of level 1 − 2α.
        p_within: for the hypothesis that the difference reaches the margin; p_beyond: for the opposite one.
    """

    bot: str
    value: float
    people: float
    difference: Effect
    n_ratings: int
    p_within: float | None = None
    p_beyond: float | None = None


@dataclass(frozen=True, slots=True)
class Equality:
    """Comparison of a candidate's values with people's, for every bot.

    Attributes:
        bots: differences, the largest first.
        p: largest p-value over bots; p_corrected: the same, corrected over candidates.
    """

    answer: Answer
    bots: tuple[BotDifference, ...] = ()
    p: float | None = None
    p_corrected: float | None = None
    settled_by: Settlement | None = None
    reason: Reason | None = None

    @property
    def n_within(self) -> int:
        """Number of bots whose interval lies within the margin."""
        return sum(bot.p_within is not None and bot.p_within <= ALPHA for bot in self.bots)


@dataclass(frozen=True, slots=True)
class RatingsWorth:
    """Number of ratings that a candidate is worth, by prediction-powered inference (PPI++).

    Attributes:
        n: ratings so far; n_unrated: unrated chats with a score.
        effective: number of ratings without scores that would give the same variance.
        saved: ratings that could be left out of the next 100, if the candidate scores many unrated chats.
        p: for the hypothesis that it saves nothing, doubled to agree with the interval.
        p_corrected: the same, corrected over candidates.
    """

    answer: Answer
    n: int = 0
    n_unrated: int = 0
    effective: float | None = None
    saved: Effect = Effect()  # noqa: RUF009
    p: float | None = None
    p_corrected: float | None = None
    settled_by: Settlement | None = None
    reason: Reason | None = None
    effective_reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class CandidateVerdict:
    """Answers for one candidate.

    Attributes:
        share_scored: share of rated chats with a score.
        n_left_out: chats, with people or simulated, left out because the candidate was built on them.
    """

    kind: str
    name: str
    title: str
    ranking: BotRanking
    equality: Equality
    worth: RatingsWorth
    share_scored: float = 0.0
    n_left_out: int = 0

    @property
    def standing(self) -> Standing:
        """Answer to the question on the page."""
        if self.ranking.answer == "yes":
            return "yes" if self.equality.answer == "yes" else "ranking"
        return "no" if self.ranking.answer == "no" else "not_known"


ALPHA = 0.05
"""Level of each of the three tests, over all candidates."""


NO_CANDIDATE = "There is no candidate yet: no metric, judge or simulation of these bots has been computed."
UNKNOWN_TRAINING = Reason("unknown_training", "it is not known what it was trained on")
TEXTS_ERASED = Reason("texts_erased", "the texts of the rated replies were erased")
NOT_RATED_ALONE = Reason("not_rated_whole", "participants of this study rate neither chats nor single replies")


@dataclass(frozen=True, repr=False)
class ReplacementResult(SummarisedResult):
    """Verdict on every candidate, by one rule on the same ratings.

    Attributes:
        dimension: question or questions whose mean ranks the bots.
        margin: largest difference from people's values that does not matter, in points; None if unknown.
        bots: rated bots, without controls.
        units: whose ratings are resampled.
        absent: kinds of candidates that the study has none of.
        notes: reasons why the question cannot be asked, by what is missing.
        unit: object of each rating.
    """

    dimension: str
    margin: float | None
    bots: tuple[str, ...]
    n_ratings: int
    n_unrated: int
    units: Literal["raters", "conversations", "both"]
    candidates: tuple[CandidateVerdict, ...] = ()
    absent: tuple[str, ...] = ()
    own_turns: OwnTurns = "unknown"
    level: float = 1 - ALPHA
    notes: Mapping[str, Reason] = field(default_factory=dict)
    unit: Literal["chat", "reply"] = "chat"

    def of_standing(self, standing: Standing) -> list[CandidateVerdict]:
        """Return the candidates of a standing, those that save most first."""
        verdicts = [verdict for verdict in self.candidates if verdict.standing == standing]
        return sorted(verdicts, key=lambda verdict: -(verdict.worth.saved.value or 0.0))

    @property
    def is_tested(self) -> bool:
        """True if at least one candidate predicts bots; others only say what they lack."""
        return any(verdict.ranking.n_bots for verdict in self.candidates)

    @property
    def saving(self) -> CandidateVerdict | None:
        """Candidate that is shown to save most ratings; None without any."""
        savings = [verdict for verdict in self.candidates if verdict.worth.answer == "yes"]
        return max(savings, key=lambda verdict: verdict.worth.saved.value or 0.0, default=None)

    @property
    def saving_sentence(self) -> str:
        """The largest saving as a sentence; empty without any."""
        if self.saving is None:
            return ""
        saved = self.saving.worth.saved
        ends = f" (95 %: {figure(saved.low, 0)} to {figure(saved.high, 0)})"
        return f"{self.saving.title} would save up to {figure(saved.value, 0)}{ends} of the next 100 ratings."

    @property
    def sentence(self) -> str:
        """Verdict on all candidates as one sentence."""
        if not self.candidates:
            reasons = "; ".join(self.notes.values())
            return f"There is no candidate: {reasons}." if reasons else NO_CANDIDATE
        titles = {standing: _listed([v.title for v in self.of_standing(standing)]) for standing in STANDINGS}
        n_open = len(self.of_standing("not_known"))
        if titles["yes"]:
            return f"Yes: {titles['yes']} can replace people here."
        if titles["ranking"]:
            return (
                f"For ranking only: {titles['ranking']} can rank bots; it is not shown that their values equal "
                "people’s."
            )
        if n_open:
            return (
                f"Not known: none of {pluralise(len(self.candidates), 'candidate')} is shown to rank these bots as "
                "people do."
            )
        return "No: every candidate is shown not to rank these bots as people do."

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values that `from_json` reads back."""
        document = dict(result_dump(self, ReplacementResult))
        for row, verdict in zip(document["candidates"], self.candidates, strict=True):
            row["standing"] = verdict.standing
        return {"sentence": self.sentence, "saving": self.saving_sentence, **document}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ReplacementResult:
        """Read the output of `to_json`; raises ValueError for another document."""
        plain = {name: value for name, value in document.items() if name not in ("sentence", "saving")}
        rows = plain.get("candidates", ())
        plain["candidates"] = [{k: v for k, v in row.items() if k != "standing"} for row in rows]
        return result_load(plain, cls)

    def summary(self) -> str:
        """Return a table for a terminal."""
        headers = ["candidate", "can replace", "ranks", "r", "95 %", "bots", "values", "worth", "saves of 100", "95 %"]
        rows = [
            [
                *(verdict.title, STANDINGS[verdict.standing], _short(verdict.ranking.answer)),
                *(share(verdict.ranking.r.value), span(verdict.ranking.r.low, verdict.ranking.r.high, shares=True)),
                *(str(verdict.ranking.n_bots), _short(verdict.equality.answer), figure(verdict.worth.effective, 0)),
                *(figure(verdict.worth.saved.value, 0), span(verdict.worth.saved.low, verdict.worth.saved.high, 0)),
            ]
            for verdict in self.candidates
        ]
        dimension = "the mean of all questions" if self.dimension == MEAN_KEY else self.dimension
        margin = "unknown" if self.margin is None else figure(self.margin)
        title = f"Can it replace people? ({dimension}, {pluralise(self.n_ratings, 'rating')}, margin {margin})"
        reasons = [
            f"{verdict.title}: {question}: {part.reason}"
            for verdict in self.candidates
            for question, part in (("ranks", verdict.ranking), ("values", verdict.equality), ("worth", verdict.worth))
            if part.reason is not None
        ]
        foot = [self.sentence, *filter(None, [self.saving_sentence]), *reasons]
        return text_table(title, headers, rows, "\n".join(foot))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _short(answer: Answer) -> str:
    return answer.replace("_", " ")
