"""Comparisons of bots in sentences, with how many ratings it would take where nothing can be said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from django.utils.translation import gettext as _

from evaluation.printing import figure, span
from evaluation.stats.compare import Comparison
from evaluation.stats.sample_size import PairPlan
from webapp.dashboard import counts
from webapp.dashboard.wording.sections import listed, two_digits

TOO_MANY = 5000
"""From so many raters per bot on a difference counts as none that a study could show."""


def pair_verdict(
    found: Comparison, plan: PairPlan | None, titles: Mapping[str, str], digits: int
) -> str:
    """One sentence about two bots.

    Args:
        found: their comparison.
        plan: what it would take to tell them apart, from the same ratings.
        titles: of the bots.
        digits: after the point.
    """
    a, b = titles.get(found.a, found.a), titles.get(found.b, found.b)
    if found.p is None or found.difference is None:
        why = found.reason or _("no test")
        return _("{a} and {b} cannot be compared: {why}.").format(a=a, b=b, why=why)
    if found.ordered:
        gap, low, high = found.difference, found.low, found.high
        if gap < 0:
            a, b, gap = b, a, -gap
            low, high = (None, None) if low is None or high is None else (-high, -low)
        return _("{a} is rated higher than {b}, difference {gap} {ends}.").format(
            a=a, b=b, gap=figure(gap, digits), ends=span(low, high, digits)
        )
    return _("{a} and {b} cannot be told apart{with_n}; {need}.").format(
        a=a, b=b, with_n=_with_n(plan), need=_need(plan)
    )


def _with_n(plan: PairPlan | None) -> str:
    if plan is None:
        return ""
    low, high = sorted((plan.n_a, plan.n_b))
    if low == high:
        return _(" with {raters} each").format(raters=counts.raters(low))
    return _(" with {low} and {raters}").format(low=low, raters=counts.raters(high))


def _need(plan: PairPlan | None) -> str:
    """How many would do, for the difference observed."""
    if plan is None or plan.sd is None:
        return _("how many would do is unknown")
    if plan.needed is None or plan.needed > TOO_MANY:
        return _("it would take more than {n} each, so take them as alike").format(
            n=f"{TOO_MANY:,}"
        )
    if plan.needed <= min(plan.n_a, plan.n_b):
        # Holm's correction and the resampling are stricter than the plan's t-test.
        return _("the difference is at the border, a few more ratings may decide")
    return _("about {n} each would do").format(n=two_digits(plan.needed))


def ranking_verdicts(
    order: Sequence[str],
    pairs: Mapping[tuple[str, str], Comparison],
    plans: Mapping[tuple[str, str], PairPlan],
    titles: Mapping[str, str],
    digits: int,
) -> list[str]:
    """Sentences about neighbours in the ranking, best first."""
    found = []
    for a, b in pairwise(order):
        key = (a, b) if (a, b) in pairs else (b, a)
        if key in pairs:
            found.append(pair_verdict(pairs[key], plans.get(key), titles, digits))
    return found


def overall_verdict(
    order: Sequence[str],
    pairs: Mapping[tuple[str, str], Comparison],
    titles: Mapping[str, str],
) -> str:
    """Who is best, as far as the ratings can say."""
    if len(order) < 2:
        return _("Only one bot is rated, so there is nothing to compare.")

    def ordered(a: str, b: str) -> bool:
        found = pairs.get((a, b)) or pairs.get((b, a))
        return found is not None and found.ordered

    best, others = order[0], order[1:]
    close = [bot for bot in others if not ordered(best, bot)]
    name = titles.get(best, best)
    if not close:
        return _("{best} is rated higher than each of the other bots.").format(best=name)
    if len(close) == len(others):
        return _("No other bot can be told apart from {best}.").format(best=name)
    return _("{close} cannot be told apart from {best}.").format(
        best=name, close=listed([titles.get(bot, bot) for bot in close])
    )
