"""The pretrained talker of the demo: `python -m tests.benchmarks.bench_gguf [--json] [--model FILE.gguf]`.

Needs requirements-demo.txt; without it nothing is measured. Printed: seconds to load, resident memory, milliseconds per
token said and per token of a prompt read (alone), and

(a) 16 conversations asked at once, 4 under way together, against the same 16 one after the other: the ratio of times;
(b) a conversation's fifth exchange with its earlier turns known, against the same read anew: the ratio of times
    until the first token.
"""

import argparse
import json
import sys
import time
from typing import Any

from chatbots.bots.gguf import GgufBot
from chatbots.conversation import Conversation
from chatbots.gguf_files import SMOLLM2
from chatbots.serving import reply
from chatbots.serving.bot_state import resident_bytes

N_CONVERSATIONS = 16
N_TOKENS = 40
STORY = "We walked along the shore, it rained a little, and then we found a small café. " * 3


def contexts(n: int) -> list[Conversation]:
    """Make n different conversations of one turn each."""
    return [Conversation.from_texts([f"Tell me a long story about the number {i}. {STORY}"], seed=i) for i in range(n)]


def timings(bot: GgufBot, texts: list[str], **settings: Any) -> dict[str, float]:
    """Return what llama.cpp says of one reply."""
    assert bot._server is not None
    results: list[dict[str, Any]] = []
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    bot._server._server.handle_chat_completions(
        {"messages": messages, "stream": True, "max_tokens": N_TOKENS, "ignore_eos": True, "seed": 1, **settings},
        lambda chunk: bool(results.append(chunk)),
    )
    return results[-1]["timings"]


def measure(model: str) -> dict[str, float]:
    """Measure and return all figures."""
    before = resident_bytes() or 0
    bot = GgufBot(name="bench", model=model, max_new_tokens=N_TOKENS, temperature=0.3)
    began = time.perf_counter()
    bot.load("cpu")
    results = {"load_s": time.perf_counter() - began}
    alone = timings(bot, [STORY], cache_prompt=False)
    results["ms_per_token"] = alone["predicted_per_token_ms"]
    results["ms_per_prompt_token"] = alone["prompt_per_token_ms"]
    asked = contexts(N_CONVERSATIONS)
    began = time.perf_counter()
    together = reply(bot, asked)
    results["together_s"] = time.perf_counter() - began
    began = time.perf_counter()
    singly = [reply(bot, [context])[0] for context in contexts(2 * N_CONVERSATIONS)[N_CONVERSATIONS:]]
    results["one_by_one_s"] = time.perf_counter() - began
    assert all(r.error is None for r in [*together, *singly])
    results["batched_ratio"] = results["one_by_one_s"] / results["together_s"]
    turns = [f"{STORY} That was part {i}." for i in range(9)]
    timings(bot, turns[:7])
    known, anew = timings(bot, turns), timings(bot, turns, cache_prompt=False)
    results["cached_ratio"] = anew["prompt_ms"] / known["prompt_ms"]
    results["resident_mb"] = ((resident_bytes() or 0) - before) / 1e6
    results["announced_mb"] = bot.memory_bytes / 1e6
    bot.unload()
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--model", default=SMOLLM2, help="a GGUF file")
    options = parser.parse_args()
    reason = GgufBot(name="bench", model=options.model).unavailable_reason()
    if reason is not None:
        print(f"not measured: {reason}", file=sys.stderr)
        return 0
    result = measure(options.model)
    if options.json:
        print(json.dumps(result))
        return 0
    print(
        f"loaded in {result['load_s']:.1f} s, {result['resident_mb']:.0f} MB resident (announced: "
        f"{result['announced_mb']:.0f}); {result['ms_per_token']:.1f} ms per token said, "
        f"{result['ms_per_prompt_token']:.1f} ms per token read"
    )
    print(
        f"(a) {N_CONVERSATIONS} conversations: {result['together_s']:.1f} s, 4 at a time; "
        f"{result['one_by_one_s']:.1f} s one by one; ratio {result['batched_ratio']:.1f}"
    )
    print(f"(b) reading a fifth exchange anew takes {result['cached_ratio']:.1f} times as long")
    return 0


if __name__ == "__main__":
    sys.exit(main())
