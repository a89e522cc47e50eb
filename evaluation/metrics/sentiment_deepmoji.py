"""The sentiment family by DeepMoji, as the paper has it, where a researcher has its files."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from chatbots.outside import Values
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric
from evaluation.metrics.feelings import EncoderFeelings
from evaluation.metrics.registry import register_metric
from evaluation.metrics.sentiment import SentimentFamily, sentiment_columns


class DeepMojiOptions(Values):
    """Options of an entry of `metrics.yaml`."""

    weights: str = Field(min_length=1, description="the file of torchMoji's weights")
    vocabulary: str = Field(min_length=1, description="torchMoji's `vocabulary.json`")
    device: str = Field("cpu", description="where it computes")


@register_metric
class DeepMojiSentiment(SentimentFamily, ConfiguredMetric):
    """Sentiment by DeepMoji's 64 emoji and the paper's weights; on request."""

    has_network = True
    needs = ("torchMoji's weights and vocabulary",)
    licence = CHOSEN_LICENCE
    kind = "deepmoji"
    usual_title = "DeepMoji"
    languages = ("en",)
    options_type = DeepMojiOptions
    options: DeepMojiOptions | None

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.prefix = self.name
        self.columns = sentiment_columns(
            self.name,
            "Σ w_k p_k over DeepMoji's 64 emoji, with the paper's weights,",
            self.title,
            "DeepMoji's",
        )
        self.title = f"Sentiment by {self.title}"
        if chosen := self.options:
            from chatbots.encoders.deepmoji import DeepMojiEncoder

            encoder = DeepMojiEncoder(chosen.weights, chosen.vocabulary, chosen.device)
            self.feelings = EncoderFeelings(lambda: encoder)

    @property
    def params(self) -> dict[str, Any]:
        # Files that are not here have no digest to go by.
        return super().params if self.unavailable_reason() is None else {"feelings": None}

    def unavailable_reason(self) -> str | None:
        if self.options is None:
            return (
                "its files are not named; name them in metrics.yaml (kind: deepmoji, params: {weights: "
                "path, vocabulary: path})"
            )
        return super().unavailable_reason()
