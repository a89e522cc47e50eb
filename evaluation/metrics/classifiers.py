"""Toxicity, contradiction and coherence, from classifiers that a researcher chooses.

Toxicity: no classifier is shipped, because good ones take hundreds of megabytes and were trained on comments with
restricted licences. The classifier of the released code, a regression on Jigsaw's comments, is not public either; the
`compat` column treats the result as that code does (fact sheet section 1.6).

Contradiction is measured as usual by natural language inference (Welleck et al. 2019, "Dialogue Natural Language
Inference", ACL): the probability that a turn contradicts an earlier turn of the same speaker. Coherence is the
probability that a reply fits the turn it answers. Both accept any classifier of text pairs, as a transformers folder or
an object, and are unavailable without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from chatbots.validation import InputModel
from evaluation.data.tables import Column, per_turn
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric, Measured, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.local_models import LocalClassifier, TextClassifier
from evaluation.metrics.registry import register_metric
from evaluation.metrics.text_cache import BLANK, TextCache, blank


class ClassifierOptions(InputModel):
    """Options of an entry of `metrics.yaml` for such a metric."""

    model: str = Field(
        min_length=1, description="folder of a transformers classifier, or the hub id of a downloaded one"
    )
    label: str = Field("", description="label whose probability is used; by default the usual one of the kind")
    device: str = Field("cpu", description="device to compute on")


class ClassifierMetric(ConfiguredMetric):
    """Base class of metrics that need a classifier; on request.

    Args:
        classifier: object that maps texts, or pairs of them, to a probability; replaces the options.
    """

    has_network = True
    licence = CHOSEN_LICENCE
    options_type = ClassifierOptions
    options: ClassifierOptions | None
    usual_label: ClassVar[str]
    reads: ClassVar[str] = "text pairs"

    def __init__(
        self, name: str = "", title: str = "", *, classifier: TextClassifier | None = None, **options: Any
    ) -> None:
        super().__init__(name, title, **options)
        self.needs = (f"a classifier of {self.reads}",)
        self._classifier = classifier
        if chosen := self.options:
            label = chosen.label or self.usual_label
            self._classifier = LocalClassifier(chosen.model, label, chosen.device)
        self.columns = self._columns()

    def _columns(self) -> tuple[Column, ...]:
        raise NotImplementedError

    @property
    def params(self) -> dict[str, Any]:
        return {"classifier": None if self._classifier is None else self._classifier.identity.as_dict()}

    def unavailable_reason(self) -> str | None:
        if self._classifier is None:
            return (
                f"no classifier of {self.reads} is chosen; name a local one in metrics.yaml (kind: "
                f"{self.kind}, params: {{model: path or hub id, label: {self.usual_label}}})"
            )
        return self._classifier.unavailable_reason()

    def probabilities(self, texts: Sequence[str | tuple[str, str]], shared: TextCache) -> np.ndarray:
        """Return the classifier's probabilities of texts or pairs, (N,).

        Each distinct one is classified once.
        """
        if not texts:
            return np.zeros(0)
        assert self._classifier is not None, "called although it is unavailable"
        key = self._classifier.identity.key
        return np.array(shared.once(key, texts, self._classifier.probabilities), dtype=float)


@register_metric
class Toxicity(ClassifierMetric):
    """Toxicity -B; the chosen label stands for toxic texts."""

    kind = "toxicity"
    usual_title = "Toxicity"
    usual_label = "toxic"
    reads = "texts"

    def _columns(self) -> tuple[Column, ...]:
        return (
            *per_turn(
                f"{self.name}_bot",
                f"{self.title}, bot",
                unit="probability",
                range=(0, 1),
                direction="lower",
                description="Probability that the bot's turn is toxic, according to the chosen classifier.",
            ),
            *per_turn(
                f"compat_{self.name}_bot",
                f"{self.title}, bot (2019 code)",
                unit="1",
                range=(-1, 0),
                direction="higher",
                description="Minus the probability that the bot's turn is toxic, or −0.2 if it contains the letters "
                "'depressed' (2019 code).",
            ),
        )

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        texts = layout.texts_at(layout.bot)
        is_text = np.array([not blank(text) for text in texts], dtype=bool)
        probabilities = np.full(len(texts), np.nan)
        probabilities[is_text] = self.probabilities([text for text in texts if not blank(text)], shared)
        depressed = np.array(["depressed" in text for text in texts], dtype=bool)
        as_in_2019 = np.where(depressed, -0.2, -probabilities)
        return Measured(
            {
                f"{self.name}_bot": layout.spread(layout.bot, probabilities),
                f"compat_{self.name}_bot": layout.spread(layout.bot, as_in_2019),
            },
            reasons=dict.fromkeys((f"{self.name}_bot", f"compat_{self.name}_bot"), missing(probabilities, BLANK)),
        )


@register_metric
class Contradiction(ClassifierMetric):
    """Self-contradiction -B; the chosen label stands for contradiction."""

    kind = "contradiction"
    usual_title = "Self-contradiction"
    usual_label = "contradiction"

    def _columns(self) -> tuple[Column, ...]:
        return per_turn(
            f"{self.name}_bot",
            f"{self.title}, bot",
            unit="probability",
            range=(0, 1),
            direction="lower",
            description="Highest probability, according to the chosen classifier, that the bot's turn "
            "contradicts one of "
            "its earlier turns. Undefined for its first turn.",
        )

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        turns = np.array([i for i in layout.said if not blank(layout.texts[i])], dtype=int)
        later_turns: list[int] = []
        pairs: list[tuple[str, str]] = []
        for conversation_turns in layout.by_conversation(turns):
            for k, later in enumerate(conversation_turns.tolist()):
                later_turns.extend([later] * k)
                pairs.extend((layout.texts[i], layout.texts[later]) for i in conversation_turns[:k])
        values = np.full(len(layout.texts), -np.inf)
        np.maximum.at(values, np.array(later_turns, dtype=int), self.probabilities(pairs, shared))
        values[values == -np.inf] = np.nan
        missed = np.isnan(values[layout.bot]).any()
        return Measured(
            {f"{self.name}_bot": values},
            reasons={f"{self.name}_bot": ("the bot has no earlier turn", BLANK) if missed else ()},
        )


@register_metric
class Coherence(ClassifierMetric):
    """Coherence -U/B by a learned model.

    The chosen label means that the second text fits the first.
    """

    kind = "coherence"
    usual_title = "Coherence"
    usual_label = "coherent"

    def _columns(self) -> tuple[Column, ...]:
        return per_turn(
            f"{self.name}_user_bot",
            f"{self.title}, participant and bot",
            unit="probability",
            range=(0, 1),
            direction="higher",
            description="Probability, according to the chosen classifier, that the bot's reply fits the message. If a "
            "speaker writes several turns in a row, the last one is used. In self-play: for consecutive "
            "utterances.",
        )

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        pairs = [
            (message, reply)
            for message, reply in layout.exchanges.tolist()
            if not blank(layout.texts[message]) and not blank(layout.texts[reply])
        ]
        probabilities = self.probabilities([(layout.texts[m], layout.texts[r]) for m, r in pairs], shared)
        return Measured(
            {f"{self.name}_user_bot": layout.spread(np.array([r for _, r in pairs], dtype=int), probabilities)},
            reasons={f"{self.name}_user_bot": (BLANK,) if len(pairs) < len(layout.exchanges) else ()},
        )
