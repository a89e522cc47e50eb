"""The sentiment family by DeepMoji, as the paper has it, where a researcher has its files."""

from __future__ import annotations

from typing import Any

from evaluation.metrics.feelings import EncoderFeelings
from evaluation.metrics.registry import register_metric
from evaluation.metrics.sentiment import SentimentFamily, sentiment_columns


@register_metric
class DeepMojiSentiment(SentimentFamily):
    """Sentiment by DeepMoji's 64 emoji and the paper's weights; on request.

    Args:
        name: of the metric, and what its columns begin with.
        title: for people.
        weights: the file of torchMoji's weights.
        vocabulary: torchMoji's `vocabulary.json`.
        device: where it computes.
    """

    languages = ("en",)
    default = False

    def __init__(
        self,
        name: str = "deepmoji",
        title: str = "DeepMoji",
        weights: str | None = None,
        vocabulary: str | None = None,
        device: str = "cpu",
    ) -> None:
        self.name = self.prefix = name
        self.title = f"Sentiment by {title}"
        self.columns = sentiment_columns(
            name,
            "Σ w_k p_k over DeepMoji's 64 emoji, with the paper's weights,",
            title,
            "DeepMoji's",
        )
        self._has_files = bool(weights and vocabulary)
        if weights and vocabulary:
            from chatbots.encoders.deepmoji import DeepMojiEncoder

            encoder = DeepMojiEncoder(weights, vocabulary, device)
            self.feelings = EncoderFeelings(lambda: encoder)

    @property
    def params(self) -> dict[str, Any]:
        # Files that are not here have no digest to go by.
        return super().params if self.unavailable_reason() is None else {"feelings": None}

    def unavailable_reason(self) -> str | None:
        if not self._has_files:
            return (
                "its files are not named; name them in metrics.yaml (kind: deepmoji, params: {weights: "
                "path, vocabulary: path})"
            )
        return super().unavailable_reason()
