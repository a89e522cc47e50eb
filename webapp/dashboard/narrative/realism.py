"""Comparison of simulated participants with people, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.number_format import counted
from evaluation.realism.result import TRAITS, BotPrediction, RealismResult, TraitDistance, TwoSampleTest
from evaluation.stats.effect_sizes import Effect
from webapp.dashboard.charts.figure import Cell
from webapp.dashboard.narrative.phrases import (
    NamedTable,
    Section,
    count_cell,
    declared_table,
    mean_cells,
    named_cell,
    number_cell,
    reason_text,
    share_cell,
)
from webapp.ratings.selectors import BotInfo

_STANDINGS = {
    "different": "Different",
    "close": "Close",
    "not_known": "Not known",
    "as_people": "As people",
    "weaker": "Weaker than people",
    "stronger": "Stronger than people",
    "not_as_people": "Not as people",
    "people_unclear": "People unclear",
}
_SOURCES = {"people": "people", "simulated": "simulated", "selfplay": "self-play"}
_FEATURES = {"vectors": "Sentence vectors", "traits": "The eight traits"}
_FITS = {"log_turns": "Number of turns", "log_words": "Number of words"}
_PARTS = {"traits": "Traits", "tests": "Classifiers", "reactions": "Reactions", "predictions": "Predictions"}
_LEFT_OUT = {
    "bots": "a bot",
    "bots_and_persons": "a bot, and a fifth of the persons",
    "conversations": "a fifth of the persons",
}
_INTERVAL = "95 % interval"


def realism_section(found: RealismResult, bots: Mapping[str, BotInfo], *, texts: bool = True) -> Section:
    """Return the verdict, and the tables of traits, classifiers, reactions and predictions.

    Args:
        texts: list the turns that classifiers recognise, with their words.
    """
    section = Section("simulated", f"Simulated participants: {found.participant}")
    section.conclusion = found.verdict.sentence
    section.lead = [found.verdict.sentence, found.verdict.change]
    chats = counted(found.n_people, "chat")
    section.lead.append(
        f"{chats} of people and {found.n_simulated:,} simulated are compared, of {counted(len(found.bots), 'bot')}."
    )
    section.lead.append(f"People’s chats are by {counted(found.n_persons, 'named person')}.")
    if found.n_nameless:
        section.lead[-1] += f" The person is unknown for {counted(found.n_nameless, 'chat')}."
    if found.is_within:
        section.caution = (
            "The bots could not be talked to again. Each simulated message stands in the place of a person’s in a "
            "stored chat, and the bot’s next reply is to the person’s message."
        )
    section.how = [
        "Persons are the unit of resampling; a chat of an unknown person counts as a person. Each bot weighs the same.",
        "Distances are Wasserstein’s in people’s standard deviations; they are compared with those of two random "
        "halves of people.",
        "A classifier is trained without the bot and the persons that it is tested on, and without their texts.",
        "The definitions stand in docs/background/simulated_participants.md.",
    ]
    section.missing = [f"{_PARTS.get(part, part)}: {reason_text(why)}." for part, why in found.missing.items()]
    section.missing += [f"{bot} is left out: {reason_text(why)}." for bot, why in found.left_out.items()]
    if found.traits:
        section.tables.append(_traits(found.traits))
    if found.tests:
        section.tables.append(_tests(found.tests))
        if texts and any(one.giveaways for one in found.tests):
            section.tables.append(_giveaways(found.tests, bots))
    if found.reactions:
        section.tables.append(_reactions(found))
    if found.predictions:
        section.tables.append(_predictions(found.predictions))
    return section


def _effect(one: Effect, *, shares: bool = False) -> list[Cell]:
    return mean_cells(one, shares=shares, of="value")


def _traits(rows: tuple[TraitDistance, ...]) -> NamedTable:
    return declared_table(
        "simulated-traits",
        "Eight traits",
        rows,
        ("Trait", lambda one: Cell(TRAITS[one.trait])),
        ("Quantity", lambda one: Cell(one.title)),
        ("Of a", lambda one: Cell("turn" if one.level == "turn" else "chat")),
        ("People", lambda one: number_cell(one.people)),
        ("Simulated", lambda one: number_cell(one.simulated)),
        (("Distance", _INTERVAL), lambda one: _effect(one.distance)),
        ("Two halves of people", lambda one: number_cell(one.halves)),
        ("Result", lambda one: Cell(_STANDINGS[one.standing])),
        method="Distance of the distributions, in people’s standard deviations.",
    )


def _tests(rows: tuple[TwoSampleTest, ...]) -> NamedTable:
    return declared_table(
        "simulated-classifiers",
        "How well classifiers separate simulated chats from people’s",
        rows,
        ("Reads", lambda one: Cell(_FEATURES[one.features])),
        (("AUC", _INTERVAL), lambda one: _effect(one.auc, shares=True)),
        ("Chats of people", lambda one: count_cell(one.n_people)),
        ("Simulated chats", lambda one: count_cell(one.n_simulated)),
        ("Left out of training", lambda one: Cell(_LEFT_OUT[one.folds])),
        method="0.5 is chance: the classifier cannot separate them. 1 separates every chat.",
    )


def _giveaways(tests: tuple[TwoSampleTest, ...], bots: Mapping[str, BotInfo]) -> NamedTable:
    rows = [(test, turn) for test in tests for turn in test.giveaways]
    return declared_table(
        "simulated-giveaways",
        "Turns that classifiers recognise as simulated",
        rows,
        ("Message", lambda row: Cell(row[1].text, reason=f"after “{row[1].before}”" if row[1].before else "")),
        ("Bot", lambda row: named_cell(bots, row[1].bot)),
        ("Read by", lambda row: Cell(_FEATURES[row[0].features])),
        ("Log odds", lambda row: number_cell(row[1].score)),
        ("Chats", lambda row: count_cell(row[1].n)),
    )


def _reactions(found: RealismResult) -> NamedTable:
    return declared_table(
        "simulated-reactions",
        "Reactions to better and worse bots",
        found.reactions,
        ("Reaction", lambda one: Cell(one.title)),
        (("People", _INTERVAL), lambda one: _effect(one.people)),
        (("Simulated", _INTERVAL), lambda one: _effect(one.simulated)),
        (("Difference", _INTERVAL), lambda one: _effect(one.difference)),
        ("Bots", lambda one: count_cell(one.n_bots)),
        ("Result", lambda one: Cell(_STANDINGS[one.standing])),
        method="Slope on the bots’ mean rating by people, in standard deviations of both.",
        note="“People unclear”: people’s own slope may be 0, so there is nothing to repeat.",
    )


def _predictions(rows: tuple[BotPrediction, ...]) -> NamedTable:
    return declared_table(
        "simulated-predictions",
        "What predicts people’s ratings of a bot",
        rows,
        ("Predicts by", lambda one: Cell(_FITS.get(one.fit, one.fit))),
        ("Fitted on", lambda one: Cell(_SOURCES[one.fitted_on])),
        ("Applied to", lambda one: Cell(_SOURCES[one.applied_to])),
        ("Bots", lambda one: count_cell(one.n_bots, reason_text(one.reason))),
        (("r", _INTERVAL), lambda one: _effect(one.r, shares=True)),
        ("r by chance, 95 %", lambda one: share_cell(one.r_null95)),
        (("Q²", _INTERVAL), lambda one: _effect(one.q2)),
        (("Pairs in people’s order", _INTERVAL), lambda one: _effect(one.accuracy, shares=True)),
        (("Errors over self-play’s", _INTERVAL), lambda one: _effect(one.selfplay_ratio)),
        method="Each bot is predicted without its own ratings; the target is people’s mean rating of the bot.",
    )
