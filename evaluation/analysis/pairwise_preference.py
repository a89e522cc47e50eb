"""Pairwise preferences: judgements, the preferred bot, and a ranking.

This is the only definition of a pair's preferred bot, used by pages, the report and notebooks. While a study collects
(`PairJudgements.is_collecting`), the always-valid test of `evaluation.stats.sequential` applies, because researchers
look at judgements as they arrive. Once the planned size is reached or the study is closed, the fixed-sample test of
`evaluation.stats.comparisons` applies. Both are corrected by Holm for all pairs of the question. `Preferred.test` names
the test.

Style controls are length and markup of a reply. People prefer long replies with much markup. Chiang et al. (2024,
Chatbot Arena) control for such features by adding their differences to the Bradley–Terry model. Here they are on a log2
scale: one unit means twice as long, or twice as much markup.

Bots are ranked by the strengths of the Bradley–Terry model, ties allowed:

    judged = rank("pairs.csv")        # first,second,preferred,rater
    print(judged.summary())
    judged.plot()
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chatbots.text import quote
from evaluation.analysis.comparisons import Test
from evaluation.analysis.levels import order_alpha
from evaluation.analysis.ordered_choices import OrderedChoices
from evaluation.data.formats.records.preferences import preferences_of_table
from evaluation.data.formats.tables import is_missing, name_of, table_of, table_read
from evaluation.data.ratings import SMALLEST_SHARE, rater_named
from evaluation.data.tables import SummarisedResult, text_table, to_plain
from evaluation.number_format import figure, pluralise, share, span
from evaluation.plots.charts import Weight, weights_drawing
from evaluation.plots.svg import Plot
from evaluation.stats.bradley_terry import BradleyTerry, bradley_terry
from evaluation.stats.comparisons import Comparison, preferences_fixed
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.sequential import RATERS, Preference, preferences_always
from evaluation.stats.zscores import is_unknown

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class PairJudgements:
    """Judgements of pairs as columns of one length.

    Attributes:
        item: (k,) compared object: a context, or two conversations.
        first, second: (k,) the bots.
        rater: (k,) rater of each judgement; None if unnamed.
        answers: per question (k,): 1 if the first is better, 0 if they are equal, -1 if the second is better; NaN
            without an answer.
        titles: display title of each question; the first question ranks the bots.
        exchange: (k,) exchange of the chat the two replies belong to, from 1; None unless single replies of chats were
            compared.
        controls: by name (k,) differences (first minus second) in properties unrelated to the bot's merit, as made by
            this module; empty if texts are unknown.
        is_collecting: True if more judgements are coming and researchers look at them meanwhile, as
            `Ratings.is_collecting`.
        level: as in `Ratings.level`.
        smallest_share: as in `Ratings.smallest_share`, of the scale from −1 (all prefer the second) to 1.
        choices: choices among several replies that imply these judgements; None if pairs were compared.
    """

    item: np.ndarray
    first: np.ndarray
    second: np.ndarray
    rater: np.ndarray
    answers: Mapping[str, np.ndarray]
    titles: Mapping[str, str]
    controls: Mapping[str, np.ndarray] = field(default_factory=dict)
    exchange: np.ndarray | None = None
    is_collecting: bool = False
    smallest_share: float = SMALLEST_SHARE
    level: float | None = None
    choices: OrderedChoices | None = None

    def __post_init__(self) -> None:
        columns = {"first": self.first, "second": self.second, "rater": self.rater}
        columns |= {**self.answers, **self.controls}
        columns |= {} if self.exchange is None else {"exchange": self.exchange}
        for name, values in columns.items():
            if len(values) != len(self.item):
                raise ValueError(f"{name} has {len(values)} values for {len(self.item)} judgements")
        if set(self.titles) != set(self.answers):
            raise ValueError(
                f"titles for {', '.join(self.titles)} and answers to {', '.join(self.answers)}; they must be the same"
            )
        for key, values in self.answers.items():
            odd = set(values[np.isfinite(values)].tolist()) - {-1.0, 0.0, 1.0}
            if odd:
                raise ValueError(f"an answer to {key} is {min(odd):g}; it must be 1, 0 or -1")

    def __len__(self) -> int:
        return len(self.item)

    @classmethod
    def of_choices(cls, choices: OrderedChoices, titles: Mapping[str, str], **extra_fields: Any) -> PairJudgements:
        """Return the pairs of two bots implied by choices among several replies.

        The pairs of one choice share a rater, named or not, because they depend on each other.

        Args:
            titles: the question.
            more: other fields.
        """
        raters = [f"unnamed {row}" if is_unknown(rater) else str(rater) for row, rater in enumerate(choices.rater)]
        rows = [
            # Use a fixed order, so that the position of a bot carries no information about the outcome.
            (row, *((better, worse, 1.0) if reply[better] < reply[worse] else (worse, better, -1.0)))
            for row, (reply, bot) in enumerate(zip(choices.reply, choices.bot, strict=True))
            for better, worse in choices.implied
            if bot[better] != bot[worse]
        ]
        choice_rows, first, second = (np.array([implied[part] for implied in rows], dtype=int) for part in range(3))
        texts = [
            [[choices.texts[row][place]] for row, place in zip(choice_rows, side, strict=True)] if choices.texts else []
            for side in (first, second)
        ]
        names = zip(choices.reply[choice_rows, first], choices.reply[choice_rows, second], strict=True)
        return cls(
            item=np.array([f"{a}~{b}" for a, b in names], dtype=object),
            first=choices.bot[choice_rows, first],
            second=choices.bot[choice_rows, second],
            rater=np.array([raters[row] for row in choice_rows], dtype=object),
            answers={key: np.array([answer for *_indexes, answer in rows], dtype=float) for key in titles},
            titles=titles,
            controls=style_controls(*texts) if choices.texts else {},
            choices=choices,
            **extra_fields,
        )

    @property
    def leading(self) -> str:
        """The question that bots are ranked by."""
        return next(iter(self.titles))


@dataclass(frozen=True, slots=True)
class Preferred:
    """Comparison of all pairs of bots on one question.

    Attributes:
        alpha: accepted probability of any wrong preference among all pairs.
        test: test that decides which bot is preferred.
        found: sorted by name; uncorrected intervals at 1 − alpha. `more` is known while the study collects data.
        n: number of judgements of each pair.
        smallest: smallest difference of interest, between the shares of judgements preferring either bot.
    """

    question: str
    alpha: float
    test: Test
    found: tuple[Preference, ...]
    n: Mapping[tuple[str, str], int]
    smallest: float = 2 * SMALLEST_SHARE

    def get_comparison(self, a: str, b: str) -> Comparison:
        """Return the comparison of two bots, `a` before `b` in alphabetical order.

        Raises:
            KeyError: if they were never compared on this question.
        """
        for preference in self.found:
            if (preference.pair.a, preference.pair.b) == (a, b):
                return preference.pair
        raise KeyError(f"no participant compared {quote(a)} with {quote(b)} on {quote(self.question)}")


def preferred(judged: PairJudgements, question: str, *, alpha: float | None = None) -> Preferred:
    """Return the preferred bot of every pair on a question.

    Args:
        alpha: error rate of any wrong preference among all pairs; anytime-valid while the study collects data.
    """
    alpha = order_alpha(judged.level) if alpha is None else alpha
    values = judged.answers[question]
    is_answered = np.isfinite(values)
    first, second = judged.first[is_answered].tolist(), judged.second[is_answered].tolist()
    read = (values[is_answered], first, second, judged.rater[is_answered].tolist(), judged.item[is_answered].tolist())
    smallest = 2 * judged.smallest_share
    if judged.is_collecting:
        preferences = tuple(preferences_always(*read, smallest=smallest, level=1 - alpha))
    else:
        pairs = preferences_fixed(*read, level=1 - alpha)
        preferences = tuple(Preference(pair, RATERS, None) for pair in pairs)
    n = Counter((min(two), max(two)) for two in zip(first, second, strict=True))
    test: Test = "always" if judged.is_collecting else "fixed"
    return Preferred(question, alpha, test, preferences, dict(n), smallest)


def sign_of(pair: Comparison) -> int:
    """Return 1 if a is significantly better, -1 if b is, else 0."""
    return int(np.sign(pair.difference or 0)) if pair.ordered else 0


CONTROLS = {"length": "Twice as long", "markup": "Twice as much markup"}
"""Display text for one unit of each control."""
_MARKUP = re.compile(
    r"^\s{0,3}#{1,6}\s"  # headings
    r"|^\s*(?:[-*+]|\d+[.)])\s"  # items of lists
    r"|\*\*[^*\n]+\*\*|__[^_\n]+__"  # bold
    r"|`[^`\n]+`|^```"  # code
    r"|\[[^\]\n]+\]\([^)\n]+\)"  # links
    r"|^\|.+\|\s*$",  # rows of tables
    re.MULTILINE,
)


def n_markup(text: str) -> int:
    """Return the number of markup elements in a text.

    These are headings, list items, bold words, code, links and table rows.
    """
    return len(_MARKUP.findall(text))


def style_controls(first: Sequence[Sequence[str]], second: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
    """Return length and markup differences (first minus second), on a log2 scale.

    Args:
        first, second: (k,) replies read in each judgement, one or several.
    """
    lengths = [[sum(map(len, replies)) for replies in side] for side in (first, second)]
    marks = [[sum(map(n_markup, replies)) for replies in side] for side in (first, second)]
    return {"length": _doublings(*lengths), "markup": _doublings(*marks)}


def _doublings(first: Sequence[int], second: Sequence[int]) -> np.ndarray:
    """Return (k,) log2 ratios of counts.

    1 is added to both counts, which can be 0.
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    return np.asarray(np.log2((1 + a) / (1 + b)))


_OUTCOMES: Mapping[str, float] = {
    "first": 1.0,
    "second": 0.0,
    "tie": 0.5,
    "model_a": 1.0,
    "model_b": 0.0,
    "tie (bothbad)": 0.5,
    "both_bad": 0.5,
}
"""Outcome words in lower case; the second line lists those of arena data."""
_WIDTH = 554


@dataclass(frozen=True, slots=True, repr=False)
class Ranking(SummarisedResult):
    """Ranking of bots by preference.

    Attributes:
        fit: strengths, comparisons of every pair, and the effect of the position.
        level: confidence level of all intervals.
    """

    fit: BradleyTerry
    level: float = RATING_LEVEL

    @property
    def order(self) -> tuple[str, ...]:
        """Bots, strongest first; empty without a fit."""
        return tuple(b.bot for b in sorted(self.fit.bots, key=lambda b: (-b.strength, b.bot)))

    @property
    def told_apart(self) -> frozenset[tuple[str, str]]:
        """Pairs whose strengths differ significantly, each sorted by name."""
        return frozenset((pair.a, pair.b) for pair in self.fit.comparisons if pair.ordered)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; without a fit, the reason."""
        ranks = {bot: list(ends) for bot, ends in self.fit.rank_ranges().items()}
        return {"order": list(self.order), "level": self.level, "ranks": ranks, **to_plain(self.fit)}

    def summary(self) -> str:
        """Return a table for a terminal."""
        if self.fit.reason is not None:
            return f"Bots by preference: {self.fit.reason}"
        bots = {bot.bot: bot for bot in self.fit.bots}
        ranks = self.fit.rank_ranges()
        rows = [
            [
                _rank(*ranks[name]),
                *(name, figure(bots[name].strength), span(bots[name].low, bots[name].high)),
                *(share(bots[name].worth), str(bots[name].wins)),
                *(str(bots[name].losses), str(bots[name].ties)),
            ]
            for name in self.order
        ]
        n_pairs = len(self.fit.comparisons)
        title = (
            f"Bots by preference: {pluralise(self.fit.n, 'judgement')}, {len(self.told_apart)} of "
            f"{pluralise(n_pairs, 'pair')} differ significantly (Holm, p < {1 - self.level:.2g})"
        )
        headers = ["rank", "bot", "log odds", f"{self.level:.0%}", "worth", "won", "lost", "tied"]
        return text_table(title, headers, rows, self._foot())

    def _foot(self) -> str:
        errors = (
            "judgements count as independent"
            if self.fit.n_raters is None
            else f"errors over {pluralise(self.fit.n_raters, 'rater')}"
        )
        notes = [errors]
        if self.fit.first is not None:
            ends = span(self.fit.first_low, self.fit.first_high)
            notes.append(f"being shown first adds {figure(self.fit.first)} {ends}")
        notes += [
            f"one more unit of {effect.name} adds {figure(effect.value)} {span(effect.low, effect.high)}"
            for effect in self.fit.controls
        ]
        return "; ".join(notes)

    def plot(self) -> Plot:
        """Draw the strengths with intervals.

        Bots not significantly different from the average are hollow.

        Raises:
            ValueError: if there is no fit; the message gives the reason.
        """
        if self.fit.reason is not None:
            raise ValueError(f"there is nothing to draw: {self.fit.reason}")
        bots = {bot.bot: bot for bot in self.fit.bots}
        rows = [Weight(name, bots[name].strength, bots[name].low, bots[name].high) for name in self.order]
        name = f"Strengths of {pluralise(len(rows), 'bot')} against the average one, in log odds."
        return Plot.from_drawing(weights_drawing(rows, _WIDTH, name=name, unit="Log odds relative to the average bot"))


def _rank(best: int, worst: int) -> str:
    return str(best) if best == worst else f"{best} to {worst}"


def rank(
    judgements: pd.DataFrame | str | Path,
    *,
    place: bool = False,
    controls: Sequence[str] = (),
    level: float = RATING_LEVEL,
) -> Ranking:
    """Rank bots by pairwise preferences.

    Args:
        judgements: a table, or a CSV, Parquet or JSON Lines file of one, with a row for each judgement: `first` and
            `second`, the bots in the order shown; `preferred`: "first", "second", "tie" or the name of the better bot,
            or "model_a", "model_b", "tie (bothbad)" as in arena data, empty without a judgement; and `rater`, if known.
            Names are compared as text, so 007 and 7 are different bots. Files of Chatbot Arena, MT-Bench and HH-RLHF
            need no conversion.
        place: True to estimate the advantage of being shown first.
        controls: columns with differences (first minus second) in something unrelated to the bot's merit, such as
            length (`evaluation.analysis.pairwise_preference`), which is held constant.
        level: confidence level of the intervals.

    Returns:
        Strengths with intervals. If the judgements do not allow a fit, the result gives the reason.

    Raises:
        ValueError: if a column is missing, or an outcome names neither bot.
    """
    table = table_read(Path(judgements)) if isinstance(judgements, str | Path) else table_of(judgements)
    if "first" not in table.columns:
        table = preferences_of_table(table)
    table.require(["first", "second", "preferred", *controls])
    pairs = [(name_of(row["first"]), name_of(row["second"])) for row in table.rows]
    for row, pair in enumerate(pairs, start=1):
        for column, name in zip(("first", "second"), pair, strict=True):
            if not name.strip():
                raise ValueError(f"{table.locate_cell(row, column)} is empty; it must name a bot")
    outcomes = [
        _outcome(cells["preferred"], *pair, table.locate_cell(row, "preferred"))
        for (row, cells), pair in zip(table.numbered(), pairs, strict=True)
    ]
    first, second = [a for a, _b in pairs], [b for _a, b in pairs]
    raters = None
    if "rater" in table.columns:
        raters = [rater_named(row["rater"]) for row in table.rows]
    control_values = {name: table.numbers(name) for name in controls}
    fit = bradley_terry(first, second, outcomes, raters, place=place, controls=control_values, level=level)
    return Ranking(fit, level)


def _outcome(preferred: Any, first: str, second: str, cell: str) -> float:
    """Return 1 for the first bot, 0 for the second, .5 for a tie.

    NaN without a judgement.
    """
    name = name_of(preferred)
    if name in (first, second):
        return 1.0 if name == first else 0.0
    if is_missing(name):
        return float("nan")
    if name.strip().lower() not in _OUTCOMES:
        known = ", ".join(repr(word) for word in _OUTCOMES)
        raise ValueError(f"{cell} is {quote(name)}; it must be {quote(first)} or {quote(second)}, or one of {known}")
    return _OUTCOMES[name.strip().lower()]
