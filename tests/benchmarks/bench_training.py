"""Speed of training: `python -m tests.benchmarks.bench_training [--json]`.

The loop of `train_bot` itself, on the everyday corpus, vocabulary about 2,000, all sizes 256, batches of 32 windows:
target tokens per second, and the share of the time spent waiting for batches. To be reached: below 5 %.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from chatbots.training.config import config_check
from chatbots.training.loop import train

MOST_WAITING = 0.05
SIZES = {"E": 256, "H_e": 256, "H_d": 256, "C": 256}


def bench(model: str, n_batches: int) -> dict[str, float]:
    """Train so many batches."""
    config = config_check(
        {
            "name": model,
            "model": model,
            "sizes": SIZES,
            "data": {"corpora": [{"path": "everyday", "repeat": 10}], "windows": "slide", "min_count": 2},
            "optimiser": {"batch_size": 32, "max_batches": n_batches},
            "held_out": {"samples": 1, "max_windows": 1, "max_replies": 1},
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        result = train(config, Path(folder) / model)
    return {"tokens_per_s": result.tokens_per_s, "waiting_share": result.waiting_share}


def main() -> int:
    """Print the figures; 1 if more time is waited than may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--batches", type=int, default=15)
    options = parser.parse_args()
    results = {model: bench(model, options.batches) for model in ("hred", "vhcr")}
    if options.json:
        print(json.dumps(results))
    else:
        for model, figures in results.items():
            print(
                f"{model}: {figures['tokens_per_s']:,.0f} target tokens per second, "
                f"{figures['waiting_share']:.1%} of the time spent waiting for data (at most {MOST_WAITING:.0%})"
            )
    return int(any(figures["waiting_share"] > MOST_WAITING for figures in results.values()))


if __name__ == "__main__":
    sys.exit(main())
