"""The projection of checkpoint bots in whole numbers: `python -m tests.benchmarks.bench_int8 [--json]`.

Speed, of a random HRED at the size of the paper's Reddit row (20,000 words, one thread, CPU seconds; weights are
random, so nothing is said of agreement there):

(a) the projection alone for 1, 5, 32 and 160 rows, in float32 against int8;
(b) whole replies, greedy for 1 and 32 people, by beam for 1.

Agreement, of the models that come with Confab on conversations of the everyday corpus, which they were trained on:

(c) how often the likeliest next token is the same, the perplexities, and how many replies are the same, greedy and by
    beam.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatbots.bots.checkpoint import CheckpointBot

N_TALKS = 60
ROWS = (1, 5, 32, 160)


def cpu_s(work: Callable[[], object], n: int) -> float:
    """Return the CPU seconds of a call, the least of n."""
    work()
    results = []
    for _ in range(n):
        began = time.process_time()
        work()
        results.append(time.process_time() - began)
    return min(results)


def speed() -> dict[str, float]:
    """Return ratios of times, float32 to int8."""
    import torch

    from chatbots.generation.checkpoint_batch import Int8Linear
    from chatbots.serving import reply
    from tests.benchmarks.neural import REDDIT_HRED, random_bot, random_checkpoint, random_contexts

    results: dict[str, float] = {}
    linear = torch.nn.Linear(REDDIT_HRED["H_d"], REDDIT_HRED["V"])
    rough = Int8Linear(linear)
    with torch.inference_mode():
        for n in ROWS:
            states = torch.randn(n, REDDIT_HRED["H_d"]).tanh()
            plain_s = cpu_s(lambda states=states: linear(states), 8)  # type: ignore[misc]
            results[f"projection of {n}"] = plain_s / cpu_s(lambda states=states: rough(states), 8)  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as temporary:
        folder = random_checkpoint(Path(temporary) / "hred", "hred", REDDIT_HRED)
        for how, n in (("greedy", 1), ("greedy", 32), ("beam", 1)):
            seconds = []
            for projection in ("float32", "int8"):
                bot = random_bot(folder, decoding=how, projection=projection)
                bot.load("cpu")
                asked = random_contexts(n)
                seconds.append(cpu_s(lambda bot=bot, asked=asked: reply(bot, asked), 2))  # type: ignore[misc]
                bot.unload()
            results[f"{how}, {n} at once"] = seconds[0] / seconds[1]
    return results


def agreement(name: str) -> dict[str, float]:
    """Return how far a shipped model says the same in both ways."""
    import torch
    from torch import nn

    from chatbots.bots.checkpoint import SHIPPED, CheckpointBot
    from chatbots.checkpoints import checkpoint_load
    from chatbots.conversation import Conversation
    from chatbots.corpora.dialogues import corpus_read
    from chatbots.corpora.vocabulary import tokeniser_get
    from chatbots.generation.checkpoint_batch import Int8Linear
    from chatbots.models.batch import DialogueBatch
    from chatbots.serving import reply

    class Both(nn.Module):
        """Computes the projection in both ways and counts where the likeliest word is the same."""

        def __init__(self, linear: nn.Linear) -> None:
            super().__init__()
            self.plain, self.rough = linear, Int8Linear(linear)
            self.is_rough = False
            self.n_same = self.n = 0

        def forward(self, states: torch.Tensor) -> torch.Tensor:
            plain, rough = self.plain(states), self.rough(states)
            self.n_same += int((plain.argmax(-1) == rough.argmax(-1)).sum())
            self.n += len(plain)
            return rough if self.is_rough else plain

    dialogues = [d.turns[:6] for d in corpus_read().dialogues if len(d.turns) > 2]
    talks = dialogues[:: len(dialogues) // N_TALKS][:N_TALKS]
    model, vocabulary, manifest = checkpoint_load(SHIPPED / name)
    both: Any = Both(model.decoder.project)  # type: ignore[union-attr, arg-type]
    model.decoder.project = both  # type: ignore[union-attr]
    tokenise = tokeniser_get(manifest.tokeniser).tokenise
    batch = DialogueBatch.from_ids([[vocabulary.ids(tokenise(text)) for text in texts] for texts in talks])
    results: dict[str, float] = {}
    with torch.inference_mode():
        for is_rough, key in ((False, "perplexity float32"), (True, "perplexity int8")):
            both.is_rough = is_rough
            terms = model.loss(batch, generator=torch.Generator().manual_seed(1))
            results[key] = math.exp(float(terms.tokens_nll) / terms.n_tokens)
    results["same next token"], results["tokens"] = both.n_same / both.n, both.n / 2
    contexts = [Conversation.from_texts(texts[: 1 + 2 * (i % 2)], id=str(i), seed=i) for i, texts in enumerate(talks)]
    for how in ("greedy", "beam"):
        texts = []
        for projection in ("float32", "int8"):
            bot: CheckpointBot = CheckpointBot(
                name="b", folder=str(SHIPPED / name), decoding=how, projection=projection
            )
            bot.load("cpu")
            texts.append([r.text for r in reply(bot, contexts)])
            bot.unload()
        same = [a == b for a, b in zip(*texts, strict=True)]
        results[f"same replies, {how}"] = sum(same) / len(same)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
    ratios = speed()
    models = {name: agreement(name) for name in ("hred-demo", "vhred-demo", "vhcr-ei-demo")}
    if options.json:
        print(json.dumps({"faster": ratios, "agreement": models}))
        return
    for name, ratio in ratios.items():
        part = "(a)" if name.startswith("projection") else "(b)"
        print(f"{part} {name}: {ratio:.1f} times as fast in int8")
    for name, model in models.items():
        print(
            f"(c) {name}: same next token {model['same next token']:.2%} of {model['tokens']:.0f}; perplexity "
            f"{model['perplexity float32']:.3f} and {model['perplexity int8']:.3f}; same replies, {N_TALKS}: greedy "
            f"{model['same replies, greedy']:.0%}, beam {model['same replies, beam']:.0%}"
        )


if __name__ == "__main__":
    main()
