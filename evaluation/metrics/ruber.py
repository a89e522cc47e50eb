"""RUBER, BERT-RUBER and PONE: fit of a reply to its context.

RUBER and BERT-RUBER also measure similarity to a human reply.

Lan et al. 2020, "PONE: A Novel Automatic Evaluation Metric for Open-Domain Generative Dialogue Systems", ACM TOIS. The
network is `evaluation/models/pone.py`, its training `evaluation/training/metrics/pone.py`. With an encoder other than
the paper's it is named `-lite`. `pone_pmi` adds the pointwise mutual information of the reply under a language model:
both estimate how much likelier the reply is in this context than in any other. PONE-lite, shipped with Confab
(`evaluation/shipped/pone-lite-open-full`), is always labelled as a lite version; its results are in
`docs/research/pone_rade.md`.

Tao et al. 2018, "RUBER: An Unsupervised Method for Automatic Evaluation of Open-Domain Dialog Systems", AAAI; Ghazarian
et al. 2019, "Better Automatic Evaluation of Open-Domain Dialogue Systems with Contextualized Embeddings", NeuralGen.
Both are special cases of PONE's scorer (`evaluation/models/pone.py`), trained by `train_metric`; this is their
unreferenced part. The referenced part is the cosine of two vectors, of reply and reference: for RUBER the maxima and
minima of word vectors, for BERT-RUBER the encoder's vectors. The blend scales each part to 0 … 1 over the replies that
are scored together and takes the minimum, so it is undefined for a single reply or without a reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from chatbots.checkpoints import CheckpointError
from chatbots.encoders.sentence import encoder_get
from chatbots.encoders.word_vectors import word_vectors
from evaluation.data.items import ReplyInContext
from evaluation.data.result_tables import Cell, declared_table, share_cell
from evaluation.data.tables import Column, per_turn
from evaluation.metrics.explanations import Explanation, shorten
from evaluation.metrics.reference_vectors import NO_WORD
from evaluation.metrics.registry import metrics, register_metric
from evaluation.metrics.text_cache import TextCache, lower_tokens
from evaluation.metrics.trained import CHECKPOINT_NEEDED, TrainedMetric, TrainedOptions, WithPmi
from evaluation.training.checkpoint import Checkpoint, MetricManifest

ROWS = 256
NEIGHBOURS = 5
"""Number of similar replies in an explanation."""


class PoneScores(TrainedMetric):
    """Base class of the metrics that use a checkpoint of PONE's network."""

    needs_context = True
    languages = ("en",)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        if self.options is None or super().unavailable_reason():
            return
        checkpoint = self.checkpoint
        # Read the manifest directly: parsing the config would import the network's code and torch.
        self.window = int(checkpoint.manifest.config["options"].get("window", 1))
        licences = checkpoint.manifest.facts.get("licences") or ["not stated"]
        self.licence = f"of the training text: {', '.join(licences)}"

    def logits(self, replies: Sequence[ReplyInContext], shared: TextCache) -> np.ndarray:
        """Return (N,) scores before the sigmoid."""
        import torch

        options = self.checkpoint.config.metric_options
        network = self.restored(shared.device)
        queries = [reply.context[-int(options.window) :] for reply in replies]
        if options.sentences == "recurrent":
            queries = [(" ".join(lines),) for lines in queries]
        texts = list(dict.fromkeys(t for r, q in zip(replies, queries, strict=True) for t in (*q, r.response)))
        vectors = self._vectors(texts, shared)
        place = {text: k for k, text in enumerate(texts)}
        query = np.stack([vectors[[place[text] for text in lines]].mean(axis=0) for lines in queries])
        response = vectors[[place[reply.response] for reply in replies]]
        with torch.inference_mode():
            scores = network(torch.from_numpy(query), torch.from_numpy(response))
        return scores.double().cpu().numpy()

    def _vectors(self, texts: Sequence[str], shared: TextCache) -> np.ndarray:
        """Return (T, d) vectors of distinct texts."""
        if self.checkpoint.config.metric_options.sentences == "recurrent":
            return _read(self.restored(shared.device), texts)
        encoder = encoder_get(self.checkpoint.config.backbone.model, self.choose_device(shared.device))
        return shared.encode(texts, encoder)

    def explain(self, reply: ReplyInContext, others: Sequence[ReplyInContext], shared: TextCache) -> Explanation | None:
        """Return the most similar replies of the data set, scored in the context of this one.

        The sampler of PONE draws such replies as negatives (Lan et al. 2020, section 3).
        """
        reply = self.seen(reply)
        candidates = [text for text in dict.fromkeys(other.response for other in others) if text.strip()]
        candidates = [text for text in candidates if text != reply.response]
        if self.lacking(reply) is not None or not candidates:
            return None
        options = self.checkpoint.config.metric_options
        vectors = self._vectors([reply.response, *candidates], shared).astype(float)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        cosines = vectors[1:] @ vectors[0]
        chances = np.exp((cosines - cosines.max()) / options.temperature)
        chances /= chances.sum()
        nearest = np.argsort(-cosines, kind="stable")[:NEIGHBOURS]
        replies = [reply, *(reply._replace(response=candidates[k]) for k in nearest)]
        scores = 1 / (1 + np.exp(-self.logits(replies, shared)))
        rows = [(reply.response, None, None, scores[0])]
        rows += [(candidates[k], cosines[k], chances[k], score) for k, score in zip(nearest, scores[1:], strict=True)]
        table = declared_table(
            "neighbours",
            "Most similar replies of the data set",
            rows,
            ("Reply", lambda row: Cell(shorten(row[0]))),
            ("Cosine with this reply", lambda row: share_cell(row[1], reason="this reply")),
            ("Chance as a negative", lambda row: share_cell(row[2], reason="this reply")),
            ("Score in this context", lambda row: share_cell(row[3])),
            method=f"Compared with {len(candidates):,} other replies. Chance as a negative: probability that the "
            f"weighted sampler draws this reply (temperature {options.temperature:g}).",
        )
        return Explanation((table,))


def _read(network: Any, texts: Sequence[str]) -> np.ndarray:
    """Return (T, d) text vectors from the network's recurrent encoder.

    Batched by similar length.
    """
    import torch

    from evaluation.models.pone import WordTexts

    words = WordTexts(texts)
    order = np.argsort(words.lengths(), kind="stable")
    rows = []
    with torch.inference_mode():
        for start in range(0, len(order), ROWS):
            rows.append(network.vectors(words[order[start : start + ROWS]]).cpu().numpy())
    sorted_vectors = np.concatenate(rows)
    vectors = np.empty_like(sorted_vectors)
    vectors[order] = sorted_vectors
    return vectors


@register_metric
class Pone(PoneScores):
    """PONE's score of a reply, by a checkpoint of `train_metric`; on request."""

    kind = "pone"
    usual_title = "PONE"
    needs = (CHECKPOINT_NEEDED,)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.columns = per_turn(
            f"{self.name}_bot",
            f"{self.title}, bot",
            unit="probability",
            range=(0, 1),
            direction="higher",
            description="Fit of the bot's turn to the preceding conversation: the output of a scorer trained to "
            "distinguish true replies from others. Undefined for a turn that opens the conversation.",
        )

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        return {f"{self.name}_bot": 1 / (1 + np.exp(-self.logits(replies, shared)))}


@register_metric
class PonePmi(WithPmi, PoneScores):
    """Average of PONE and mutual information, both standardised; on request."""

    kind = "pone_pmi"
    trained = "pone"
    usual_title = "PONE and mutual information"
    network = "PONE"

    def network_scores(
        self, replies: Sequence[ReplyInContext], shared: TextCache
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        network = self.restored(shared.device)
        level, spread = float(network.level.detach()), float(network.spread.detach())
        return (self.logits(replies, shared) - level) / spread, {}


metrics.add(Pone(name="pone_lite", title="PONE-lite", checkpoint="pone-lite-open-full"))


class RuberOptions(TrainedOptions):
    """Options of an entry of `metrics.yaml` for either metric."""

    blend: Literal["min", "max", "arithmetic", "geometric"] = Field(
        "min", description="combination of both parts: the lower one as published, the higher one, or a mean"
    )


class _Ruber(PoneScores):
    """Unreferenced part, referenced part and their blend.

    Attributes:
        trained_options: training options that produce this metric.
        vectors: description of what the referenced part compares.
    """

    trained = "pone"
    reads_reference = True
    needs = (CHECKPOINT_NEEDED, "a reference for all but its unreferenced part")
    options_type = RuberOptions
    options: RuberOptions | None
    trained_options: Mapping[str, str]
    vectors: str

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        blend = self.options.blend if self.options else "min"
        blend_text = {"min": "The lower", "max": "The higher"}.get(blend, f"The {blend} mean")
        self._blend, self._fit, self._like = (f"{self.name}_{part}bot" for part in ("blend_", "", "referenced_"))
        self.reference_columns = (self._blend, self._like)
        self.columns = self._ordered(
            per_turn(
                self._blend,
                f"{self.title}, both parts",
                unit="1",
                range=(0, 1),
                direction="higher",
                description=f"{blend_text} of the unreferenced and the referenced part, each scaled to 0 … 1 over the "
                "replies scored together. Needs a reference.",
            ),
            per_turn(
                self._fit,
                f"{self.title}, unreferenced",
                unit="probability",
                range=(0, 1),
                direction="higher",
                description="Fit of the bot's turn to the preceding conversation: the output of a scorer trained to "
                "distinguish true replies from random ones. Undefined for a turn that opens the conversation.",
            ),
            per_turn(
                self._like,
                f"{self.title}, referenced",
                unit="cosine",
                range=(-1, 1),
                direction="higher",
                description=f"Cosine of {self.vectors} of the reply and the reference. Needs a reference.",
            ),
        )

    def _ordered(self, blend: Sequence[Column], fit: Sequence[Column], like: Sequence[Column]) -> tuple[Column, ...]:
        """Return the columns, the main one first."""
        return (*blend, *fit, *like)

    @classmethod
    def is_of(cls, manifest: MetricManifest) -> bool:
        options = {"sentences": "frozen", "negatives": "weighted", "positives": "none", **manifest.config["options"]}
        return all(options[key] == value for key, value in cls.trained_options.items())

    @property
    def checkpoint(self) -> Checkpoint:
        checkpoint = super().checkpoint
        if not self.is_of(checkpoint.manifest):
            option_text = ", ".join(f"{key}: {value}" for key, value in self.trained_options.items())
            raise CheckpointError(
                f"{checkpoint.folder} was trained with options other than those of {self.usual_title} "
                f"({option_text}); use it with kind: pone"
            )
        return checkpoint

    @property
    def params(self) -> dict[str, Any]:
        return {**super().params, "blend": self.options.blend if self.options else "min"}

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        like = np.full(len(replies), np.nan)
        indices = [k for k, reply in enumerate(replies) if reply.reference is not None]
        if indices:
            pairs = [(replies[k].response, replies[k].reference or "") for k in indices]
            like[indices] = self.likeness(pairs, shared)
        return {
            self._blend: np.full(len(replies), np.nan),  # computed in `over_all`
            self._fit: 1 / (1 + np.exp(-self.logits(replies, shared))),
            self._like: like,
        }

    def likeness(self, pairs: Sequence[tuple[str, str]], shared: TextCache) -> np.ndarray:
        """Return (N,) cosines of (reply, reference)."""
        raise NotImplementedError

    def over_all(self, scores: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        from evaluation.models.pone import ruber_blend

        fit, like = scores[self._fit], scores[self._like]
        is_defined = np.isfinite(fit) & np.isfinite(like)
        blend = np.full(len(fit), np.nan)
        if is_defined.any():
            kind = self.options.blend if self.options else "min"
            blend[is_defined] = ruber_blend(fit[is_defined], like[is_defined], kind)
        return {self._blend: blend}


@register_metric
class Ruber(_Ruber):
    """RUBER by a checkpoint; on request."""

    kind = "ruber"
    usual_title = "RUBER"
    trained_options = {"sentences": "recurrent", "negatives": "random", "positives": "none"}
    vectors = "the greatest and the smallest values of the word vectors"

    def remarks(self, scores: Mapping[str, np.ndarray]) -> dict[str, int]:
        n = int((scores.get(self._like, np.array([])) == 0).sum())
        return {NO_WORD: n} if n else {}

    def likeness(self, pairs: Sequence[tuple[str, str]], shared: TextCache) -> np.ndarray:
        from evaluation.models.pone import pooled_words

        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        known = [word_vectors().matrix(words) for words in lower_tokens(texts, shared)]
        pooled = {
            text: pooled_words(words) if len(words) else np.zeros(2 * words.shape[1])
            for text, words in zip(texts, known, strict=True)
        }
        return _cosines([(pooled[reply], pooled[reference]) for reply, reference in pairs])


@register_metric
class BertRuber(_Ruber):
    """BERT-RUBER by a checkpoint; on request.

    Its main column is the unreferenced part, as in PONE's tables.
    """

    kind = "bert_ruber"
    usual_title = "BERT-RUBER"
    trained_options = {"sentences": "frozen", "negatives": "random", "positives": "none"}
    vectors = "the encoder's vectors"

    def _ordered(self, blend: Sequence[Column], fit: Sequence[Column], like: Sequence[Column]) -> tuple[Column, ...]:
        return (*fit, *like, *blend)

    def likeness(self, pairs: Sequence[tuple[str, str]], shared: TextCache) -> np.ndarray:
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        encoder = encoder_get(self.checkpoint.config.backbone.model, self.choose_device(shared.device))
        vectors = dict(zip(texts, shared.encode(texts, encoder), strict=True))
        return _cosines([(vectors[reply], vectors[reference]) for reply, reference in pairs])


def _cosines(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return cosines (N,), 0 for a text without a known word."""
    x, y = (np.stack([pair[k] for pair in pairs]).astype(float) for k in (0, 1))
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    cosines = (x * y).sum(axis=1) / np.where(lengths > 0, lengths, 1)
    return np.clip(np.where(lengths > 0, cosines, 0.0), -1, 1)
