"""How far the order of a study's bots is settled while it collects: intervals beside the plan, and sentences.

What is told apart is what `evaluation.analysis.comparisons` says; a worker has looked (`webapp/results/order.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from evaluation.analysis.comparisons import TOO_MANY
from evaluation.stats.sequential import half_planned
from webapp.dashboard.build.cost import n_wanted
from webapp.dashboard.live.bots import LiveBot
from webapp.dashboard.wording.reasons import said
from webapp.dashboard.wording.sections import listed, two_digits
from webapp.ratings.bots import BotInfo
from webapp.studies.models import OrderState, Study
from webapp.studies.places import is_collecting

_SENTENCES = 6


@dataclass(frozen=True, slots=True)
class Row:
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
class Sentence:
    """What is known of two bots: bold words, the rest, and whether more people would help."""

    icon: str
    lead: str
    rest: str
    can_ask: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """How far the order is settled.

    Attributes:
        key, title, low, high: of the question.
        level: of the intervals, in per cent.
        rows: best first.
        sentences: at most six, what is settled first; `n_more` pairs are not among them.
        n_told_apart, n_pairs: of the pairs that could be tested.
    """

    key: str
    title: str
    low: float
    high: float
    level: int
    rows: tuple[Row, ...]
    sentences: tuple[Sentence, ...]
    n_more: int
    n_told_apart: int
    n_pairs: int
    n_ratings: int
    made_at: datetime


def orders_of(study: Study, state: OrderState | None, bots: Sequence[LiveBot]) -> list[Order]:
    """Return how far the order by each question is settled, that which bots are ranked by first.

    None where no worker has looked, or the study does not collect any more. Once the plan is reached or the study is closed, the pages of results have the test that holds then.
    """
    if state is None or not is_collecting(study):
        return []
    looked = [state.found, *state.found.get("others", [])]
    return [_order(study, state, found, bots) for found in looked if found.get("means")]


def _order(
    study: Study, state: OrderState, found: dict[str, Any], bots: Sequence[LiveBot]
) -> Order:
    key = found["dimension"]
    asked = next((one for one in study.rubric.dimensions.all() if one.key == key), None)
    low, high = asked.scale if asked is not None else (study.rubric.low, study.rubric.high)
    live = {bot.info.bot_id: bot for bot in bots}
    level = 1 - found["alpha"]
    ranked = sorted(
        (bot_id for bot_id in found["means"] if bot_id in live),
        key=lambda bot_id: (-found["means"][bot_id]["mean"], bot_id),
    )
    rows = tuple(_row(study, live[b], found["means"][b], (low, high), level) for b in ranked)
    said_of = _sentences(study, found["pairs"], live, ranked)
    return Order(
        key=key,
        title=asked.title if asked is not None else key,
        low=low,
        high=high,
        level=round(level * 100),
        rows=rows,
        sentences=tuple(sorted(said_of[:_SENTENCES], key=lambda one: one.icon != "check")),
        n_more=max(0, len(said_of) - _SENTENCES),
        n_told_apart=found["n_told_apart"],
        n_pairs=found["n_pairs"],
        n_ratings=state.n_ratings,
        made_at=state.made_at,
    )


def planned_of(study: Study, bot_id: str) -> int | None:
    """Return how many conversations of a bot the plan asks for; None without a plan."""
    quota = study.values.assignment.quota_of(bot_id)
    if quota is not None:
        return quota or None
    wanted = n_wanted(study) * study.values.assignment.bots_in_a_row
    return round(wanted / len(study.bots)) or None if wanted and study.bots else None


def _row(
    study: Study,
    bot: LiveBot,
    found: Mapping[str, Any],
    scale: tuple[float, float],
    level: float,
) -> Row:
    mean, low, high, n = found["mean"], found["low"], found["high"], found["n"]
    n_planned = planned_of(study, bot.info.bot_id)
    planned = None
    if n_planned:
        # The end that is not cut at the scale is as far from the mean as the interval reaches.
        half = half_planned(max(high - mean, mean - low), n, n_planned, level=level)
        planned = max(scale[0], mean - half), min(scale[1], mean + half)
    return Row(bot.info, mean, low, high, n, n_planned, planned)


def _sentences(
    study: Study,
    pairs: Sequence[Mapping[str, Any]],
    live: Mapping[str, LiveBot],
    ranked: Sequence[str],
) -> list[Sentence]:
    """Return a sentence for each pair, neighbours in the order before others."""
    by_names = {frozenset((pair["a"], pair["b"])): pair for pair in pairs}
    of_distance = sorted(
        combinations(range(len(ranked)), 2), key=lambda two: (two[1] - two[0], two[0])
    )
    found = []
    for i, j in of_distance:
        a, b = live[ranked[i]], live[ranked[j]]
        pair = by_names.get(frozenset((a.info.bot_id, b.info.bot_id)))
        if pair is not None:
            found.append(_sentence(study, a, b, pair))
    return found


def _sentence(study: Study, a: LiveBot, b: LiveBot, pair: Mapping[str, Any]) -> Sentence:
    """Return what is known of two bots, the better one first."""
    if pair["verdict"] in ("higher", "lower"):
        lead = _("{a} above {b}").format(a=a.info.title, b=b.info.title)
        return Sentence("check", lead, _("is settled."))
    if pair["verdict"] == "undefined":
        lead = _("{a} and {b}").format(a=a.info.title, b=b.info.title)
        why = said(pair.get("reason")) or _("no test")
        return Sentence("info", lead, _("cannot be compared: {why}.").format(why=why))
    return _too_close(study, a, b, pair.get("raters_more"))


def _too_close(study: Study, a: LiveBot, b: LiveBot, n_more: int | None) -> Sentence:
    lead = _("{a} and {b}").format(a=a.info.title, b=b.info.title)
    if aside := [bot.info.title for bot in (a, b) if bot.aside is not None]:
        return Sentence(
            "warning",
            lead,
            _("are too close to order. Set aside: {bots}.").format(bots=listed(aside)),
        )
    if n_more is None:
        return Sentence(
            "clock",
            lead,
            _("are too close to order: more than {n} each would be needed.").format(
                n=f"{TOO_MANY:,}"
            ),
        )
    words = ngettext(
        "are too close to order: about %(n)s more rating each.",
        "are too close to order: about %(n)s more ratings each.",
        n_more,
    ) % {"n": two_digits(n_more)}
    has = [
        planned - bot.n_done
        for bot in (a, b)
        if (planned := planned_of(study, bot.info.bot_id)) is not None
    ]
    if not has:
        return Sentence("clock", lead, words)
    left = max(0, min(has))
    if left >= n_more:
        return Sentence(
            "clock", lead, _("{words} The plan still has {n}.").format(words=words, n=left)
        )
    return Sentence(
        "clock", lead, _("{words} The plan has {n}.").format(words=words, n=left), can_ask=True
    )
