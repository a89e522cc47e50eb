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
    found: list[dict[str, Any]] = []
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    bot._server._server.handle_chat_completions(
        {"messages": messages, "stream": True, "max_tokens": N_TOKENS, "ignore_eos": True, "seed": 1, **settings},
        lambda chunk: bool(found.append(chunk)),
    )
    return found[-1]["timings"]


def measure(model: str) -> dict[str, float]:
    """Measure and return all figures."""
    before = resident_bytes() or 0
    bot = GgufBot(name="bench", model=model, max_new_tokens=N_TOKENS, temperature=0.3)
    began = time.perf_counter()
    bot.load("cpu")
    found = {"load_s": time.perf_counter() - began}
    alone = timings(bot, [STORY], cache_prompt=False)
    found["ms_per_token"] = alone["predicted_per_token_ms"]
    found["ms_per_prompt_token"] = alone["prompt_per_token_ms"]
    asked = contexts(N_CONVERSATIONS)
    began = time.perf_counter()
    together = reply(bot, asked)
    found["together_s"] = time.perf_counter() - began
    began = time.perf_counter()
    singly = [reply(bot, [context])[0] for context in contexts(2 * N_CONVERSATIONS)[N_CONVERSATIONS:]]
    found["one_by_one_s"] = time.perf_counter() - began
    assert all(r.error is None for r in [*together, *singly])
    found["batched_ratio"] = found["one_by_one_s"] / found["together_s"]
    turns = [f"{STORY} That was part {i}." for i in range(9)]
    timings(bot, turns[:7])
    known, anew = timings(bot, turns), timings(bot, turns, cache_prompt=False)
    found["cached_ratio"] = anew["prompt_ms"] / known["prompt_ms"]
    found["resident_mb"] = ((resident_bytes() or 0) - before) / 1e6
    found["announced_mb"] = bot.memory_bytes / 1e6
    bot.unload()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--model", default=SMOLLM2, help="a GGUF file")
    options = parser.parse_args()
    reason = GgufBot(name="bench", model=options.model).unavailable_reason()
    if reason is not None:
        print(f"not measured: {reason}", file=sys.stderr)
        return 0
    found = measure(options.model)
    if options.json:
        print(json.dumps(found))
        return 0
    print(
        f"loaded in {found['load_s']:.1f} s, {found['resident_mb']:.0f} MB resident (announced: "
        f"{found['announced_mb']:.0f}); {found['ms_per_token']:.1f} ms per token said, "
        f"{found['ms_per_prompt_token']:.1f} ms per token read"
    )
    print(
        f"(a) {N_CONVERSATIONS} conversations: {found['together_s']:.1f} s, 4 at a time; "
        f"{found['one_by_one_s']:.1f} s one by one; ratio {found['batched_ratio']:.1f}"
    )
    print(f"(b) reading a fifth exchange anew takes {found['cached_ratio']:.1f} times as long")
    return 0


if __name__ == "__main__":
    sys.exit(main())
