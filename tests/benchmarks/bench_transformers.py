"""Ratios of the transformers path: `python -m tests.benchmarks.bench_transformers [--json]`.

The model is random: a GPT-2 decoder of 4 layers, width 256, vocabulary 8,000; every reply has 30 tokens
(the end token is forbidden). Printed:

(a) 32 simultaneous conversations through `BotHost` and its event loop, against the same 32 asked one after
    the other; replies per second. To be reached: 4 times.
(b) self-play of 100 conversations × 10 turns, all together, against one conversation at a time (measured
    on a few conversations and scaled). To be reached: 5 times.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from chatbots.bots.transformers_bot import TransformersBot
from chatbots.conversation import Conversation
from chatbots.serving import BotHost
from evaluation.simulation.selfplay import play
from tests.tiny_models import save_model

N_AT_ONCE = 32
N_SELFPLAY = 100
N_TURNS = 10
N_NEW_TOKENS = 30


def bench_bot(folder: Path) -> TransformersBot:
    """Make the bot that both benchmarks talk to, loaded."""
    save_model(folder, "gpt2", width=256, n_layers=4, n_positions=512, n_words=8000)
    bot = TransformersBot(
        name="bench", model=str(folder), max_new_tokens=N_NEW_TOKENS, min_new_tokens=N_NEW_TOKENS, capacity=N_SELFPLAY
    )
    bot.load("cpu")
    return bot


def bench_contexts(n: int) -> list[Conversation]:
    """Make conversations of 1 to 5 turns of 3 to 12 words."""
    return [
        Conversation.from_texts(
            [
                " ".join(f"w{(97 * i + 31 * t + w) % 7000 + 10}" for w in range(3 + (i + t) % 10))
                for t in range(1 + 2 * (i % 3))
            ],
            id=str(i),
            seed=i,
        )
        for i in range(n)
    ]


async def serve(bot: TransformersBot, contexts: list[Conversation]) -> tuple[float, float]:
    """Return the seconds for all contexts at once, and for one after the other."""
    host = BotHost(get_bot=lambda _: bot, reply_timeout_s=600)

    async def ask(context: Conversation) -> str:
        return "".join([piece async for piece in host.stream(bot.name, context)])

    await asyncio.gather(*(ask(context) for context in contexts[:4]))  # warm
    began = time.perf_counter()
    together = await asyncio.gather(*(ask(context) for context in contexts))
    at_once_s = time.perf_counter() - began
    began = time.perf_counter()
    singly = [await ask(context) for context in contexts]
    singly_s = time.perf_counter() - began
    await host.close()
    if together != singly:
        raise SystemExit("replies of a batch differ from replies one at a time")
    return at_once_s, singly_s


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--only", choices=["serving", "selfplay"], help="one of the two")
    parser.add_argument("--sample", type=int, default=10, help="conversations played one at a time")
    options = parser.parse_args()
    # Threads that wait for each other by spinning lose ten times their speed on a machine that has
    # other work; must be set before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    results: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        bot = bench_bot(Path(folder))
        if options.only != "selfplay":
            at_once_s, singly_s = asyncio.run(serve(bot, bench_contexts(N_AT_ONCE)))
            results["serving_replies_per_s"] = N_AT_ONCE / at_once_s
            results["serving_replies_per_s_one_at_a_time"] = N_AT_ONCE / singly_s
            results["serving_ratio"] = singly_s / at_once_s
        if options.only != "serving":
            bot.load("cpu")  # the host unloaded it
            seeds = list(range(1, N_SELFPLAY + 1))
            together_s = timed(lambda: play(bot, seeds=seeds, n_turns=N_TURNS))
            sample = seeds[: options.sample]
            singly_s = timed(lambda: [play(bot, seeds=[s], n_turns=N_TURNS) for s in sample])
            singly_s *= N_SELFPLAY / len(sample)
            results["selfplay_s"] = together_s
            results["selfplay_s_one_at_a_time"] = singly_s
            results["selfplay_ratio"] = singly_s / together_s
    if options.json:
        print(json.dumps(results))
        return
    if "serving_ratio" in results:
        print(
            f"(a) {N_AT_ONCE} conversations at once: {results['serving_replies_per_s']:.1f} replies/s; one at a "
            f"time: {results['serving_replies_per_s_one_at_a_time']:.1f}; "
            f"ratio {results['serving_ratio']:.1f} (to reach: 4)"
        )
    if "selfplay_ratio" in results:
        print(
            f"(b) self-play {N_SELFPLAY} × {N_TURNS}: {results['selfplay_s']:.1f} s; one at a time: "
            f"{results['selfplay_s_one_at_a_time']:.1f} s; ratio {results['selfplay_ratio']:.1f} (to reach: 5)"
        )


if __name__ == "__main__":
    main()
