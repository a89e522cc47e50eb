"""Training of dialogue models, with initial weights and exact resuming.

    result = train(config_load("hred.yaml", data="corpora"), "runs/hred")

The folder then contains `best/` (a checkpoint, `chatbots.checkpoints`), `state.safetensors` (call `train` again to
resume), `log.jsonl` and `tensorboard/`. All random numbers of a batch come from the config's seed and the batch's
number, so a resumed run ends with exactly the weights of an uninterrupted one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from chatbots.checkpoints import (
    CheckpointError,
    Manifest,
    checkpoint_load,
    checkpoint_manifest,
    checkpoint_write,
    code_version,
)
from chatbots.corpora.vocabulary import PAD, SPECIAL_TOKENS, Vocabulary
from chatbots.identity import canonical_json, derive_seed
from chatbots.models.batch import DialogueBatch, LossParts
from chatbots.models.catalogue import config_read, model_build
from chatbots.models.dialogue_model import DialogueModel
from chatbots.models.layers import ContextRNN, ReplyDecoder
from chatbots.training.config import WITH_LATENTS, TrainingConfig
from chatbots.training.data import NO_UTTERANCE, TrainingData, data_prepare
from chatbots.training.ei import check_ei_weights
from chatbots.training.engine import (
    BEST_FOLDER,
    STATE,
    TrainingError,
    TrainingLoop,
    TrainingResult,
    kl_weight,
    training_folder,
)
from chatbots.training.held_out import held_out_measure, validation_loss
from chatbots.training.run_folder import LossWindow, TrainingProgress
from chatbots.validation import ValuesError


def initialise_model(config: TrainingConfig, data: TrainingData, output: Path) -> DialogueModel:
    """Build the model with its initial weights, on the CPU.

    Args:
        output: folder of this run; `start.weights` names a run next to it.

    Raises:
        ValuesError: `start.weights` is not a finished run with the same vocabulary.
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
        _expect_words(model, _count_words(data))
    if config.start.listening:
        _listen(model)
    return model


def _listen(model: DialogueModel) -> None:
    """Open the context's update gates and scale up the decoder's initial projection.

    With a gate bias of 2 a new utterance changes the context by an eighth, and the first states of different contexts
    then differ by a hundredth of the state's later size during decoding.
    """
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, ContextRNN):
                third = module.rnn.hidden_size  # gates in the order r, z, n
                bias = dict(module.rnn.named_parameters())["bias_hh_l0"]
                bias[third : 2 * third] = -1.0
            elif isinstance(module, ReplyDecoder):
                dict(module.start.named_parameters())["0.weight"].mul_(4.0)


def _count_words(data: TrainingData) -> np.ndarray:
    """Count the target words of the training text, (V,).

    Includes `<eos>`, excludes `<pad>`.
    """
    targets = data.train.utterances[:, 1:]
    ids = data.train.ids[targets[targets != NO_UTTERANCE]]  # (n, T)
    counts = np.bincount(ids.ravel(), minlength=len(data.vocabulary))
    counts[PAD] = 0
    return counts


def _expect_words(model: DialogueModel, counts: np.ndarray) -> None:
    """Initialise the bias of every output layer with word frequencies.

    Args:
        counts: (V,) frequency of each word.
    """
    log_share = torch.as_tensor(np.log((counts + 0.5) / (counts + 0.5).sum()), dtype=torch.float32)
    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and name.endswith("project"):
                module.bias.copy_(log_share)


def embed_words(embedding: nn.Embedding, vocabulary: Vocabulary) -> int:
    """Initialise the embedding with scaled static word vectors (`chatbots.encoders.word_vectors`).

    They are scaled to the spread of the random rows. Special tokens and words without a vector keep random rows.

    Returns:
        The number of words with a vector.
    """
    from chatbots.encoders.word_vectors import word_vectors

    vectors = {
        i: vector
        for i, vector in enumerate(word_vectors().vectors(vocabulary.words))
        if vector is not None and i >= len(SPECIAL_TOKENS)
    }
    if not vectors:
        return 0
    rows = np.stack(list(vectors.values()))  # (n, E)
    # Frequent words have short vectors, but networks learn better from vectors of equal length.
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-6) * rows.shape[1] ** 0.5
    with torch.no_grad():
        spread = embedding.weight[len(SPECIAL_TOKENS) :].std()
        embedding.weight[list(vectors)] = torch.as_tensor(rows, dtype=torch.float32) * spread
    return len(vectors)


def _take_over(model: DialogueModel, vocabulary: Vocabulary, folder: Path) -> None:
    """Copy a checkpoint's weights into the first rows and columns.

    In the inputs of VHRED's and VHCR's layers the latents come after the context, so the columns match.
    """
    try:
        source_model, words, _ = checkpoint_load(folder)
    except CheckpointError as error:
        raise ValuesError(f"start.weights: {error}; train that run first") from error
    if words.digest != vocabulary.digest:
        raise ValuesError(
            f"start.weights: {folder} has another vocabulary ({len(words)} words, here {len(vocabulary)}); use the "
            "same data for both runs"
        )
    theirs = dict(source_model.named_parameters())
    with torch.no_grad():
        for name, ours in model.named_parameters():
            if name not in theirs:
                continue
            block = theirs[name]
            fits = block.dim() == ours.dim() and all(a <= b for a, b in zip(block.shape, ours.shape, strict=True))
            if not fits:
                raise ValuesError(
                    f"start.weights: {name} has shape {tuple(block.shape)} in {folder} and "
                    f"{tuple(ours.shape)} here; use the same sizes for both runs"
                )
            ours[tuple(slice(0, n) for n in block.shape)] = block


__all__ = ["BEST_FOLDER", "STATE", "TrainingError", "TrainingResult", "finished", "train"]


def train(
    config: TrainingConfig,
    output: Path | str,
    *,
    device: str = "cpu",
    restart: bool = False,
    watch: Callable[[TrainingProgress], None] | None = None,
) -> TrainingResult:
    """Train a model or resume a stopped run.

    A finished run is only reported.

    Args:
        output: folder of this run, created if missing.
        device: "cpu", "cuda", …
        restart: start again, regardless of the folder's contents.
        watch: called after every batch; an exception stops the run, which can be resumed.

    Raises:
        ValuesError, CorpusError, EncoderError: the config, a corpus or an encoder cannot be used.
        StateError: the folder belongs to a run with another config or corpus.
        TrainingError: too many gradients are not finite, or another process is using this folder.
    """
    output = Path(output)
    with training_folder(output, device, restart=restart):
        return _DialogueTraining(config, output, torch.device(device), watch).run()


def finished(output: Path) -> bool:
    """Return True if the run in a folder is finished and evaluated."""
    try:
        return bool(checkpoint_manifest(output / BEST_FOLDER).metrics)
    except CheckpointError:
        return False


class _DialogueTraining(TrainingLoop[DialogueBatch, LossParts]):
    """One call of `train`."""

    model: DialogueModel

    def __init__(
        self,
        config: TrainingConfig,
        output: Path,
        device: torch.device,
        watch: Callable[[TrainingProgress], None] | None,
    ) -> None:
        self.config = config
        self.data: TrainingData = data_prepare(config, str(device))
        self.sentence_nats = self._weight_check()
        targets = self.data.targets
        self.ei_pca = targets.pca if targets and self.data.reads_targets else None
        model = initialise_model(config, self.data, output).to(device).train()
        super().__init__(
            name=config.name,
            seed=config.seed,
            optimiser=config.optimiser,
            keeping=config.keeping,
            model=model,
            adam=torch.optim.Adam(model.parameters(), lr=config.optimiser.lr),
            per_epoch=self.data.train.n_batches(config.optimiser.batch_size),
            fingerprint=_fingerprint(config, self.data),
            output=output,
            device=device,
            watch=watch,
        )

    def _weight_check(self) -> float:
        """Return the initial weighted sentence loss, in nats per batch.

        Raises:
            ValuesError: it exceeds the loss of the words.
        """
        config, data = self.config, self.data
        if config.ei is None or data.targets is None:
            return 0.0
        per_batch = min(config.optimiser.batch_size / len(data.train), 1.0)
        words = data.train.n_target_tokens * per_batch * math.log(len(data.vocabulary))
        return check_ei_weights(config.ei, data.targets.sentence_variance, words)

    def batches(self, epoch: int, start: int) -> Iterator[DialogueBatch]:
        return self.data.train.batches(
            self.config.optimiser.batch_size,
            derive_seed(self.config.seed, "order"),
            epoch,
            start=start,
            targets=self.data.targets,
        )

    def loss(self, batch: DialogueBatch, generator: torch.Generator) -> LossParts:
        regularisation = self.config.regularisation
        return self.model.loss(
            batch.to(self.device),
            kl_weight=kl_weight(self.progress.step, regularisation.kl_batches),
            word_drop=regularisation.word_drop,
            sentence_drop=regularisation.sentence_drop,
            generator=generator,
        )

    def learnt(self, parts: LossParts) -> tuple[float, int]:
        return float(parts.tokens_nll.detach()) / max(parts.n_tokens, 1), parts.n_tokens

    def window(self) -> LossWindow:
        return LossWindow()

    def validate(self) -> dict[str, float]:
        return validation_loss(self.model, self.data, self.config, self.device)

    def keep_best(self) -> None:
        checkpoint_write(
            self.output / BEST_FOLDER, self.model, self.data.vocabulary, self._manifest({}), ei_pca=self.ei_pca
        )

    def more_logged(self) -> dict[str, float]:
        if self.config.model not in WITH_LATENTS:
            return {}
        return {"kl_weight": kl_weight(self.progress.step - 1, self.config.regularisation.kl_batches)}

    def _manifest(self, best: dict[str, float]) -> Manifest:
        config, data, progress = self.config, self.data, self.progress
        return Manifest(
            tokeniser=config.data.tokeniser,
            corpus=data.digest,
            title=config.title or config.name,
            metrics={k: None if v != v else v for k, v in best.items()},
            training={
                "config": config.decisive,
                "config_digest": config.digest,
                "corpora": [c.model_dump() for c in config.data.corpora],
                "n_dialogues": data.n_dialogues,
                "encoders": data.targets.encoders if data.targets else {},
                "best_step": progress.best_step,
                "epochs": progress.epoch + 1,
                "n_tokens": progress.n_tokens,
                "seconds": round(progress.seconds, 1),
                "waiting_share": round(progress.waited / max(progress.seconds, 1e-9), 4),
                "skipped": progress.skipped,
                "sentence_variance": data.targets.sentence_variance if data.targets else None,
                "sentence_nats": self.sentence_nats,
                "device": self.device.type,
                "torch": torch.__version__,
            },
        )

    def measure_best(self) -> Mapping[str, float | None]:
        folder = self.output / BEST_FOLDER
        stored = checkpoint_manifest(folder)
        if not stored.metrics:
            model, vocabulary, _ = checkpoint_load(folder, str(self.device))
            best = {
                "validation_loss": self.progress.best_loss,
                "step": self.progress.best_step,
                **held_out_measure(model, self.data, self.config, self.device),
            }
            stored = checkpoint_write(folder, model, vocabulary, self._manifest(best), ei_pca=self.ei_pca)
        return stored.metrics


def _fingerprint(config: TrainingConfig, data: TrainingData) -> str:
    """Return 16 hexadecimal digits over all inputs that affect the weights."""
    parts: list[Any] = [config.digest, data.digest, data.vocabulary.digest, code_version()]
    if data.targets:
        parts.append(data.targets.encoders)
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]
