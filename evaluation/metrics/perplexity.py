"""Perplexity of the bot's turns under a language model that a researcher chooses.

exp of the mean negative log-likelihood per token of the bot's turns, each given the turns before it. A low
value means fluent or commonplace, which of the two it does not say; values of models with different
tokenizers cannot be compared. Over a conversation tokens are pooled, not turns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from pydantic import Field

from chatbots.outside import Values
from evaluation.columns import Column, per_turn
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric, Measured
from evaluation.metrics.layout import Layout
from evaluation.metrics.local_models import LocalLanguageModel, ReplyModel
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import BLANK, Shared


class PerplexityOptions(Values):
    """Options of an entry of `metrics.yaml`."""

    model: str = Field(
        min_length=1,
        description="a folder with a causal transformers model, or a hub id that was downloaded before",
    )
    window: int = Field(5, ge=0, description="how many earlier turns the model sees")
    device: str = Field("cpu", description="where it computes")


@register_metric
class Perplexity(ConfiguredMetric):
    """Perplexity -B; on request.

    Args:
        replies: instead of options: anything that gives replies a likelihood.
    """

    has_network = True
    needs = ("a causal language model",)
    licence = CHOSEN_LICENCE
    kind = "perplexity"
    usual_title = "Perplexity"
    options_type = PerplexityOptions
    options: PerplexityOptions | None

    def __init__(
        self,
        name: str = "",
        title: str = "",
        *,
        replies: ReplyModel | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name, title, **options)
        self._replies = replies
        if chosen := self.options:
            self._replies = LocalLanguageModel(chosen.model, chosen.window, chosen.device)
        self.columns = (
            *per_turn(
                f"{self.name}_nll_bot",
                f"Negative log-likelihood per token, bot ({self.title})",
                unit="nats",
                range=(0, None),
                direction="neither",
                description="Mean negative log-likelihood of the tokens of the bot's turn under the chosen "
                "language model, given the turns before it.",
            ),
            Column(
                f"{self.name}_bot",
                "conversation",
                f"{self.title}, bot",
                "1",
                (1, None),
                "neither",
                "exp of the mean negative log-likelihood over all tokens of the bot's turns under the chosen "
                "language model, each turn given those before it.",
            ),
        )

    @property
    def params(self) -> dict[str, Any]:
        return {"model": None if self._replies is None else self._replies.identity.as_dict()}

    def unavailable_reason(self) -> str | None:
        if self._replies is None:
            return (
                "no language model is chosen; name a local one in metrics.yaml (kind: perplexity, "
                "params: {model: path or hub id})"
            )
        return self._replies.unavailable_reason()

    def _surprise(self, asked: list[tuple[tuple[str, ...], str]]) -> Iterable[tuple[float, float]]:
        """Return the nats and the number of tokens of each reply."""
        assert self._replies is not None, "asked although it is unavailable"
        return zip(*self._replies.surprise(asked), strict=True)

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        n = len(layout.conversations)
        asked = [
            (tuple(layout.texts[i - layout.turn_of[i] : i]), layout.texts[i])
            for i in layout.bot.tolist()
        ]
        total, count = np.zeros(0), np.zeros(0)
        if asked:
            assert self._replies is not None, "asked although it is unavailable"
            surprise = shared.once(self._replies.identity.key, asked, self._surprise)
            total, count = np.array(surprise, dtype=float).T
        told = count > 0
        mean = np.divide(total, count, out=np.full(len(total), np.nan), where=told)
        owner = layout.conversation_of[layout.bot[told]]
        tokens = np.bincount(owner, weights=count[told], minlength=n)
        nats = np.bincount(owner, weights=total[told], minlength=n)
        with np.errstate(over="ignore"):  # infinite becomes NaN with its reason
            pooled = np.exp(np.divide(nats, tokens, out=np.full(n, np.nan), where=tokens > 0))
        reason = (BLANK,) if not told.all() else ()
        return Measured(
            {f"{self.name}_nll_bot": layout.spread(layout.bot, mean)},
            {f"{self.name}_bot": pooled},
            {
                f"{self.name}_nll_bot": reason,
                f"{self.name}_bot": ("no turn of the bot with a token",)
                if np.isnan(pooled).any()
                else (),
            },
        )
