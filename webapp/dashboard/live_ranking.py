"""Ranking of bots while a study collects, with intervals.

Significant differences are those of `evaluation.analysis.comparisons`; a worker computes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from typing import Any

from evaluation.analysis.comparisons import TOO_MANY
from evaluation.number_format import figure, span
from evaluation.stats.sequential import RATERS, THINGS, half_planned
from webapp.core.language import plural
from webapp.dashboard.builder.pay import n_wanted
from webapp.dashboard.live_bots import LiveBot
from webapp.dashboard.narrative.phrases import listed, reason_text, two_digits
from webapp.ratings.selectors import BotInfo, study_bots
from webapp.studies.assignment.capacity import is_collecting
from webapp.studies.models import OrderState, Study

_SENTENCES = 6


@dataclass(frozen=True, slots=True)
class RankingRow:
    """A bot's mean with its interval at any look.

    Attributes:
        planned: ends of the interval as wide as the plan would make it; None without a plan.
        n, n_planned: ratings it has, and those it is to have.
    """

    info: BotInfo
    mean: float
    low: float
    high: float
    n: int
    n_planned: int | None
    planned: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class PairRow:
    """Two bots that were set against each other, the one that is ahead first.

    Attributes:
        gap: share of judgements for the first less that for the second; None without one.
        low, high: its interval at any look; None where there is none.
        n: judgements.
        n_more: further units of `unit` that would settle it; None where it is settled, or no number would do.
        reason: why there is no interval.
    """

    ahead: BotInfo
    behind: BotInfo
    gap: float | None
    low: float | None
    high: float | None
    n: int
    is_settled: bool
    n_more: int | None
    unit: str
    reason: Mapping[str, Any] | None = None

    @property
    def gap_shown(self) -> str:
        """The share as pages write it."""
        return figure(self.gap)

    @property
    def interval_shown(self) -> str:
        """The interval as pages write it."""
        return span(self.low, self.high)

    @property
    def name(self) -> str:
        """Last key of sorting: the titles of both bots."""
        return f"{self.ahead.title} {self.behind.title}"


@dataclass(frozen=True, slots=True)
class Sentence:
    """Sentence on a pair of bots: bold first words, and the rest; `can_ask`: more participants would help."""

    icon: str
    lead: str
    rest: str
    can_ask: bool = False


@dataclass(frozen=True, slots=True)
class LiveRanking:
    """State of the bots' order by one question.

    Attributes:
        key, title, low, high: key, title and scale of the question.
        level: level of the intervals, in percent.
        rows: bots, best first; empty for paired comparisons: then `pairs`, significant ones first.
        sentences: at most six, on significant pairs first; `n_more` pairs have none.
        n_told_apart, n_pairs: significantly different pairs, and all pairs that could be tested.
    """

    key: str
    title: str
    low: float
    high: float
    level: int
    rows: tuple[RankingRow, ...]
    pairs: tuple[PairRow, ...]
    sentences: tuple[Sentence, ...]
    n_more: int
    n_told_apart: int
    n_pairs: int
    n_ratings: int
    made_at: datetime

    @property
    def has_plan(self) -> bool:
        """True if any bot has a planned number of ratings."""
        return any(row.planned is not None for row in self.rows)


def rankings_of(study: Study, state: OrderState | None, bots: Sequence[LiveBot]) -> list[LiveRanking]:
    """Return the state of the order by each question, the ranking question first.

    Empty if no worker has computed it yet, or the study no longer collects. Once the plan is reached or the study is
    closed, the pages of results have the test that is valid then.
    """
    if state is None or not is_collecting(study):
        return []
    looked = [state.found, *state.found.get("others", [])]
    talked = {bot.info.bot_id: bot for bot in bots}
    infos = {bot.info.bot_id: bot.info for bot in bots} or study_bots(study)
    return [
        _order(study, state, found, infos, talked) for found in looked if found.get("means") or found.get("is_of_pairs")
    ]


def _order(
    study: Study,
    state: OrderState,
    found: dict[str, Any],
    infos: Mapping[str, BotInfo],
    talked: Mapping[str, LiveBot],
) -> LiveRanking:
    key = found["dimension"]
    asked = next((one for one in study.rubric.dimensions.all() if one.key == key), None)
    low, high = asked.scale if asked is not None else (study.rubric.low, study.rubric.high)
    level = 1 - found["alpha"]
    words = _Words(study, talked)
    rows: tuple[RankingRow, ...] = ()
    pairs: tuple[PairRow, ...] = ()
    if found.get("is_of_pairs"):
        pairs = tuple(
            sorted(
                (_pair_row(infos, one) for one in found["pairs"] if {one["a"], one["b"]} <= infos.keys()),
                key=lambda row: (not row.is_settled, row.n_more is None, row.n_more or 0, row.name),
            )
        )
        said_of = [words.of_pair(row) for row in pairs]
    else:
        means = found["means"]
        ranked = sorted((b for b in means if b in infos), key=lambda b: (-means[b]["mean"], b))
        rows = tuple(_row(study, infos[b], means[b], (low, high), level) for b in ranked)
        said_of = _sentences(words, found, infos, ranked)
    return LiveRanking(
        key=key,
        title=asked.title if asked is not None else key,
        low=low,
        high=high,
        level=round(level * 100),
        rows=rows,
        pairs=pairs,
        sentences=tuple(sorted(said_of[:_SENTENCES], key=lambda one: one.icon != "check")),
        n_more=max(0, len(said_of) - _SENTENCES),
        n_told_apart=found["n_told_apart"],
        n_pairs=found["n_pairs"],
        n_ratings=state.n_ratings,
        made_at=state.made_at,
    )


def planned_of(study: Study, bot_id: str) -> int | None:
    """Return the planned number of conversations of a bot, or None without a plan."""
    quota = study.values.assignment.quota_of(bot_id)
    if quota is not None:
        return quota or None
    wanted = n_wanted(study) * study.values.assignment.bots_in_a_row
    return round(wanted / len(study.bots)) or None if wanted and study.bots else None


def _row(
    study: Study,
    info: BotInfo,
    found: Mapping[str, Any],
    scale: tuple[float, float],
    level: float,
) -> RankingRow:
    mean, low, high, n = found["mean"], found["low"], found["high"], found["n"]
    n_planned = planned_of(study, info.bot_id) if info.bot_id in study.bots else None
    planned = None
    if n_planned:
        # The end that is not cut at the scale is as far from the mean as the interval reaches.
        half = half_planned(max(high - mean, mean - low), n, n_planned, level=level)
        planned = max(scale[0], mean - half), min(scale[1], mean + half)
    return RankingRow(info, mean, low, high, n, n_planned, planned)


def _pair_row(infos: Mapping[str, BotInfo], found: Mapping[str, Any]) -> PairRow:
    """Return the row of a pair of bots, the bot with the higher value first."""
    gap, low, high = found["difference"], found["low"], found["high"]
    ahead, behind = infos[found["a"]], infos[found["b"]]
    if gap is not None and gap < 0:
        ahead, behind, gap = behind, ahead, -gap
        low, high = (None, None) if high is None or low is None else (-high, -low)
    return PairRow(
        ahead,
        behind,
        gap,
        low,
        high,
        found["n"],
        found["verdict"] in ("higher", "lower"),
        found.get("raters_more"),
        found.get("unit", RATERS),
        found.get("reason"),
    )


def _sentences(
    words: _Words,
    found: Mapping[str, Any],
    infos: Mapping[str, BotInfo],
    ranked: Sequence[str],
) -> list[Sentence]:
    """Return a sentence for each pair, neighbours in the order before others."""
    by_names = {frozenset((pair["a"], pair["b"])): pair for pair in found["pairs"]}
    of_distance = sorted(combinations(range(len(ranked)), 2), key=lambda two: (two[1] - two[0], two[0]))
    said_of = []
    for i, j in of_distance:
        pair = by_names.get(frozenset((ranked[i], ranked[j])))
        if pair is not None:
            a, b = infos[ranked[i]], infos[ranked[j]]
            said_of.append(words.of_means(a, b, pair, found.get("unit", RATERS)))
    return said_of


@dataclass(frozen=True, slots=True)
class _Words:
    """Composer of sentences on pairs of a study's bots.

    Attributes:
        talked: bots that participants chat with; the replies of the others are rated.
    """

    study: Study
    talked: Mapping[str, LiveBot]

    def of_means(self, a: BotInfo, b: BotInfo, pair: Mapping[str, Any], unit: str) -> Sentence:
        """Return the sentence on a pair by its means, the better bot first."""
        if pair["verdict"] in ("higher", "lower"):
            # Who is better says the comparison, from which raters' strictness is taken; `a` has the higher plain mean.
            first = pair["a"] if pair["verdict"] == "higher" else pair["b"]
            return _settled(a, b) if a.bot_id == first else _settled(b, a)
        if pair["verdict"] == "undefined":
            return _undefined(a, b, pair.get("reason"))
        n_more = pair.get("raters_more")
        if aside := self._aside(a, b):
            return aside
        if n_more is None:
            return _endless(a, b)
        if {a.bot_id, b.bot_id} <= self.talked.keys():
            return self._beside_plan(a, b, n_more)
        if unit == THINGS:
            text = plural(
                n_more,
                "are too close to order: about %(n)s more context, to which both reply, would be needed.",
                "are too close to order: about %(n)s more contexts, to which both reply, would be needed.",
            )
        else:
            text = plural(
                n_more,
                "are too close to order: about %(n)s more person would be needed.",
                "are too close to order: about %(n)s more people would be needed.",
            )
        return Sentence("clock", _both(a, b), text % {"n": two_digits(n_more)})

    def of_pair(self, row: PairRow) -> Sentence:
        """Return the sentence on a pair by its paired comparisons."""
        a, b = row.ahead, row.behind
        if row.is_settled:
            return _settled(a, b)
        if row.low is None:
            return _undefined(a, b, row.reason)
        if aside := self._aside(a, b):
            return aside
        if row.n_more is None:
            return _endless(a, b)
        if row.unit == THINGS:
            text = plural(
                row.n_more,
                "are too close to order: about %(n)s more item with the two would be needed.",
                "are too close to order: about %(n)s more items with the two would be needed.",
            )
        else:
            text = plural(
                row.n_more,
                "are too close to order: about %(n)s more person who compares the two would be needed.",
                "are too close to order: about %(n)s more people who compare the two would be needed.",
            )
        return Sentence("clock", _both(a, b), text % {"n": two_digits(row.n_more)})

    def _aside(self, a: BotInfo, b: BotInfo) -> Sentence | None:
        both = [self.talked[one.bot_id] for one in (a, b) if one.bot_id in self.talked]
        aside = [bot.info.title for bot in both if bot.aside is not None]
        if not aside:
            return None
        words = f"are too close to order. Set aside: {listed(aside)}."
        return Sentence("warning", _both(a, b), words)

    def _beside_plan(self, a: BotInfo, b: BotInfo, n_more: int) -> Sentence:
        lead = _both(a, b)
        words = plural(
            n_more,
            "are too close to order: about %(n)s more rating each.",
            "are too close to order: about %(n)s more ratings each.",
        ) % {"n": two_digits(n_more)}
        has = [
            planned - self.talked[one.bot_id].n_done
            for one in (a, b)
            if (planned := planned_of(self.study, one.bot_id)) is not None
        ]
        if not has:
            return Sentence("clock", lead, words)
        left = max(0, min(has))
        if left >= n_more:
            said_of = f"{words} The plan still has {left}."
            return Sentence("clock", lead, said_of)
        said_of = f"{words} The plan has {left}."
        return Sentence("clock", lead, said_of, can_ask=True)


def _both(a: BotInfo, b: BotInfo) -> str:
    return f"{a.title} and {b.title}"


def _settled(a: BotInfo, b: BotInfo) -> Sentence:
    return Sentence("check", f"{a.title} above {b.title}", "is settled.")


def _undefined(a: BotInfo, b: BotInfo, reason: Mapping[str, Any] | None) -> Sentence:
    why = reason_text(reason) or "no test"
    return Sentence("info", _both(a, b), f"cannot be compared: {why}.")


def _endless(a: BotInfo, b: BotInfo) -> Sentence:
    words = "are too close to order: more than {n} each would be needed."
    return Sentence("clock", _both(a, b), words.format(n=f"{TOO_MANY:,}"))
