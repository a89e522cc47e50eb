"""Verdict on a hybrid fit: uses that it supports, and cautions, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evaluation.number_format import figure
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import feature_titles, listed, reason_text
from webapp.dashboard.narrative.verdicts import CLEARLY_BETTER, CLEARLY_WORSE, NOT_YET_KNOWN
from webapp.jobs.selectors.metrics import language_name

StoredFinding = Mapping[str, Any]
"""A finding as `Finding.to_json` wrote it."""

INTERCEPTS = {"common": "one intercept for all folds", "fold": "an intercept for each fold"}
RIVALS = {
    "log_turns": "the number of turns",
    "log_words": "the words of a message",
    "log_turns_and_words": "turns and words together",
    "group": "the group that a bot is of",
}
_STANDINGS = {
    "ranking": CLEARLY_BETTER.format(other="the length of conversations"),
    "unsettled": f"better than chance; it is {NOT_YET_KNOWN} whether it is better than the length of conversations",
    "baseline": CLEARLY_WORSE.format(other="{rival} alone"),
    "chance": "not better than chance",
}
_USES = {
    "ranking": "The fit can rank further bots of the same kind, with the same task and the same sort of participants. "
    "It cannot judge single conversations, other kinds of bots, or bots trained to please the metric.",
    "unsettled": "Do not rank bots by it yet: rate more bots first.",
    "baseline": "Use the count instead.",
    "chance": "Do not use it in place of people’s ratings.",
}


def verdict_text(verdict: StoredFinding | str | None) -> str:
    """Return the uses that a fit supports, the conclusion first, or the reason why it supports none.

    Args:
        verdict: as `FitVerdict.to_json` wrote it. A fit of a version before there were codes has a paragraph, and one
            older still has none.
    """
    if isinstance(verdict, str) or not verdict:
        return str(verdict or "")
    first, verdict_code, selfplay = verdict["findings"][0], verdict["standing"], verdict["standing_selfplay"]
    if verdict_code == "undefined":
        reason = reason_text(first["reason"]) if first["n_bots"] else "no bot is rated"
        return f"Not known: there is no correlation over bots to judge{': ' if reason else ''}{reason}."
    if verdict_code == "few_bots":
        return (
            f"Not yet known: only {phrases.bots_text(first['n_bots'])} rated. So few points can lie on a line by "
            "chance, whatever r is; nothing about other bots follows from this fit."
        )
    verdict_code, sentence = _render_verdict("The prediction is", verdict_code, verdict["findings"])
    text = f"{sentence} {_USES[verdict_code]}"
    if selfplay in _STANDINGS:
        text += f" {_render_verdict('From self-play it is', selfplay, verdict['findings_selfplay'])[1]}"
    return text


def _render_verdict(subject: str, verdict_code: str, findings: Sequence[StoredFinding]) -> tuple[str, str]:
    """Return a standing, and the sentence of it with the comparison that it rests on."""
    rival = next((finding for finding in findings if finding["code"] == "rival"), None)
    if rival is None and verdict_code in ("ranking", "baseline"):
        # Fits of earlier versions compared two correlations, which says nothing of which predicts better.
        verdict_code = "unsettled"
    name = RIVALS.get(rival["name"], rival["name"]) if rival else ""
    sentence = f"{subject} {_STANDINGS[verdict_code].format(rival=name)}."
    if rival and rival["ci95"] and verdict_code != "chance":
        ends = " to ".join(map(figure, rival["ci95"]))
        ratio = figure(rival["error_ratio"])
        sentence += f" Its errors are {ratio} times those of a prediction by {name} (95 % interval {ends})."
    return verdict_code, sentence


_CAUTIONS = {
    "other_study": "Fitted to another study, {study}: only the order of the predictions counts, not their values, for "
    "what ratings mean differs between studies. Bots have ranks here and no values.",
    "other_study:none": "It is unknown to which study this was fitted, and ratings mean different things in different "
    "studies. So only the order of the predictions counts: bots have ranks here and no values.",
    "same_instrument": "Fitted to another study, {study}, which was declared to use the same instrument; titles, "
    "scales and labels were compared. So bots have values here, and everything is of the ratings given now.",
    "given_ratings": "A kept fit, of {n_fitted}, is applied here. Human means, correlations and pairs are of the "
    "ratings given now, of {n_given}, and not of those that it was fitted to. Weights, folds and shares of blocks are "
    "of the fit.",
    "rivals_not_kept": "The fit was kept by an earlier version, without the lengths fitted to the same ratings. "
    "Whether it predicts better than lengths is not compared.",
    "scale_unknown:both": "On which scale the fit’s ratings were given is not known, nor that of the ratings here, so "
    "nothing says whether they are the same.",
    "scale_unknown:fit": "On which scale the fit’s ratings were given is not known, so nothing says whether it is the "
    "one of the ratings here.",
    "scale_unknown:ratings": "On which scale the ratings here were given is not known, so nothing says whether it is "
    "the one of the fit.",
    "selfplay_shift": "In {block}, self-play lies {shift} standard deviations from conversations with people, and no "
    "rated bot more than {widest} from the others: predictions from self-play are extrapolations.",
    "few_bots": "Only {n_bots} rated: too few for a correlation over bots to mean much.",
    "few_bots:none": "No bot is rated here: nothing shows whether the order is right.",
    "fold_intercept": "Each fold has its own intercept, which carries the left-out bot’s mean with a minus sign: "
    "features that say nothing correlate at nearly −1. Compare with the common intercept.",
    "constant_features": "Constant in at least one fold and dropped there: {features}.",
    "other_language": "Left out, since they do not hold for the language of the conversations ({languages}): "
    "{features}.",
    "within_condition": "Only conversations with {levels} count: nothing follows for other conditions.",
    "several_conditions": "Conversations of {n_conditions} conditions are mixed here.",
    "collinear": "Features are nearly collinear (condition number up to {condition}): single weights mean little.",
    "collinear:none": "A feature is a sum of others (the condition number is infinite): single weights mean little.",
    "partly_rated": "Counted as unrated, for lack of a rating of one of the target dimensions: {n_conversations}.",
    "undefined_features": "Left out of the fit for an undefined feature: {n_conversations}.",
    "extrapolation": "The prediction of {bot} is an extrapolation: its means of {features} are more than {deviations} "
    "standard deviations from the conversations of the fit.",
    "extrapolation:one": "The prediction of {bot} is an extrapolation: its mean {features} is more than {deviations} "
    "standard deviations from the conversations of the fit.",
    "beyond_scale": "{bots} are predicted beyond the rating scale of {low} to {high}: a straight line does not end "
    "where ratings do. Read them as places in the order, and not as ratings.",
    "beyond_scale:one": "{bots} is predicted beyond the rating scale of {low} to {high}: a straight line does not end "
    "where ratings do. Read it as a place in the order, and not as a rating.",
}
_MAY_LACK = {"other_study": "study", "few_bots": "n_bots", "collinear": "condition"}
_COUNTED = {"extrapolation": "features", "beyond_scale": "bots"}
_SHOWN: dict[str, Callable[[Any], str]] = {
    "n_fitted": phrases.conversations_text,
    "n_given": phrases.conversations_text,
    "n_conversations": phrases.conversations_text,
    "n_bots": phrases.bots_text,
    "shift": figure,
    "widest": figure,
    # In quotation marks, for titles hold commas.
    "features": lambda names: listed([f"“{title}”" for title in feature_titles(names)]),
    "languages": lambda codes: ", ".join(map(language_name, codes)),
    "condition": lambda value: f"{value or 0:.0f}",
    "bots": listed,
    "low": lambda value: f"{value:g}",
    "high": lambda value: f"{value:g}",
}
"""How values of these names are shown."""


def caution_sentences(cautions: Sequence[StoredFinding | str]) -> list[str]:
    """Return a sentence for each caution of a fit; those of versions before there were codes are sentences."""
    sentences = (caution if isinstance(caution, str) else _render_caution(caution) for caution in cautions)
    return [sentence for sentence in sentences if sentence]


def _render_caution(caution: StoredFinding) -> str:
    """Say one caution; "" for one that this version does not know."""
    code = caution["code"]
    if code in _MAY_LACK and not caution[_MAY_LACK[code]]:
        code += ":none"
    elif code in _COUNTED and len(caution[_COUNTED[code]]) == 1:
        code += ":one"
    elif code == "scale_unknown":
        code += ":both" if caution["of_fit"] and caution["of_ratings"] else ":fit" if caution["of_fit"] else ":ratings"
    return _CAUTIONS.get(code, "").format(**{name: _SHOWN.get(name, str)(value) for name, value in caution.items()})
