"""Vector similarity with a human reply: BERTScore and embedding matches.

BERTScore of a reply against a human reply (Zhang et al. 2020, "BERTScore", ICLR), without idf weights. Precision is the
mean over the reply's tokens of the best cosine with a token of the reference, recall the reverse, and the score their
harmonic mean. As in the authors' code, the special tokens at both ends can be matched but are excluded from the
averages. The authors' baseline rescaling is affine, so it does not affect correlations within a data set; it is
omitted. Published English results use roberta-large, layer 17; Confab ships MiniLM, and the score's title says so.

Word-vector similarity of a reply to a human reply: average, extrema and greedy matching. Liu et al. (2016), "How NOT to
evaluate your dialogue system", against a reference. Published results use word2vec or GloVe, which can be configured by
file in `metrics.yaml`; by default the vectors are those of `word_coherence`, distilled from the sentence encoder. With
`encoder`, contextual token vectors are used, as Dziri et al. (2019) use those of ELMo and BERT. Words without a vector
are skipped. If a text has none left, the score is 0 by definition; such replies are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from chatbots.encoders.published_files import FileVectors
from chatbots.encoders.sentence import MINILM, encoder_folder, sentence_encoder
from chatbots.encoders.word_vectors import SIMILARITY_KINDS, TextWords, pair_similarities, word_similarity, word_vectors
from chatbots.huggingface import LoadedPretrained, load_pretrained
from chatbots.validation import InputModel
from evaluation.data.items import ReplyInContext
from evaluation.data.tables import per_turn
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric
from evaluation.metrics.local_models import LocalModel, most_tokens
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.semantic import ROWS
from evaluation.metrics.text_cache import TOKENIZER, TextCache, tokens_of

_ROWS = 16


class EncoderTokenVectors(LocalModel):
    """Contextual token vectors of an encoder.

    Args:
        model: a folder or the hub id of a downloaded model; `MINILM` for the encoder shipped with Confab.
        layer: number of the layer whose output is used, from 1; 0 for the last one.
        device: device to compute on.
    """

    def __init__(self, model: str, layer: int = 0, device: str = "cpu") -> None:
        super().__init__(model, device)
        self.layer = layer

    @property
    def identity_params(self) -> dict[str, Any]:
        """Parameters that determine the vectors; known without loading."""
        if self.model == MINILM:
            return {"encoder": sentence_encoder().identity.as_dict(), "layer": self.layer}
        return {**self.known_by, "layer": self.layer}

    def unavailable_reason(self) -> str | None:
        if self.model == MINILM:
            return sentence_encoder().unavailable_reason()
        return super().unavailable_reason()

    def load(self, kind: str) -> LoadedPretrained:
        with self._lock:
            if self._loaded is None and self.model == MINILM:
                self._loaded = load_pretrained(encoder_folder(MINILM), kind, device=self.device)
        return super().load(kind)

    def vectors(self, texts: Sequence[str], *, unit: bool = True) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return each text's token vectors (n, D) and its mask (n,).

        The mask is True for tokens of the text and False for special tokens.

        Args:
            unit: True to normalise the vectors to length 1.
        """
        import torch

        text_vectors: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros((0, 1)), np.zeros(0, bool))] * len(texts)
        with self._lock:
            loaded = self.load("AutoModel")
            order = sorted(range(len(texts)), key=lambda k: len(texts[k]))
            for start in range(0, len(order), _ROWS):
                part = order[start : start + _ROWS]
                encoded = loaded.tokenizer(
                    [_with_leading_blank(loaded.tokenizer, texts[k]) for k in part],
                    padding="longest",
                    truncation=True,
                    max_length=most_tokens(loaded),
                    return_special_tokens_mask=True,
                    return_tensors="pt",
                )
                marks = encoded.pop("special_tokens_mask").numpy().astype(bool)
                is_token = encoded["attention_mask"].numpy().astype(bool)
                with torch.inference_mode():
                    outputs = loaded.model(**encoded.to(self.device), output_hidden_states=True)
                    states = outputs.hidden_states[self.layer or -1].float()
                    if unit:
                        states = torch.nn.functional.normalize(states, dim=-1)
                    states = states.cpu().numpy()
                for row, k in enumerate(part):
                    text_vectors[k] = states[row][is_token[row]], ~marks[row][is_token[row]]
        return text_vectors


def _with_leading_blank(tokenizer: Any, text: str) -> str:
    """Prepend the space that the authors' code adds for RoBERTa and GPT-2.

    Their vocabularies include the space before a word within a text, so without it the first word would be a different
    token than the same word elsewhere.
    """
    bytewise = type(tokenizer).__name__.startswith(("Roberta", "GPT2"))
    return f" {text.strip()}" if bytewise else text


def bert_score(
    reply: tuple[np.ndarray, np.ndarray], reference: tuple[np.ndarray, np.ndarray]
) -> tuple[float, float, float]:
    """Return precision, recall and F of two texts' token vectors.

    NaN if a text has only special tokens.
    """
    (x, own_x), (y, own_y) = reply, reference
    if not own_x.any() or not own_y.any():
        return float("nan"), float("nan"), float("nan")
    cosines = x @ y.T
    precision = float(cosines.max(axis=1)[own_x].mean())
    recall = float(cosines.max(axis=0)[own_y].mean())
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total else 0.0


class BertScoreOptions(InputModel):
    """Options of an entry of `metrics.yaml`."""

    model: str = Field(
        min_length=1, description="an encoder: a transformers folder, or the hub id of a downloaded model"
    )
    layer: int = Field(
        0, ge=0, description="layer whose output is used, from 1; 0 for the last one. 17 for roberta-large"
    )
    device: str = Field("cpu", description="device to compute on")


@register_metric
class BertScore(ReplyMetric, ConfiguredMetric):
    """BERTScore against one reference, by default with MiniLM; on request."""

    has_network = True
    kind = "bert_score"
    version = "2"  # 2: RoBERTa's first word gets a leading space
    usual_title = "BERTScore"
    options_type = BertScoreOptions
    options: BertScoreOptions | None
    default = False
    needs_reference = True
    window = 0
    needs = ("a reference",)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        if chosen := self.options:
            self._vectors = EncoderTokenVectors(chosen.model, chosen.layer, chosen.device)
        else:
            self._vectors = EncoderTokenVectors(MINILM)
            self.title = title or "BERTScore-style (MiniLM)"
            self.languages = ("en",)
            self.licence = "Apache-2.0 (MiniLM)"
        self.columns = tuple(
            column
            for kind, formula in (
                ("f", "Harmonic mean of BERTScore's precision and recall"),
                ("precision", "Mean over the reply's tokens of the best cosine with a token of the reference"),
                ("recall", "Mean over the reference's tokens of the best cosine with a token of the reply"),
            )
            for column in per_turn(
                f"{self.name}_{kind}",
                f"{self.title}, {kind.upper() if kind == 'f' else kind}",
                unit="cosine",
                range=(-1, 1),
                direction="higher",
                description=f"{formula}, without idf weights. Needs a reference.",
            )
        )

    @property
    def params(self) -> dict[str, Any]:
        return self._vectors.identity_params

    def unavailable_reason(self) -> str | None:
        return self._vectors.unavailable_reason()

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        texts = list(dict.fromkeys(t for r in replies for t in (r.response, r.reference or "")))
        # Without an entry in metrics.yaml, use the run's device.
        vectors = self._vectors if self.options else self._vectors.on(shared.device)
        known = dict(zip(texts, vectors.vectors(texts), strict=True))
        scores = np.array([bert_score(known[r.response], known[r.reference or ""]) for r in replies])
        return {f"{self.name}_{kind}": scores[:, k] for k, kind in enumerate(("precision", "recall", "f"))}


NO_WORD = "scored 0, because no word of the reply or of the reference has a vector"
_FORMULAS = {
    "average": "Cosine of the mean word vectors",
    "extrema": "Cosine of the vectors holding, in each dimension, the value of largest magnitude",
    "greedy": "Each word's best cosine on the other side, averaged over words, then over both directions",
}


class EmbeddingMatchOptions(InputModel):
    """Options of an entry of `metrics.yaml`."""

    path: str = Field("", description="a file of word2vec (.bin), GloVe (.txt) or fastText (.vec), unpacked")
    rows: int = Field(ROWS, ge=1, description="number of its most frequent words to use")
    encoder: str = Field(
        "",
        description="an encoder whose token vectors replace word vectors: a transformers folder, or the hub id of a "
        "downloaded model",
    )
    layer: int = Field(0, ge=0, description="layer whose output is used, from 1; 0 for the last one")

    @model_validator(mode="after")
    def _one_is_named(self) -> EmbeddingMatchOptions:
        if bool(self.path) == bool(self.encoder):
            raise ValueError("either path or encoder must be set, but not both")
        return self


@register_metric
class EmbeddingMatch(ReplyMetric, ConfiguredMetric):
    """Embedding average, extrema and greedy matching with one reference; on request."""

    kind = "embedding_match"
    version = "2"  # 2: 0 if a text has no word with a vector
    usual_title = "Embedding match"
    options_type = EmbeddingMatchOptions
    options: EmbeddingMatchOptions | None
    default = False
    needs_reference = True
    window = 0
    needs = ("a reference",)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        chosen = self.options
        self._file = FileVectors(chosen.path) if chosen and chosen.path else None
        self._tokens = EncoderTokenVectors(chosen.encoder, chosen.layer) if chosen and chosen.encoder else None
        if chosen is None:
            self.languages = ("en",)
            self.licence = "Apache-2.0 (MiniLM, of which the vectors are made)"
        else:
            self.licence = CHOSEN_LICENCE
        is_configured = self.name != self.kind
        self._prefix = self.name if is_configured else "embedding"
        self.columns = tuple(
            column
            for kind, formula in _FORMULAS.items()
            for column in per_turn(
                f"{self._prefix}_{kind}",
                f"{self.title}, {kind}" if is_configured else f"Embedding {kind}",
                unit="cosine",
                range=(-1, 1),
                direction="higher",
                description=f"{formula}, of the reply and the reference; 0 if a side has no known word. Needs a "
                f"reference.",
            )
        )

    @property
    def params(self) -> dict[str, Any]:
        if self._tokens is not None:
            return {"vectors": self._tokens.identity_params}
        if self._file is None:
            return {"vectors": word_vectors().identity.as_dict(), "tokenizer": TOKENIZER}
        here = self._file.identity.as_dict() if self.unavailable_reason() is None else None
        rows = self.options.rows if self.options else ROWS
        return {"vectors": here, "rows": rows, "tokenizer": TOKENIZER}

    def unavailable_reason(self) -> str | None:
        return (self._tokens or self._file or word_vectors()).unavailable_reason()

    def remarks(self, scores: Mapping[str, np.ndarray]) -> dict[str, int]:
        n = int((next(iter(scores.values())) == 0).sum())
        return {NO_WORD: n} if n else {}

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        pairs = [(reply.response, reply.reference or "") for reply in replies]
        if self._tokens is not None:
            return self._to_columns(_of_tokens(pairs, self._tokens.on(shared.device)))
        rows = self.options.rows if self.options else ROWS
        vectors = self._file.table(first=rows) if self._file else word_vectors()
        return self._to_columns(pair_similarities(pairs, vectors, tokens_of(shared)))

    def _to_columns(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Convert (N, 4) values in the order of `KINDS` to columns.

        Undefined values become 0.
        """
        defined = np.nan_to_num(values, nan=0.0)
        return {f"{self._prefix}_{kind}": defined[:, SIMILARITY_KINDS.index(kind)] for kind in _FORMULAS}


def _of_tokens(pairs: Sequence[tuple[str, str]], tokens: EncoderTokenVectors) -> np.ndarray:
    """Return (N, 4) measures of pairs by an encoder's token vectors.

    End markers are ignored.
    """
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    words = {
        text: TextWords.from_vectors(vectors[is_of_text])
        for text, (vectors, is_of_text) in zip(texts, tokens.vectors(texts, unit=False), strict=True)
    }
    return np.array([astuple(word_similarity(words[reply], words[reference])) for reply, reference in pairs])
