"""Gain in a reply's likelihood by its context: mean pointwise mutual information under a language model.

(log P(reply | context) − log P(reply)) / tokens of the reply, in nats, by a causal language model without any training
on dialogue: above 0 where the context makes the reply likelier. Unlike the likelihood itself it does not reward
commonplaces, which are likely anywhere. A chat model reads the turns as its template writes them, without a
system prompt; another reads them as lines of one text. Without context the reply takes the position of a first turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from chatbots.gguf.files import SMOLLM2
from chatbots.outside import Values
from evaluation.columns import per_turn
from evaluation.items import ReplyInContext
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric
from evaluation.metrics.continuations import Continuations
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.shared import Shared

WINDOW = 5


class ReplyPmiOptions(Values):
    """Options of an entry of `metrics.yaml`."""

    model: str = Field(
        SMOLLM2,
        min_length=1,
        description="a causal language model: a transformers folder, a hub id that was downloaded before, a GGUF "
        "file, or the id of a bot that is made of one",
    )
    window: int = Field(WINDOW, ge=1, description="how many earlier turns the model sees")
    device: str = Field("cpu", description="where it computes")
    dtype: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="bfloat16 is two to three times as fast where the processor computes in it; values differ in the "
        "second digit",
    )


@register_metric
class ReplyPmi(ReplyMetric, ConfiguredMetric):
    """Mean pointwise mutual information of a reply and its context; by SmolLM2-135M where nothing else is chosen."""

    has_network = True
    kind = "reply_pmi"
    usual_title = "Pointwise mutual information"
    options_type = ReplyPmiOptions
    options: ReplyPmiOptions | None
    default = False
    needs_context = True
    needs = ("a causal language model",)
    licence = "Apache-2.0 (SmolLM2-135M-Instruct)"

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        chosen = self.options or ReplyPmiOptions()  # type: ignore[call-arg]
        self.window = chosen.window
        self.languages = ("en",) if chosen.model == SMOLLM2 else None
        if chosen.model != SMOLLM2:
            self.licence = CHOSEN_LICENCE
        self._model = Continuations(chosen.model, chosen.device, chosen.dtype)
        self.columns = (
            *per_turn(
                f"{self.name}_bot",
                f"{self.title}, bot",
                unit="nats",
                range=(None, None),
                direction="higher",
                description="(log P(reply | turns before) − log P(reply)) per token of the bot's turn, by a causal "
                "language model. Undefined for a turn that opens the conversation.",
            ),
            *per_turn(
                f"{self.name}_given_bot",
                f"Log-likelihood after the context, bot ({self.title})",
                unit="nats",
                range=(None, 0),
                direction="neither",
                description="log P(reply | turns before) per token of the bot's turn, by the same model.",
            ),
        )

    @property
    def params(self) -> dict[str, Any]:
        return {"model": self._model.identity.as_dict(), "window": self.window}

    def unavailable_reason(self) -> str | None:
        return self._model.unavailable_reason()

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        asked: list[tuple[tuple[str, ...], str]] = [(r.context, r.response) for r in replies]
        asked += [((), r.response) for r in replies]
        # Without an entry in metrics.yaml the run says where it computes.
        model = self._model if self.options else self._model.on(shared.device)

        def likelihoods(few: list[tuple[tuple[str, ...], str]]) -> Iterable[tuple[float, float]]:
            return zip(*model.log_probabilities(few), strict=True)

        found = np.array(shared.once(model.identity.key, asked, likelihoods), dtype=float)
        (given, tokens), (alone, _) = found[: len(replies)].T, found[len(replies) :].T
        tokens = np.where(tokens > 0, tokens, np.nan)
        return {
            f"{self.name}_bot": (given - alone) / tokens,
            f"{self.name}_given_bot": given / tokens,
        }
