"""Training of DialogEntailment's classifiers (Dziri et al. 2019, NAACL).

Inference pairs are made from the config's corpora (`evaluation/training/inference_pairs.py`) or read from files: the
published InferConvAI, or the output of `make_inference_pairs`. There are three networks
(`evaluation/models/entailment*.py`): "bert", "esim", and "lite", a softmax regression on vectors of a frozen encoder,
which are computed once.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn
from torch.nn import functional as F

from chatbots.corpora.dialogues import CorpusError
from chatbots.encoders.sentence import MINILM, encoder_get
from chatbots.encoders.word_vectors import WORD_DIMENSION, word_vectors
from chatbots.identity import canonical_json, derive_seed
from chatbots.training.ei import embeddings_cached
from chatbots.validation import InputModel, Number, Size
from evaluation.models.entailment import (
    EncoderVectors,
    EntailmentBert,
    EntailmentClassifier,
    EntailmentLite,
    Esim,
    NliBatch,
    StaticVectors,
    TokenVectorModel,
)
from evaluation.training.backbone import backbone_load
from evaluation.training.checkpoint import Checkpoint
from evaluation.training.config import MetricTrainingConfig, register_learned
from evaluation.training.contract import Examples, LearnedMetric, Prepared, Splits
from evaluation.training.inference_pairs import (
    LABELS,
    TRUE,
    InferencePair,
    PairOptions,
    dull_sentences,
    inference_pairs,
    mnli_contradictions,
    pairs_read,
)

PARTS = ("train", "validation", "test")
BUCKET = 50
"""Number of batches among which pairs are sorted by length."""


class PairFiles(InputModel):
    """Files of pairs, used instead of corpora.

    Paths are relative to the data folder; the test file is optional.
    """

    train: str = ""
    validation: str = ""
    test: str = ""


class EntailmentOptions(InputModel):
    """Options of DialogEntailment.

    Attributes:
        network: "lite", "bert" or "esim".
        pairs: options for making pairs from the corpora.
        files: pairs used instead of corpora.
        mnli: MultiNLI's training file, for `pairs.n_mnli` contradictions.
        dull: file of dull sentences, replacing Confab's.
        most_pairs, most_held_out: maximum numbers of training pairs and of pairs per held-out part, sampled; 0: all.
        hypothesis_only: hide the premise, to measure how much the reply alone predicts.
        words_from: word vectors of ESIM: "encoder": the backbone's last states; "static": vectors distilled from
            MiniLM.
        hidden: units of ESIM.
        dropout: by default as published: 0.1 for BERT, 0.5 for ESIM.
        chosen_by: validation measure that selects the best weights.
        data_seed: seed of all draws for the pairs.
    """

    network: Literal["lite", "bert", "esim"] = "lite"
    pairs: PairOptions = PairOptions()
    files: PairFiles = PairFiles()
    mnli: str = ""
    dull: str = ""
    most_pairs: int = Field(0, ge=0)
    most_held_out: int = Field(0, ge=0)
    hypothesis_only: bool = False
    words_from: Literal["encoder", "static"] = "encoder"
    hidden: Size = 300
    dropout: Number | None = Field(None, ge=0, lt=1)
    chosen_by: Literal["accuracy", "cross_entropy"] = "accuracy"
    data_seed: int = 0


class NliPairs(Examples):
    """Pairs of one part of the data.

    Args:
        vectors: (T, d) text vectors, and the row of each text; None if the network reads texts.
        hypothesis_only: replace premises by empty texts or zeros.
    """

    def __init__(
        self,
        pairs: Sequence[InferencePair],
        vectors: tuple[np.ndarray, Mapping[str, int]] | None = None,
        *,
        hypothesis_only: bool = False,
    ) -> None:
        self.n, self.vectors, self.hypothesis_only = len(pairs), vectors, hypothesis_only
        self.premises = ["" if hypothesis_only else pair.premise for pair in pairs]
        self.hypotheses = [pair.hypothesis for pair in pairs]
        self.labels = np.array([LABELS.index(pair.label) for pair in pairs])

    def batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[NliBatch]:
        rng = np.random.default_rng(derive_seed(seed, "order", epoch))
        order = rng.permutation(self.n)
        if self.vectors is None:  # pairs of similar length share a batch to reduce padding
            lengths = np.array([len(a) + len(b) for a, b in zip(self.premises, self.hypotheses, strict=True)])
            chunk = BUCKET * batch_size
            parts = [order[offset : offset + chunk] for offset in range(0, self.n, chunk)]
            order = np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in parts])
        groups = [order[offset : offset + batch_size] for offset in range(0, self.n, batch_size)]
        for k in rng.permutation(len(groups))[start:]:
            yield self._batch(groups[k])

    def in_order(self, batch_size: int) -> Iterator[NliBatch]:
        for offset in range(0, self.n, batch_size):
            yield self._batch(np.arange(offset, min(offset + batch_size, self.n)))

    def _batch(self, rows: np.ndarray) -> NliBatch:
        label = torch.from_numpy(self.labels[rows])
        premises = [self.premises[k] for k in rows]
        hypotheses = [self.hypotheses[k] for k in rows]
        if self.vectors is None:
            return NliBatch(premises, hypotheses, label)
        vectors, place = self.vectors
        hypothesis_vectors = torch.from_numpy(vectors[[place[text] for text in hypotheses]])
        if self.hypothesis_only:
            return NliBatch(torch.zeros_like(hypothesis_vectors), hypothesis_vectors, label)
        return NliBatch(torch.from_numpy(vectors[[place[text] for text in premises]]), hypothesis_vectors, label)

    @property
    def majority(self) -> float:
        """Share of the majority label."""
        return float(np.bincount(self.labels).max() / self.n)


@register_learned
class EntailmentTraining(LearnedMetric):
    """DialogEntailment's classifiers; by default `entailment-lite`."""

    name = "entailment"
    options_type = EntailmentOptions
    reads_dialogues = None

    def missing(self, config: MetricTrainingConfig) -> dict[str, str]:
        options: EntailmentOptions = config.metric_options
        problems = {}
        files = {part: getattr(options.files, part) for part in PARTS}
        if any(files.values()) == bool(config.data.corpora):
            problems["files"] = "give either corpora (data.corpora) or files of pairs"
        elif any(files.values()) and not (files["train"] and files["validation"]):
            problems["files"] = "give both train and validation"
        named_files = {f"files.{part}": path for part, path in files.items()}
        for key, path in {**named_files, "mnli": options.mnli, "dull": options.dull}.items():
            if path and not config.path(path).is_file():
                problems[key] = f"there is no file {config.path(path)}"
        if options.pairs.n_mnli and not options.mnli:
            problems["pairs.n_mnli"] = "options.mnli must be MultiNLI's training file"
        if options.network == "lite" and config.backbone.learns != "frozen":
            problems["network"] = (
                f"lite requires backbone.learns: frozen, not {config.backbone.learns}; use bert to train the encoder"
            )
        if options.network == "esim" and options.words_from == "static" and config.backbone.model != MINILM:
            problems["words_from"] = (
                f"static vectors are MiniLM's, so backbone.model must be {MINILM}, not {config.backbone.model}"
            )
        return problems

    def prepare(self, config: MetricTrainingConfig, splits: Splits, device: str) -> Prepared:
        options: EntailmentOptions = config.metric_options
        pairs = pairs_made(config, splits)
        vectors = None
        if options.network == "lite":
            vectors = _vectors(pairs, config.backbone.model, device)
        examples = {
            name: NliPairs(part, vectors, hypothesis_only=options.hypothesis_only)
            for name, part in pairs.items()
            if part
        }
        counts = {name: dict(Counter(pair.label for pair in part)) for name, part in pairs.items() if part}
        pair_rows = [[name, pair.premise, pair.hypothesis, pair.label] for name in pairs for pair in pairs[name]]
        return Prepared(
            train=examples["train"],
            validation=examples["validation"],
            test=examples.get("test"),
            digest=hashlib.sha256(canonical_json([splits.digest, pair_rows]).encode()).hexdigest()[:16],
            facts={
                "n_examples": {name: part.n for name, part in examples.items()},
                "pairs": counts,
                "width": int(vectors[0].shape[1]) if vectors else 0,
                "words_from": _name_word_vectors(config),
                "licences": sorted({c.licence or "not stated" for c in config.data.corpora}) or ["not stated"],
            },
        )

    def network(self, config: MetricTrainingConfig, prepared: Prepared) -> nn.Module:
        return _network(config, int(prepared.facts["width"]))

    def restored(self, checkpoint: Checkpoint) -> nn.Module:
        return _network(checkpoint.config, int(checkpoint.manifest.facts["width"]))

    def measure(self, network: nn.Module, examples: Examples, batch_size: int) -> dict[str, float]:
        """Compute accuracy, overall and by label, and the majority share.

        `loss` selects the best weights.
        """
        assert isinstance(network, EntailmentClassifier)
        assert isinstance(examples, NliPairs)
        network.eval()
        with torch.no_grad():
            logits = torch.cat(
                [network(batch.premise, batch.hypothesis).float().cpu() for batch in examples.in_order(batch_size)]
            )
        labels = torch.from_numpy(examples.labels)
        right = logits.argmax(dim=1) == labels
        accuracy = float(right.double().mean())
        entropy = float(F.cross_entropy(logits, labels))
        figures = {
            "cross_entropy": entropy,
            "accuracy": accuracy,
            "majority": examples.majority,
            **{
                f"accuracy_{name}": float(right[labels == k].double().mean())
                for k, name in enumerate(LABELS)
                if bool((labels == k).any())
            },
        }
        by_accuracy = network.chosen_by == "accuracy"  # cross-entropy breaks ties
        return {"loss": 1 - accuracy + 1e-4 * entropy if by_accuracy else entropy, **figures}


def pairs_made(config: MetricTrainingConfig, splits: Splits) -> dict[str, list[InferencePair]]:
    """Return each part's pairs, from dialogues or from the config's files.

    Raises:
        CorpusError: if there are no training or validation pairs.
    """
    options: EntailmentOptions = config.metric_options
    pairs_by_part: dict[str, list[InferencePair]] = {}
    if options.files.train:
        for name in PARTS:
            path: str = getattr(options.files, name)
            pairs_by_part[name] = pairs_read(config.path(path)) if path else []
    else:
        dull = dull_sentences(config.path(options.dull)) if options.dull else None
        for name, part in splits.parts():
            mnli: Sequence[InferencePair] = ()
            if name == "train" and options.pairs.n_mnli:
                mnli = mnli_contradictions(
                    config.path(options.mnli), options.pairs.n_mnli, derive_seed(options.data_seed, "mnli")
                )
            seed = derive_seed(options.data_seed, name)
            pairs_by_part[name] = inference_pairs(part, options.pairs, seed, dull=dull, mnli=mnli)
    for name, pairs in pairs_by_part.items():  # already shuffled
        limit = options.most_pairs if name == "train" else options.most_held_out
        if limit:
            pairs_by_part[name] = pairs[:limit]
    for name in ("train", "validation"):
        if not pairs_by_part[name]:
            raise CorpusError(f"the {name} part has no dialogue of three utterances; give more dialogues")
    return pairs_by_part


def _vectors(
    pairs: Mapping[str, Sequence[InferencePair]], model: str, device: str
) -> tuple[np.ndarray, dict[str, int]]:
    """Encode every text once.

    Premises and replies are cached apart from drawn hypotheses, which vary by seed.
    """
    true_texts: dict[str, None] = {}
    sampled_texts: dict[str, None] = {}
    for part in pairs.values():
        for pair in part:
            true_texts[pair.premise] = None
            (true_texts if pair.genre == TRUE else sampled_texts)[pair.hypothesis] = None
    encoder = encoder_get(model, device)
    groups = [sorted(true_texts), sorted(set(sampled_texts) - set(true_texts))]
    rows = [embeddings_cached(group, encoder) for group in groups if group]
    place = {text: k for k, text in enumerate(text for group in groups for text in group)}
    return np.concatenate(rows).astype(np.float32), place


def _network(config: MetricTrainingConfig, width: int) -> EntailmentClassifier:
    options: EntailmentOptions = config.metric_options
    network = _make_network(config, options, width)
    network.chosen_by = options.chosen_by
    return network


def _make_network(config: MetricTrainingConfig, options: EntailmentOptions, width: int) -> EntailmentClassifier:
    if options.network == "lite":
        return EntailmentLite(width)
    dropout = {} if options.dropout is None else {"dropout": options.dropout}
    if options.network == "bert":
        return EntailmentBert(backbone_load(config.backbone), **dropout)
    vectors: TokenVectorModel
    if options.words_from == "encoder":
        vectors = EncoderVectors(backbone_load(config.backbone))
    else:
        vectors = StaticVectors(_words, _vector, WORD_DIMENSION, config.backbone.max_tokens)
    return Esim(vectors, options.hidden, **dropout)


def _name_word_vectors(config: MetricTrainingConfig) -> str:
    """Return the source of ESIM's word vectors; empty for other networks."""
    options: EntailmentOptions = config.metric_options
    if options.network != "esim":
        return ""
    if options.words_from == "static":
        return "static vectors distilled from MiniLM"
    return f"states of {Path(config.backbone.model).name}"


def _words(text: str) -> Sequence[str]:
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer().tokenize(text)


def _vector(word: str) -> np.ndarray | None:
    return word_vectors().lookup(word)
