"""Bots ranked by which of two was preferred: strengths of the Bradley–Terry model, ties allowed.

judged = rank("pairs.csv")        # first,second,preferred,rater
print(judged.summary())
judged.plot()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatbots.storable import quote
from evaluation.analysis.tables import plain, text_table
from evaluation.formats.tables import is_missing, name_of, table_of, table_read
from evaluation.plots.plot import Plot
from evaluation.plots.weights import Weight, weights_drawing
from evaluation.printing import figure, share, span
from evaluation.ratings import rater_named
from evaluation.stats.bradley_terry import BradleyTerry, bradley_terry
from evaluation.wording import counted

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.90
"""Of all intervals; two bots differ significantly where Holm's p is below 1 − level."""
_OUTCOMES: Mapping[str, float] = {
    "first": 1.0,
    "second": 0.0,
    "tie": 0.5,
    "model_a": 1.0,
    "model_b": 0.0,
    "tie (bothbad)": 0.5,
    "both_bad": 0.5,
}
"""Words for outcomes, in small letters; the second line has those of arenas."""
_WIDTH = 554


@dataclass(frozen=True, slots=True, repr=False)
class Ranking:
    """Ranking of bots by preference.

    Attributes:
        fit: strengths, comparisons of every pair, and the effect of the position.
        level: of all intervals.
    """

    fit: BradleyTerry
    level: float = LEVEL

    @property
    def order(self) -> tuple[str, ...]:
        """Bots, strongest first; none where there is no fit."""
        return tuple(b.bot for b in sorted(self.fit.bots, key=lambda b: (-b.strength, b.bot)))

    @property
    def told_apart(self) -> frozenset[tuple[str, str]]:
        """Pairs whose strengths differ significantly, each sorted by name."""
        return frozenset((pair.a, pair.b) for pair in self.fit.comparisons if pair.ordered)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; without a fit there is a reason."""
        ranks = {bot: list(ends) for bot, ends in self.fit.rank_ranges().items()}
        return {"order": list(self.order), "level": self.level, "ranks": ranks, **plain(self.fit)}

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
            f"Bots by preference: {counted(self.fit.n, 'judgement')}, "
            f"{len(self.told_apart)} of {counted(n_pairs, 'pair')} told apart (Holm, p < {1 - self.level:.2g})"
        )
        headers = ["rank", "bot", "log odds", f"{self.level:.0%}", "worth", "won", "lost", "tied"]
        return text_table(title, headers, rows, self._foot())

    def _foot(self) -> str:
        errors = (
            "judgements count as independent"
            if self.fit.n_raters is None
            else f"errors over {counted(self.fit.n_raters, 'rater')}"
        )
        said = [errors]
        if self.fit.first is not None:
            ends = span(self.fit.first_low, self.fit.first_high)
            said.append(f"being shown first adds {figure(self.fit.first)} {ends}")
        said += [
            f"one more of {effect.name} adds {figure(effect.value)} {span(effect.low, effect.high)}"
            for effect in self.fit.controls
        ]
        return "; ".join(said)

    def plot(self) -> Plot:
        """Return the strengths with their intervals, hollow where a bot equals the average one within error.

        Raises:
            ValueError: without a fit, with the reason.
        """
        if self.fit.reason is not None:
            raise ValueError(f"there is nothing to draw: {self.fit.reason}")
        bots = {bot.bot: bot for bot in self.fit.bots}
        rows = [
            Weight(name, bots[name].strength, bots[name].low, bots[name].high)
            for name in self.order
        ]
        name = f"Strengths of {counted(len(rows), 'bot')} against the average one, in log odds."
        return Plot.of(weights_drawing(rows, _WIDTH, name=name))

    def __repr__(self) -> str:
        return self.summary()


def _rank(best: int, worst: int) -> str:
    return str(best) if best == worst else f"{best} to {worst}"


def rank(
    judgements: pd.DataFrame | str | Path,
    *,
    place: bool = False,
    controls: Sequence[str] = (),
    level: float = LEVEL,
) -> Ranking:
    """Rank bots by which of two was preferred.

    Args:
        judgements: a table, or a CSV, Parquet or JSON Lines file of one, with a row for each judgement: `first` and
            `second`, the bots in the order shown; `preferred`: "first", "second", "tie" or the name of the better bot,
            or "model_a", "model_b", "tie (bothbad)" as arenas write, empty without a judgement; and `rater`, where it
            is known who judged. Names are texts as they are written: 007 and 7 are two bots.
        place: whether to estimate what being shown first adds.
        controls: columns that say how much more the first one has of something that is not the bot's merit, such as
            length (`evaluation.analysis.style`); it is held constant.
        level: of the intervals.

    Returns:
        Strengths with intervals. Where the judgements allow none, the result says why.

    Raises:
        ValueError: a column that is missing, or an outcome that names neither bot.
    """
    table = (
        table_read(Path(judgements)) if isinstance(judgements, str | Path) else table_of(judgements)
    )
    table.require(["first", "second", "preferred", *controls])
    pairs = [(name_of(row["first"]), name_of(row["second"])) for row in table.rows]
    for row, pair in enumerate(pairs, start=1):
        for column, name in zip(("first", "second"), pair, strict=True):
            if not name.strip():
                raise ValueError(f"{table.where(row, column)} is empty; it must name a bot")
    outcomes = [
        _outcome(cells["preferred"], *pair, table.where(row, "preferred"))
        for (row, cells), pair in zip(table.numbered(), pairs, strict=True)
    ]
    first, second = [a for a, _b in pairs], [b for _a, b in pairs]
    raters = None
    if "rater" in table.columns:
        raters = [rater_named(row["rater"]) for row in table.rows]
    held = {name: table.numbers(name) for name in controls}
    fit = bradley_terry(first, second, outcomes, raters, place=place, controls=held, level=level)
    return Ranking(fit, level)


def _outcome(preferred: Any, first: str, second: str, where: str) -> float:
    """Return 1 for the first bot, 0 for the second, .5 for a tie and NaN without a judgement."""
    said = name_of(preferred)
    if said in (first, second):
        return 1.0 if said == first else 0.0
    if is_missing(said):
        return float("nan")
    if said.strip().lower() not in _OUTCOMES:
        known = ", ".join(repr(word) for word in _OUTCOMES)
        raise ValueError(
            f"{where} is {quote(said)}; it must be {quote(first)} or {quote(second)}, or one of {known}"
        )
    return _OUTCOMES[said.strip().lower()]
