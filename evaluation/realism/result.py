"""Result of comparing simulated participants with people: traits, two-sample tests, reactions, predictions, verdict.

`docs/background/simulated_participants.md` defines each figure. Undefined is None, with its reason.
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
"""`different`: the interval of the distance lies above that of two halves of people; `close`: it ends less than 0.2
standard deviations above it; `not_known`: neither, or no interval."""
ReactionStanding = Literal["as_people", "weaker", "stronger", "not_as_people", "people_unclear", "not_known"]
"""`as_people`, `weaker`, `stronger`: both slopes have the same sign and intervals without 0; `not_as_people`: people's
slope has, the simulated one has not, and the difference is not 0; `people_unclear`: people's own slope may be 0."""
Order = Literal["as_people", "not_as_people", "not_known"]
Source = Literal["people", "simulated", "selfplay"]
Folds = Literal["bots", "bots_and_persons", "conversations"]


NO_SELFPLAY = Reason("no_selfplay", "there is no self-play of these bots to compare with")


@dataclass(frozen=True, slots=True)
class TraitDistance:
    """Distance of one quantity between simulated participants and people.

    Attributes:
        quantity: its key, "log_words"; title: its readable name.
        level: of the values compared: single turns, or whole conversations (means where the quantity is of turns).
        people, simulated: means, bots weighing the same.
        distance: Wasserstein's, in people's standard deviations, of half the people to as many simulated chats.
        halves: mean distance of two random halves of people; halves95: that 5 % of pairs of halves exceed.
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
    """Return the traits of which a quantity differs, the furthest first."""
    furthest: dict[Trait, float] = {}
    for distance in traits:
        if distance.standing == "different":
            excess = (distance.distance.value or 0.0) - (distance.halves or 0.0)
            furthest[distance.trait] = max(furthest.get(distance.trait, 0.0), excess)
    return sorted(furthest, key=lambda trait: -furthest[trait])


@dataclass(frozen=True, slots=True)
class GiveawayTurn:
    """A simulated turn that a classifier recognised.

    Attributes:
        bot, conversation, turn: where it stands; turns count from 0.
        score: what it adds to the log odds of "simulated" against people's mean turn.
        text: its words; before: the bot's turn before it.
        n: different conversations with a turn of these words.
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
    """Classifier that separates simulated chats from people's with the same bot.

    Attributes:
        features: what it reads: `vectors` of sentences, or `traits`.
        auc: chance that it scores a simulated chat above a person's, bots weighing the same; 0.5 by chance.
        by_bot: the same of each bot.
        folds: what is left out of training: a bot; where persons have several bots a fifth of the persons, too; with
            one bot that fifth alone.
        n_people, n_simulated: chats compared.
        n_masked: turns left out of training since their words are on the other side, too; mean over folds.
        giveaways: the most recognisable simulated turns, the most recognisable first.
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
        reaction: its key, "appreciation"; title: its readable name.
        people, simulated: change of the bots' mean reaction, in people's standard deviations of conversations, per
            standard deviation of the bots' mean ratings.
        difference: simulated less people, paired by bot.
        n_bots: rated bots with both kinds of chats.
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
    """Accuracy of a hybrid metric over bots, each predicted by the fold without it.

    Attributes:
        fit: preset (`paper`, `strong`) or length (`log_turns`, `log_words`) that predicts.
        fitted_on: chats that the fit has its features from; people's ratings are the target of all.
        applied_to: chats that bots are predicted from.
        r: Pearson's r with people's means, one intercept for all folds; r_null95: what permuted ratings pass once in
            twenty.
        q2: by the intercept of each fold; q2_null95: as r_null95.
        accuracy: share of pairs of bots in people's order; n_pairs: pairs of bots.
        selfplay_ratio: errors of predictions from simulated chats over those from self-play of the same bots, which
            has no participant; below 1 simulated chats predict better.
        reason: why nothing is predicted.
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
        """True if r exceeds 0 with its whole interval, and what permuted ratings pass once in twenty."""
        return (self.r.low or 0.0) > 0 and (self.r.value or 0.0) > (self.r_null95 or 0.0)


@dataclass(frozen=True, slots=True)
class RealismVerdict:
    """Verdict in plain words.

    Attributes:
        sentence: what the figures support; change: what would change it.
        is_separable: a classifier separates simulated chats from people's; None: not known.
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
        bots: compared; left_out: bot to the reason why it is not.
        n_people, n_simulated: chats compared.
        n_persons: who held people's chats and are named; n_nameless: people's chats of unknown persons.
        is_within: the simulated turns replace people's within stored chats; the bots did not answer them.
        missing: part of the comparison ("traits", "tests", "reactions", "predictions") to the reason why it is empty.
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
        """Read the output of `to_json`; ValueError for another document."""
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
