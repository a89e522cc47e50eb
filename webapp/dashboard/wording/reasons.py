"""Reasons for undefined numbers: one sentence fragment for each code of `evaluation.reasons.Reason`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from evaluation.printing import figure, percent, probability, share
from evaluation.reasons import Reason, reason_read
from webapp.dashboard import counts
from webapp.dashboard.wording.sections import listed
from webapp.runs.selectors.languages import language_name

FRAGMENTS: dict[str, str] = {
    "no_value": gettext_noop("no value"),
    "not_played": gettext_noop("no conversation with itself in this run"),
    "not_computed": gettext_noop("not computed for this run by the metric as it is now"),
    "other_language": gettext_noop("left out: it holds for {holds}, and this is in {language}"),
    "one_value": gettext_noop("one value: no interval"),
    "one_group": gettext_noop("all values of one rater: no interval"),
    "no_rating": gettext_noop("no rating"),
    "no_rating_yet": gettext_noop("no rating yet"),
    "no_rating_of_bot": gettext_noop("{bot} has no rating"),
    "one_rating": gettext_noop("a bot has one rating: its spread is unknown"),
    "few_raters_for_weight": gettext_noop("too few raters to estimate a weight"),
    "no_unrated": gettext_noop("no unrated conversation is predicted"),
    "constant_prediction": gettext_noop("the predictions do not vary"),
    "one_judgement": gettext_noop("they were compared once"),
    "one_rater": gettext_noop("a bot was rated by one participant only"),
    "no_spread": gettext_noop("neither bot’s ratings vary"),
    "too_few_raters": gettext_noop("a bot has fewer than two raters: its spread is unknown"),
    "no_difference": gettext_noop("no difference can be shown"),
    "too_many_raters": gettext_noop("more than {most} raters per bot"),
    "contains_0": gettext_noop("the interval contains 0: no number is sure to be enough"),
    "few_bots": gettext_noop("ratings of {n_bots}; at least 2 are needed"),
    "one_rater_only": gettext_noop("one rater only: nothing can be said about others"),
    "one_rating_each": gettext_noop(
        "every rater gave one rating: raters and chance cannot be told apart; compare the bots without raters"
    ),
    "nothing_left": gettext_noop("{n_ratings} by {n_raters}: nothing left to judge {n_bots} by"),
    "no_error": gettext_noop("the ratings do not vary around the bots’ and raters’ means"),
    "one_answer": gettext_noop("every rating is {answer}: nothing tells the bots apart"),
    "too_few_for_bots": gettext_noop("{n_raters}: too few to judge {n_bots} by"),
    "one_rater_of_bot": gettext_noop(
        "{bot} was rated by one rater only: how far its odds can be off is not known"
    ),
    "raters_alike": gettext_noop(
        "the few raters of a bot answer alike: nothing tells how far its odds can be off"
    ),
    "not_independent": gettext_noop(
        "no interval: raters gave several ratings each, which are not independent"
    ),
    "always_lowest": gettext_noop(
        "every rating of {bot} is the lowest one: its effect is infinite"
    ),
    "always_highest": gettext_noop(
        "every rating of {bot} is the highest one: its effect is infinite"
    ),
    "separated": gettext_noop(
        "no rating of {upper} is below {at} and none of {lower} above: their difference is infinite"
    ),
    "no_optimum": gettext_noop("no optimum found: the bots’ ratings hardly overlap"),
    "one_level": gettext_noop("factor {factor} has one level: there is nothing to compare"),
    "empty_cells": gettext_noop(
        "{n_empty} of the {n_cells} combinations of levels have no rating: the interactions cannot be told from "
        "the factors"
    ),
    "one_rating_a_cell": gettext_noop(
        "as many cells as ratings: nothing is left to judge the effects by"
    ),
    "constant_cells": gettext_noop(
        "the ratings do not vary within the cells: nothing to judge the effects by"
    ),
    "one_rater_of_some": gettext_noop(
        "one rater gave all ratings of a bot: how far its mean can be off is not known"
    ),
    "few_raters_for_test": gettext_noop(
        "too few raters to test {n_differences} differences at once"
    ),
    "few_shared_items": gettext_noop("{n_items} items rated by both; at least 2 are needed"),
    "both_gave_one": gettext_noop("both raters gave only {answer}: agreement is certain"),
    "no_pair_defined": gettext_noop("no pair has a kappa"),
    "no_pair_correlates": gettext_noop("no pair of raters has a correlation"),
    "no_pair_shares": gettext_noop("no pair of raters shares {min_items} items"),
    "all_alike": gettext_noop("all values are the same: nothing tells how far the mean can be off"),
    "all_the_same": gettext_noop("all ratings are the same: agreement is certain"),
    "no_interval": gettext_noop("no interval: most resamples are undefined"),
    "few_items_for_interval": gettext_noop(
        "no interval: {needed} items are needed, there are {n_items}"
    ),
    "few_other_answers": gettext_noop(
        "no interval: only {percent} of the answers are other than the most frequent one"
    ),
    "no_disagreement": gettext_noop(
        "no interval: without a disagreement nothing tells how far it can be off"
    ),
    "always_tied": gettext_noop("one of the two always called them the same"),
    "few_items": gettext_noop("{n_items} items with two ratings or more; at least 2 are needed"),
    "few_raters": gettext_noop("{n_raters}; at least 2 are needed"),
    "gaps": gettext_noop(
        "{n_gaps} of {n_items} items lack a rating: forms 2 and 3 need every rater on every item"
    ),
    "no_variance": gettext_noop("all ratings are the same: there is no variance to share out"),
    "same_means": gettext_noop("the items’ means are all the same: no variance of their own"),
    "few_shared": gettext_noop("{n_shared} of {n_conversations} rated by more than one"),
    "not_named": gettext_noop("raters are not named, so no two of them can be compared"),
    "many_answers": gettext_noop("{n_answers} different answers: kappas need few categories"),
    "few_pairs": gettext_noop("only {n_pairs} of the 3 pairs that a correlation needs"),
    "constant_side": gettext_noop("one side is constant"),
    "few_pairs_for_interval": gettext_noop("no interval: {n_pairs} pairs are too few"),
    "units_tell_nothing": gettext_noop(
        "no interval: too few people or contexts, or too much alike, to tell how far it can be off"
    ),
    "few_carry": gettext_noop(
        "no interval and no p: {n_carrying} of {n_units} people, contexts or items carry one side"
    ),
    "many_pairs_of_units": gettext_noop(
        "no interval: {n_pairs} pairs are too many for Kendall’s tau"
    ),
    "few_pairs_in_groups": gettext_noop(
        "{n_pairs} pairs in {n_groups} groups leave nothing to correlate"
    ),
    "few_rated": gettext_noop("{n_conversations} rated; {k} best and {k} worst need {needed}"),
    "rated_alike": gettext_noop("all conversations are rated the same"),
    "no_trait": gettext_noop("no bot is known by any of these: {traits}"),
    "one_level_rated": gettext_noop("only one level of {trait} has rated conversations"),
    "not_told": gettext_noop("not told by this fit"),
    "no_rated_conversation": gettext_noop("no conversation has a rating"),
    "no_features": gettext_noop("no conversation with people has all features defined"),
    "no_selfplay_features": gettext_noop("no self-play conversation has all features defined"),
    "not_adjusted": gettext_noop(
        "no mean less the habits of raters: no bot has two of these ratings that differ"
    ),
    "not_combined": gettext_noop(
        "not combined with the prediction: these are not known to be the ratings of the fit"
    ),
    "selfplay_unchecked": gettext_noop(
        "only {n_bots} have ratings and self-play to see by how far predictions from self-play err; {needed} others are needed"
    ),
    "embedding": gettext_noop(
        "{n_directions} directions of an embedding, which mean nothing one by one"
    ),
    "constant_feature": gettext_noop("constant in every fold: dropped"),
    "one_fold": gettext_noop("used in one fold only: no interval"),
    "sum_of_features": gettext_noop(
        "a feature is a sum of others: the condition number is infinite"
    ),
    "few_bots_for_reliability": gettext_noop(
        "{n_bots} with two rated conversations; {needed} are needed to see how far means agree with themselves"
    ),
    "few_bots_for_values": gettext_noop("{n_bots}; {needed} with different means are needed"),
    "no_gain_no_slope": gettext_noop(
        "no interval: Q² is not above 0; predictions near the mean of the other bots make the slope negative"
    ),
    "lengths_explain": gettext_noop("the lengths of the conversations leave nothing of one side"),
    "in_words": gettext_noop("{words}"),
    "no_pair_judged": gettext_noop("no comparison of two bots"),
    "only_ties": gettext_noop("every judgement is a tie: nothing tells the bots apart"),
    "never_met": gettext_noop("{bots} never met {bot}, directly or through others"),
    "place_decides": gettext_noop(
        "who was shown first, or the tie, decides every judgement: its effect is infinite"
    ),
    "never_lost": gettext_noop(
        "{best} never lost against {others} (or too few judgements tell): the difference of their strengths is "
        "infinite"
    ),
    "no_strengths_found": gettext_noop("no optimum found"),
    "nobody_chose": gettext_noop("nobody has chosen yet"),
    "nobody_named": gettext_noop("nobody is named in the data"),
    "no_rater_with": gettext_noop("no rater has {needed} ratings that differ"),
    "unnamed_ratings": gettext_noop("{n_ratings} without a rater"),
    "few_own_ratings": gettext_noop("{n} of the {needed} ratings needed"),
    "same_own_rating": gettext_noop("the same rating {n} times: no deviation to divide by"),
    "several_scales": gettext_noop("the questions have different scales"),
    "few_conversations": gettext_noop("only {n_conversations}"),
    "few_long_forms": gettext_noop("only {n_conversations} with three answers or more"),
    "one_answer_to_all": gettext_noop(
        "one answer to all questions in {percent} of {n_conversations}"
    ),
    "spread_of_answers": gettext_noop("answers vary by {spread} of the scale (standard deviation)"),
    "no_bots": gettext_noop("no bots given"),
    "few_shared_bots": gettext_noop("{n_bots} rated by others too"),
    "same_for_every_bot": gettext_noop("the same rating for every bot"),
    "r_with_others": gettext_noop("r = {r} with the other raters over {n_bots}"),
    "no_times": gettext_noop("no times given"),
    "no_times_of_rater": gettext_noop("no times known"),
    "time_taken": gettext_noop(
        "{seconds} s a conversation, where raters usually take {usual_seconds} s"
    ),
    "no_opposites": gettext_noop("no statements of opposite wording"),
    "one_side_unanswered": gettext_noop("one side was never answered"),
    "affirms_opposites": gettext_noop(
        "affirms opposite statements: {percent} of the scale beyond balance"
    ),
    "denies_opposites": gettext_noop(
        "denies opposite statements: {percent} of the scale beyond balance"
    ),
    "no_control": gettext_noop("no control in the study"),
    "rated_no_control": gettext_noop("rated no control"),
    "rated_no_bot": gettext_noop("rated no bot but the control"),
    "control_lower": gettext_noop(
        "control rated {control_mean}, real bots {bots_mean}: lower ({p})"
    ),
    "control_not_lower": gettext_noop(
        "control rated {control_mean}, real bots {bots_mean}: not clearly lower ({p})"
    ),
}
_SHOWN: dict[str, Callable[[Any], str]] = {
    "n_bots": counts.bots,
    "n_raters": counts.raters,
    "n_ratings": counts.ratings,
    "n_conversations": counts.conversations,
    "n_carrying": lambda value: f"{value:.1f}",
    "percent": percent,
    "spread": lambda value: percent(value, 1),
    "r": share,
    "p": probability,
    "control_mean": figure,
    "bots_mean": figure,
    "language": language_name,
    "holds": lambda codes: listed([language_name(code) for code in codes]),
    "blocks": listed,
    "seconds": lambda value: figure(value, 0),
    "usual_seconds": lambda value: figure(value, 0),
}
"""How values of these names are shown."""


def said(found: Reason | Mapping[str, Any] | str | None) -> str:
    """Return the reason for a missing number, without a full stop; "" without a reason.

    Args:
        found: a reason, or its form in a stored document.
    """
    reason = reason_read(found)
    if reason is None:
        return ""
    shown = {name: _shown(name, value) for name, value in reason.values.items()}
    return _(FRAGMENTS[reason.code]).format(**shown)


def _shown(name: str, value: Any) -> str:
    if name in _SHOWN:
        return _SHOWN[name](value)
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
