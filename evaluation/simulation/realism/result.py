"""Result of comparing simulated participants with people.

`docs/background/simulated_participants.md` defines each figure. Undefined values are None, with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evaluation.findings import Reason
from evaluation.number_format import columns_printed, figure, pluralise, result_dump, result_load, span
from evaluation.stats.effect_sizes import Effect

Trait = Literal["length", "questions", "sentiment", "repetition", "reactions", "entrainment", "leaving", "surface"]
TRAITS: dict[Trait, str] = {
    "length": "Length of messages",
    "questions": "Questions",
    "sentiment": "Sentiment and its course",
    "repetition": "Repetition",
    "reactions": "Reactions",
    "entrainment": "Entrainment to the bot",
    "leaving": "Leaving time",
    "surface": "Surface of the text",
}
"""The eight traits, with their titles."""

Standing = Literal["different", "close", "not_known"]
"""`different`: the interval is above the distance of two halves of people; `close`: it ends less than 0.2 standard
deviations above that distance; `not_known`: neither, or there is no interval."""
ReactionStanding = Literal["as_people", "weaker", "stronger", "not_as_people", "people_unclear", "not_known"]
"""`as_people`, `weaker`, `stronger`: both slopes have the same sign and intervals that exclude 0; `not_as_people`: only
people's slope excludes 0, and the difference is significant; `people_unclear`: people's own slope could be 0."""
Order = Literal["as_people", "not_as_people", "not_known"]
Source = Literal["people", "simulated", "selfplay"]
Folds = Literal["bots", "bots_and_persons", "conversations"]


NO_SELFPLAY = Reason("no_selfplay", "these bots have no self-play conversations to compare with")


@dataclass(frozen=True, slots=True)
class TraitDistance:
    """Distance of one quantity between simulated participants and people.

    Attributes:
        quantity: its key, "log_words".
        title: its readable name.
        level: level of the values compared: single turns, or whole conversations (means for quantities of turns).
        people, simulated: means, with bots weighted equally.
        distance: Wasserstein distance between half of the people and as many simulated chats, in people's standard
            deviations.
        halves: mean distance of two random halves of people.
        halves95: distance that 5 % of such pairs exceed.
    """

    trait: Trait
    quantity: str
    title: str
    level: Literal["turn", "conversation"]
    people: float | None
    simulated: float | None
    distance: Effect
    halves: float | None = None
    halves95: float | None = None
    standing: Standing = "not_known"


def different_traits(traits: Sequence[TraitDistance]) -> list[Trait]:
    """Return the traits with a different quantity, furthest first."""
    furthest: dict[Trait, float] = {}
    for distance in traits:
        if distance.standing == "different":
            excess = (distance.distance.value or 0.0) - (distance.halves or 0.0)
            furthest[distance.trait] = max(furthest.get(distance.trait, 0.0), excess)
    return sorted(furthest, key=lambda trait: -furthest[trait])


@dataclass(frozen=True, slots=True)
class GiveawayTurn:
    """Simulated turn that a classifier recognised.

    Attributes:
        bot, conversation, turn: location of the turn; turns count from 0.
        score: contribution to the log odds of "simulated", relative to people's mean turn.
        text: text of the turn.
        before: the bot's preceding turn.
        n: number of conversations with a turn of the same text.
    """

    bot: str
    conversation: str
    turn: int
    score: float
    text: str
    before: str
    n: int = 1


@dataclass(frozen=True, slots=True)
class TwoSampleTest:
    """Classifier that separates simulated from human chats with the same bot.

    Attributes:
        features: its features: sentence `vectors`, or `traits`.
        auc: probability that it scores a simulated chat above a human one, bots weighted equally; 0.5 is chance.
        by_bot: AUC of each bot.
        folds: units left out of training: a bot, plus a fifth of the persons if persons have several bots; with a
            single bot, only that fifth.
        n_people, n_simulated: numbers of chats compared.
        n_masked: number of turns left out of training because the same text occurs on the other side; mean over folds.
        giveaways: most recognisable simulated turns, in order.
    """

    features: Literal["vectors", "traits"]
    auc: Effect
    by_bot: Mapping[str, float] = field(default_factory=dict)
    folds: Folds = "bots"
    n_people: int = 0
    n_simulated: int = 0
    n_masked: float = 0.0
    giveaways: tuple[GiveawayTurn, ...] = ()

    @property
    def is_separable(self) -> bool:
        """True if the interval lies above chance."""
        return self.auc.low is not None and self.auc.low > 0.5


@dataclass(frozen=True, slots=True)
class ReactionSlopes:
    """Slopes of a reaction on the bots' mean ratings by people.

    Attributes:
        reaction: its key, "appreciation".
        title: its readable name.
        people, simulated: change of the bots' mean reaction, in people's standard deviations of conversations, per
            standard deviation of the bots' mean ratings.
        difference: simulated minus people, paired by bot.
        n_bots: number of rated bots with both kinds of chats.
    """

    reaction: str
    title: str
    people: Effect
    simulated: Effect
    difference: Effect
    n_bots: int
    standing: ReactionStanding = "not_known"


@dataclass(frozen=True, slots=True)
class BotPrediction:
    """Accuracy of a hybrid metric over bots.

    Each bot is predicted by the fold without it.

    Attributes:
        fit: preset (`paper`, `strong`) or length (`log_turns`, `log_words`) used for prediction.
        fitted_on: chats behind the fit's features; human ratings are always the target.
        applied_to: chats that bots are predicted from.
        r: Pearson's r with human means, one intercept for all folds.
        r_null95: value that permuted ratings exceed 5 % of the time.
        q2: with the intercept of each fold.
        q2_null95: as r_null95.
        accuracy: share of bot pairs in people's order.
        n_pairs: number of bot pairs.
        selfplay_ratio: errors of predictions from simulated chats divided by those from self-play of the same bots,
            which has no participant; below 1, simulated chats predict better.
        reason: reason for missing predictions.
    """

    fit: str
    fitted_on: Source
    applied_to: Source
    n_bots: int
    r: Effect = Effect()  # noqa: RUF009
    r_null95: float | None = None
    q2: Effect = Effect()  # noqa: RUF009
    q2_null95: float | None = None
    accuracy: Effect = Effect()  # noqa: RUF009
    n_pairs: int = 0
    reason: Reason | None = None
    selfplay_ratio: Effect = Effect(reason=NO_SELFPLAY)  # noqa: RUF009

    @property
    def beats_chance(self) -> bool:
        """True if r is above 0 and above chance.

        Its interval must be above 0, and r must exceed the 95 % quantile of permuted ratings.
        """
        return (self.r.low or 0.0) > 0 and (self.r.value or 0.0) > (self.r_null95 or 0.0)


@dataclass(frozen=True, slots=True)
class RealismVerdict:
    """Verdict as text.

    Attributes:
        sentence: conclusion from the figures.
        change: what would change it.
        is_separable: True if a classifier separates simulated from human chats; None if unknown.
        order: whether simulated chats order the bots as people's ratings do.
    """

    sentence: str
    change: str
    is_separable: bool | None
    order: Order


@dataclass(frozen=True)
class RealismResult:
    """Comparison of simulated participants with people on the same bots.

    Attributes:
        participant: name of the simulated participants.
        bots: bots compared.
        left_out: reason by excluded bot.
        n_people, n_simulated: numbers of chats compared.
        n_persons: number of identified persons behind people's chats.
        n_nameless: people's chats of unknown persons.
        is_within: True if the simulated turns replace people's within stored chats; the bots did not answer them.
        missing: reason by empty part of the comparison ("traits", "tests", "reactions", "predictions").
    """

    participant: str
    verdict: RealismVerdict
    bots: tuple[str, ...]
    n_people: int
    n_simulated: int
    n_persons: int
    n_nameless: int
    is_within: bool
    traits: tuple[TraitDistance, ...] = ()
    tests: tuple[TwoSampleTest, ...] = ()
    reactions: tuple[ReactionSlopes, ...] = ()
    predictions: tuple[BotPrediction, ...] = ()
    left_out: Mapping[str, Reason] = field(default_factory=dict)
    missing: Mapping[str, Reason] = field(default_factory=dict)
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values that `from_json` reads back."""
        return dict(result_dump(self, RealismResult))

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RealismResult:
        """Read the output of `to_json`; raises ValueError for another document."""
        return result_load(dict(document), cls)

    def summary(self) -> str:
        """Return the verdict and the tables as lines of text."""
        kind = "simulated within them" if self.is_within else "simulated"
        counts = f"{pluralise(self.n_people, 'chat')} of people, {self.n_simulated:,} {kind}"
        counts += f", {pluralise(len(self.bots), 'bot')}, {pluralise(self.n_persons, 'named person')}."
        lines = [self.verdict.sentence, self.verdict.change, counts]
        lines += [f"No {part}: {reason}." for part, reason in self.missing.items()]
        lines += _table(
            ("trait", "quantity", "level", "people", "simulated", "distance", "95 %", "halves", "standing"),
            [(x.trait, x.title, x.level, x.people, x.simulated, x.distance, x.halves, x.standing) for x in self.traits],
            3,
        )
        lines += _table(("classifier", "AUC", "95 %"), [(x.features, x.auc) for x in self.tests], 1)
        lines += [f"  {turn.score:+.1f}  {turn.text!r}" for x in self.tests for turn in x.giveaways]
        lines += _table(
            ("slope of", "people", "95 %", "simulated", "95 %", "difference", "95 %", "standing"),
            [(x.title, x.people, x.simulated, x.difference, x.standing) for x in self.reactions],
            1,
        )
        lines += _table(
            ("fit", "fitted on", "applied to", "r", "95 %", "null95", "Q²", "95 %", "pairs in order", "95 %"),
            [(x.fit, x.fitted_on, x.applied_to, x.r, x.r_null95, x.q2, x.accuracy) for x in self.predictions],
            3,
        )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"RealismResult({self.verdict.sentence})"


def _table(head: tuple[str, ...], rows: Sequence[tuple[Effect | float | str | None, ...]], n_left: int) -> list[str]:
    """Return aligned lines; an effect takes two cells."""
    cells = [tuple(cell for value in row for cell in _cells(value)) for row in rows]
    return ["", *columns_printed([head, *cells], n_left)] if rows else []


def _cells(value: Effect | float | str | None) -> tuple[str, ...]:
    if isinstance(value, Effect):
        return figure(value.value), span(value.low, value.high)
    return (value.replace("_", " ") if isinstance(value, str) else figure(value),)
