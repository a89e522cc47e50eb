"""KV caches kept between turns, and long prompts beside replies: `python -m tests.benchmarks.bench_kept_turns`.

The model is random: a Llama of 12 layers, width 512, vocabulary 8,000, one thread. Messages have 30 words, replies 30
tokens. All times are CPU seconds of the process, each the median of some conversations; with nothing kept, of one.
Where a ratio is beyond what is to be reached, the exit code is 1. Printed:

(a) the first token after 20 turns against the first at the first turn, with what was kept and with nothing kept, in the
    same run, for bots that see the whole conversation and for those that see the latest 10 turns, whose next window is
    read while the person writes (not counted). To be reached, with what was kept: at most 1.5 times.
(b) while a reply is running and a prompt of 900 tokens arrives: the longest gap between two tokens of that reply
    against the median gap, read in parts and read at once; and how much longer the prompt's own first token takes
    that way.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatbots.bots.transformers_bot import TransformersBot
    from chatbots.conversation import Conversation

N_TURNS = 20
N_WORDS = 30
N_NEW_TOKENS = 30
MOST_RATIO = 1.5


def message(n_words: int, seed: int) -> str:
    """Make a message of made-up words."""
    return " ".join(f"w{(97 * seed + 31 * i * i + 7 * i) % 7000 + 10}" for i in range(n_words))


def bench_bot(folder: Path, window: int) -> TransformersBot:
    """Load the bot that is measured."""
    from chatbots.bots.transformers_bot import TransformersBot

    bot = TransformersBot(
        name="bench",
        model=str(folder),
        window=window,
        max_context_tokens=2000,
        max_new_tokens=N_NEW_TOKENS,
        min_new_tokens=N_NEW_TOKENS,
    )
    bot.load("cpu")
    return bot


def first_token(bot: TransformersBot, context: Conversation) -> tuple[float, str]:
    """Return the CPU seconds until a reply's first token, and the reply."""
    began = time.process_time()
    generation = bot.start()
    generation.admit([context])
    pieces = generation.step()
    first_s = time.process_time() - began
    while not any(piece.done for piece in pieces):
        pieces += generation.step()
    while bot.has_idle_work:  # the person writes
        bot.work_idle()
    return first_s, "".join(piece.text for piece in pieces)


def by_turn(bot: TransformersBot, n_talks: int, limit_bytes: int) -> tuple[list[float], list[str]]:
    """Return the CPU seconds until the first token, by exchange, and all replies."""
    from chatbots.conversation import Conversation
    from chatbots.generation.prefix_cache import PREFIX_CACHE

    PREFIX_CACHE.limit_bytes = 0  # forget
    PREFIX_CACHE.limit_bytes = limit_bytes
    rows, texts = [], []
    for talk in range(n_talks):
        context = Conversation(id=str(talk), seed=talk)
        row = []
        for exchange in range(N_TURNS // 2 + 1):
            context = context.with_turn("human", message(N_WORDS, 100 * talk + exchange))
            seconds, text = first_token(bot, context)
            row.append(seconds)
            texts.append(text)
            context = context.with_turn("bot", text)
        rows.append(row)
    return [statistics.median(column) for column in zip(*rows, strict=True)], texts


def gaps(bot: TransformersBot, n_tokens: int) -> tuple[list[float], float]:
    """Return the gaps of a running reply while a long prompt arrives, and the seconds to the prompt's first token.

    Args:
        n_tokens: that are read between two steps.
    """
    from chatbots.conversation import Conversation
    from chatbots.generation import prefill
    from chatbots.generation.prefix_cache import PREFIX_CACHE

    PREFIX_CACHE.limit_bytes = 0
    usual, prefill.CPU_PREFILL_TOKENS = prefill.CPU_PREFILL_TOKENS, n_tokens
    generation = bot.start()
    generation.admit([Conversation.from_texts([message(N_WORDS, 1)], seed=1)])
    results: list[float] = []
    arrived = first_s = 0.0
    for step in range(N_NEW_TOKENS):
        if step == 8:
            [late] = generation.admit([Conversation.from_texts([message(900, 2)], seed=2)])
            arrived = time.process_time()
        began = time.process_time()
        pieces = generation.step()
        results.append(time.process_time() - began)
        if step >= 8 and not first_s and any(piece.slot == late for piece in pieces):
            first_s = time.process_time() - arrived
    prefill.CPU_PREFILL_TOKENS = usual
    return results[1:], first_s


def measure(n_talks: int) -> dict[str, float]:
    """Measure and return all figures."""
    from chatbots.generation.prefill import CPU_PREFILL_TOKENS
    from tests.tiny_models import save_model

    results: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = save_model(Path(temporary), "llama", width=512, n_layers=12, n_positions=2048, n_words=8000)
        for window in (0, 10):
            bot = bench_bot(folder, window)
            first_token(bot, _any())  # warm
            name = f"window {window}" if window else "whole"
            texts = {}
            # With nothing kept one conversation is enough to compare with: it takes most of the time.
            for kept, limit, n in (("kept", 10**9, n_talks), ("nothing kept", 0, 1)):
                seconds, texts[kept] = by_turn(bot, n, limit)
                results[f"{name}, {kept}: first"] = seconds[0]
                results[f"{name}, {kept}: last"] = seconds[-1]
                results[f"{name}, {kept}: later mean"] = statistics.mean(seconds[-5:])
                results[f"{name}, {kept}: ratio"] = seconds[-1] / seconds[0]
            # The first conversation is the same in both.
            same = [a == b for a, b in zip(texts["kept"], texts["nothing kept"], strict=False)]
            results[f"{name}: same replies"] = sum(same) / len(same)
        in_parts, first_s = gaps(bot, CPU_PREFILL_TOKENS)
        at_once, first_at_once_s = gaps(bot, 10**6)
    usual_s = statistics.median(in_parts)
    results["gap median"], results["gap in parts"], results["gap at once"] = (usual_s, max(in_parts), max(at_once))
    results["prompt first in parts"], results["prompt first at once"] = first_s, first_at_once_s
    return results


def _any() -> Conversation:
    from chatbots.conversation import Conversation

    return Conversation.from_texts([message(N_WORDS, 5)], seed=5)


def main() -> int:
    """Return 1 where the first token after many turns takes longer than it may."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--talks", type=int, default=3, help="conversations of (a)")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
    result = measure(options.talks)
    is_slow = any(result[f"{name}, kept: ratio"] > MOST_RATIO for name in ("whole", "window 10"))
    if options.json:
        print(json.dumps(result))
        return int(is_slow)
    for name in ("whole", "window 10"):
        for kept in ("kept", "nothing kept"):
            first, last = result[f"{name}, {kept}: first"], result[f"{name}, {kept}: last"]
            mean = result[f"{name}, {kept}: later mean"]
            goal = f" (at most {MOST_RATIO:g})" if kept == "kept" else ""
            goal += "  TOO SLOW" if goal and last / first > MOST_RATIO else ""
            print(
                f"(a) {name}, {kept}: first token {first:.2f} s at the first turn, {last:.2f} s after {N_TURNS}; "
                f"ratio {last / first:.2f}{goal}; mean of the last five {mean / first:.2f}"
            )
        print(f"    same replies: {result[f'{name}: same replies']:.1%}")
    print(
        f"(b) gap between tokens {1000 * result['gap median']:.0f} ms; longest while 900 tokens arrive: "
        f"{1000 * result['gap in parts']:.0f} ms in parts, {1000 * result['gap at once']:.0f} ms at once; "
        f"that prompt's first token after {result['prompt first in parts']:.2f} s in parts, "
        f"{result['prompt first at once']:.2f} s at once"
    )
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(main())
