"""Training of DialogEntailment's classifiers (Dziri et al. 2019, NAACL) on inference pairs made of dialogues.

The pairs are made again of the corpora of a config (`evaluation/training/inference_pairs.py`), or read from files:
the published InferConvAI, or what `make_inference_pairs` wrote. Three networks (`evaluation/models/entailment*.py`):
"bert", "esim", and "lite", softmax regression on a frozen encoder's vectors, which are computed once.
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
"""Batches whose pairs are sorted by length together."""


class PairFiles(InputModel):
    """Files of finished pairs, relative to the data folder, in place of corpora; test may be missing."""

    train: str = ""
    validation: str = ""
    test: str = ""


class EntailmentOptions(InputModel):
    """The keys of a config that are DialogEntailment's own.

    Attributes:
        network: "lite", "bert" or "esim".
        pairs: how pairs are made of the corpora.
        files: finished pairs in place of corpora.
        mnli: MultiNLI's training file, of which `pairs.n_mnli` contradictions are drawn.
        dull: file of dull sentences in place of our own list.
        most_pairs, most_held_out: learn from, and measure on, so many pairs of each part, drawn; 0: all.
        hypothesis_only: hide the premise: what a network then knows, it knows of the reply alone.
        words_from: of ESIM: "encoder": the backbone's last states; "static": words' vectors distilled from MiniLM.
        hidden: units of ESIM.
        dropout: the published ones where nothing is said: 0.1 of BERT, 0.5 of ESIM.
        chosen_by: what of validation decides the best weights.
        data_seed: of everything drawn for the pairs.
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
    """Pairs of one part.

    Args:
        vectors: (T, d) of texts, and the row of each text; None where the network reads texts.
        hypothesis_only: every premise is the empty text, or zeros.
    """

    def __init__(
        self,
        pairs: Sequence[InferencePair],
        vectors: tuple[np.ndarray, Mapping[str, int]] | None = None,
        *,
        hypothesis_only: bool = False,
    ) -> None:
        self.n, self.vectors, self.hypothesis_only = len(pairs), vectors, hypothesis_only
        self.premises = ["" if hypothesis_only else one.premise for one in pairs]
        self.hypotheses = [one.hypothesis for one in pairs]
        self.labels = np.array([LABELS.index(one.label) for one in pairs])

    def batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[NliBatch]:
        rng = np.random.default_rng(derive_seed(seed, "order", epoch))
        order = rng.permutation(self.n)
        if self.vectors is None:  # pairs of a length share a batch, so that little of it is padding
            lengths = np.array([len(a) + len(b) for a, b in zip(self.premises, self.hypotheses, strict=True)])
            chunk = BUCKET * batch_size
            parts = [order[at : at + chunk] for at in range(0, self.n, chunk)]
            order = np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in parts])
        groups = [order[at : at + batch_size] for at in range(0, self.n, batch_size)]
        for k in rng.permutation(len(groups))[start:]:
            yield self._batch(groups[k])

    def in_order(self, batch_size: int) -> Iterator[NliBatch]:
        for at in range(0, self.n, batch_size):
            yield self._batch(np.arange(at, min(at + batch_size, self.n)))

    def _batch(self, rows: np.ndarray) -> NliBatch:
        label = torch.from_numpy(self.labels[rows])
        premises = [self.premises[k] for k in rows]
        hypotheses = [self.hypotheses[k] for k in rows]
        if self.vectors is None:
            return NliBatch(premises, hypotheses, label)
        vectors, place = self.vectors
        said = torch.from_numpy(vectors[[place[text] for text in hypotheses]])
        if self.hypothesis_only:
            return NliBatch(torch.zeros_like(said), said, label)
        return NliBatch(torch.from_numpy(vectors[[place[text] for text in premises]]), said, label)

    @property
    def majority(self) -> float:
        """The share of the commonest label."""
        return float(np.bincount(self.labels).max() / self.n)


@register_learned
class EntailmentTraining(LearnedMetric):
    """DialogEntailment's classifiers; `entailment-lite` by the usual options."""

    name = "entailment"
    options_type = EntailmentOptions
    reads_dialogues = None

    def missing(self, config: MetricTrainingConfig) -> dict[str, str]:
        own: EntailmentOptions = config.own
        found = {}
        files = {part: getattr(own.files, part) for part in PARTS}
        if any(files.values()) == bool(config.data.corpora):
            found["files"] = "pairs come from corpora (data.corpora) or from files, and one of the two must be given"
        elif any(files.values()) and not (files["train"] and files["validation"]):
            found["files"] = "both train and validation must be named"
        named = {f"files.{part}": path for part, path in files.items()}
        for key, path in {**named, "mnli": own.mnli, "dull": own.dull}.items():
            if path and not config.path(path).is_file():
                found[key] = f"there is no file {config.path(path)}"
        if own.pairs.n_mnli and not own.mnli:
            found["pairs.n_mnli"] = "options.mnli must name MultiNLI's training file"
        if own.network == "lite" and config.backbone.learns != "frozen":
            found["network"] = f"lite needs backbone.learns of frozen, not {config.backbone.learns}; bert learns whole"
        if own.network == "esim" and own.words_from == "static" and config.backbone.model != MINILM:
            found["words_from"] = (
                f"static vectors are MiniLM's; backbone.model must be {MINILM}, not {config.backbone.model}"
            )
        return found

    def prepare(self, config: MetricTrainingConfig, splits: Splits, device: str) -> Prepared:
        own: EntailmentOptions = config.own
        pairs = pairs_made(config, splits)
        vectors = None
        if own.network == "lite":
            vectors = _vectors(pairs, config.backbone.model, device)
        made = {
            name: NliPairs(part, vectors, hypothesis_only=own.hypothesis_only) for name, part in pairs.items() if part
        }
        counts = {name: dict(Counter(pair.label for pair in part)) for name, part in pairs.items() if part}
        shown = [[name, one.premise, one.hypothesis, one.label] for name in pairs for one in pairs[name]]
        return Prepared(
            train=made["train"],
            validation=made["validation"],
            test=made.get("test"),
            digest=hashlib.sha256(canonical_json([splits.digest, shown]).encode()).hexdigest()[:16],
            facts={
                "n_examples": {name: one.n for name, one in made.items()},
                "pairs": counts,
                "width": int(vectors[0].shape[1]) if vectors else 0,
                "words_from": _words_told(config),
                "licences": sorted({c.licence or "not stated" for c in config.data.corpora}) or ["not stated"],
            },
        )

    def network(self, config: MetricTrainingConfig, prepared: Prepared) -> nn.Module:
        return _network(config, int(prepared.facts["width"]))

    def restored(self, checkpoint: Checkpoint) -> nn.Module:
        return _network(checkpoint.config, int(checkpoint.manifest.facts["width"]))

    def measure(self, network: nn.Module, examples: Examples, batch_size: int) -> dict[str, float]:
        """Measure accuracy, whole and of each label, and the commonest label's share; `loss` chooses the best."""
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
        told = {
            "cross_entropy": entropy,
            "accuracy": accuracy,
            "majority": examples.majority,
            **{
                f"accuracy_{name}": float(right[labels == k].double().mean())
                for k, name in enumerate(LABELS)
                if bool((labels == k).any())
            },
        }
        by_accuracy = network.chosen_by == "accuracy"  # ties by cross-entropy
        return {"loss": 1 - accuracy + 1e-4 * entropy if by_accuracy else entropy, **told}


def pairs_made(config: MetricTrainingConfig, splits: Splits) -> dict[str, list[InferencePair]]:
    """Return the pairs of each part that a config asks for, of dialogues or from its files.

    Raises:
        CorpusError: no pair to learn from or to validate on.
    """
    own: EntailmentOptions = config.own
    found: dict[str, list[InferencePair]] = {}
    if own.files.train:
        for name in PARTS:
            path: str = getattr(own.files, name)
            found[name] = pairs_read(config.path(path)) if path else []
    else:
        dull = dull_sentences(config.path(own.dull)) if own.dull else None
        for name, part in splits.parts():
            mnli: Sequence[InferencePair] = ()
            if name == "train" and own.pairs.n_mnli:
                mnli = mnli_contradictions(config.path(own.mnli), own.pairs.n_mnli, derive_seed(own.data_seed, "mnli"))
            seed = derive_seed(own.data_seed, name)
            found[name] = inference_pairs(part, own.pairs, seed, dull=dull, mnli=mnli)
    for name, pairs in found.items():  # in a drawn order already
        most = own.most_pairs if name == "train" else own.most_held_out
        if most:
            found[name] = pairs[:most]
    for name in ("train", "validation"):
        if not found[name]:
            raise CorpusError(f"the {name} part has no dialogue of three utterances; give more dialogues")
    return found


def _vectors(
    pairs: Mapping[str, Sequence[InferencePair]], model: str, device: str
) -> tuple[np.ndarray, dict[str, int]]:
    """Encode every text once; premises and replies apart from what is drawn, which differs from seed to seed."""
    told: dict[str, None] = {}
    drawn: dict[str, None] = {}
    for part in pairs.values():
        for pair in part:
            told[pair.premise] = None
            (told if pair.genre == TRUE else drawn)[pair.hypothesis] = None
    encoder = encoder_get(model, device)
    groups = [sorted(told), sorted(set(drawn) - set(told))]
    rows = [embeddings_cached(group, encoder) for group in groups if group]
    place = {text: k for k, text in enumerate(text for group in groups for text in group)}
    return np.concatenate(rows).astype(np.float32), place


def _network(config: MetricTrainingConfig, width: int) -> EntailmentClassifier:
    own: EntailmentOptions = config.own
    network = _made(config, own, width)
    network.chosen_by = own.chosen_by
    return network


def _made(config: MetricTrainingConfig, own: EntailmentOptions, width: int) -> EntailmentClassifier:
    if own.network == "lite":
        return EntailmentLite(width)
    dropout = {} if own.dropout is None else {"dropout": own.dropout}
    if own.network == "bert":
        return EntailmentBert(backbone_load(config.backbone), **dropout)
    vectors: TokenVectorModel
    if own.words_from == "encoder":
        vectors = EncoderVectors(backbone_load(config.backbone))
    else:
        vectors = StaticVectors(_words, _vector, WORD_DIMENSION, config.backbone.max_tokens)
    return Esim(vectors, own.hidden, **dropout)


def _words_told(config: MetricTrainingConfig) -> str:
    """Name what gives ESIM's words their vectors; empty for other networks."""
    own: EntailmentOptions = config.own
    if own.network != "esim":
        return ""
    if own.words_from == "static":
        return "static vectors distilled from MiniLM"
    return f"states of {Path(config.backbone.model).name}"


def _words(text: str) -> Sequence[str]:
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer().tokenize(text)


def _vector(word: str) -> np.ndarray | None:
    return word_vectors().lookup(word)
