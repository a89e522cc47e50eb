"""Classifier two-sample tests: simulated versus human chats with the same bot.

Logistic regression of chats. Each bot is scored by a fit without that bot, without any text of its chats, and without
the persons who are scored, because a classifier that knows them would also separate two groups of people. If features
are means over turns, so are the log odds of a chat, which identifies the turns that gave it away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evaluation.findings import Reason
from evaluation.number_format import pluralise
from evaluation.simulation.realism.chats import QUANTITIES, ChatTurns, text_key
from evaluation.simulation.realism.persons import deal_persons, person_codes
from evaluation.simulation.realism.result import Folds, GiveawayTurn, TwoSampleTest
from evaluation.stats.comparisons import NO_ERROR
from evaluation.stats.effect_sizes import ALL_ABOVE, Clusters, Effect, superiority

LOG_ODDS_VARIANCE = 10.0
"""Prior variance of a chat's log odds, for any number of features."""
N_GIVEAWAYS = 10
N_GROUPS = 5
"""Number of person groups; one group is left out of training at a time."""
SHARED_TRAINING = 2**0.5
"""Inflation of an AUC's error, because fits share chats; without it, 95 % intervals of equal sides cover 80 to 88 %."""
FEWEST_TRAINING = 10
"""Minimum number of chats of each side for a fit."""
_MOST_ITERATIONS = 300


@dataclass(frozen=True)
class ChatPool:
    """Chats of both sides, people's first.

    Attributes:
        is_simulated, fold, person: (C,) of the chats; fold and person are numbers.
        group: (C,) person group of each chat; all 0 if leaving out bots also leaves out persons.
        chat: (T,) chat of each turn.
        text: (T,) number of its text.
        folds: units left out by a fold, see `TwoSampleTest`.
    """

    sides: tuple[ChatTurns, ChatTurns]
    is_simulated: np.ndarray
    bot: np.ndarray
    group: np.ndarray
    fold: np.ndarray
    person: np.ndarray
    chat: np.ndarray
    text: np.ndarray
    folds: Folds

    @classmethod
    def from_sides(cls, people: ChatTurns, simulated: ChatTurns, seed: int = 0) -> ChatPool:
        """Pool two sides.

        A chat simulated within a stored one has the same person.
        """
        sides = people, simulated
        n = len(people.chats)
        bots = np.concatenate([side.bots for side in sides]).astype(str)
        person = person_codes(people, simulated)
        is_simulated = np.arange(len(person)) >= n
        names, bot = np.unique(bots, return_inverse=True)
        pairs = np.unique(np.stack([person, bot]), axis=1)[0]
        has_several_bots = len(pairs) > len(np.unique(person))
        group = np.zeros(len(person), dtype=int)
        if len(names) == 1 or has_several_bots:
            group = deal_persons(person, is_simulated, N_GROUPS, 1, np.random.default_rng(seed))[0]
        texts = np.array([text_key(text) for side in sides for text in side.texts], dtype=object)
        text = np.unique(texts.astype(str), return_inverse=True)[1]
        return cls(
            sides,
            is_simulated,
            bot,
            group,
            np.unique(bot * N_GROUPS + group, return_inverse=True)[1],
            person,
            np.concatenate([people.chat, simulated.chat + n]),
            text,
            "conversations" if len(names) == 1 else "bots_and_persons" if has_several_bots else "bots",
        )

    @property
    def is_within(self) -> bool:
        """True if most simulated turns are inside human chats.

        They have the same bot turns.
        """
        n_within = np.isin(self.person[self.is_simulated], self.person[~self.is_simulated]).sum()
        return bool(2 * n_within > self.is_simulated.sum())

    def trains(self, fold: int) -> np.ndarray:
        """Return the mask of training chats for a fold, (C,).

        They have other bots and other person groups.
        """
        scored = np.flatnonzero(self.fold == fold)[0]
        is_other_bot = self.bot != self.bot[scored] if self.folds != "conversations" else True
        is_other_group = self.group != self.group[scored] if self.folds != "bots" else True
        return np.asarray(is_other_bot & is_other_group)

    def unseen(self, fold: int) -> np.ndarray:
        """Return the mask of training turns for a fold, (T,).

        It excludes the fold's texts.
        """
        seen = np.zeros(int(self.text.max(initial=-1)) + 1, dtype=bool)
        seen[self.text[self.fold[self.chat] == fold]] = True
        return self.trains(fold)[self.chat] & ~seen[self.text]

    def means(self, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return (C, p) means of (T, p) values over masked turns.

        NaN for a chat without any.
        """
        from scipy.sparse import csr_array

        rows = np.flatnonzero(mask)
        shape = (len(self.is_simulated), len(rows))
        by_chat = csr_array((np.ones(len(rows), dtype=values.dtype), (self.chat[rows], np.arange(len(rows)))), shape)
        part = values[rows]
        defined = np.isfinite(part)
        n = by_chat @ defined.astype(values.dtype)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((by_chat @ np.where(defined, part, 0)) / np.where(n > 0, n, np.nan))


def vectors_test(pool: ChatPool) -> TwoSampleTest:
    """Separate chats by sentence vectors of turns.

    Features also include products with the vectors of the preceding bot turns.
    """
    features = [np.concatenate([side.vectors, side.vectors * side.before_vectors], axis=1) for side in pool.sides]
    turns = np.concatenate(features).astype(np.float32)
    return _run_test(pool, "vectors", lambda mask: pool.means(turns, mask), turns)


def traits_test(pool: ChatPool, *, is_within: bool = False) -> TwoSampleTest:
    """Separate chats by mean and spread of each quantity, and by length.

    Length is the leaving time.

    Args:
        is_within: True if chats do not end by the participant's choice, so leaving time is not a feature.
    """
    turns = np.stack([np.concatenate([side.values[name] for side in pool.sides]) for name in QUANTITIES], axis=1)
    leaving = np.concatenate([side.log_turns for side in pool.sides])[:, None]

    def of_chats(mask: np.ndarray) -> np.ndarray:
        mean = pool.means(turns, mask)
        spread = np.sqrt(np.maximum(pool.means(turns**2, mask) - mean**2, 0))
        return np.concatenate([mean, spread, *([] if is_within else [leaving])], axis=1)

    return _run_test(pool, "traits", of_chats)


def _run_test(
    pool: ChatPool,
    features: Literal["vectors", "traits"],
    of_chats: Callable[[np.ndarray], np.ndarray],
    turns: np.ndarray | None = None,
) -> TwoSampleTest:
    """Score every chat by the fit without its fold.

    Args:
        of_chats: maps the (T,) mask of turns to (C, p) features, NaN for a chat without any.
        turns: (T, p) values whose means are the features, used to identify turns.
    """
    scores, added = np.full(len(pool.is_simulated), np.nan), np.full(len(pool.chat), np.nan)
    chat_features = of_chats(np.ones(len(pool.chat), dtype=bool))
    spoken = np.isin(np.arange(len(scores)), pool.chat)
    n_masked = []
    for fold in np.unique(pool.fold).tolist():
        unseen = pool.unseen(fold)
        n_masked.append(int(pool.trains(fold)[pool.chat].sum() - unseen.sum()))
        trained = np.isin(np.arange(len(scores)), pool.chat[unseen])
        n_each = int(np.bincount(pool.is_simulated[trained], minlength=2).min())
        if n_each < FEWEST_TRAINING:
            text = f"the fit without one fold has only {pluralise(n_each, 'chat')} of one side for training"
            reason = Reason("few_training_chats", text, n=n_each, needed=FEWEST_TRAINING)
            return TwoSampleTest(features, Effect(reason=reason), folds=pool.folds)
        x = of_chats(unseen)[trained]
        centre = np.ma.masked_invalid(x).mean(axis=0).filled(0)
        x = np.where(np.isfinite(x), x, centre) - centre
        scale = np.where(x.std(axis=0) > 1e-9, x.std(axis=0), np.inf)
        slopes = _fit_slopes(x / scale, pool, trained) / scale
        scored = (pool.fold == fold) & spoken
        scores[scored] = np.where(np.isfinite(chat_features[scored]), chat_features[scored] - centre, 0) @ slopes
        if turns is not None:
            rows = pool.fold[pool.chat] == fold
            added[rows] = (turns[rows] - centre) @ slopes
    bots = np.concatenate([side.bots for side in pool.sides]).astype(str)
    each = {bot: _auc(pool, scores, spoken & (bots == bot)).value for bot in np.unique(bots).tolist()}
    # A fold with only one side has nothing to compare.
    compared = spoken.copy()
    for side in (False, True):
        compared &= np.isin(pool.fold, pool.fold[spoken & (pool.is_simulated == side)])
    return TwoSampleTest(
        features,
        _auc(pool, scores, compared),
        {bot: value for bot, value in each.items() if value is not None},
        pool.folds,
        int((compared & ~pool.is_simulated).sum()),
        int((compared & pool.is_simulated).sum()),
        float(np.mean(n_masked)),
        () if turns is None else _giveaways(pool, added),
    )


def _fit_slopes(x: np.ndarray, pool: ChatPool, trained: np.ndarray) -> np.ndarray:
    """Return the slopes of a logistic regression with balanced sides.

    Both sides of each bot have equal weight.
    """
    from sklearn.linear_model import LogisticRegression

    is_simulated = pool.is_simulated[trained]
    cell = 2 * pool.bot[trained] + is_simulated
    weight = 1 / np.bincount(cell)[cell]
    model = LogisticRegression(C=LOG_ODDS_VARIANCE / x.shape[1], max_iter=_MOST_ITERATIONS)
    model.fit(x, is_simulated, sample_weight=weight / weight.mean())
    return np.asarray(model.coef_[0], dtype=float)


def _auc(pool: ChatPool, scores: np.ndarray, rows: np.ndarray) -> Effect:
    return auc_of(scores[rows], pool.is_simulated[rows], pool.fold[rows], pool.person[rows])


def auc_of(scores: np.ndarray, is_simulated: np.ndarray, fold: np.ndarray, person: np.ndarray) -> Effect:
    """Return the AUC of simulated versus human chats within folds.

    Folds are weighted equally.

    For a perfect separation, the interval is the exact one of as many independent pairs as the smaller side has
    persons.

    Args:
        scores, is_simulated, fold, person: (C,) of the chats; fold and person are numbers.
    """
    from scipy.special import ndtri

    codes = np.unique(person, return_inverse=True)[1].astype(np.int64)
    groups = Clusters.from_codes(codes, None, is_simulated.astype(int))
    half = float(ndtri(0.975)) * SHARED_TRAINING
    effect = superiority(scores, (is_simulated, ~is_simulated), fold, groups, (1, 0), half, NO_ERROR)
    if effect.reason is ALL_ABOVE and effect.value is not None:
        far = 0.025 ** (1 / min(len(np.unique(codes[side])) for side in (is_simulated, ~is_simulated)))
        return Effect(1.0, far, 1.0) if effect.value > 0.5 else Effect(0.0, 0.0, 1 - far)
    return effect


def _giveaways(pool: ChatPool, added: np.ndarray) -> tuple[GiveawayTurn, ...]:
    """Return the most recognisable simulated turns, each text once."""
    people, simulated = pool.sides
    n = len(people.texts)
    scores, text = added[n:] - np.mean(added[:n]), pool.text[n:]
    ordered = np.argsort(-scores, kind="stable")
    first = np.sort(np.unique(text[ordered], return_index=True)[1])[:N_GIVEAWAYS]
    return tuple(
        GiveawayTurn(
            bot=str(simulated.bots[simulated.chat[row]]),
            conversation=simulated.chats[simulated.chat[row]].id,
            turn=int(simulated.turn[row]),
            score=float(scores[row]),
            text=simulated.texts[row],
            before=simulated.before[row],
            n=len(set(simulated.chat[text == text[row]].tolist())),
        )
        for row in ordered[first].tolist()
        if scores[row] > 0
    )
