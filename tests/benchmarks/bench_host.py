"""HRED at the Reddit size behind the real host: `python -m tests.benchmarks.bench_host [--json]`.

The model is that of `bench_hred`, greedy; every reply has 30 tokens and leaves word by word through `BotHost` and its
event loop. Printed:

(a) 32 people in a closed loop, each asking again as soon as it has its reply; replies per second against a
    first-come-first-served loop of single replies. To be reached: 5 times.
(b) Poisson arrivals at half the capacity of (a): the 95th percentile of the time to the first token, against a lone
    request's. To be reached: at most 4 times. (Perfect code: 7.0 and 2.5.)
(c) a burst of 32 at one instant, the same figure; nothing to be reached (9 with perfect code).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatbots.conversation import Conversation
    from chatbots.serving import BotHost

N_PEOPLE = 32
LEAST_RATIO, MOST_P95_RATIO = 5.0, 4.0


async def ask(host: BotHost, context: Conversation) -> float:
    """Have a reply made; seconds to its first piece."""
    began, first_s = time.perf_counter(), None
    async for _ in host.stream("hred", context):
        first_s = first_s or time.perf_counter() - began
    assert first_s is not None
    return first_s


async def serve(host: BotHost, contexts: list[Conversation], n_each: int, n_poisson: int) -> dict:
    """Measure and return all figures. The contexts differ from request to request, so nothing is remembered."""
    waiting = iter(contexts)
    for _ in range(2):  # warm
        await ask(host, next(waiting))

    n_single = 2 * n_each
    began = time.perf_counter()
    lone_s = [await ask(host, next(waiting)) for _ in range(n_single)]
    single_per_s = n_single / (time.perf_counter() - began)
    lone = statistics.median(lone_s)

    async def person() -> None:
        for _ in range(n_each):
            await ask(host, next(waiting))

    began = time.perf_counter()
    await asyncio.gather(*(person() for _ in range(N_PEOPLE)))
    together_per_s = N_PEOPLE * n_each / (time.perf_counter() - began)

    draw, tasks = random.Random(1), []
    for _ in range(n_poisson):
        tasks.append(asyncio.create_task(ask(host, next(waiting))))
        await asyncio.sleep(draw.expovariate(together_per_s / 2))
    poisson_s = sorted(await asyncio.gather(*tasks))
    p95 = poisson_s[min(len(poisson_s) - 1, int(0.95 * len(poisson_s)))]

    burst_s = await asyncio.gather(*(ask(host, next(waiting)) for _ in range(N_PEOPLE)))
    return {
        "replies_per_s": together_per_s,
        "replies_per_s_one_at_a_time": single_per_s,
        "ratio": together_per_s / single_per_s,
        "first_token_lone_ms": 1000 * lone,
        "first_token_poisson_p95_ms": 1000 * p95,
        "poisson_ratio": p95 / lone,
        "first_token_burst_p95_ms": 1000 * sorted(burst_s)[int(0.95 * N_PEOPLE)],
        "burst_ratio": sorted(burst_s)[int(0.95 * N_PEOPLE)] / lone,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--each", type=int, default=6, help="replies that each person asks for")
    parser.add_argument("--arrivals", type=int, default=200, help="requests of (b)")
    options = parser.parse_args()
    # Threads that wait for each other by spinning lose much of their speed on a machine that has
    # other work; must be set before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from chatbots.serving import BotHost
    from tests.benchmarks.neural import REDDIT_HRED, random_bot, random_checkpoint, random_contexts

    contexts = random_contexts(2 + (2 + N_PEOPLE) * options.each + options.arrivals + N_PEOPLE)
    with tempfile.TemporaryDirectory() as temporary:
        folder = random_checkpoint(Path(temporary) / "hred", "hred", REDDIT_HRED)
        bot = random_bot(folder, decoding="greedy")

        async def run() -> dict:
            host = BotHost(get_bot=lambda _: bot, reply_timeout_s=600)
            try:
                return await serve(host, contexts, options.each, options.arrivals)
            finally:
                await host.close()

        result = asyncio.run(run())
    if options.json:
        print(json.dumps(result))
        return
    print(
        f"(a) {N_PEOPLE} at once: {result['replies_per_s']:.1f} replies/s; one at a time: "
        f"{result['replies_per_s_one_at_a_time']:.2f}; ratio {result['ratio']:.1f} (at least {LEAST_RATIO:g})"
    )
    print(
        f"(b) first token, Poisson at half the capacity: p95 {result['first_token_poisson_p95_ms']:.0f} ms; alone "
        f"{result['first_token_lone_ms']:.0f} ms; ratio {result['poisson_ratio']:.1f} (at most {MOST_P95_RATIO:g})"
    )
    print(
        f"(c) first token, burst of {N_PEOPLE}: p95 {result['first_token_burst_p95_ms']:.0f} ms; "
        f"ratio {result['burst_ratio']:.1f}"
    )


if __name__ == "__main__":
    main()
