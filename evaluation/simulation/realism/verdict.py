"""Verdict on simulated participants in plain words, with what would change it."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import percent, pluralise, share, span
from evaluation.simulation.realism.result import (
    NO_SELFPLAY,
    TRAITS,
    BotPrediction,
    Order,
    RealismVerdict,
    Source,
    TraitDistance,
    TwoSampleTest,
    different_traits,
)
from evaluation.stats.correlation import fisher_interval
from evaluation.stats.effect_sizes import Effect

MOST_BOTS = 200
MAIN_FIT = "strong"
"""Fit whose predictions decide the verdict on the order."""
WITHIN = (
    "The order requires chats with live bots; here the bots' turns respond to people and are predictive themselves."
)
NAMELESS = (
    "the person is unknown in {chats}, so the classifier may recognise persons, and the interval assumes that they "
    "all differ"
)
SEPARATION_CHANGES = {
    None: "More chats with the same bots are needed to compare them with people.",
    True: "Another participant, persona or prompt, or other people, could change it; more chats would not.",
    False: "More chats narrow the classifier's interval and could reveal a difference.",
}


def get_main_row(predictions: Sequence[BotPrediction], applied_to: Source) -> BotPrediction | None:
    """Return the main fit's row for one kind of chats, or None.

    The fit is fitted on people's chats.
    """
    rows = [prediction for prediction in predictions if prediction.fit == MAIN_FIT and prediction.fitted_on == "people"]
    return next((row for row in rows if row.applied_to == applied_to and row.reason is None), None)


def decide_order(predictions: Sequence[BotPrediction]) -> Order:
    """Decide if simulated chats order the bots as people's ratings do."""
    simulated, people = get_main_row(predictions, "simulated"), get_main_row(predictions, "people")
    if simulated is None or simulated.n_bots < FEW_BOTS or simulated.r.high is None:
        return "not_known"
    if simulated.beats_chance:
        return "as_people"
    if people is not None and people.beats_chance and simulated.r.high < (people.r.value or 0.0):
        return "not_as_people"
    return "not_known"


def verdict_of(
    participant: str,
    traits: Sequence[TraitDistance],
    tests: Sequence[TwoSampleTest],
    predictions: Sequence[BotPrediction],
    *,
    n_rated: int,
    is_within: bool,
    n_nameless: int = 0,
) -> RealismVerdict:
    """Write the verdict from the figures.

    Args:
        n_rated: number of bots with human ratings.
        n_nameless: number of chats with an unknown person.
    """
    known = [test for test in tests if test.auc.value is not None]
    best = max(known, key=lambda test: test.auc.value or 0.0, default=None)
    separable = None if best is None or best.auc.low is None else any(test.is_separable for test in known)
    order: Order = "not_known" if is_within else decide_order(predictions)
    row = get_main_row(predictions, "simulated")
    separation = _separation(best, separable)
    if best is not None and n_nameless:
        separation += f" ({NAMELESS.format(chats=pluralise(n_nameless, 'chat'))})"
    sentence = f"{participant}: {separation}{_traits(traits)}; {_order(order, row, n_rated)}."
    changes = [SEPARATION_CHANGES[separable], WITHIN if is_within else _order_change(order, row, n_rated)]
    return RealismVerdict(sentence, " ".join(changes), separable, order)


def _separation(best: TwoSampleTest | None, separable: bool | None) -> str:
    if best is None:
        return "too few chats to say whether simulated participants are distinguishable from people"
    value = percent(best.auc.value)
    if best.auc.low is not None and best.auc.high is not None:
        value += f" [{100 * best.auc.low:.0f}, {100 * best.auc.high:.0f}]"
    if separable:
        features = "sentence vectors" if best.features == "vectors" else "traits"
        return (
            f"a classifier using {features} identifies the simulated chat of a pair in {value} of cases (chance: 50 %)"
        )
    return (
        f"no classifier demonstrably distinguishes them from people (at best {value} of pairs), which does not prove "
        "that they are equal"
    )


def _traits(traits: Sequence[TraitDistance]) -> str:
    different = different_traits(traits)
    measured = pluralise(len({distance.trait for distance in traits if distance.distance.value is not None}), "trait")
    if not different:
        return f", and none of {measured} is clearly different" if traits else ""
    names = ", ".join(TRAITS[trait].lower() for trait in different[:3])
    verb = "is" if len(different) == 1 else "are"
    return f", and {len(different)} of {measured} {verb} clearly different, most {names}"


def _order(order: Order, row: BotPrediction | None, n_rated: int) -> str:
    bots = pluralise(n_rated if row is None else row.n_bots, "rated bot")
    if row is not None and row.r.value is not None:
        bots += f", r {share(row.r.value)} {span(row.r.low, row.r.high, shares=True)}"
    return {
        "as_people": f"their chats order the bots as people do ({bots}); {_selfplay(row)}",
        "not_as_people": f"their chats do not order the bots as people do ({bots})",
        "not_known": f"it is not known whether their chats order the bots as people do ({bots})",
    }[order]


def _selfplay(row: BotPrediction | None) -> str:
    """Compare with predictions from the bots' own turns."""
    ratio = Effect(reason=NO_SELFPLAY) if row is None else row.selfplay_ratio
    if ratio.value is None:
        return "no self-play of these bots was compared, so their own turns alone may order them as well"
    errors = f"(ratio of errors {share(ratio.value)} {span(ratio.low, ratio.high, shares=True)})"
    if ratio.low is None or ratio.high is None or ratio.low <= 1 <= ratio.high:
        return f"they do not demonstrably predict better than self-play, in which the bots talk alone {errors}"
    return (
        f"they predict {'better' if ratio.high < 1 else 'worse'} than self-play, in which the bots talk alone {errors}"
    )


def _order_change(order: Order, row: BotPrediction | None, n_rated: int) -> str:
    if row is None or n_rated < FEW_BOTS:
        return f"The order requires at least {FEW_BOTS} bots that people rated, and simulated chats with each."
    if order == "as_people":
        return "Bots of another kind, or trained to please simulated participants, may have another order."
    if order == "not_as_people":
        return "Participants that react to the bots' replies would change the order."
    needed = bots_needed(row)
    if needed is None:
        return "More bots would decide the order only if they show a stronger relation than these."
    return f"About {needed} rated bots would decide the order if r stays the same."


def bots_needed(row: BotPrediction) -> int | None:
    """Return the number of bots needed for r to exclude 0.

    None if r <= 0, or if there are too many.
    """
    r = row.r.value or 0.0
    lows = ((n, fisher_interval(r, n)[0]) for n in range(row.n_bots + 1, MOST_BOTS + 1))
    return next((n for n, low in lows if low is not None and low > 0), None)
