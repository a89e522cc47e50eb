"""Comparisons of bots in sentences, with how many ratings it would take where nothing can be said."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.analysis.comparisons import Comparisons, Units, verdict
from evaluation.number_format import figure, share, span
from evaluation.stats.comparisons import Comparison
from evaluation.stats.power import PairPlan
from webapp.core.language import plural
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import listed, reason_text, two_digits

_NAMED = 3
"""Of more bots than these the last are counted and not named."""


def pair_verdict(found: Comparison, compared: Comparisons, titles: Mapping[str, str], digits: int) -> str:
    """Return a sentence or two about two bots.

    Args:
        found: one of the pairs.
        compared: all of them, with plans where these are to be told.
        titles: of the bots.
        digits: after the point.
    """
    a, b = titles.get(found.a, found.a), titles.get(found.b, found.b)
    code = verdict(found)
    if code == "undefined":
        why = reason_text(found.reason) or "no test"
        return f"{a} and {b} cannot be compared: {why}."
    if code == "not_told_apart":
        return f"{_not_apart(a, b, compared.plan(found.a, found.b), compared)} {_need(found, compared, (a, b), digits)}"
    gap, low, high = found.difference, found.low, found.high
    if code == "lower" and gap is not None:
        a, b, gap = b, a, -gap
        low, high = (None, None) if low is None or high is None else (-high, -low)
    return f"{a} is rated higher than {b}, difference {figure(gap, digits)} {span(low, high, digits)}."


def by_units(units: Units, n: int) -> str:
    """Format the number of raters, or of conversations if raters are not named."""
    if units == "raters":
        return phrases.raters_text(n)
    return phrases.conversations_text(n) if units == "conversations" else _raters_or_chats(n)


def _raters_or_chats(n: int) -> str:
    words = plural(n, "%(n)s rater or unnamed conversation", "%(n)s raters or unnamed conversations")
    return words % {"n": f"{n:,}"}


def _not_apart(a: str, b: str, plan: PairPlan | None, compared: Comparisons) -> str:
    """Say that two bots cannot be told apart, and by how many raters."""
    if plan is None:
        return f"{a} and {b} do not differ significantly."
    low, high = sorted((plan.n_a, plan.n_b))
    words = (
        "{a} and {b} do not differ significantly with {raters} each."
        if low == high
        else "{a} and {b} do not differ significantly with {low} and {raters}."
    )
    return words.format(a=a, b=b, low=low, raters=by_units(compared.units, high))


def _need(found: Comparison, compared: Comparisons, titles: tuple[str, str], digits: int) -> str:
    """Return the sentence on the ratings needed for the observed difference; if too many, on its interval."""
    need, plan = compared.need(found), compared.plan(found.a, found.b)
    n_more = compared.more.get((found.a, found.b))
    if need == "more" and n_more is not None:
        return f"About {two_digits(n_more)} more each would do, if the difference stays as it is."
    if need == "raters" and plan is not None and plan.needed is not None:
        return f"About {two_digits(plan.needed)} each would do."
    if need == "too_many":
        return _open(found, titles, digits)
    if need == "at_border":
        return "The difference is at the border, a few more ratings may decide."
    return "How many would do is unknown."


def _open(found: Comparison, titles: tuple[str, str], digits: int) -> str:
    """Say between which ends the difference may lie: no difference shown is not a difference of none."""
    if found.low is None or found.high is None:
        return "Which of them is better is not known."
    a, b = titles
    return (
        f"Which of them is better is not known: the difference, {a} less {b}, may be from "
        f"{figure(found.low, digits)} to {figure(found.high, digits)}."
    )


def one_look() -> str:
    """Say of intervals beside a growing study that the always-valid ones are others."""
    return "The intervals hold for one look, when the study has all its ratings."


def test_said(compared: Comparisons) -> str:
    """Name the test by which bots are told apart: one for looks at any time while a study collects."""
    return test_named(compared.test, compared.alpha)


def test_named(test: str | None, alpha: float) -> str:
    """Name a test by which bots are told apart; what was stored by earlier versions does not say which it was."""
    words = {
        "fixed": "fixed-sample test, Holm, p < {alpha}",
        "always": "always valid while the study collects, Holm, p < {alpha}",
    }
    return words.get(str(test), "Holm, p < {alpha}").format(alpha=share(alpha))


def deciding_sentences(compared: Comparisons) -> list[str]:
    """Describe the test that decides which bot is better, and the means that it compares."""
    if compared.test == "always":
        which = (
            "Ratings are still to come, so the always-valid test decides who is better: looking early or often "
            "does not add to its errors."
        )
    else:
        which = "The study is closed or has its planned size, so the fixed-sample test decides who is better."
    what = {
        "raters": "It compares means by generalised least squares with raters as a random effect; errors are "
        "clustered by rater.",
        "conversations": (
            "It compares means by generalised least squares with conversations as a random effect, for raters are not "
            "named; errors are clustered by conversation."
        ),
        "raters_and_conversations": (
            "It compares means by generalised least squares with raters, or conversations where no rater is named, "
            "as a random effect; errors are clustered by them."
        ),
    }[compared.units]
    said_of = [which, what]
    if compared.rater_share > 0:
        said_of.append(
            "So a difference may be another than that of the plain means: who is strict or kind is taken out."
            if compared.units == "raters"
            else "So a difference may be another than that of the plain means."
        )
    return said_of


def ranking_verdicts(compared: Comparisons, titles: Mapping[str, str], digits: int) -> list[str]:
    """Return sentences about neighbours in the ranking, best first."""
    return [pair_verdict(pair, compared, titles, digits) for pair in compared.neighbours()]


def overall_verdict(compared: Comparisons, titles: Mapping[str, str]) -> str:
    """Compose the sentence on the best bot, and the bots not significantly different from it."""
    if len(compared.order) < 2:
        return "Only one bot is rated, so there is nothing to compare."
    best = titles.get(compared.order[0], compared.order[0])
    close = compared.as_good_as_best()
    if not close:
        return f"First: {best}, rated higher than each of the other bots."
    if len(close) == len(compared.order) - 1:
        return f"First: {best}, but no other bot differs significantly from it."
    named = [titles.get(bot, bot) for bot in close]
    if len(named) > _NAMED:
        named = [*named[: _NAMED - 1], f"{len(named) - _NAMED + 1} more"]
    return f"First: {best}, not significantly better than {listed(named)}."
