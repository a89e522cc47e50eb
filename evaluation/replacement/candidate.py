"""Candidates to replace people, and the data that they are tested on.

A kind of candidate is one file in `candidates/`, with a class decorated by `@register_candidate`. It turns the data of
a study into candidates; `compare` then asks every candidate the same questions by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from chatbots.registry import Registry
from evaluation.data.ratings import Ratings
from evaluation.findings import Reason
from evaluation.simulation.realism.verdict import MAIN_FIT

if TYPE_CHECKING:
    import pandas as pd

C = TypeVar("C", bound=type)

SCORE = "candidate_score"
"""Column of the scores of a candidate that gives one number for each chat."""


@dataclass(frozen=True, eq=False)
class ReplacementData:
    """Ratings of a study and everything that was computed about the same bots.

    Attributes:
        ratings: ratings of people.
        chats: one row per chat with people, rated or not: `conversation`, `bot` and metric columns. If people rate
            single replies, these are the rows, with their `context` (`replies.reply_table`).
        selfplay: the same for self-play of the bots; None without any.
        simulated: the same by simulated participant.
        within: simulated participants whose turns replace people's within stored chats.
        judges: scores by title of the judge and conversation.
        metrics: scores of single replies by title of the metric.
        imported: scores from elsewhere by name and conversation.
        imported_bots: scores from elsewhere by name and bot.
        built_on: conversations that a candidate was built on, by its name; they do not test it.
        unknown_origins: reasons why it is not known what a candidate was built on, by its name; it is not tested.
    """

    ratings: Ratings
    chats: pd.DataFrame
    selfplay: pd.DataFrame | None = None
    simulated: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    within: frozenset[str] = frozenset()
    judges: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    imported: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    imported_bots: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    built_on: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unknown_origins: Mapping[str, Reason] = field(default_factory=dict)

    @property
    def rates_replies(self) -> bool:
        """True if people rate single replies instead of chats."""
        return "context" in self.chats

    def make_candidate(
        self, kind: str, name: str, title: str, scores: Mapping[str, float], by: str = "conversation"
    ) -> ReplacementCandidate:
        """Return the candidate with these scores, given by conversation or by bot."""
        scored = self.chats.assign(**{SCORE: self.chats[by].astype(str).map(dict(scores)).astype(float)})
        return ReplacementCandidate(
            kind,
            name,
            title,
            # A score per bot does not vary within bots, so a Gaussian process has no unit for it.
            MAIN_FIT if by == "conversation" else "paper",
            (SCORE,),
            scored,
            scores_chats=by == "conversation",
            built_on=self.built_on.get(name, frozenset()),
            reason=self.unknown_origins.get(name),
        )


@dataclass(frozen=True, eq=False)
class ReplacementCandidate:
    """A candidate to replace people, as the features from which bots are predicted.

    Attributes:
        kind: name of its kind.
        name: unique among the candidates of its kind.
        title: readable name.
        preset, features: fit that turns features into people's scale, without the bot that is predicted.
        chats: chats with people, with the features.
        elsewhere: chats without people, with the features, from which bots are predicted instead.
        is_own_turns: True if it reads the bots' own turns only, so that these are no rival.
        scores_chats: False for a single score per bot, which says nothing about single chats.
        built_on: conversations that it was built on, with people or without.
        reason: reason why it cannot be tested; None if it can.
    """

    kind: str
    name: str
    title: str
    preset: str
    features: tuple[str, ...]
    chats: pd.DataFrame
    elsewhere: pd.DataFrame | None = None
    is_own_turns: bool = False
    scores_chats: bool = True
    built_on: frozenset[str] = frozenset()
    reason: Reason | None = None

    def without_built_on(self) -> ReplacementCandidate:
        """Return the candidate without the chats that it was built on."""
        if not self.built_on:
            return self

        def leave_out(table: pd.DataFrame) -> pd.DataFrame:
            return table[~table["conversation"].astype(str).isin(self.built_on)]

        elsewhere = None if self.elsewhere is None else leave_out(self.elsewhere)
        return replace(self, chats=leave_out(self.chats), elsewhere=elsewhere)


class CandidateKind(Protocol):
    """Kind of candidate.

    Attributes:
        name: stored with results; never rename one.
        title: heading of its candidates.
        absent: what to do to get a candidate of this kind, as a sentence.
        rated: what people rate if there can be such a candidate: "chats", "replies", or both.
    """

    name: str
    title: str
    absent: str
    rated: tuple[str, ...]

    def candidates(self, data: ReplacementData) -> Iterable[ReplacementCandidate]:
        """Return the candidates that the data contain."""
        ...


candidate_kinds: Registry[CandidateKind] = Registry("kind of candidate", "evaluation.replacement.candidates")


def register_candidate(cls: C) -> C:
    """Register a kind of candidate: decorator of a class whose constructor needs no arguments."""
    candidate_kinds.register(cls)
    return cls
