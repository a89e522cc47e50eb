"""Scoring single replies by the learned metrics' small forms: in batches against one by one, and 10,000 pairs.

One by one means: the metric is asked for one reply after the other, as somebody does who scores replies as they come
in; network, graph and encoder stay loaded. "Nothing kept" is the same where GRADE also forgets which hops and
neighbours it has found: each pair then searches the graph for itself. In batches means one call for all, from nothing
kept. Rates are the best of the rounds: per second of one core's time, which changes little with what else a machine
does, and by the clock with PyTorch's threads on all cores, which is what somebody waits for and needs a machine that
does nothing else.

How often a text comes again decides most of the gain, so it is told for 1, 4 and 9 replies to each context (judged sets
have 2 to 9). The last line for GRADE: 10,000 different pairs, their minutes, and the memory at the half, at the end and
at its highest.

    python -m tests.benchmarks.bench_learned [--pairs 540] [--single 60] [--rounds 3] [--many 10000] [--device cuda]

On a GPU only the clock tells. RADE's network is one of random scores: what its weights are changes no time.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import psutil
import torch

from evaluation.data.items import ReplyInContext
from evaluation.metrics.grade import Grade
from evaluation.metrics.rade import Rade
from evaluation.metrics.registry import metric_get
from evaluation.metrics.replies import ReplyMetric, item_scores
from evaluation.metrics.text_cache import TextCache
from evaluation.training.config import config_check
from evaluation.training.loop import train
from tests.benchmarks.bench_replies import replies

PER_CONTEXT = (1, 4, 9)


def forgotten(metric: ReplyMetric) -> None:
    """Make GRADE forget hops and neighbours; other metrics keep nothing."""
    if isinstance(metric, Grade) and metric._reader is not None:
        metric._reader.graph._hops.clear()
        metric._reader.lexicon._near.clear()


def alone(metric: ReplyMetric, some: Sequence[ReplyInContext], device: str, *, keep: bool) -> None:
    """Score replies one by one."""
    for reply in some:
        if not keep:
            forgotten(metric)
        item_scores(metric, [reply], TextCache(device))


def together(metric: ReplyMetric, some: Sequence[ReplyInContext], device: str) -> None:
    """Score replies in one call."""
    forgotten(metric)
    item_scores(metric, some, TextCache(device))


def best_rates(rounds: int, ways: Sequence[tuple[int, Callable[[], None]]], clock: Callable[[], float]) -> list[float]:
    """Return how many replies in a second of the clock each way does at its best."""
    result = [0.0] * len(ways)
    for _ in range(rounds):
        for k, (n, way) in enumerate(ways):
            begun = clock()
            way()
            result[k] = max(result[k], n / (clock() - begun))
    return result


def where_told(device: str, n_threads: int) -> str:
    """Return what a rate by the clock is of."""
    return f"{n_threads} cores" if device == "cpu" else torch.cuda.get_device_name(device)


def compared(metric: ReplyMetric, n: int, n_single: int, rounds: int, n_threads: int, device: str) -> None:
    """Print the rates of a metric for each number of replies to a context, with so many threads of PyTorch."""
    torch.set_num_threads(n_threads)
    # Threads that wait for each other count as processor time: with several only the clock tells.
    by_core = device == "cpu" and n_threads == 1
    clock = time.process_time if by_core else time.perf_counter
    where = "of one core's time" if by_core else f"by the clock on {where_told(device, n_threads)}"
    item_scores(metric, replies(8, seed=9), TextCache(device))
    for per_context in PER_CONTEXT:
        some = replies(n, per_context=per_context)
        if metric.needs_reference:
            some = [one._replace(reference=some[k - 1].response) for k, one in enumerate(some)]
        few = some[:: max(1, n // n_single)]
        ways: list[tuple[int, Callable[[], None]]] = [
            (len(some), lambda some=some: together(metric, some, device)),
            (len(few), lambda few=few: alone(metric, few, device, keep=True)),
        ]
        if isinstance(metric, Grade):
            ways.append((len(few), lambda few=few: alone(metric, few, device, keep=False)))
        batched, single, *cold = best_rates(rounds, ways, clock)
        texts = len({text for one in some for text in (*one.context, one.response)})
        told = f"{metric.name}, {per_context} replies to a context ({texts / n:.2f} texts a pair): "
        told += f"per second {where} {batched:.0f} in batches, {single:.1f} one by one ({batched / single:.1f} times)"
        for rate in cold:
            told += f", {rate:.1f} with nothing kept ({batched / rate:.1f} times)"
        print(told, flush=True)


def beside_each_other(metrics: Sequence[ReplyMetric], n: int, n_single: int, rounds: int, device: str) -> None:
    """Print the rates of all these metrics of the same replies, as `evaluate_metrics` computes them: texts encoded
    once.
    """
    names = ", ".join(metric.name for metric in metrics)
    for per_context in PER_CONTEXT:
        some = replies(n, per_context=per_context)
        some = [one._replace(reference=some[k - 1].response) for k, one in enumerate(some)]
        few = some[:: max(1, n // n_single)]

        def all_together(some: Sequence[ReplyInContext] = some) -> None:
            shared = TextCache(device)
            for metric in metrics:
                forgotten(metric)
                item_scores(metric, some, shared)

        def each_alone(few: Sequence[ReplyInContext] = few) -> None:
            for metric in metrics:
                alone(metric, few, device, keep=True)

        ways = [(len(some), all_together), (len(few), each_alone)]
        batched, single = best_rates(rounds, ways, time.perf_counter)
        print(
            f"{names}, {per_context} replies to a context: per second by the clock on "
            f"{where_told(device, torch.get_num_threads())} {batched:.0f} by all of them in batches, {single:.1f} "
            f"one by one ({batched / single:.1f} times)",
            flush=True,
        )


def many(metric: ReplyMetric, n: int, device: str) -> None:
    """Print how long so many different pairs take, and how much memory they do."""
    process = psutil.Process()
    rng = np.random.default_rng(1)
    some = [reply._replace(response=f"{reply.response} {rng.integers(10**6)}") for reply in replies(n, seed=2)]
    begun, held = time.perf_counter(), []
    for part in (some[: n // 2], some[n // 2 :]):
        item_scores(metric, part, TextCache(device))
        held.append(process.memory_info().rss / 1e6)
    minutes = (time.perf_counter() - begun) / 60
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(
        f"{metric.name}: {n:,} pairs in {minutes:.1f} minutes; {held[0]:,.0f} MB after half of them, "
        f"{held[1]:,.0f} MB after all, {peak:,.0f} MB at most",
        flush=True,
    )


def rade_lite(folder: Path) -> ReplyMetric:
    """Return RADE-lite after a few steps on random scores."""
    rng = np.random.default_rng(0)
    rows = (
        {
            "context": reply.context,
            "output": reply.response,
            "reference": other.response,
            "s_output": float(rng.uniform(1, 5)),
            "s_reference": float(rng.uniform(1, 5)),
        }
        for reply, other in zip(replies(80), replies(80, seed=3), strict=True)
    )
    (folder / "rated.jsonl").write_text("\n".join(map(json.dumps, rows)))
    config = config_check(
        {
            "name": "bench-rade",
            "metric": "rade",
            "options": {"rated": ["rated.jsonl"], "chosen_by": "error"},
            "optimiser": {"batch_size": 64, "epochs": 2},
        },
        folder,
    )
    return Rade(name="rade_lite", checkpoint=str(train(config, folder / "run").checkpoint))


def main() -> int:
    """Measure them; 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=540)
    parser.add_argument("--single", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, …")
    options = parser.parse_args()
    grade = metric_get("grade_lite")
    pone = metric_get("pone_lite")
    assert isinstance(grade, ReplyMetric)
    assert isinstance(pone, ReplyMetric)
    device, n_cores = options.device, torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        learned = (grade, pone, metric_get("entailment_lite"), rade_lite(Path(folder)))
        assert all(isinstance(metric, ReplyMetric) for metric in learned)
        for metric in learned:
            for n_threads in sorted({1, n_cores} if device == "cpu" else {n_cores}):
                compared(
                    metric,  # type: ignore[arg-type]
                    options.pairs,
                    options.single,
                    options.rounds,
                    n_threads,
                    device,
                )
        beside_each_other(learned, options.pairs, options.single, options.rounds, device)  # type: ignore[arg-type]
    if options.many:
        many(grade, options.many, device)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
