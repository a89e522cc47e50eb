"""Verdict on a hybrid fit: uses that it supports, and cautions, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import figure, percent, share
from webapp.core.language import plural
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import feature_titles, listed, reason_text
from webapp.dashboard.narrative.verdicts import test_named
from webapp.jobs.selectors.metrics import language_name

Found = Mapping[str, Any]
"""A finding as `Finding.to_json` wrote it."""

INTERCEPTS = {
    "common": "one intercept for all folds",
    "fold": "an intercept for each fold",
}
RIVALS = {
    "mean_of_the_other_bots": "the mean of the other bots",
    "words_per_human_turn": "the number of words people write",
    "log_words_per_human_turn": "the logarithm of the number of words people write",
    "number_of_turns": "the number of turns",
    "log_number_of_turns": "the logarithm of the number of turns",
    "group": "the group a bot belongs to",
}


def verdict_text(verdict: Mapping[str, Any] | str | None) -> str:
    """Return the paragraph about a fit.

    Args:
        verdict: as `Verdict.to_json` wrote it. A fit of a version before there were codes has the paragraph
            itself, and one older still has none.
    """
    if isinstance(verdict, str):
        return verdict
    if not verdict:
        return ""
    first = verdict["findings"][0]
    if verdict["standing"] == "undefined":
        if not first["n_bots"]:
            return "There is no correlation over bots to judge, for no bot is rated."
        if not first["reason"]:
            return "There is no correlation over bots to judge."
        return "There is no correlation over bots to judge: {why}.".format(why=reason_text(first["reason"]))
    if verdict["standing"] == "few_bots":
        return plural(
            first["n_bots"],
            "Only {n} bot rated. So few points can lie on a line by chance, whatever r is; nothing about other bots "
            "follows from this fit.",
            "Only {n} bots rated. So few points can lie on a line by chance, whatever r is; nothing about other bots "
            "follows from this fit.",
        ).format(n=first["n_bots"])
    sentences = [_correlation(first, verdict["intercept"])]
    sentences += _sentences(verdict["findings"])
    selfplay = verdict["standing_selfplay"]
    if selfplay is not None:
        sentences.append(_correlation_selfplay(verdict["findings_selfplay"][0]))
        sentences += _sentences(verdict["findings_selfplay"])
    judged = selfplay if selfplay not in ("undefined", "few_bots") else None
    sentences.append(_conclusion(verdict["standing"], judged))
    return " ".join(sentences)


def verdict_in_brief(verdict: Mapping[str, Any] | str | None) -> str:
    """Return the first sentence and the last of the paragraph about a fit, all of a short one."""
    if not verdict or isinstance(verdict, str) or verdict["standing"] in ("undefined", "few_bots"):
        return verdict_text(verdict)
    selfplay = verdict["standing_selfplay"]
    judged = selfplay if selfplay not in ("undefined", "few_bots") else None
    first = _correlation(verdict["findings"][0], verdict["intercept"])
    return f"{first} {_conclusion(verdict['standing'], judged)}"


def _correlation(found: Found, intercept: str) -> str:
    """Say the r of a fit, by which intercept, and its intervals."""
    if not found["ci95"]:
        by_intercept = {
            "common": "Over {bots}, each predicted without its own ratings and with one intercept for all folds, r "
            "is {r}.",
            "fold": (
                "Over {bots}, each predicted without its own ratings and with an intercept for each fold, as in the "
                "paper, r is {r}."
            ),
        }
    elif not found["ci95_over_conversations"]:
        by_intercept = {
            "common": (
                "Over {bots}, each predicted without its own ratings and with one intercept for all folds, r is {r} "
                "(95 % interval over bots {low} to {high})."
            ),
            "fold": (
                "Over {bots}, each predicted without its own ratings and with an intercept for each fold, as in the "
                "paper, r is {r} (95 % interval over bots {low} to {high})."
            ),
        }
    else:
        by_intercept = {
            "common": (
                "Over {bots}, each predicted without its own ratings and with one intercept for all folds, r is {r} "
                "(95 % interval over bots {low} to {high}, over conversations {chats_low} to {chats_high})."
            ),
            "fold": (
                "Over {bots}, each predicted without its own ratings and with an intercept for each fold, as in the "
                "paper, r is {r} (95 % interval over bots {low} to {high}, over conversations {chats_low} to "
                "{chats_high})."
            ),
        }
    low, high = found["ci95"] or (None, None)
    chats_low, chats_high = found["ci95_over_conversations"] or (None, None)
    return by_intercept[intercept].format(
        bots=phrases.bots_text(found["n_bots"]),
        r=share(found["r"]),
        low=share(low),
        high=share(high),
        chats_low=share(chats_low),
        chats_high=share(chats_high),
    )


def _correlation_selfplay(found: Found) -> str:
    """Say the r from self-play, or why there is none."""
    if found["code"] == "no_correlation":
        if not found["n_bots"]:
            return "No rated bot has self-play to judge it by."
        if found["n_bots"] < FEW_BOTS:
            return plural(
                found["n_bots"],
                "{n} rated bot has self-play, too few to judge that by.",
                "{n} rated bots have self-play, too few to judge that by.",
            ).format(n=found["n_bots"])
        if not found["reason"]:
            return "From self-play there is no correlation over bots."
        return "From self-play there is no correlation over bots: {why}.".format(why=reason_text(found["reason"]))
    bots = phrases.bots_text(found["n_bots"])
    if not found["ci95"]:
        return "From self-play, the same fits over {bots}, r is {r}.".format(bots=bots, r=share(found["r"]))
    return "From self-play, the same fits over {bots}, r is {r} (95 % interval over bots {low} to {high}).".format(
        bots=bots, r=share(found["r"]), low=share(found["ci95"][0]), high=share(found["ci95"][1])
    )


def _sentences(findings: Sequence[Found]) -> list[str]:
    """Return the sentences of what follows a correlation."""
    r = findings[0].get("r") or 0.0
    said = (_sentence(found, r) for found in findings[1:])
    return [sentence for sentence in said if sentence]


def _sentence(found: Found, r: float) -> str:
    """Say one finding; "" for one that this version does not know."""
    code = found["code"]
    if code == "wrong_order":
        return "Below 0 it puts the bots in the wrong order."
    if code == "chance":
        chance = share(found["null95"])
        if found["passed"]:
            return (
                f"Ratings dealt out to the bots at random pass {chance} once in twenty times, so this is more than "
                "chance."
            )
        if r >= 0:
            return (
                f"Ratings dealt out to the bots at random pass {chance} once in twenty times, so this could be chance."
            )
        return f"Ratings dealt out to the bots at random pass {chance} once in twenty times."
    if code == "baseline":
        rival = str(RIVALS.get(found["name"], found["name"].replace("_", " ")))
        if found["passed"]:
            return "Predicting from {rival} alone gives {r}, which is less.".format(rival=rival, r=share(found["r"]))
        return "Predicting from {rival} alone gives {r}, which is no less: the fit adds nothing to it.".format(
            rival=rival, r=share(found["r"])
        )
    if code == "pairs":
        words = "Of {pairs} of bots that differ significantly ({test}), {ordered} are in the order of the ratings."
        return words.format(
            pairs=phrases.pairs_text(found["resolvable"]),
            test=test_named(found.get("test"), found["alpha"]),
            ordered=found["ordered"],
        )
    if code == "influential_bot":
        return "Much hangs on one bot: without {bot}, r is {r}.".format(bot=found["bot"], r=share(found["r_without"]))
    if code == "common_intercept":
        return "With one intercept for all folds r is {r} and chance passes {chance}.".format(
            r=share(found["r"]), chance=share(found["null95"])
        )
    if code == "values":
        return _values(found)
    if code == "given_lengths":
        if not found["passed"]:
            return (
                "Nothing is left of it when the lengths of conversations are taken into account (r given turns and "
                "words {r})."
            ).format(r=share(found["r"]))
        if not found["ci95"]:
            return "Given the lengths of conversations r is {r}.".format(r=share(found["r"]))
        return "Given the lengths of conversations r is {r} (95 % interval {low} to {high}).".format(
            r=share(found["r"]), low=share(found["ci95"][0]), high=share(found["ci95"][1])
        )
    if code == "ceiling":
        return "The human means themselves are so reliable that a perfect prediction would reach about {r}.".format(
            r=share(found["best_r"])
        )
    if code == "halves_disagree":
        return "The bots’ means differ by no more than the noise of their ratings."
    if code == "within_groups":
        if found["mostly_between"]:
            return "Within groups of bots r is {r}: most of it is the difference between groups.".format(
                r=share(found["r"])
            )
        return "Within groups of bots r is {r}.".format(r=share(found["r"]))
    return ""


def _values(found: Found) -> str:
    """Describe the accuracy of the predicted values, beyond the order of the bots."""
    q2 = share(found["q2"])
    if found["null95"] is not None:
        q2 = "{q2}; ratings dealt out at random pass {chance} once in twenty times".format(
            q2=q2, chance=share(found["null95"])
        )
    if not found["passed"]:
        return (
            "As values the predictions are no better than the mean of the other bots, or could be so by chance (Q² "
            f"{q2}): so their order could be chance, too."
        )
    sentences = [
        "As values the predictions leave {left} of the squared error of the mean of the other bots (Q² {q2}).".format(
            left=percent(1 - found["q2"]), q2=q2
        )
    ]
    if found["slope_ci95"]:
        low, high = found["slope_ci95"]
        sentences.append(
            "Where predictions differ by 1, people’s means differ by {slope} (95 % interval {low} to {high}).".format(
                slope=figure(found["slope"]), low=figure(low), high=figure(high)
            )
        )
    if found["of"]:
        sentences.append(
            "{inside} of {of} bots lie in their 95 % intervals.".format(inside=found["inside"], of=found["of"])
        )
    return " ".join(sentences)


def _conclusion(standing: str, selfplay: str | None) -> str:
    """Return the uses that the numbers support for the prediction.

    Args:
        standing: verdict from conversations with participants.
        selfplay: verdict from self-play; None if unknown.
    """
    by_the_same_fits = (
        "The numbers do not support using this prediction, from self-play either, in place of people’s ratings: the "
        "r on self-play comes from the same fits, which fail on the conversations they were made from."
    )
    no_more = "The numbers support no more than the simple count does, from self-play either."
    sentences: dict[tuple[str, str | None], str] = {
        (
            "chance",
            None,
        ): "The numbers do not support using this prediction in place of people’s ratings.",
        (
            "chance",
            "chance",
        ): "The numbers do not support using this prediction, from self-play either, in place of people’s ratings.",
        ("chance", "baseline"): by_the_same_fits,
        ("chance", "ranking"): by_the_same_fits,
        ("baseline", None): "The numbers support no more than the simple count does.",
        ("baseline", "chance"): no_more,
        ("baseline", "baseline"): no_more,
        ("baseline", "ranking"): no_more,
        ("ranking", None): (
            "The numbers support ranking further bots of the same kind, with the same task and the same sort of "
            "participants; they do not support judging single conversations, other kinds of bots, or bots trained to "
            "please the metric."
        ),
        ("ranking", "chance"): (
            "The numbers support ranking further bots of the same kind, with the same task and the same sort of "
            "participants, from conversations with people but not from self-play; they do not support judging single "
            "conversations, other kinds of bots, or bots trained to please the metric."
        ),
        ("ranking", "baseline"): (
            "The numbers support ranking further bots of the same kind, with the same task and the same sort of "
            "participants, from conversations with people; self-play supports no more than a simple count; they do not "
            "support judging single conversations, other kinds of bots, or bots trained to please the metric."
        ),
        ("ranking", "ranking"): (
            "The numbers support ranking further bots of the same kind, with the same task and the same sort of "
            "participants, from conversations with people and from self-play; they do not support judging single "
            "conversations, other kinds of bots, or bots trained to please the metric."
        ),
    }
    return sentences[standing, selfplay]


def caution_sentences(cautions: Sequence[Found | str]) -> list[str]:
    """Return a sentence for each caution of a fit; those of versions before there were codes are sentences."""
    said = (found if isinstance(found, str) else _caution(found) for found in cautions)
    return [sentence for sentence in said if sentence]


def _caution(found: Found) -> str:
    code = found["code"]
    if code == "other_study":
        words = (
            (
                "Fitted to another study, {study}: only the order of the predictions counts, not their values, for "
                "what ratings mean differs between studies. Bots have ranks here and no values."
            )
            if found["study"]
            else (
                "It is unknown to which study this was fitted, and ratings mean different things in different "
                "studies. So only the order of the predictions counts: bots have ranks here and no values."
            )
        )
        return words.format(study=found["study"])
    if code == "given_ratings":
        return (
            "A kept fit, of {fitted}, is applied here. Human means, correlations and pairs are of the ratings given "
            "now, of {given}, and not of those that it was fitted to. Weights, folds and shares of blocks are of "
            "the fit."
        ).format(
            fitted=phrases.conversations_text(found["n_fitted"]),
            given=phrases.conversations_text(found["n_given"]),
        )
    if code == "scale_unknown":
        if found["of_fit"] and found["of_ratings"]:
            return (
                "On which scale the fit’s ratings were given is not known, nor that of the ratings here, so nothing "
                "says whether they are the same."
            )
        if found["of_fit"]:
            return (
                "On which scale the fit’s ratings were given is not known, so nothing says whether it is the one of "
                "the ratings here."
            )
        return (
            "On which scale the ratings here were given is not known, so nothing says whether it is the one of the fit."
        )
    if code == "selfplay_shift":
        return (
            "In {block}, self-play lies {shift} standard deviations from conversations with people, and no rated bot "
            "more than {widest} from the others: predictions from self-play are extrapolations."
        ).format(block=found["block"], shift=figure(found["shift"]), widest=figure(found["widest"]))
    if code == "few_bots":
        if not found["n_bots"]:
            return "No bot is rated here: nothing shows whether the order is right."
        return plural(
            found["n_bots"],
            "Only {n} bot rated: too few for a correlation over bots to mean much.",
            "Only {n} bots rated: too few for a correlation over bots to mean much.",
        ).format(n=found["n_bots"])
    if code == "fold_intercept":
        return (
            "Each fold has its own intercept, which carries the left-out bot’s mean with a minus sign: features that "
            "say nothing correlate at nearly −1. Compare with the common intercept."
        )
    if code == "constant_features":
        return "Constant in at least one fold and dropped there: {features}.".format(
            features=listed(_quoted(found["features"]))
        )
    if code == "other_language":
        words = "Left out, since they do not hold for the language of the conversations ({languages}): {features}."
        return words.format(
            languages=", ".join(map(language_name, found["languages"])),
            features=listed(_quoted(found["features"])),
        )
    if code == "collinear":
        if found["condition"] is None:
            return "A feature is a sum of others (the condition number is infinite): single weights mean little."
        return "Features are nearly collinear (condition number up to {condition}): single weights mean little.".format(
            condition=f"{found['condition']:.0f}"
        )
    if code == "partly_rated":
        return "Counted as unrated, for lack of a rating of one of the target dimensions: {conversations}.".format(
            conversations=phrases.conversations_text(found["n_conversations"])
        )
    if code == "undefined_features":
        return "Left out of the fit for an undefined feature: {conversations}.".format(
            conversations=phrases.conversations_text(found["n_conversations"])
        )
    if code == "extrapolation":
        return plural(
            len(found["features"]),
            "The prediction of {bot} is an extrapolation: its mean {features} is more than {n} standard deviations "
            "from the conversations of the fit.",
            "The prediction of {bot} is an extrapolation: its means of {features} are more than {n} standard "
            "deviations from the conversations of the fit.",
        ).format(bot=found["bot"], features=listed(_quoted(found["features"])), n=found["deviations"])
    if code == "beyond_scale":
        return plural(
            len(found["bots"]),
            "{bots} is predicted beyond the rating scale of {low} to {high}: a straight line does not end where "
            "ratings do. Read it as a place in the order, and not as a rating.",
            "{bots} are predicted beyond the rating scale of {low} to {high}: a straight line does not end where "
            "ratings do. Read them as places in the order, and not as ratings.",
        ).format(bots=listed(found["bots"]), low=f"{found['low']:g}", high=f"{found['high']:g}")
    return ""


def _quoted(features: Sequence[str]) -> list[str]:
    """Return the titles of features in quotation marks, for titles hold commas."""
    return [f"“{title}”" for title in feature_titles(features)]
