"""All metrics over many conversations, against the bare encoding of the same distinct utterances.

Prints one ratio: time of `compute_all` with every metric, cold cache, divided by the time the sentence
encoder alone takes for the distinct texts. Nothing is encoded twice, and batches are sorted by length on both
sides; the rest is what lexicons, tokens, word vectors and tables cost. Then leave-bot-out over 30 bots and
100,000 conversations against refits by statsmodels, and 10,000 bootstrap resamples for 12 bots.

    python -m tests.benchmarks.bench_metrics [--conversations 2000]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from chatbots import Conversation
from chatbots.corpora.reader import EVERYDAY, corpus_read
from chatbots.encoders.sentence import sentence_encoder
from chatbots.encoders.words import word_vectors
from evaluation.hybrid.leastsquares import Factors
from evaluation.metrics.registry import metric_list
from evaluation.metrics.run import compute_all
from evaluation.stats.bootstrap import mean_interval


def conversations(n: int, n_turns: int = 10, seed: int = 0) -> list[Conversation]:
    """Conversations of utterances of the everyday corpus, varied so that most occur once."""
    rng = np.random.default_rng(seed)
    corpus = [turn for dialogue in corpus_read(EVERYDAY).dialogues for turn in dialogue.turns]
    words = sorted({word for turn in corpus for word in turn.split()})
    found = []
    for i in range(n):
        texts = [
            f"{corpus[rng.integers(len(corpus))]} {' '.join(rng.choice(words, rng.integers(1, 4)))}"
            for _ in range(n_turns)
        ]
        found.append(Conversation.from_texts(texts, id=str(i)))
    return found


def bench_metrics(n: int) -> None:
    """Time of all metrics to time of bare encoding."""
    talk = conversations(n)
    distinct = list(dict.fromkeys(text for c in talk for text in c.texts))
    encoder = sentence_encoder()
    encoder.encode(["warm the model up"])
    word_vectors().load()
    start = time.perf_counter()
    encoder.encode(distinct)
    bare_s = time.perf_counter() - start
    start = time.perf_counter()
    compute_all(talk, metric_list())
    all_s = time.perf_counter() - start
    print(
        f"metrics: {n} conversations, {len(distinct)} distinct utterances: bare encoding {bare_s:.1f} s "
        f"({len(distinct) / bare_s:.0f}/s), all metrics {all_s:.1f} s, ratio {all_s / bare_s:.2f} "
        "(aim: at most 1.3)"
    )


def bench_leave_bot_out(n: int = 100_000, n_bots: int = 30, p: int = 20) -> None:
    """Time of refits by statsmodels to time of the stacked QR factors, and how far they differ."""
    import statsmodels.api as sm

    rng = np.random.default_rng(0)
    bots = rng.choice([f"bot{k:02}" for k in range(n_bots)], size=n)
    x = rng.normal(size=(n, p))
    y = x @ rng.normal(size=p) + rng.normal(size=n)
    Factors(x[:1000], y[:1000], bots[:1000])  # imports what it needs
    start = time.perf_counter()
    factors = Factors(x, y, bots)
    lines = [factors.line(factors.without(k)) for k in range(n_bots)]
    own_s = time.perf_counter() - start
    start = time.perf_counter()
    difference = 0.0
    for k, bot in enumerate(factors.bots):
        others = bots != bot
        params = sm.OLS(y[others], sm.add_constant(x[others])).fit().params
        difference = max(
            difference, float(np.abs([lines[k].intercept, *lines[k].slopes] - params).max())
        )
    refit_s = time.perf_counter() - start
    print(
        f"leave-bot-out: {n_bots} bots, {n} conversations, {p} features: {own_s:.2f} s, statsmodels "
        f"{refit_s:.1f} s, ratio {refit_s / own_s:.0f} (aim: at least 30), coefficients within "
        f"{difference:.0e}"
    )


def bench_bootstrap() -> None:
    """10,000 resamples of twelve bots' mean ratings."""
    rng = np.random.default_rng(0)
    ratings = [rng.integers(1, 8, size=50) for _ in range(12)]
    start = time.perf_counter()
    for values in ratings:
        mean_interval(values, n=10_000)
    print(
        f"bootstrap: 12 bots, 50 ratings each, 10,000 resamples: {time.perf_counter() - start:.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=2000)
    options = parser.parse_args()
    bench_bootstrap()
    bench_leave_bot_out()
    bench_metrics(options.conversations)


if __name__ == "__main__":
    main()
