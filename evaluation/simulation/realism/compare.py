"""Comparison of simulated participants with people on the same bots (`confab.realism`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from evaluation.data.study import Study
from evaluation.findings import Reason
from evaluation.hybrid.features import LENGTHS
from evaluation.hybrid.notebook import feature_table, metrics_with, rated_table, targets_of
from evaluation.metrics.text_cache import TextCache
from evaluation.number_format import pluralise
from evaluation.simulation.realism.chats import ChatTurns
from evaluation.simulation.realism.prediction import FEATURES, bot_predictions
from evaluation.simulation.realism.reactions import reaction_slopes
from evaluation.simulation.realism.result import BotPrediction, ReactionSlopes, RealismResult
from evaluation.simulation.realism.traits import trait_distances
from evaluation.simulation.realism.two_sample import ChatPool, traits_test, vectors_test
from evaluation.simulation.realism.verdict import verdict_of
from evaluation.threads import with_one_blas_thread

FEWEST_CHATS = 4
"""Minimum number of chats per bot on each side."""
NO_BOTS = Reason("no_bots_with_chats", f"no bot has {FEWEST_CHATS} human and {FEWEST_CHATS} simulated chats")
CONTROL = Reason("control_bot", "a deliberately poor control")
NO_RATINGS = Reason("no_ratings", "human chats have no ratings")


@with_one_blas_thread
def realism(
    people: Study,
    simulated: Study,
    selfplay: Study | None = None,
    *,
    target: str | Sequence[str] | None = None,
    seed: int = 0,
) -> RealismResult:
    """Compare simulated participants with people on shared bots.

    Necessary metrics are computed.

    Args:
        people: with ratings, for reactions and predictions.
        simulated: output of `confab.simulate`; its name identifies the participants.
        selfplay: self-play of the bots, for comparison.
        target: one or more questions to predict (averaged); None for the ranking criterion.
    """
    bots, left_out = _bots(people, simulated)
    human_turns, simulated_turns = (_chat_turns(side, bots, people.shared) for side in (people, simulated))
    pool = ChatPool.from_sides(human_turns, simulated_turns, seed)
    is_within = pool.is_within
    parts = ("traits", "tests", "reactions", "predictions")
    missing: dict[str, Reason] = {}
    if not bots or not people.dimensions:
        missing = dict.fromkeys(parts[2:], NO_RATINGS) if bots else dict.fromkeys(parts, NO_BOTS)
    traits = trait_distances(human_turns, simulated_turns, is_within=is_within, seed=seed) if bots else ()
    tests = (vectors_test(pool), traits_test(pool, is_within=is_within)) if bots else ()
    means: dict[str, float] = {}
    reactions: tuple[ReactionSlopes, ...] = ()
    predictions: tuple[BotPrediction, ...] = ()
    if not missing:
        metrics, targets = metrics_with([*FEATURES, *LENGTHS]), targets_of(people, target)
        tables = rated_table(people, metrics), feature_table(simulated, metrics)
        human, chats = (table[table["bot"].isin(bots)] for table in tables)
        played = None if selfplay is None else feature_table(selfplay, metrics)
        played = None if played is None else played[played["bot"].isin(bots)]
        rated = human.groupby("bot")[list(targets)].mean().mean(axis=1, skipna=False).dropna()
        means = {str(bot): float(mean) for bot, mean in rated.items()}
        reactions = reaction_slopes(human_turns, simulated_turns, means, is_within=is_within)
        predictions = bot_predictions(
            human, chats, targets=targets, ratings=people.answers, selfplay=played, is_within=is_within, seed=seed
        )
    n_nameless = int((human_turns.persons == "").sum())
    verdict = verdict_of(
        simulated.name,
        traits,
        tests,
        predictions,
        n_rated=len(means),
        n_nameless=0 if is_within else n_nameless,
        is_within=is_within,
    )
    return RealismResult(
        participant=simulated.name,
        verdict=verdict,
        bots=tuple(sorted(bots)),
        n_people=len(human_turns.chats),
        n_simulated=len(simulated_turns.chats),
        n_persons=len(set(human_turns.persons.tolist()) - {""}),
        n_nameless=n_nameless,
        is_within=is_within,
        traits=traits,
        tests=tests,
        reactions=reactions,
        predictions=predictions,
        left_out=left_out,
        missing=missing,
        seed=seed,
    )


def _chat_turns(study: Study, bots: Collection[str], shared: TextCache) -> ChatTurns:
    """Read a study's chats with some bots."""
    dialogues = [dialogue for dialogue in study.dialogues if dialogue.bot in bots]
    chats = [(dialogue.bot, dialogue.conversation) for dialogue in dialogues]
    return ChatTurns.from_chats(chats, shared, [dialogue.get_person() for dialogue in dialogues])


def _bots(people: Study, simulated: Study) -> tuple[set[str], dict[str, Reason]]:
    """Return the included bots, and the reasons why others are excluded."""
    counts = [Counter(dialogue.bot for dialogue in side.dialogues) for side in (people, simulated)]
    left_out: dict[str, Reason] = {}
    for bot in sorted({*counts[0], *counts[1]}):
        n_people, n_simulated = (side[bot] for side in counts)
        if bot in people.controls:
            left_out[bot] = CONTROL
        elif min(n_people, n_simulated) < FEWEST_CHATS:
            text = (
                f"{pluralise(n_people, 'chat')} of people and {n_simulated} simulated; {FEWEST_CHATS} each are needed"
            )
            values = {"n_people": n_people, "n_simulated": n_simulated, "needed": FEWEST_CHATS}
            left_out[bot] = Reason("few_chats", text, **values)
    return {*counts[0], *counts[1]} - left_out.keys(), left_out
