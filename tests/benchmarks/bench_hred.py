"""Self-play of HRED at the Reddit size: `python -m tests.benchmarks.bench_hred [--json] [--sample N]`.

The model is random: 1000/1000/1000/500, 20,000 words; every utterance has 30 tokens. 100 conversations × 10
turns, all together, against one conversation at a time through the same code (measured on a few conversations).
The first utterance is given, another for each conversation, so that no two of them are the same.

To be reached on 2 cores: at most 25 ms a turn greedy and 70 ms with a beam of 5; 10 and 6 times the turns per
second of one conversation at a time, which itself takes at most 260 ms a turn greedy. (The released code of
Ghandeharioun et al. 2019 needs 496 and 602.)
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

N_CONVERSATIONS = 100
N_TURNS = 10
LIMITS = {"greedy": (25.0, 10.0), "beam 5": (70.0, 6.0)}
"""Most milliseconds a turn, least ratio."""
MOST_ALONE_MS = 260.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--sample", type=int, default=4, help="conversations played one at a time")
    parser.add_argument("--turns", type=int, default=N_TURNS)
    parser.add_argument("--conversations", type=int, default=N_CONVERSATIONS)
    options = parser.parse_args()
    # Threads that wait for each other by spinning lose much of their speed on a machine that has
    # other work; must be set before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from evaluation.simulation.selfplay import play
    from tests.benchmarks.neural import REDDIT_HRED, random_bot, random_checkpoint, random_texts

    openers = random_texts(50 * N_CONVERSATIONS)
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = random_checkpoint(Path(temporary) / "hred", "hred", REDDIT_HRED)
        for how, params in (("greedy", {"decoding": "greedy"}), ("beam 5", {"decoding": "beam"})):

            def ms_a_turn(seeds: list[int], *, alone: bool, params=params) -> tuple[float, float]:
                """Return the milliseconds a turn takes, and the share of utterances that are said only once."""
                bot = random_bot(folder, **params, capacity=N_CONVERSATIONS)
                bot.load("cpu")
                play(bot, seeds=[0], n_turns=2, openers=openers)  # warm
                began = time.perf_counter()
                groups = [[seed] for seed in seeds] if alone else [seeds]
                played = [
                    one
                    for group in groups
                    for one in play(bot, seeds=group, n_turns=options.turns + 1, openers=openers)
                ]
                took_ms = 1000 * (time.perf_counter() - began)
                said = [t for one in played for t in one.conversation.texts[1:]]
                if len(said) != len(seeds) * options.turns:
                    raise SystemExit(f"a conversation ended early: {played[0].error}")
                return took_ms / len(said), len(set(said)) / len(said)

            seeds = list(range(1, options.conversations + 1))
            together, distinct = ms_a_turn(seeds, alone=False)
            alone, _ = ms_a_turn(seeds[: options.sample], alone=True)
            results[how] = {
                "ms_a_turn": together,
                "ms_a_turn_one_at_a_time": alone,
                "ratio": alone / together,
                "distinct_utterances": distinct,
            }
    if options.json:
        print(json.dumps(results))
        return
    for how, figures in results.items():
        most_ms, least_ratio = LIMITS[how]
        print(
            f"{how}: {figures['ms_a_turn']:.1f} ms a turn (at most {most_ms:g}); one conversation at a time "
            f"{figures['ms_a_turn_one_at_a_time']:.0f} ms"
            + (f" (at most {MOST_ALONE_MS:g})" if how == "greedy" else "")
            + f"; ratio {figures['ratio']:.1f} (at least {least_ratio:g}); "
            f"{figures['distinct_utterances']:.0%} of the utterances differ"
        )


if __name__ == "__main__":
    main()
