"""Initial weights: from the seed, word vectors or a finished training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from chatbots.checkpoints import CheckpointError, checkpoint_load
from chatbots.corpora.vocabulary import PAD, SPECIAL_TOKENS, Vocabulary
from chatbots.identity import derive_seed
from chatbots.models.catalogue import config_read, model_build
from chatbots.models.dialogue_model import DialogueModel
from chatbots.models.layers import ContextRNN, ReplyDecoder
from chatbots.training.config import TrainingConfig
from chatbots.training.data import NO_UTTERANCE
from chatbots.validation import ValuesError

if TYPE_CHECKING:
    from chatbots.training.data import TrainingData


def initialise_model(config: TrainingConfig, data: TrainingData, output: Path) -> DialogueModel:
    """Make the model as it is before its first batch, on the CPU.

    Args:
        output: folder of this training; `start.weights` names one beside it.

    Raises:
        ValuesError: `start.weights` is no finished training of the same vocabulary.
    """
    values = {**config.sizes, "V": len(data.vocabulary)}
    if config.ei is not None and data.targets is not None:
        values["ei"] = config.ei.model_values(data.targets.emotion.shape[1], data.targets.sentence.shape[1])
    model = model_build(config_read(config.model, values), derive_seed(config.seed, "weights"))
    if config.start.weights:
        _take_over(model, data.vocabulary, output.parent / config.start.weights / "best")
        return model
    if config.start.word_vectors:
        embedding = next(m for m in model.modules() if isinstance(m, nn.Embedding))
        embed_words(embedding, data.vocabulary)
    if config.start.word_counts:
        _expect_words(model, _counts(data))
    if config.start.listening:
        _listen(model)
    return model


def _listen(model: DialogueModel) -> None:
    """Open the update gate of every context RNN and widen what the decoder's first state is made by.

    With the gate's bias at 2 a new utterance moves the context by an eighth, and the first state then differs
    between contexts by a hundredth of what it grows to while words are said.
    """
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, ContextRNN):
                third = module.rnn.hidden_size  # gates in the order r, z, n
                bias = dict(module.rnn.named_parameters())["bias_hh_l0"]
                bias[third : 2 * third] = -1.0
            elif isinstance(module, ReplyDecoder):
                dict(module.start.named_parameters())["0.weight"].mul_(4.0)


def _counts(data: TrainingData) -> np.ndarray:
    """Count how often each word is to be said in the training text, (V,); `<eos>` counts, `<pad>` does not."""
    said = data.train.utterances[:, 1:]
    ids = data.train.ids[said[said != NO_UTTERANCE]]  # (n, T)
    counts = np.bincount(ids.ravel(), minlength=len(data.vocabulary))
    counts[PAD] = 0
    return counts


def _expect_words(model: DialogueModel, counts: np.ndarray) -> None:
    """Set the bias of every layer that says words, so that it begins with their shares.

    Args:
        counts: (V,) how often each is said.
    """
    log_share = torch.as_tensor(np.log((counts + 0.5) / (counts + 0.5).sum()), dtype=torch.float32)
    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and name.endswith("project"):
                module.bias.copy_(log_share)


def embed_words(embedding: nn.Embedding, vocabulary: Vocabulary) -> int:
    """Begin with static word vectors (`chatbots.encoders.word_vectors`), scaled to the spread of the drawn rows.

    Words without a vector, and the special ones, keep what was drawn.

    Returns:
        How many words have a vector.
    """
    from chatbots.encoders.word_vectors import word_vectors

    found = {
        i: vector
        for i, vector in enumerate(word_vectors().vectors(vocabulary.words))
        if vector is not None and i >= len(SPECIAL_TOKENS)
    }
    if not found:
        return 0
    rows = np.stack(list(found.values()))  # (n, E)
    # Frequent words have short vectors; a network learns better from vectors of one length.
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-6) * rows.shape[1] ** 0.5
    with torch.no_grad():
        spread = embedding.weight[len(SPECIAL_TOKENS) :].std()
        embedding.weight[list(found)] = torch.as_tensor(rows, dtype=torch.float32) * spread
    return len(found)


def _take_over(model: DialogueModel, vocabulary: Vocabulary, folder: Path) -> None:
    """Copy the weights of a checkpoint; a larger matrix takes them into its first rows and columns.

    The latents of VHRED and VHCR come after the context in what a layer reads, so the columns fit.
    """
    try:
        other, words, _ = checkpoint_load(folder)
    except CheckpointError as error:
        raise ValuesError(f"start.weights: {error}; train that one first") from error
    if words.digest != vocabulary.digest:
        raise ValuesError(
            f"start.weights: {folder} has another vocabulary ({len(words)} words, here {len(vocabulary)}); "
            "give both trainings the same data"
        )
    theirs = dict(other.named_parameters())
    with torch.no_grad():
        for name, ours in model.named_parameters():
            if name not in theirs:
                continue
            block = theirs[name]
            fits = block.dim() == ours.dim() and all(a <= b for a, b in zip(block.shape, ours.shape, strict=True))
            if not fits:
                raise ValuesError(
                    f"start.weights: {name} has shape {tuple(block.shape)} in {folder} and "
                    f"{tuple(ours.shape)} here; give both trainings the same sizes"
                )
            ours[tuple(slice(0, n) for n in block.shape)] = block
