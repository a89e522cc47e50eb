"""Memory of 30 hosted bots of one vocabulary: `python -m tests.benchmarks.bench_bot_memory [--json] [--bots N]`.

HRED of the demo's size (256, 8,000 words, half precision in the file), each with weights of its own. Two figures of
`BotHost`, each bot asked once: where every bot's tables of words (embedding and projection) are its own, as those of
bots trained apart are, and where all have them in common, as those of one start may. Beside them the naive way, every
checkpoint loaded for itself. Resident memory above that of a process that has asked one such bot; each way in a process
of its own. To be reached: with common tables half of without.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

DEMO_HRED = {"V": 8000, "E": 256, "H_e": 256, "H_d": 256, "C": 256}
MOST_SHARE = 0.5
MB = 1e6


def make(folder: Path, n: int, *, common_tables: bool) -> None:
    """Make checkpoints 0 … n; the first is only for warming up, and shares nothing."""
    import torch

    from chatbots.models.catalogue import config_read, model_build
    from tests.benchmarks.neural import random_checkpoint

    tables = model_build(config_read("hred", DEMO_HRED), seed=0)

    def with_tables(model) -> None:
        if not common_tables:
            return
        with torch.no_grad():
            model.encoder.embedding.weight.copy_(tables.encoder.embedding.weight)
            model.decoder.project.weight.copy_(tables.decoder.project.weight)

    random_checkpoint(folder / "0", "hred", DEMO_HRED, seed=1, dtype="float16")
    for i in range(1, n + 1):
        random_checkpoint(folder / f"{i}", "hred", DEMO_HRED, seed=i + 1, dtype="float16", change=with_tables)


def measure(folder: Path, n: int, way: str) -> int:
    """Measure the bytes that bots 1 … n take, in a fresh process."""
    import gc

    from chatbots.checkpoints import checkpoint_load
    from chatbots.serving import BotHost
    from chatbots.serving.bot_state import resident_bytes
    from tests.benchmarks.neural import random_bot, random_contexts

    bots = {str(i): random_bot(folder / str(i)) for i in range(n + 1)}
    context = random_contexts(1)[0]
    kept = []

    async def run() -> int:
        host = BotHost(get_bot=bots.__getitem__, reply_timeout_s=600)

        async def ask(bot: str) -> None:
            async for _ in host.stream(bot, context):
                pass

        await ask("0")
        gc.collect()
        before = resident_bytes() or 0
        for i in range(1, n + 1):
            if way == "naive":
                kept.append(checkpoint_load(folder / str(i))[0])
            else:
                await ask(str(i))
        gc.collect()
        after = resident_bytes() or 0
        await host.close()
        return after - before

    return asyncio.run(run())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--bots", type=int, default=30)
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        way, folder = options.measure
        print(measure(Path(folder), options.bots, way))
        return
    found: dict[str, float] = {}
    for tables, ways in (("own", ("hosted",)), ("common", ("naive", "hosted"))):
        with tempfile.TemporaryDirectory() as temporary:
            make(Path(temporary), options.bots, common_tables=tables == "common")
            for way in ways:
                found[f"{way}_{tables}_bytes"] = _measured(Path(temporary), options.bots, way)
    found["share"] = found["hosted_common_bytes"] / found["hosted_own_bytes"]
    if options.json:
        print(json.dumps(found))
        return
    print(
        f"{options.bots} bots, tables of words of their own: {found['hosted_own_bytes'] / MB:.0f} MB; in common: "
        f"{found['hosted_common_bytes'] / MB:.0f} MB, share {found['share']:.2f} (at most {MOST_SHARE:g}); "
        f"in common but loaded each for itself: {found['naive_common_bytes'] / MB:.0f} MB"
    )


def _measured(folder: Path, n: int, way: str) -> int:
    """Return what `measure` finds in a process of its own."""
    module = [sys.executable, "-m", "tests.benchmarks.bench_bot_memory"]
    asked = ["--bots", str(n), "--measure", way, str(folder)]
    done = subprocess.run([*module, *asked], stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout)


if __name__ == "__main__":
    main()
