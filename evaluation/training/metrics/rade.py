"""Training of RADE on human ratings of responses and references (`evaluation/training/rade_data.py`).

There are two networks: "full", as in the paper, on an encoder-decoder or encoder of transformers; and "lite", on frozen
sentence vectors and surface features. Two-stage training takes two configs: the first with `stage: 1` on other rated
data, the second starting from it. The released pairs have no licence, so weights trained on them must not be
distributed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from chatbots.corpora.dialogues import CorpusError, nested_share
from chatbots.encoders.sentence import MINILM, encoder_folder
from chatbots.huggingface import find_model, load_pretrained
from chatbots.identity import canonical_json, derive_seed
from chatbots.validation import InputModel, Many, Number, Size
from evaluation.metrics.text_cache import TextCache
from evaluation.models.rade import (
    IGNORED,
    MAX_TOKENS,
    RadeLite,
    RadeNetwork,
    RadeWeights,
    context_tokens,
    padded,
    pair_tokens,
    rade_loss,
)
from evaluation.models.rade_inputs import NAMES, VECTORS, vectors_and_surface
from evaluation.stats.correlation import METHODS, correlate
from evaluation.training.checkpoint import Checkpoint
from evaluation.training.config import BackboneConfig, MetricTrainingConfig, register_learned
from evaluation.training.contract import ExampleLoss, Examples, LearnedMetric, Prepared, Splits
from evaluation.training.rade_data import (
    GROUPED,
    LEAKING,
    RatedPair,
    context_key,
    grouped_folds,
    leaking_folds,
    rated_pairs_read,
)

INPUTS = "inputs.safetensors"


class RatedOptions(InputModel):
    """Options of every metric that is trained on rated pairs.

    Attributes:
        rated: files of rated pairs, relative to the data folder.
        licence: licence of the rated files, for the model card.
        split: "contexts": each pair once, no context in two parts; "rows": random rows of the release, which leaks;
            only for comparison with published results.
        folds, fold, fold_seed: number of folds by context, test fold (−1: none), and seed of the folds.
        held_out: share of the remaining contexts for validation, rounded to 1/2, 1/3, 1/4, …; 0: train on all and keep
            the last weights.
        max_pairs: maximum number of training pairs, drawn by `fold_seed`; a smaller number takes part of a larger
            one's. 0: all.
        chosen_by: validation measure that selects the best weights: "correlation": mean of Pearson and Spearman of s_a
            (3); "error": its squared error, more stable on few pairs.
        dropout: dropout of the network's head.
    """

    rated: Annotated[Many[str], Field(min_length=1)]
    licence: str = "not stated"
    split: Literal["contexts", "rows"] = "contexts"
    folds: int = Field(5, ge=2)
    fold: int = Field(0, ge=-1)
    fold_seed: int = 11
    held_out: Number = Field(0.125, ge=0, le=0.5)
    max_pairs: int = Field(0, ge=0)
    chosen_by: Literal["correlation", "error"] = "correlation"
    dropout: Number = Field(0.3, ge=0, lt=1)


class RadeOptions(RatedOptions):
    """Options of RADE; numbers in brackets are sections of the fact sheet.

    Attributes:
        network: "lite" or "full".
        stage: 1: references without scores, L = MSE_a + GEN; 2: the complete loss (3).
        reference, generation, ranking: weights of MSE_h, GEN and PR relative to MSE_a. The lite network has no GEN.
        symmetric: apply PR in both directions.
        axes, hidden, members: settings of the lite network.
    """

    network: Literal["lite", "full"] = "lite"
    stage: Literal[1, 2] = 2
    reference: Number = Field(1.0, ge=0)
    generation: Number = Field(1.0, ge=0)
    ranking: Number = Field(1.0, ge=0)
    symmetric: bool = False
    axes: int = Field(16, ge=0)
    hidden: Size = 32
    members: Size = 8

    @property
    def weights(self) -> RadeWeights:
        """Loss weights of the configured stage."""
        second = self.stage == 2
        return RadeWeights(
            reference=self.reference if second else 0,
            generation=self.generation,
            ranking=self.ranking if second else 0,
            symmetric=self.symmetric,
        )


class LiteBatch:
    """Sentence vectors (B, V, d), surface features (B, S) and ratings (B, 2).

    Ratings are s_h and s_a.
    """

    def __init__(self, vectors: Tensor, surface: Tensor, scores: Tensor) -> None:
        self.vectors, self.surface, self.scores = vectors, surface, scores


class LiteNetwork(RadeLite):
    """`RadeLite` with its loss; ensemble members are trained independently."""

    def __init__(self, options: RadeOptions, width: int) -> None:
        super().__init__(
            len(NAMES),
            len(VECTORS),
            width,
            n_axes=options.axes,
            hidden=options.hidden,
            dropout=options.dropout,
            members=options.members,
        )
        self.options = options

    def scored(self, batch: LiteBatch) -> Tensor:
        """Return the predicted scores (ŝ_h, ŝ_a), (B, 2)."""
        return self(batch.vectors.to(self.mean.device), batch.surface.to(self.mean.device))

    def loss(self, batch: LiteBatch) -> ExampleLoss:
        """Return the members' mean loss, divided by the variance of s_a.

        This makes the learning rate independent of the rating scale.
        """
        device = self.mean.device
        scores, weights = batch.scores.to(device), self.options.weights
        member_scores = self.members(batch.vectors.to(device), batch.surface.to(device))
        losses = [rade_loss(member, scores[:, 1], scores[:, 0], None, weights)[0] for member in member_scores]
        return ExampleLoss(torch.stack(losses).sum() / self.scale[1] ** 2, len(scores))

    def dumped(self) -> bytes:
        """Return buffers computed from the training data: axes, means, spreads, scale."""
        from safetensors.torch import save

        return save({name: buffer.contiguous() for name, buffer in self.named_buffers()})

    def take(self, dumped: bytes) -> None:
        """Load buffers saved by `dumped`."""
        from safetensors.torch import load as read

        for name, value in read(dumped).items():
            self.get_buffer(name).copy_(value)


class FullNetwork(nn.Module):
    """`RadeNetwork` with its tokenizer and loss."""

    def __init__(self, config: BackboneConfig, options: RadeOptions) -> None:
        super().__init__()
        folder = encoder_folder() if config.model == MINILM else find_model(config.model)
        assert folder is not None, "checked with the config"
        kind = "AutoModelForSeq2SeqLM" if _is_encoder_decoder(config.model) else "AutoModel"
        loaded = load_pretrained(folder, kind, device="cpu", dtype="float32")
        model: Any = loaded.model
        model.requires_grad_(config.learns == "all")
        if config.learns == "adapters":
            from peft import LoraConfig, get_peft_model

            lora = LoraConfig(
                r=config.rank, lora_alpha=config.alpha, lora_dropout=config.dropout, target_modules="all-linear"
            )
            get_peft_model(model, lora)  # inserts adapters in place
        self.network = RadeNetwork(model, options.dropout)
        self.tokenizer, self.options = loaded.tokenizer, options
        self.most = min(MAX_TOKENS, config.max_tokens)

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        device = next(self.parameters()).device
        pad = self.tokenizer.pad_token_id or 0
        mask = padded([[1] * len(row) for row in rows], 0)
        return padded(rows, pad).to(device), mask.to(device)

    def scored(self, batch: Sequence[RatedPair]) -> Tensor:
        """Return the predicted scores (ŝ_h, ŝ_a), (B, 2)."""
        rows = [pair_tokens(self.tokenizer, pair.context, pair.reference, pair.response, self.most) for pair in batch]
        return self.network(*self._padded(rows))

    def loss(self, batch: Sequence[RatedPair]) -> ExampleLoss:
        """Return the loss of the config's stage (3)."""
        scores = self.scored(batch)
        people = _scores(batch).to(scores.device)
        generation = None
        if self.options.generation:
            contexts = [context_tokens(self.tokenizer, pair.context, self.most) for pair in batch]
            end = self.tokenizer.eos_token_id or self.tokenizer.sep_token_id
            reference_tokens = [
                [*self.tokenizer(pair.reference, add_special_tokens=False)["input_ids"], end][: self.most]
                for pair in batch
            ]
            labels = padded(reference_tokens, IGNORED).to(scores.device)
            generation = self.network.generation(*self._padded(contexts), labels)
        total, parts = rade_loss(scores, people[:, 1], people[:, 0], generation, self.options.weights)
        return ExampleLoss(total, len(batch), {k: torch.tensor(v) for k, v in parts.items()})


class RatedExamples(Examples):
    """Rated pairs of one part of the data.

    Inputs of the lite network are computed once.
    """

    def __init__(self, pairs: Sequence[RatedPair], lite: LiteBatch | None) -> None:
        self.pairs, self.lite, self.n = pairs, lite, len(pairs)

    def batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[Any]:
        order = np.random.default_rng(derive_seed(seed, epoch)).permutation(self.n)
        for offset in range(start * batch_size, self.n, batch_size):
            yield self._batch(order[offset : offset + batch_size])

    def in_order(self, batch_size: int) -> Iterator[Any]:
        for offset in range(0, self.n, batch_size):
            yield self._batch(np.arange(offset, min(offset + batch_size, self.n)))

    def _batch(self, rows: np.ndarray) -> Any:
        if self.lite is None:
            return [self.pairs[k] for k in rows]
        return LiteBatch(self.lite.vectors[rows], self.lite.surface[rows], self.lite.scores[rows])


_REMEMBERED: ContextVar[TextCache | None] = ContextVar("remembered", default=None)


@contextmanager
def texts_remembered(shared: TextCache) -> Iterator[None]:
    """Share text vectors between trainings, on the device of `shared`."""
    before = _REMEMBERED.set(shared)
    try:
        yield
    finally:
        _REMEMBERED.reset(before)


class RatedTraining(LearnedMetric):
    """Base class of metrics trained on rated pairs: their parts, and the measures of s_a."""

    reads_dialogues = False
    draws_share = True

    def missing(self, config: MetricTrainingConfig) -> dict[str, str]:
        options: RatedOptions = config.metric_options
        problems = {
            f"rated[{k}]": f"{config.path(name)} does not exist; give its folder with --data"
            for k, name in enumerate(options.rated)
            if not config.path(name).exists()
        }
        if options.fold >= options.folds:
            problems["fold"] = f"fold is {options.fold}; it must be below the number of folds, {options.folds}"
        if not options.held_out and (config.optimiser.patience or config.optimiser.plateau != 1):
            problems["held_out"] = (
                "with 0 there is no validation, so optimiser.patience must be 0 and optimiser.plateau 1"
            )
        return problems

    def needs_reference_scores(self, options: Any) -> bool:
        """Return True if pairs without a score of the reference are skipped."""
        return False

    def lite_inputs(
        self, parts: dict[str, list[RatedPair]], options: Any, device: str
    ) -> tuple[dict[str, LiteBatch | None], dict[str, bytes]]:
        """Return inputs that are computed once, by part, and the files that scoring needs."""
        return dict.fromkeys(parts), {}

    def prepare(self, config: MetricTrainingConfig, splits: Splits, device: str) -> Prepared:
        options: RatedOptions = config.metric_options
        needs_scores = self.needs_reference_scores(options)
        files = [rated_pairs_read(config.path(name), reference_scores=needs_scores) for name in options.rated]
        rows = options.split == "rows"
        parts = parted([pair for file in files for pair in (file.rows if rows else file.pairs)], options)
        parts["train"] = _share_of(parts["train"], config)
        for name in ("train", "validation") if options.held_out else ("train",):
            if len(parts[name]) < 2:
                raise CorpusError(f"the {name} part has only {len(parts[name])} rated pairs; give more")
        lite, dumped = self.lite_inputs(parts, options, device)
        examples = {name: RatedExamples(pairs, lite[name]) for name, pairs in parts.items()}
        pair_rows = [[asdict(pair) for pair in parts[name]] for name in parts]
        return Prepared(
            train=examples["train"],
            validation=examples["validation"] if parts["validation"] else None,
            test=examples["test"] if parts["test"] else None,
            digest=hashlib.sha256(canonical_json(pair_rows).encode()).hexdigest()[:16],
            files=dumped,
            facts={
                "pairs": {name: len(pairs) for name, pairs in parts.items()},
                "of_files": [file.counts() for file in files],
                "split": LEAKING if rows else GROUPED,
                "width": 0 if lite["train"] is None else int(lite["train"].vectors.shape[-1]),
                "licences": [options.licence],
            },
        )

    def measure(self, network: nn.Module, examples: Examples, batch_size: int) -> dict[str, float]:
        """Compute correlations and squared error of s_a.

        `loss`, which selects the best weights, follows `chosen_by`.
        """
        assert isinstance(examples, RatedExamples)
        predictions = predicted(network, examples, batch_size)
        people = _scores(examples.pairs)[:, 1].double().numpy()
        error = float(np.mean((predictions - people) ** 2))
        correlations: dict[str, float] = {}
        for name in METHODS:
            r = correlate(predictions, people, name, interval="fisher").r
            correlations[name] = float("nan") if r is None else r
        loss = error
        if network.options.chosen_by == "correlation":  # type: ignore[union-attr]
            mean_correlation = (correlations["pearson"] + correlations["spearman"]) / 2
            loss = 2.0 if np.isnan(mean_correlation) else 1 - mean_correlation  # worse than any correlation
        return {"loss": loss, "squared_error": error, **correlations}


@register_learned
class RadeTraining(RatedTraining):
    """RADE and its lite version."""

    name = "rade"
    options_type = RadeOptions

    def missing(self, config: MetricTrainingConfig) -> dict[str, str]:
        problems = super().missing(config)
        if config.metric_options.network == "lite" and config.backbone != BackboneConfig():
            problems["network"] = "the lite network only reads frozen MiniLM; omit backbone or use the full network"
        return problems

    def needs_reference_scores(self, options: RadeOptions) -> bool:
        return options.stage == 2

    def lite_inputs(
        self, parts: dict[str, list[RatedPair]], options: RadeOptions, device: str
    ) -> tuple[dict[str, LiteBatch | None], dict[str, bytes]]:
        if options.network != "lite":
            return super().lite_inputs(parts, options, device)
        shared = _REMEMBERED.get() or TextCache(device)
        lite = {name: lite_batch(pairs, shared) for name, pairs in parts.items()}
        train = lite["train"]
        network = LiteNetwork(options, train.vectors.shape[-1])
        network.fitted(train.vectors, train.surface, train.scores)
        return {**lite}, {INPUTS: network.dumped()}

    def network(self, config: MetricTrainingConfig, prepared: Prepared) -> nn.Module:
        options: RadeOptions = config.metric_options
        if options.network == "full":
            return FullNetwork(config.backbone, options)
        network = LiteNetwork(options, int(prepared.facts["width"]))
        network.take(prepared.files[INPUTS])
        return network

    def restored(self, checkpoint: Checkpoint) -> nn.Module:
        options: RadeOptions = checkpoint.config.metric_options
        if options.network == "full":
            return FullNetwork(checkpoint.config.backbone, options)
        network = LiteNetwork(options, int(checkpoint.manifest.facts["width"]))
        network.take(checkpoint.file(INPUTS))
        return network


def parted(pairs: Sequence[RatedPair], options: RatedOptions) -> dict[str, list[RatedPair]]:
    """Split the pairs into training, validation and test parts.

    Unless rows are split, no context is in two parts.
    """
    dealt = leaking_folds if options.split == "rows" else grouped_folds
    test: list[RatedPair] = []
    rest = list(pairs)
    if options.fold >= 0:
        folds = dealt(rest, options.folds, options.fold_seed)
        test = [pair for pair, fold in zip(rest, folds, strict=True) if fold == options.fold]
        rest = [pair for pair, fold in zip(rest, folds, strict=True) if fold != options.fold]
    held_out = np.zeros(len(rest), dtype=bool)
    if options.held_out:
        held_out = dealt(rest, round(1 / options.held_out), options.fold_seed) == 0
    train = [pair for pair, held in zip(rest, held_out, strict=True) if not held]
    if options.max_pairs:
        order = np.random.default_rng(derive_seed(options.fold_seed, "training pairs")).permutation(len(train))
        train = [train[k] for k in sorted(order[: options.max_pairs])]
    return {
        "train": train,
        "validation": [pair for pair, held in zip(rest, held_out, strict=True) if held],
        "test": test,
    }


def _share_of(pairs: Sequence[RatedPair], config: MetricTrainingConfig) -> list[RatedPair]:
    """Return the pairs of the configured share of contexts."""
    contexts = list(dict.fromkeys(context_key(pair) for pair in pairs))
    sampled = set(nested_share(contexts, config.data.share, derive_seed(config.seed, "share")))
    return [pair for pair in pairs if context_key(pair) in sampled]


def predicted(network: Any, examples: RatedExamples, batch_size: int = 64) -> np.ndarray:
    """Return the predictions ŝ_a, (N,), not clipped."""
    network.eval()
    with torch.no_grad():
        parts = [network.scored(batch)[:, -1].cpu() for batch in examples.in_order(batch_size)]
    return torch.cat(parts).double().numpy() if parts else np.zeros(0)


def lite_batch(pairs: Sequence[RatedPair], shared: TextCache) -> LiteBatch:
    """Return the lite network's input."""
    vectors, surface = vectors_and_surface([pair.reply for pair in pairs], shared)
    return LiteBatch(torch.from_numpy(vectors), torch.from_numpy(surface), _scores(pairs))


def _scores(pairs: Sequence[RatedPair]) -> Tensor:
    """Return human ratings (s_h, s_a), (N, 2); NaN for a missing s_h."""
    rating_pairs = [(pair.reference_score, pair.score) for pair in pairs]
    return torch.tensor([(float("nan") if h is None else h, a) for h, a in rating_pairs]).reshape(-1, 2)


def _is_encoder_decoder(model: str) -> bool:
    from transformers import AutoConfig

    if model == MINILM:
        return False
    folder = find_model(model)
    return bool(folder and AutoConfig.from_pretrained(folder, local_files_only=True).is_encoder_decoder)
