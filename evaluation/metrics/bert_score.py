"""BERTScore of a reply against a person's reply (Zhang et al. 2020, "BERTScore", ICLR), without idf weights.

Precision is the mean over the reply's tokens of the best cosine with a token of the reference, recall the reverse, and
the score their harmonic mean. As in the authors' code, the marks at both ends may be matched but are not averaged over;
its rescaling by a baseline is affine and changes no correlation within one data set. The published English figures are
those of roberta-large, layer 17; the encoder that comes with Confab is MiniLM, and its score is named so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from chatbots.encoders.sentence import MINILM, encoder_folder, sentence_encoder
from chatbots.huggingface import Loaded, load
from chatbots.outside import Values
from evaluation.columns import per_turn
from evaluation.items import ReplyInContext
from evaluation.metrics.base import ConfiguredMetric
from evaluation.metrics.local_models import LocalModel, most_tokens
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.shared import Shared

_ROWS = 16


class TokenVectors(LocalModel):
    """An encoder's vectors of a text's tokens.

    Args:
        model: a folder or a hub id that was downloaded before; `MINILM`: the encoder that comes with Confab.
        layer: whose output is taken, from 1; 0: the last one's.
        device: where it computes.
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

    def load(self, kind: str) -> Loaded:
        with self._lock:
            if self._loaded is None and self.model == MINILM:
                self._loaded = load(encoder_folder(MINILM), kind, device=self.device)
        return super().load(kind)

    def vectors(
        self, texts: Sequence[str], *, unit: bool = True
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return for each text its (n, D) token vectors, and (n,) whether a token is of the text.

        Args:
            unit: the vectors have length 1; else the length that the encoder gives them.
        """
        import torch

        found: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros((0, 1)), np.zeros(0, bool))] * len(
            texts
        )
        with self._lock:
            loaded = self.load("AutoModel")
            order = sorted(range(len(texts)), key=lambda k: len(texts[k]))
            for start in range(0, len(order), _ROWS):
                part = order[start : start + _ROWS]
                given = loaded.tokenizer(
                    [_begun(loaded.tokenizer, texts[k]) for k in part],
                    padding="longest",
                    truncation=True,
                    max_length=most_tokens(loaded),
                    return_special_tokens_mask=True,
                    return_tensors="pt",
                )
                marks = given.pop("special_tokens_mask").numpy().astype(bool)
                there = given["attention_mask"].numpy().astype(bool)
                with torch.inference_mode():
                    made = loaded.model(**given.to(self.device), output_hidden_states=True)
                    states = made.hidden_states[self.layer or -1].float()
                    if unit:
                        states = torch.nn.functional.normalize(states, dim=-1)
                    states = states.cpu().numpy()
                for row, k in enumerate(part):
                    found[k] = states[row][there[row]], ~marks[row][there[row]]
        return found


def _begun(tokenizer: Any, text: str) -> str:
    """Return the text as the authors' code gives it to RoBERTa and GPT-2: a blank before its first word.

    Their vocabularies hold a word within a text together with the blank before it, so that without one the first word
    is another token than the same word elsewhere.
    """
    bytewise = type(tokenizer).__name__.startswith(("Roberta", "GPT2"))
    return f" {text.strip()}" if bytewise else text


def bert_score(
    reply: tuple[np.ndarray, np.ndarray], reference: tuple[np.ndarray, np.ndarray]
) -> tuple[float, float, float]:
    """Return precision, recall and F of two texts' token vectors; NaN where a side has no token of its own."""
    (x, own_x), (y, own_y) = reply, reference
    if not own_x.any() or not own_y.any():
        return float("nan"), float("nan"), float("nan")
    cosines = x @ y.T
    precision = float(cosines.max(axis=1)[own_x].mean())
    recall = float(cosines.max(axis=0)[own_y].mean())
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else 0.0


class BertScoreOptions(Values):
    """Options of an entry of `metrics.yaml`."""

    model: str = Field(
        min_length=1,
        description="an encoder: a transformers folder, or a hub id that was downloaded before",
    )
    layer: int = Field(
        0,
        ge=0,
        description="whose output is taken, from 1; 0: the last one's. 17 for roberta-large",
    )
    device: str = Field("cpu", description="where it computes")


@register_metric
class BertScore(ReplyMetric, ConfiguredMetric):
    """BERTScore of a reply and one reference; by MiniLM where no encoder is chosen, and named so; on request."""

    has_network = True
    kind = "bert_score"
    version = "2"  # RoBERTa's first word has a blank before it
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
            self._vectors = TokenVectors(chosen.model, chosen.layer, chosen.device)
        else:
            self._vectors = TokenVectors(MINILM)
            self.title = title or "BERTScore-style (MiniLM)"
            self.languages = ("en",)
            self.licence = "Apache-2.0 (MiniLM)"
        self.columns = tuple(
            column
            for kind, formula in (
                ("f", "Harmonic mean of BERTScore's precision and recall"),
                (
                    "precision",
                    "Mean over the reply's tokens of the best cosine with a token of the reference",
                ),
                (
                    "recall",
                    "Mean over the reference's tokens of the best cosine with a token of the reply",
                ),
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

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        texts = list(dict.fromkeys(t for r in replies for t in (r.response, r.reference or "")))
        # Without an entry in metrics.yaml the run says where it computes.
        vectors = self._vectors if self.options else self._vectors.on(shared.device)
        known = dict(zip(texts, vectors.vectors(texts), strict=True))
        found = np.array([bert_score(known[r.response], known[r.reference or ""]) for r in replies])
        return {
            f"{self.name}_{kind}": found[:, k]
            for k, kind in enumerate(("precision", "recall", "f"))
        }
