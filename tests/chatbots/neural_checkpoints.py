"""Tiny checkpoints whose replies depend on every message: for tests of bots, self-play and host."""

from pathlib import Path

import torch

from chatbots.checkpoints import Manifest, checkpoint_write
from chatbots.corpora.vocabulary import SPECIAL_TOKENS, Vocabulary
from chatbots.encoders.sentence import PCA
from chatbots.models.catalogue import config_read, model_build

WORDS = [
    "i",
    "you",
    "we",
    "like",
    "want",
    "see",
    "a",
    "the",
    "dog",
    "cat",
    "sea",
    "sun",
    "rain",
    "red",
    "old",
    "home",
    "now",
    *".?!",
]
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS))

SIZES = {
    "hred": {"E": 12, "H_e": 12, "H_d": 16, "C": 16},
    "vhred": {"E": 12, "H_e": 12, "H_d": 16, "C": 16, "Z": 4},
    "vhcr": {"E": 12, "H_e": 12, "H_d": 16, "C": 16, "Z": 4},
    "seq2seq": {"E": 12, "H_e": 12, "H_d": 16},
    "transformer": {"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 24},
}


def tiny_checkpoint(
    folder: Path,
    name: str,
    *,
    seed: int = 6,
    tables_seed: int | None = None,
    dtype: str = "float32",
    ei_pca: PCA | None = None,
    **changes,
) -> Path:
    """Write a checkpoint of random weights, wide enough for a word more or less to change the reply.

    Args:
        tables_seed: the embedding depends on this alone, whatever the model; on `seed` if None.
    """
    config = config_read(name, {"V": len(VOCABULARY), **SIZES[name], **changes})
    model = model_build(config, seed)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.mul_(1.0 if name == "transformer" or "bias" in key else 2.5)
        if tables_seed is not None:
            table = model.encoder.embedding.weight
            table.normal_(generator=torch.Generator().manual_seed(tables_seed))
    manifest = Manifest(tokeniser="words-1", corpus="none")
    checkpoint_write(folder, model, VOCABULARY, manifest, dtype, ei_pca=ei_pca)
    return folder
