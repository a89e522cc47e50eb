"""Ranking of bots while a study collects: sentences on pairs of bots.

Significant differences are those of `evaluation.analysis.comparisons`; a worker computes them. Means and intervals are
on the pages of results; this page says how narrow the plan will make them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from typing import Any

from evaluation.analysis.comparisons import TOO_MANY
from evaluation.number_format import figure
from evaluation.stats.sequential import RATERS, THINGS, half_planned
from webapp.core.language import plural
from webapp.insights.live_bots import LiveBot
from webapp.insights.narrative.phrases import listed, reason_text, two_digits
from webapp.insights.narrative.verdicts import equality_clause
from webapp.insights.study_plan import n_wanted
from webapp.ratings.selectors import BotInfo, study_bots
from webapp.studies.assignment.capacity import is_collecting
from webapp.studies.models import OrderState, Study

_SENTENCES = 6


@dataclass(frozen=True, slots=True)
class Sentence:
    """Sentence on a pair of bots, with bold first words.

    `can_ask`: more participants would help.
    """

    icon: str
    lead: str
    rest: str
    can_ask: bool = False


@dataclass(frozen=True, slots=True)
class LiveRanking:
    """State of the bots' order by one question.

    Attributes:
        level: level of the intervals, in percent.
        sentences: up to six, on significant pairs first; `n_more` pairs have none.
        n_told_apart, n_pairs: significantly different pairs, and all pairs that could be tested.
        precision: sentence on the widest interval, now and at the end of the plan; empty without a plan.
    """

    key: str
    title: str
    level: int
    sentences: tuple[Sentence, ...]
    n_more: int
    n_told_apart: int
    n_pairs: int
    n_ratings: int
    made_at: datetime
    precision: str = ""


def rankings_of(study: Study, state: OrderState | None, bots: Sequence[LiveBot]) -> list[LiveRanking]:
    """Return the ranking by each question, the ranking question first.

    Empty if no worker has computed it yet, or the study no longer collects. Once the plan is reached or the study is
    closed, the pages of results show the test that applies then.
    """
    if state is None or not is_collecting(study):
        return []
    talked = {bot.info.bot_id: bot for bot in bots}
    infos = {bot.info.bot_id: bot.info for bot in bots} or study_bots(study)
    titles = {dimension.key: dimension.title for dimension in study.rubric.dimensions.all()}
    rankings = []
    for progress in [state.found, *state.found.get("others", [])]:
        if not (progress.get("means") or progress.get("is_of_pairs")):
            continue
        sentences = _sentences(_PairWords(study, talked, progress.get("smallest_difference")), progress, infos)
        ranking = LiveRanking(
            key=progress["dimension"],
            title=titles.get(progress["dimension"], progress["dimension"]),
            level=round((1 - progress["alpha"]) * 100),
            sentences=tuple(sorted(sentences[:_SENTENCES], key=lambda sentence: sentence.icon != "check")),
            n_more=max(0, len(sentences) - _SENTENCES),
            n_told_apart=progress["n_told_apart"],
            n_pairs=progress["n_pairs"],
            n_ratings=state.n_ratings,
            made_at=state.made_at,
            precision=_precision(study, progress, infos),
        )
        rankings.append(ranking)
    return rankings


def planned_of(study: Study, bot_id: str) -> int | None:
    """Return the planned number of conversations of a bot.

    None without a plan.
    """
    quota = study.values.assignment.quota_of(bot_id)
    if quota is not None:
        return quota or None
    n_conversations = n_wanted(study) * study.values.assignment.bots_in_a_row
    return round(n_conversations / len(study.bots)) or None if n_conversations and study.bots else None


def _precision(study: Study, progress: Mapping[str, Any], infos: Mapping[str, BotInfo]) -> str:
    """Compose a sentence on the widest interval, now and as planned."""
    level, widest = 1 - progress["alpha"], (0.0, "")
    for bot_id, mean in progress.get("means", {}).items():
        planned = planned_of(study, bot_id) if bot_id in infos else None
        if planned is None or mean["low"] is None or planned <= mean["n"]:
            continue
        half = max(mean["high"] - mean["mean"], mean["mean"] - mean["low"])  # an end may be cut at the scale
        then = half_planned(half, mean["n"], planned, level=level)
        words = (
            f"The widest interval of a mean is ± {figure(half)} ({infos[bot_id].title}, {mean['n']:,} of {planned:,} "
            f"ratings); with the planned number it would be about ± {figure(then)}."
        )
        widest = max(widest, (half, words))
    return widest[1]


def _sentences(words: _PairWords, progress: Mapping[str, Any], infos: Mapping[str, BotInfo]) -> list[Sentence]:
    """Return a sentence for each pair.

    Neighbours in the order of means come first; with choices, the decided pairs.
    """
    pairs = [pair for pair in progress["pairs"] if {pair["a"], pair["b"]} <= infos.keys()]
    if progress.get("is_of_pairs"):
        rows = [_by_choices(pair, infos) for pair in pairs]
        rows.sort(key=lambda row: (row[2]["verdict"] not in ("higher", "lower"), *_needed(row)))
    else:
        means, by_names = progress["means"], {frozenset((pair["a"], pair["b"])): pair for pair in pairs}
        ranked = sorted((b for b in means if b in infos), key=lambda b: (-means[b]["mean"], b))
        near = sorted(combinations(range(len(ranked)), 2), key=lambda two: (two[1] - two[0], two[0]))
        rows = [
            (infos[ranked[i]], infos[ranked[j]], pair)
            for i, j in near
            if (pair := by_names.get(frozenset((ranked[i], ranked[j])))) is not None
        ]
    unit = progress.get("unit", RATERS)
    return [
        words.compose_sentence(a, b, pair, pair.get("unit", unit), progress.get("is_of_pairs", False))
        for a, b, pair in rows
    ]


def _by_choices(pair: Mapping[str, Any], infos: Mapping[str, BotInfo]) -> tuple[BotInfo, BotInfo, Mapping[str, Any]]:
    """Return the two bots of a pair, the preferred one first."""
    a, b = infos[pair["a"]], infos[pair["b"]]
    return (b, a, pair) if (pair["difference"] or 0) < 0 else (a, b, pair)


def _needed(row: tuple[BotInfo, BotInfo, Mapping[str, Any]]) -> tuple[bool, int, str]:
    n_more = row[2].get("raters_more")
    return n_more is None, n_more or 0, f"{row[0].title} {row[1].title}"


@dataclass(frozen=True, slots=True)
class _PairWords:
    """Composer of sentences on pairs of a study's bots.

    Attributes:
        talked: bots that participants chat with; of the others, replies are rated.
        smallest: smallest difference of interest; None if unknown.
    """

    study: Study
    talked: Mapping[str, LiveBot]
    smallest: float | None = None

    @property
    def aim(self) -> str:
        """End of a sentence: the purpose of more ratings."""
        return "" if self.smallest is None else f" to show a difference of {figure(self.smallest)}"

    def compose_sentence(
        self, a: BotInfo, b: BotInfo, pair: Mapping[str, Any], unit: str, is_of_pairs: bool
    ) -> Sentence:
        """Return the sentence on a pair, the better bot first."""
        pair_title = f"{a.title} and {b.title}"
        if pair["verdict"] in ("higher", "lower"):
            # Use the comparison, which adjusts for raters' strictness, unlike plain means.
            if not is_of_pairs and pair["a" if pair["verdict"] == "higher" else "b"] != a.bot_id:
                a, b = b, a
            return Sentence("check", pair_title, f"are clearly different; {a.title} is better.")
        if pair.get("equal"):
            return Sentence("check", pair_title, f"{equality_clause(self.smallest)}.")
        if pair["verdict"] == "undefined" or (is_of_pairs and pair["low"] is None):
            return Sentence("info", pair_title, f"cannot be compared: {reason_text(pair.get('reason')) or 'no test'}.")
        talked = [self.talked[bot.bot_id] for bot in (a, b) if bot.bot_id in self.talked]
        if aside := [bot.info.title for bot in talked if bot.aside is not None]:
            return Sentence("warning", pair_title, f"are not significantly different yet. Excluded: {listed(aside)}.")
        n_more = pair.get("raters_more")
        if n_more is None:
            return Sentence(
                "clock",
                pair_title,
                f"are not significantly different yet: more than {TOO_MANY:,} more each would be needed{self.aim}.",
            )
        if len(talked) == 2 and not is_of_pairs:
            return self._beside_plan(pair_title, talked, n_more)
        unit_name, unit_names = _UNITS[is_of_pairs, unit == THINGS]
        words = plural(
            n_more, f"about %(n)s more {unit_name} would be needed", f"about %(n)s more {unit_names} would be needed"
        )
        return Sentence(
            "clock", pair_title, f"are not significantly different yet: {words % {'n': two_digits(n_more)}}{self.aim}."
        )

    def _beside_plan(self, pair_title: str, talked: Sequence[LiveBot], n_more: int) -> Sentence:
        words = plural(n_more, "about %(n)s more rating each", "about %(n)s more ratings each")
        words = f"are not significantly different yet: {words % {'n': two_digits(n_more)}}{self.aim}."
        plans = [(planned_of(self.study, bot.info.bot_id), bot.n_done) for bot in talked]
        n_left_by_bot = [planned - n_done for planned, n_done in plans if planned is not None]
        if not n_left_by_bot:
            return Sentence("clock", pair_title, words)
        n_left = max(0, min(n_left_by_bot))
        if n_left >= n_more:
            return Sentence("clock", pair_title, f"{words} {n_left} are still planned.")
        return Sentence("clock", pair_title, f"{words} Only {n_left} are planned.", can_ask=True)


_UNITS = {
    (False, True): ("context with replies of both", "contexts with replies of both"),
    (False, False): ("person", "people"),
    (True, True): ("item with the two", "items with the two"),
    (True, False): ("person to compare the two", "people to compare the two"),
}
"""Names of the units needed to decide a pair, singular and plural, by (of pairs, of contexts)."""
