"""Verdict on a hybrid fit: supported uses and cautions, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evaluation.number_format import figure
from evaluation.stats.comparisons import NOT_YET_KNOWN
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import feature_titles, listed, reason_text
from webapp.insights.narrative.verdicts import CLEARLY_BETTER, CLEARLY_WORSE
from webapp.jobs.selectors.metrics import language_name

StoredFinding = Mapping[str, Any]
"""A finding as `Finding.to_json` wrote it."""

INTERCEPTS = {"common": "one intercept for all folds", "fold": "a separate intercept for each fold"}
RIVALS = {
    "log_turns": "the number of turns",
    "log_words": "the number of words per message",
    "log_turns_and_words": "turns and words combined",
    "group": "the bot’s group",
}
_STANDINGS = {
    "ranking": CLEARLY_BETTER.format(other="the length of conversations"),
    "unsettled": f"better than chance; it is {NOT_YET_KNOWN} whether it is better than the length of conversations",
    "baseline": CLEARLY_WORSE.format(other="{rival} alone"),
    "chance": "not better than chance",
}
_USES = {
    "ranking": (
        "The fit can rank additional bots of the same kind, with the same task and similar participants. It cannot "
        "assess single conversations, other kinds of bots, or bots trained to optimise the metric."
    ),
    "unsettled": "Do not use it to rank bots yet; collect ratings of more bots first.",
    "baseline": "Use that count instead.",
    "chance": "Do not use it instead of human ratings.",
}


def verdict_text(verdict: StoredFinding | str | None) -> str:
    """Return the uses that a fit supports, conclusion first.

    If there are none, the reason.

    Args:
        verdict: as `FitVerdict.to_json` wrote it. Fits of earlier versions have a paragraph instead of codes, and the
            oldest have none.
    """
    if isinstance(verdict, str) or not verdict:
        return str(verdict or "")
    first, verdict_code, selfplay = verdict["findings"][0], verdict["standing"], verdict["standing_selfplay"]
    if verdict_code == "undefined":
        reason = reason_text(first["reason"]) if first["n_bots"] else "no bot is rated"
        return f"Not known: there is no correlation over bots{': ' if reason else ''}{reason}."
    if verdict_code == "few_bots":
        return (
            f"Not yet known: only {phrases.bots_text(first['n_bots'])} rated. With so few points, even a high r "
            "can be due to chance. This fit supports no conclusion about other bots."
        )
    verdict_code, sentence = _render_verdict("The prediction is", verdict_code, verdict["findings"])
    text = f"{sentence} {_USES[verdict_code]}"
    if selfplay in _STANDINGS:
        text += f" {_render_verdict('From self-play it is', selfplay, verdict['findings_selfplay'])[1]}"
    return text


def _render_verdict(subject: str, verdict_code: str, findings: Sequence[StoredFinding]) -> tuple[str, str]:
    """Return a verdict code, and its sentence with the underlying comparison."""
    rival = next((finding for finding in findings if finding["code"] == "rival"), None)
    if rival is None and verdict_code in ("ranking", "baseline"):
        # Earlier versions compared two correlations, which does not show which predicts better.
        verdict_code = "unsettled"
    name = RIVALS.get(rival["name"], rival["name"]) if rival else ""
    sentence = f"{subject} {_STANDINGS[verdict_code].format(rival=name)}."
    if rival and rival["ci95"] and verdict_code != "chance":
        ends = " to ".join(map(figure, rival["ci95"]))
        ratio = figure(rival["error_ratio"])
        sentence += f" Its errors are {ratio} times those of predictions from {name} (95 % interval {ends})."
    return verdict_code, sentence


_CAUTIONS = {
    "other_study": (
        "Fitted to another study, {study}. Ratings mean different things in different studies, so only the order of "
        "the predictions is meaningful. Bots have ranks here but no values."
    ),
    "other_study:none": (
        "The study of this fit is unknown. Ratings mean different things in different studies, so only the order of "
        "the predictions is meaningful. Bots have ranks here but no values."
    ),
    "same_instrument": (
        "Fitted to another study, {study}, which was declared to use the same instrument; titles, scales and labels "
        "were compared. Bots therefore have values here. All results use the current ratings."
    ),
    "given_ratings": (
        "A stored fit, based on {n_fitted}, is applied here. Human means, correlations and pairs use the current "
        "ratings, of {n_given}, not those of the fit. Weights, folds and shares of blocks come from the fit."
    ),
    "rivals_not_kept": (
        "The fit was stored by an earlier version, without a length baseline for the same ratings. It cannot be "
        "compared with conversation length."
    ),
    "scale_unknown:both": "The rating scales of the fit and of this study are unknown, so they may differ.",
    "scale_unknown:fit": "The rating scale of the fit is unknown, so it may differ from the scale used here.",
    "scale_unknown:ratings": "The rating scale of this study is unknown, so it may differ from the scale of the fit.",
    "selfplay_shift": (
        "In {block}, self-play differs from conversations with people by {shift} standard deviations, and no rated "
        "bot differs from the others by more than {widest}. Predictions from self-play are therefore extrapolations."
    ),
    "few_bots": "Only {n_bots} rated, which is too few for a meaningful correlation over bots.",
    "few_bots:none": "No bot is rated here, so the order cannot be checked.",
    "fold_intercept": (
        "Each fold has its own intercept, which contains the left-out bot’s mean with a negative sign. Uninformative "
        "features therefore correlate at nearly −1. Compare with the common intercept."
    ),
    "constant_features": "Dropped in at least one fold because they are constant there: {features}.",
    "other_language": (
        "Excluded because they are not valid for the language of the conversations ({languages}): {features}."
    ),
    "within_condition": (
        "Only conversations with {levels} are included; the fit supports no conclusion about other conditions."
    ),
    "several_conditions": "The fit pools conversations of {n_conditions} conditions.",
    "collinear": (
        "The features are nearly collinear (condition number up to {condition}), so single weights are hardly "
        "interpretable."
    ),
    "collinear:none": (
        "One feature is a linear combination of others (infinite condition number), so single weights are hardly "
        "interpretable."
    ),
    "partly_rated": "Treated as unrated because a rating of a target dimension is missing: {n_conversations}.",
    "undefined_features": "Excluded from the fit because of an undefined feature: {n_conversations}.",
    "extrapolation": "The prediction of {bot} is an extrapolation: its means of {features} are more than {deviations} "
    "standard deviations from the conversations of the fit.",
    "extrapolation:one": "The prediction of {bot} is an extrapolation: its mean {features} is more than {deviations} "
    "standard deviations from the conversations of the fit.",
    "beyond_scale": (
        "The predictions for {bots} are outside the rating scale of {low} to {high}, which a linear fit does not "
        "respect. Interpret them as ranks, not as ratings."
    ),
    "beyond_scale:one": (
        "The prediction for {bots} is outside the rating scale of {low} to {high}, which a linear fit does not "
        "respect. Interpret it as a rank, not as a rating."
    ),
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
    # Use quotation marks, because titles contain commas.
    "features": lambda names: listed([f"“{title}”" for title in feature_titles(names)]),
    "languages": lambda codes: ", ".join(map(language_name, codes)),
    "condition": lambda value: f"{value or 0:.0f}",
    "bots": listed,
    "low": lambda value: f"{value:g}",
    "high": lambda value: f"{value:g}",
}
"""Formats of values by name."""


def caution_sentences(cautions: Sequence[StoredFinding | str]) -> list[str]:
    """Return a sentence for each caution of a fit.

    Earlier versions stored sentences.
    """
    sentences = (caution if isinstance(caution, str) else _render_caution(caution) for caution in cautions)
    return [sentence for sentence in sentences if sentence]


def _render_caution(caution: StoredFinding) -> str:
    """Render a caution; "" if its code is unknown."""
    code = caution["code"]
    if code in _MAY_LACK and not caution[_MAY_LACK[code]]:
        code += ":none"
    elif code in _COUNTED and len(caution[_COUNTED[code]]) == 1:
        code += ":one"
    elif code == "scale_unknown":
        code += ":both" if caution["of_fit"] and caution["of_ratings"] else ":fit" if caution["of_fit"] else ":ratings"
    return _CAUTIONS.get(code, "").format(**{name: _SHOWN.get(name, str)(value) for name, value in caution.items()})
