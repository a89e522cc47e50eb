"""Comparison of simulated participants with people, from chats of both and the metrics of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from evaluation.findings import Reason
from evaluation.hybrid.features import LENGTHS
from evaluation.hybrid.notebook import feature_table, metrics_with, rated_table, targets_of
from evaluation.metrics.text_cache import TextCache
from evaluation.number_format import counted
from evaluation.ratings import Ratings
from evaluation.realism.chats import Chat, ChatTurns
from evaluation.realism.prediction import FEATURES, bot_predictions
from evaluation.realism.reactions import reaction_slopes
from evaluation.realism.result import BotPrediction, RealismResult
from evaluation.realism.traits import trait_distances
from evaluation.realism.two_sample import ChatPool, traits_test, vectors_test
from evaluation.realism.verdict import verdict_of
from evaluation.study import Study

if TYPE_CHECKING:
    import pandas as pd

FEWEST_CHATS = 4
"""Chats of each side that a bot needs to take part."""
NO_BOTS = Reason("no_bots", f"no bot has {FEWEST_CHATS} chats of people and {FEWEST_CHATS} simulated ones")
CONTROL = Reason("control_bot", "made to be bad on purpose")
NO_METRICS = Reason("no_metrics", "the simulated chats have no metrics")
NO_RATINGS = Reason("no_ratings", "people's chats have no ratings")


def compare_with_people(
    people: Sequence[Chat],
    simulated: Sequence[Chat],
    *,
    participant: str = "simulated",
    human: pd.DataFrame | None = None,
    simulated_metrics: pd.DataFrame | None = None,
    selfplay_metrics: pd.DataFrame | None = None,
    targets: Sequence[str] = (),
    ratings: Ratings | None = None,
    controls: Sequence[str] = (),
    shared: TextCache | None = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> RealismResult:
    """Compare simulated participants with people on the bots that both chatted with.

    Args:
        people, simulated: finished chats, each side with unique ids.
        participant: name of the simulated participants.
        human: one row per rated conversation of people, as of `fit_hybrid`: the metrics in `FEATURES`, `words_user`,
            `n_turns` and the ratings. None: reactions and predictions are left out.
        simulated_metrics, selfplay_metrics: `conversation`, `bot` and the same metrics, of simulated chats (None: no
            predictions) and of self-play (None: it is not compared with).
        targets: questions whose mean is predicted.
        ratings: every single rating, for its noise.
        controls: bots that are left out.
        shared: has the vectors of texts encoded before.
        progress: called with the share done.
    """
    done = progress or (lambda _share: None)
    bots, left_out = _bots(people, simulated, controls)
    cache = shared or TextCache()
    own, other = (ChatTurns.of([one for one in side if one[0] in bots], cache) for side in (people, simulated))
    pool = ChatPool.of(own, other, seed)
    is_within = pool.is_within
    done(0.4)
    means = {} if human is None else _means(human, targets, bots)
    missing: dict[str, Reason] = {}
    if not bots:
        missing = dict.fromkeys(("traits", "tests"), NO_BOTS)
    traits = trait_distances(own, other, is_within=is_within, seed=seed) if bots else ()
    done(0.5)
    tests = (vectors_test(pool), traits_test(pool, is_within=is_within)) if bots else ()
    done(0.7)
    reactions = reaction_slopes(own, other, means, is_within=is_within) if means else ()
    predictions: tuple[BotPrediction, ...] = ()
    if human is None or not means:
        missing |= dict.fromkeys(("reactions", "predictions"), NO_RATINGS if bots else NO_BOTS)
    elif simulated_metrics is None:
        missing["predictions"] = NO_METRICS
    else:
        played = None if selfplay_metrics is None else _of_bots(selfplay_metrics, bots)
        tables = _of_bots(human, bots), _of_bots(simulated_metrics, bots)
        predictions = bot_predictions(
            *tables, targets=targets, ratings=ratings, selfplay=played, is_within=is_within, seed=seed
        )
    done(1.0)
    return RealismResult(
        participant,
        verdict_of(participant, traits, tests, predictions, n_rated=len(means), is_within=is_within),
        tuple(sorted(bots)),
        len(own.chats),
        len(other.chats),
        is_within,
        traits,
        tests,
        reactions,
        predictions,
        left_out,
        missing,
        seed,
    )


def _bots(
    people: Sequence[Chat], simulated: Sequence[Chat], controls: Sequence[str]
) -> tuple[set[str], dict[str, Reason]]:
    """Return the bots that take part, and the reasons why others do not."""
    counts = [Counter(bot for bot, _conversation in side) for side in (people, simulated)]
    kept: set[str] = set()
    left_out: dict[str, Reason] = {}
    for bot in sorted({*counts[0], *counts[1]}):
        n_people, n_simulated = (side[bot] for side in counts)
        if bot in controls:
            left_out[bot] = CONTROL
        elif min(n_people, n_simulated) < FEWEST_CHATS:
            text = f"{counted(n_people, 'chat')} of people and {n_simulated} simulated; {FEWEST_CHATS} each are needed"
            values = {"n_people": n_people, "n_simulated": n_simulated, "needed": FEWEST_CHATS}
            left_out[bot] = Reason("few_chats", text, **values)
        else:
            kept.add(bot)
    return kept, left_out


def _of_bots(table: pd.DataFrame, bots: set[str]) -> pd.DataFrame:
    return table[table["bot"].astype(str).isin(bots)]


def _means(human: pd.DataFrame, targets: Sequence[str], bots: set[str]) -> dict[str, float]:
    """Return the mean of the targets over each bot's rated conversations."""
    rated = human.groupby(["bot", "conversation"])[list(targets)].mean().mean(axis=1, skipna=False)
    means = rated.groupby("bot").mean().dropna()
    return {str(bot): float(mean) for bot, mean in means.items() if str(bot) in bots}


def realism(
    people: Study,
    simulated: Study,
    selfplay: Study | None = None,
    *,
    target: str | Sequence[str] | None = None,
    seed: int = 0,
) -> RealismResult:
    """Compare simulated participants with people on the same bots; metrics that it needs are computed.

    Args:
        people: with ratings, for reactions and predictions.
        simulated: as of `confab.simulate`.
        selfplay: of the bots with themselves, for comparison.
        target: the question to predict, or several for their mean; None: what bots are ranked by.
    """
    metrics = metrics_with([*FEATURES, *LENGTHS])
    rated = bool(people.dimensions)
    return compare_with_people(
        [(one.bot, one.conversation) for one in people.dialogues],
        [(one.bot, one.conversation) for one in simulated.dialogues],
        participant=simulated.name,
        human=rated_table(people, metrics) if rated else None,
        simulated_metrics=feature_table(simulated, metrics) if rated else None,
        selfplay_metrics=None if selfplay is None or not rated else feature_table(selfplay, metrics),
        targets=targets_of(people, target) if rated else (),
        ratings=people.answers if rated else None,
        controls=people.controls,
        shared=people.shared,
        seed=seed,
    )
