"""What the benchmarks of neural bots share: random checkpoints of a given size, and contexts for them."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from chatbots.bots.checkpoint import CheckpointBot
from chatbots.checkpoints import Manifest, checkpoint_write
from chatbots.conversation import Conversation
from chatbots.corpora.vocabulary import SPECIAL_TOKENS, Vocabulary
from chatbots.models.catalogue import config_read, model_build

REDDIT_HRED = {"V": 20_000, "E": 500, "H_e": 1000, "H_d": 1000, "C": 1000}
"""HRED for Reddit: Table 9 of Ghandeharioun et al. (2019)."""

N_TOKENS = 30
"""Every reply's length: the end token is forbidden before."""


def random_checkpoint(
    folder: Path,
    name: str,
    sizes: dict[str, Any],
    *,
    seed: int = 1,
    dtype: str = "float32",
    change: Callable[[Any], None] = lambda model: None,
) -> Path:
    """Write a checkpoint of HRED, VHRED or VHCR with random weights.

    The weights are so wide that no two contexts get the same reply.

    Args:
        change: done to the model before it is written.
    """
    model = model_build(config_read(name, sizes), seed)
    with torch.no_grad():
        model.encoder.embedding.weight.mul_(3)
        for rnn in (model.encoder.rnn, model.context.rnn, model.decoder.rnn):
            for key, parameter in rnn.named_parameters():
                if key.startswith("weight_ih"):
                    parameter.mul_(3)
                elif key.startswith("bias_hh"):
                    parameter.zero_()  # the update gate begins by keeping
        model.decoder.start[0].weight.mul_(10)
        change(model)
    words = [f"w{i}" for i in range(sizes["V"] - len(SPECIAL_TOKENS))]
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *words))
    checkpoint_write(folder, model, vocabulary, Manifest(tokeniser="words-1", corpus=""), dtype)
    return folder


def random_bot(folder: Path, **params: Any) -> CheckpointBot:
    """Make a bot whose replies all have `N_TOKENS` words."""
    fixed = {"min_tokens": N_TOKENS, "max_tokens": N_TOKENS, "forbid_unknown": False}
    return CheckpointBot(name=folder.name, folder=str(folder), **{**fixed, **params})


def random_texts(n: int, *, seed: int = 0, most_words: int = 12) -> list[str]:
    """Make n different sentences of 3 and more words."""
    draw = random.Random(seed)
    return [" ".join(f"w{draw.randrange(6000)}" for _ in range(draw.randint(3, most_words))) for _ in range(n)]


def random_contexts(n: int, *, seed: int = 0) -> list[Conversation]:
    """Make n conversations of 1, 3 or 5 turns."""
    texts = random_texts(5 * n, seed=seed)
    return [Conversation.from_texts(texts[5 * i : 5 * i + 1 + 2 * (i % 3)], id=str(i), seed=i + 1) for i in range(n)]
