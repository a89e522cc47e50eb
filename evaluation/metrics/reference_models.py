"""Published learned metrics with weights supplied by the researcher: BARTScore and BLEURT.

BARTScore (Yuan et al. 2021, NeurIPS): mean log-likelihood per token of one text given another, by an encoder-decoder;
reference → reply is its precision, reply → reference its recall, and context → reply needs no reference. BLEURT (Sellam
et al. 2020, ACL): a regression on (reference, reply) by an encoder with one output, in the transformers format. Confab
ships no weights; without them both metrics are unavailable and give that reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from chatbots.validation import InputModel
from evaluation.data.items import ReplyInContext
from evaluation.data.tables import per_turn
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric
from evaluation.metrics.local_models import LocalModel, most_tokens
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import NO_CONTEXT, ReplyMetric
from evaluation.metrics.text_cache import TextCache, blank

_ROWS = 16


class LearnedOptions(InputModel):
    """Options of an entry of `metrics.yaml` for either metric."""

    model: str = Field(min_length=1, description="a transformers folder, or the hub id of a downloaded model")
    device: str = Field("cpu", description="device to compute on")


class _Learned(ReplyMetric, ConfiguredMetric):
    """Base class of metrics whose transformers model must be configured."""

    has_network = True
    licence = CHOSEN_LICENCE
    options_type = LearnedOptions
    options: LearnedOptions | None
    default = False

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self._model = LocalModel(self.options.model, self.options.device) if self.options else None

    @property
    def params(self) -> dict[str, Any]:
        return {"model": None if self._model is None else self._model.known_by}

    def unavailable_reason(self) -> str | None:
        if self._model is None:
            return (
                f"no model is specified; name a local one in metrics.yaml (kind: {self.kind}, params: {{model: "
                "path or hub id})"
            )
        return self._model.unavailable_reason() or self._unfit(self._model.config())

    def _unfit(self, config: dict[str, Any]) -> str | None:
        """Return the reason why a model of this configuration is unsuitable, or None."""
        raise NotImplementedError

    def _batches(self, kind: str, pairs: Sequence[tuple[str, str]], compute: Any) -> dict[tuple[str, str], float]:
        """Score each distinct pair, in batches of similar length."""
        assert self._model is not None, "called although it is unavailable"
        loaded = self._model.load(kind)
        distinct = sorted(dict.fromkeys(pairs), key=lambda pair: len(pair[0]) + len(pair[1]))
        scores: dict[tuple[str, str], float] = {}
        for start in range(0, len(distinct), _ROWS):
            part = distinct[start : start + _ROWS]
            scores.update(zip(part, compute(loaded, part), strict=True))
        return scores


@register_metric
class BartScore(_Learned):
    """BARTScore by a configured encoder-decoder; on request."""

    kind = "bart_score"
    version = "2"  # 2: contexts that are too long are truncated at the start
    usual_title = "BARTScore"
    reads_reference = True
    needs = ("an encoder-decoder (BART)", "a reference for precision and recall")

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.reference_columns = (f"{self.name}_precision", f"{self.name}_recall")
        self.columns = tuple(
            column
            for kind, subject in (
                ("context", "the reply given the context"),
                ("precision", "the reply given the reference"),
                ("recall", "the reference given the reply"),
            )
            for column in per_turn(
                f"{self.name}_{kind}",
                f"{self.title}, {kind}",
                unit="nats",
                range=(None, 0),
                direction="higher",
                description=f"Mean log-likelihood per token of {subject}, from the chosen encoder-decoder."
                + (" Needs a reference." if kind != "context" else ""),
            )
        )

    def _unfit(self, config: dict[str, Any]) -> str | None:
        if config.get("is_encoder_decoder", config.get("model_type") == "bart"):
            return None
        return f"its model is not an encoder-decoder ({config.get('model_type')}); use one such as BART"

    def lacking(self, reply: ReplyInContext, column: str = "") -> str | None:
        if column == f"{self.name}_context" and not reply.context and not blank(reply.response):
            return NO_CONTEXT
        return super().lacking(reply, column)

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        pairs_by_kind = {
            "context": [("\n".join(r.context), r.response) if r.context else None for r in replies],
            "precision": [(r.reference, r.response) if r.reference else None for r in replies],
            "recall": [(r.response, r.reference) if r.reference else None for r in replies],
        }
        pairs = [pair for column in pairs_by_kind.values() for pair in column if pair]
        known = self._batches("AutoModelForSeq2SeqLM", pairs, _mean_log_likelihoods)
        return {
            f"{self.name}_{kind}": np.array([known[pair] if pair else np.nan for pair in column])
            for kind, column in pairs_by_kind.items()
        }


@register_metric
class Bleurt(_Learned):
    """BLEURT by a configured checkpoint; on request."""

    kind = "bleurt"
    usual_title = "BLEURT"
    needs_reference = True
    window = 0
    needs = ("a reference", "a BLEURT checkpoint that transformers loads")

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.columns = per_turn(
            self.name,
            self.title,
            unit="1",
            range=(None, None),
            direction="higher",
            description="The chosen checkpoint's score of the reply against the reference. Needs a reference.",
        )

    def _unfit(self, config: dict[str, Any]) -> str | None:
        n = len(config.get("id2label", ("", "")))  # transformers omits the default number of labels, two
        return None if n == 1 else f"its model has {n} outputs; a BLEURT checkpoint has one"

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        pairs = [(reply.reference or "", reply.response) for reply in replies]
        known = self._batches("AutoModelForSequenceClassification", pairs, _outputs)
        return {self.name: np.array([known[pair] for pair in pairs])}


def _mean_log_likelihoods(loaded: Any, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return the mean log-likelihood per token of each text given another.

    Each pair is (given text, scored text); NaN for a scored text without tokens.
    """
    import torch

    def tokens(texts: list[str], cut: str) -> Any:
        loaded.tokenizer.truncation_side = cut
        return loaded.tokenizer(
            texts, padding=True, truncation=True, max_length=most_tokens(loaded), return_tensors="pt"
        ).to(loaded.device)

    # Truncate long contexts at the start and long scored texts at the end.
    source, target = tokens([a for a, _ in pairs], "left"), tokens([b for _, b in pairs], "right")
    labels = target["input_ids"].masked_fill(target["attention_mask"] == 0, -100)
    with torch.inference_mode():
        logits = loaded.model(
            input_ids=source["input_ids"], attention_mask=source["attention_mask"], labels=labels
        ).logits.float()
        losses = torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), labels, reduction="none", ignore_index=-100
        ).double()
        return (-losses.sum(dim=1) / (labels != -100).sum(dim=1)).cpu().tolist()


def _outputs(loaded: Any, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return the model's single output for each pair."""
    import torch

    encoded = loaded.tokenizer(
        [a for a, _ in pairs],
        [b for _, b in pairs],
        padding=True,
        truncation=True,
        max_length=most_tokens(loaded),
        return_tensors="pt",
    ).to(loaded.device)
    with torch.inference_mode():
        return loaded.model(**encoded).logits[:, 0].double().cpu().tolist()
