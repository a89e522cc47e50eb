"""Comparisons of bots in sentences, with the ratings needed for undecided pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.analysis.comparisons import Comparisons, Units, verdict
from evaluation.number_format import figure, percent, share, span
from evaluation.stats.comparisons import NOT_YET_KNOWN, Comparison
from evaluation.stats.power import PairPlan
from webapp.core.language import plural
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import listed, reason_text, two_digits
from webapp.studies.models import Study
from webapp.studies.selectors import level_agreed, smallest_difference_agreed

CLEARLY_BETTER, CLEARLY_WORSE = "clearly better than {other}", "clearly worse than {other}"
"""Wording shared by leaderboards and by comparisons of predictions with conversation length."""
_NAMED = 3
"""Maximum number of bots named in a sentence; the rest are counted."""


def pair_verdict(pair: Comparison, compared: Comparisons, titles: Mapping[str, str], digits: int) -> str:
    """Return one or two sentences about two bots.

    Args:
        pair: one of the pairs.
        compared: all pairs, with plans if these are to be shown.
        titles: titles of the bots.
        digits: decimals.
    """
    a, b = titles.get(pair.a, pair.a), titles.get(pair.b, pair.b)
    code = verdict(pair)
    if code == "undefined":
        reason = reason_text(pair.reason) or "no test"
        return f"{a} and {b} cannot be compared: {reason}."
    if code == "not_told_apart" and compared.is_equal(pair):
        return f"{a} and {b} {equality_clause(compared.smallest, digits)}: {_from_to(pair, (a, b), digits)}."
    if code == "not_told_apart":
        return f"{_not_apart(a, b, compared.plan(pair.a, pair.b), compared)} {_need(pair, compared, (a, b), digits)}"
    gap, low, high = pair.difference, pair.low, pair.high
    if code == "lower" and gap is not None:
        a, b, gap = b, a, -gap
        low, high = (None, None) if low is None or high is None else (-high, -low)
    rated = f"{a} is rated higher than {b}, difference {figure(gap, digits)} {span(low, high, digits)}"
    if compared.is_equal(pair):
        return (
            f"{rated}. Nevertheless, the two are equal for practical purposes (within ± "
            f"{figure(compared.smallest, digits)})."
        )
    return f"{rated}."


def pair_counts_sentence(
    question: str, n_clear: int, equal: Sequence[str], n_unknown: int, n_pairs: int, smallest: str
) -> str:
    """Count the pairs that are clearly different, equal, and not yet known.

    Args:
        question: title of the compared question.
        equal: the two bots of each equal pair, including pairs that are clearly different as well.
        n_unknown: number of pairs that are neither.
        smallest: the smallest difference of interest, formatted.
    """
    sentences = [f"Clearly different in {question}: {n_clear} of {phrases.pairs_text(n_pairs)} of bots."]
    if equal:
        pairs = equal[0] if len(equal) == 1 else phrases.pairs_text(len(equal))
        n_both = n_clear + len(equal) + n_unknown - n_pairs
        which = "" if len(equal) == 1 else "all " if n_both == len(equal) else f"{n_both} of them "
        both_note = f" ({which}also clearly different)" if n_both else ""
        sentences.append(f"Equal for practical purposes (difference below {smallest}): {pairs}{both_note}.")
    if n_unknown:
        sentences.append(f"{NOT_YET_KNOWN.capitalize()}: {phrases.pairs_text(n_unknown)}.")
    return " ".join(sentences)


def question_counts_sentence(clear: Sequence[str], equal: Sequence[str], unknown: Sequence[str], n: int) -> str:
    """List the questions in which two bots differ, are equal, or are undecided.

    Args:
        clear, equal, unknown: titles of questions; a clearly different one may also be equal.
        n: number of all questions.
    """
    words = ("Clearly different", clear), ("Equal for practical purposes", equal), (NOT_YET_KNOWN.capitalize(), unknown)
    return " ".join(
        f"{word} in {'every question' if len(titles) == n > 1 else listed([f'“{title}”' for title in titles])}."
        for word, titles in words
        if titles
    )


def equality_clause(smallest: float | None, digits: int = 2) -> str:
    """Return the end of a sentence that two bots are equal."""
    return f"are equal for practical purposes, with a difference below {figure(smallest, digits)}"


def smallest_sentences(study: Study, smallest: float | None, digits: int = 2) -> list[str]:
    """Define equality of bots, and report changes made after data were collected.

    Args:
        smallest: smallest difference of interest; None if neither it nor the scale is known.
    """
    if smallest is None:
        return [
            "The rating scale is unknown, so intervals are not limited to it and no bots are called equal. Set the "
            "scale, or the smallest difference of interest, in the settings."
        ]
    sentences = [
        "Two bots are equal for practical purposes if the 90 % interval of their difference (1 − 2α, α = .05) is "
        f"within ± {figure(smallest, digits)}, the smallest difference of interest (two one-sided tests, p < .05, not "
        "corrected for the number of pairs)."
    ]
    level, level_before = study.values.quotas.level, level_agreed(study)
    if level != level_before:
        before, after = (
            "the level of earlier versions" if confidence_level is None else percent(confidence_level)
            for confidence_level in (level_before, level)
        )
        sentences.append(
            f"The confidence level was changed after the first participants had started: from {before} to {after}."
        )
    if study.values.closing != study.agreed_values.closing:
        sentences.append("The closing rules were changed after the first participants had started.")
    now, agreed = study.values.quotas.smallest_difference, smallest_difference_agreed(study)
    if now != agreed:
        before, after = (
            "a tenth of the scale" if difference is None else f"{difference:g}" for difference in (agreed, now)
        )
        sentences.append(
            f"The smallest difference of interest was changed after the first participants had started: from {before} "
            f"to {after}."
        )
    return sentences


def by_units(units: Units, n: int) -> str:
    """Format the number of raters.

    Or of conversations, if raters are not named.
    """
    if units == "raters":
        return phrases.raters_text(n)
    return phrases.conversations_text(n) if units == "conversations" else _raters_or_chats(n)


def _raters_or_chats(n: int) -> str:
    words = plural(n, "%(n)s rater or unnamed conversation", "%(n)s raters or unnamed conversations")
    return words % {"n": f"{n:,}"}


def _not_apart(a: str, b: str, plan: PairPlan | None, compared: Comparisons) -> str:
    """State that two bots do not differ significantly.

    The sentence includes the number of raters.
    """
    if plan is None:
        return f"{a} and {b} do not differ significantly."
    low, high = sorted((plan.n_a, plan.n_b))
    words = (
        "{a} and {b} do not differ significantly with {raters} each."
        if low == high
        else "{a} and {b} do not differ significantly with {low} and {raters}."
    )
    return words.format(a=a, b=b, low=low, raters=by_units(compared.units, high))


def _need(pair: Comparison, compared: Comparisons, titles: tuple[str, str], digits: int) -> str:
    """Give the interval of the difference, and the ratings needed.

    They are needed for the smallest difference of interest.
    """
    need, plan = compared.need(pair), compared.plan(pair.a, pair.b)
    n_more, smallest = compared.more.get((pair.a, pair.b)), figure(compared.smallest, digits)
    sentence = f"It is {NOT_YET_KNOWN} which is better"
    if pair.low is not None and pair.high is not None and pair.low * pair.high > 0:
        sentence = f"After correction for all pairs, it is {NOT_YET_KNOWN} which is better"
    if pair.low is not None:
        sentence = f"{sentence}: {_from_to(pair, titles, digits)}"
    if need == "more" and n_more is not None:
        return f"{sentence}. About {two_digits(n_more)} more each would show a difference of {smallest}."
    if need == "raters" and plan is not None and plan.needed is not None:
        return f"{sentence}. About {two_digits(plan.needed)} each would show a difference of {smallest}."
    return f"{sentence}."


def _from_to(pair: Comparison, titles: tuple[str, str], digits: int) -> str:
    """Give the interval of the difference.

    Readers need it because “not significant” does not mean “equal”.
    """
    a, b = titles
    return (
        f"the difference, {a} minus {b}, may be anywhere from {figure(pair.low, digits)} to {figure(pair.high, digits)}"
    )


def one_look() -> str:
    """Return the caution about one-look intervals.

    It applies to a study whose test is always-valid.
    """
    return "The intervals are valid only for a single look, once the study has all its ratings."


def intervals_sentence(subject: str, test: str, level: float) -> str:
    """Return the line above a plot on its intervals and the deciding test.

    Args:
        subject: name of the plotted values, the first words of the sentence.
    """
    if test == "always":
        return (
            f"{subject} with {percent(level)} interval. Like the tests, the intervals remain valid however often you "
            "look."
        )
    return f"{subject} with {percent(level)} interval; the fixed-sample test decides which bots differ."


def name_comparison_test(compared: Comparisons) -> str:
    """Name the test of differences between bots.

    While a study collects, it is always-valid.
    """
    return test_named(compared.test, compared.alpha)


def test_named(test: str | None, alpha: float) -> str:
    """Name a significance test.

    Results of earlier versions do not identify it.
    """
    words = {"fixed": "fixed-sample test, Holm, p < {alpha}", "always": "always-valid test, Holm, p < {alpha}"}
    return words.get(str(test), "Holm, p < {alpha}").format(alpha=share(alpha))


def deciding_sentences(compared: Comparisons) -> list[str]:
    """Describe the deciding test and the means that it compares."""
    if compared.test == "always":
        test_sentence = (
            "An always-valid test decides which bot is better. Looking early or often does not increase its error "
            "rate, and closing the study does not change the verdicts. The fixed-sample test replaces it once the "
            "study reaches its planned number of participants."
        )
    else:
        test_sentence = (
            "The fixed-sample test decides which bot is better, because the study has its planned number of "
            "participants or did not collect data here."
        )
    means_sentence = {
        "raters": "It compares means by generalised least squares with raters as a random effect; errors are "
        "clustered by rater.",
        "conversations": (
            "It compares means by generalised least squares with conversations as a random effect, as there are no "
            "rater IDs; errors are clustered by conversation."
        ),
        "raters_and_conversations": (
            "It compares means by generalised least squares with raters, or conversations without a rater ID, as a "
            "random effect; errors are clustered by them."
        ),
    }[compared.units]
    sentences = [test_sentence, means_sentence]
    if compared.rater_share > 0:
        sentences.append(
            (
                "A difference can therefore deviate from that of the plain means: it is adjusted for strict and "
                "lenient raters."
            )
            if compared.units == "raters"
            else "A difference can therefore deviate from that of the plain means."
        )
    return sentences


def ranking_verdicts(compared: Comparisons, titles: Mapping[str, str], digits: int) -> list[str]:
    """Return sentences about neighbours in the ranking, best first."""
    return [pair_verdict(pair, compared, titles, digits) for pair in compared.neighbours()]


def untested_reasons(compared: Comparisons) -> str:
    """Return the distinct reasons for untested pairs."""
    return "; ".join(dict.fromkeys(reason_text(pair.reason) or "no test" for pair in compared.untested))


def overall_verdict(compared: Comparisons, titles: Mapping[str, str]) -> str:
    """Compose the sentence on the best bot and its close rivals.

    These do not differ significantly from it.
    """
    if len(compared.order) + len(compared.controls) < 2:
        return "Only one bot is rated, so there is nothing to compare."
    if not compared.n_pairs:
        return f"No two bots can be compared yet: {untested_reasons(compared)}."
    if len(compared.order) < 2:
        return "Only one bot is rated, apart from controls, so there is no ranking."
    best = titles.get(compared.order[0], compared.order[0])
    close = compared.as_good_as_best()
    if not close:
        return f"First: {best}, {CLEARLY_BETTER.format(other='each of the other bots')}."
    if len(close) == len(compared.order) - 1:
        return f"First: {best}, but not {CLEARLY_BETTER.format(other='any other bot')}."
    names = [titles.get(bot, bot) for bot in close]
    if len(names) > _NAMED:
        names = [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
    return f"First: {best}, not {CLEARLY_BETTER.format(other=listed(names))}."
