"""Comparison of simulated participants with people, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.data.result_tables import Cell, NamedTable, count_cell, declared_table, number_cell, share_cell
from evaluation.number_format import pluralise
from evaluation.simulation.realism.result import TRAITS, BotPrediction, RealismResult, TraitDistance, TwoSampleTest
from evaluation.stats.effect_sizes import Effect
from webapp.insights.narrative.phrases import Section, mean_cells, named_cell, reason_text
from webapp.ratings.selectors import BotInfo

_STANDINGS = {
    "different": "Different",
    "close": "Close",
    "not_known": "Not known",
    "as_people": "Like people",
    "weaker": "Weaker than people",
    "stronger": "Stronger than people",
    "not_as_people": "Unlike people",
    "people_unclear": "Human slope unclear",
}
_SOURCES = {"people": "people", "simulated": "simulated", "selfplay": "self-play"}
_FEATURES = {"vectors": "Sentence vectors", "traits": "The eight traits"}
_FITS = {"log_turns": "Number of turns", "log_words": "Number of words"}
_PARTS = {"traits": "Traits", "tests": "Classifiers", "reactions": "Reactions", "predictions": "Predictions"}
_LEFT_OUT = {
    "bots": "a bot",
    "bots_and_persons": "a bot and a fifth of the people",
    "conversations": "a fifth of the people",
}
_INTERVAL = "95 % interval"


def realism_section(realism: RealismResult, bots: Mapping[str, BotInfo], *, texts: bool = True) -> Section:
    """Return the verdict, and the tables of traits, classifiers, reactions and predictions.

    Args:
        texts: whether to list the turns that classifiers recognise, with their text.
    """
    section = Section("simulated", f"Simulated participants: {realism.participant}")
    section.conclusion = realism.verdict.sentence
    section.lead = [realism.verdict.sentence, realism.verdict.change]
    chats = pluralise(realism.n_people, "chat")
    section.lead.append(
        f"The comparison includes {chats} of people and {realism.n_simulated:,} simulated ones, with "
        f"{pluralise(len(realism.bots), 'bot')}."
    )
    section.lead.append(f"The human chats are by {pluralise(realism.n_persons, 'identified participant')}.")
    if realism.n_nameless:
        section.lead[-1] += f" {pluralise(realism.n_nameless, 'chat')} without a known participant."
    if realism.is_within:
        section.caution = (
            "These bots cannot chat again. Each simulated message replaces a human message in a stored chat, but the "
            "bot’s next reply still answers the human message."
        )
    section.methods = [
        (
            "Resampling is by participant; a chat of an unknown participant counts as one participant. All bots have "
            "equal weight."
        ),
        "Distances are Wasserstein distances in standard deviations of people. They are compared with the distance "
        "between two random halves of people.",
        "Each classifier is trained without the bots, people and texts that it is tested on.",
        "See docs/background/simulated_participants.md for definitions.",
    ]
    section.missing = [f"{_PARTS.get(part, part)}: {reason_text(reason)}." for part, reason in realism.missing.items()]
    section.missing += [f"{bot} is excluded: {reason_text(reason)}." for bot, reason in realism.left_out.items()]
    if realism.traits:
        section.tables.append(_traits(realism.traits))
    if realism.tests:
        section.tables.append(_tests(realism.tests))
        if texts and any(test.giveaways for test in realism.tests):
            section.tables.append(_giveaways(realism.tests, bots))
    if realism.reactions:
        section.tables.append(_reactions(realism))
    if realism.predictions:
        section.tables.append(_predictions(realism.predictions))
    return section


def _effect(effect: Effect, *, shares: bool = False) -> list[Cell]:
    return mean_cells(effect, shares=shares, attribute="value")


def _traits(rows: tuple[TraitDistance, ...]) -> NamedTable:
    return declared_table(
        "simulated-traits",
        "Eight traits",
        rows,
        ("Trait", lambda trait: Cell(TRAITS[trait.trait])),
        ("Quantity", lambda trait: Cell(trait.title)),
        ("Unit", lambda trait: Cell("turn" if trait.level == "turn" else "chat")),
        ("People", lambda trait: number_cell(trait.people)),
        ("Simulated", lambda trait: number_cell(trait.simulated)),
        (("Distance", _INTERVAL), lambda trait: _effect(trait.distance)),
        ("Two halves of people", lambda trait: number_cell(trait.halves)),
        ("Result", lambda trait: Cell(_STANDINGS[trait.standing])),
        method="Distance between the distributions, in standard deviations of people.",
    )


def _tests(rows: tuple[TwoSampleTest, ...]) -> NamedTable:
    return declared_table(
        "simulated-classifiers",
        "Classifiers of simulated and human chats",
        rows,
        ("Input", lambda test: Cell(_FEATURES[test.features])),
        (("AUC", _INTERVAL), lambda test: _effect(test.auc, shares=True)),
        ("Chats of people", lambda test: count_cell(test.n_people)),
        ("Simulated chats", lambda test: count_cell(test.n_simulated)),
        ("Excluded from training", lambda test: Cell(_LEFT_OUT[test.folds])),
        method="0.5 is chance level: the classifier cannot separate the chats. 1 means that it separates all of them.",
    )


def _giveaways(tests: tuple[TwoSampleTest, ...], bots: Mapping[str, BotInfo]) -> NamedTable:
    rows = [(test, turn) for test in tests for turn in test.giveaways]
    return declared_table(
        "simulated-giveaways",
        "Turns recognised as simulated",
        rows,
        ("Message", lambda row: Cell(row[1].text, reason=f"after “{row[1].before}”" if row[1].before else "")),
        ("Bot", lambda row: named_cell(bots, row[1].bot)),
        ("Classifier", lambda row: Cell(_FEATURES[row[0].features])),
        ("Log odds", lambda row: number_cell(row[1].score)),
        ("Chats", lambda row: count_cell(row[1].n)),
    )


def _reactions(realism: RealismResult) -> NamedTable:
    return declared_table(
        "simulated-reactions",
        "Reactions to better and worse bots",
        realism.reactions,
        ("Reaction", lambda reaction: Cell(reaction.title)),
        (("People", _INTERVAL), lambda reaction: _effect(reaction.people)),
        (("Simulated", _INTERVAL), lambda reaction: _effect(reaction.simulated)),
        (("Difference", _INTERVAL), lambda reaction: _effect(reaction.difference)),
        ("Bots", lambda reaction: count_cell(reaction.n_bots)),
        ("Result", lambda reaction: Cell(_STANDINGS[reaction.standing])),
        method="Slope of the reaction on the bots’ mean human rating, in standard deviations of both.",
        note="“Human slope unclear”: the human slope may be 0, so there is nothing to reproduce.",
    )


def _predictions(rows: tuple[BotPrediction, ...]) -> NamedTable:
    return declared_table(
        "simulated-predictions",
        "Predictors of human bot ratings",
        rows,
        ("Predictor", lambda prediction: Cell(_FITS.get(prediction.fit, prediction.fit))),
        ("Fitted on", lambda prediction: Cell(_SOURCES[prediction.fitted_on])),
        ("Applied to", lambda prediction: Cell(_SOURCES[prediction.applied_to])),
        ("Bots", lambda prediction: count_cell(prediction.n_bots, reason_text(prediction.reason))),
        (("r", _INTERVAL), lambda prediction: _effect(prediction.r, shares=True)),
        ("r by chance, 95 %", lambda prediction: share_cell(prediction.r_null95)),
        (("Q²", _INTERVAL), lambda prediction: _effect(prediction.q2)),
        (("Pairs in the human order", _INTERVAL), lambda prediction: _effect(prediction.accuracy, shares=True)),
        (("Error ratio to self-play", _INTERVAL), lambda prediction: _effect(prediction.selfplay_ratio)),
        method="Each bot is predicted without its own ratings. The target is its mean human rating.",
    )
