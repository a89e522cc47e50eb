"""Tiny models and conversations of token ids for the tests of `chatbots/models`."""

import numpy as np
import torch

from chatbots.models.batch import DialogueBatch
from chatbots.models.catalogue import config_read, model_build

V = 11
TINY = {
    "hred": {"V": V, "E": 5, "H_e": 4, "H_d": 6, "C": 7, "dropout": 0.0},
    "vhred": {"V": V, "E": 5, "H_e": 4, "H_d": 6, "C": 7, "dropout": 0.0, "Z": 3},
    "vhcr": {"V": V, "E": 5, "H_e": 4, "H_d": 6, "C": 7, "dropout": 0.0, "Z": 3},
    "seq2seq": {"V": V, "E": 5, "H_e": 4, "H_d": 6, "dropout": 0.0},
    "transformer": {"V": V, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 12, "dropout": 0.0},
}
MODELS = tuple(TINY)
LATENT = ("vhred", "vhcr")
EI = {"K": 4, "D": 3, "e": 5, "s": 6}
# Conversations of different lengths, an empty utterance, an unknown word.
CONVERSATIONS = [[[4, 5, 6], [7], [8, 9, 10, 4], [5, 5]], [[10, 9], [8, 7, 6, 5, 4]], [[1], [], [4, 4, 7]]]


def tiny(name: str, *, seed: int = 3, spread: float = 1.5, **changes):
    """Make a tiny model in evaluation mode, its weights wide enough for every part to matter."""
    model = model_build(config_read(name, {**TINY[name], **changes}), seed).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(spread)
    return model


def ended(conversation: list[list[int]]) -> list[list[int]]:
    """Return the utterances as a batch holds them, with `<eos>`."""
    return [[*u, 3] for u in conversation]


def ei_values(conversations, seed: int = 0):
    """Make emotion distributions and embeddings for each utterance: two lists of (n, K) and (n, D)."""
    random = np.random.default_rng(seed)
    emotion = [torch.tensor(random.dirichlet(np.ones(EI["K"]), len(c)), dtype=torch.float32) for c in conversations]
    sentence = [torch.tensor(random.normal(size=(len(c), EI["D"])), dtype=torch.float32) for c in conversations]
    return emotion, sentence


def batch_of(conversations, *, ei: bool = False) -> DialogueBatch:
    """Make a batch, with EI targets if asked for."""
    if not ei:
        return DialogueBatch.from_ids(conversations)
    emotion, sentence = ei_values(conversations)
    return DialogueBatch.from_ids(conversations, emotion=emotion, sentence=sentence)
