"""DialogEntailment: entailment of the reply by its context.

Dziri, Kamalloo, Mathewson and Zaiane (2019), "Evaluating Coherence in Dialogue Systems using Entailment", NAACL. The
networks are `evaluation/models/entailment.py`, their training `evaluation/training/metrics/entailment.py`. The premise
is the preceding context, the hypothesis the reply. A missing utterance does not count as an empty text: the reply has
no value. The likeliest class is also a column, read as in the paper: entailment means coherent, neutral off-topic or
dull, contradiction incoherent. The single score is the probability of entailment, optionally minus the probability of
contradiction.

Entailment-lite is a regression on frozen MiniLM, trained on Topical-Chat and shipped with Confab
(`evaluation/shipped/entailment-lite`). It is always labelled as a lite version: DialogEntailment's own classifiers are
BERT and ESIM with ELMo. `docs/research/entailment.md` has its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from evaluation.data.items import ReplyInContext
from evaluation.data.result_tables import Cell, declared_table, share_cell
from evaluation.data.tables import per_turn
from evaluation.metrics.explanations import Explanation, shorten
from evaluation.metrics.registry import metrics, register_metric
from evaluation.metrics.text_cache import TextCache
from evaluation.metrics.trained import CHECKPOINT_NEEDED, TrainedMetric, TrainedOptions

CLASSES = ("contradiction", "neutral", "entailment")
"""Labels from worst to best; the column of the likeliest class contains their index."""
CLASS_COLUMN = "_class_bot"
"""Ending of the names of columns with a class."""
TOO_SHORT = "there is no utterance that far back"
ROWS = 64
MAX_EXPLAINED = 20
"""Maximum number of previous utterances in an explanation."""


class EntailmentMetricOptions(TrainedOptions):
    """Options of an entry of `metrics.yaml`."""

    utterance: int = Field(
        0,
        le=0,
        description="premise: 0 for the whole preceding conversation, -1 for the last utterance only, -2 for the one "
        "before it",
    )
    window: int = Field(
        5, ge=0, description="number of utterances in the whole preceding conversation, newest first; 0 for all"
    )
    value: Literal["entailment", "difference"] = Field(
        "entailment",
        description="score of a reply: the probability of entailment, or that minus the probability of contradiction",
    )


@register_metric
class Entailment(TrainedMetric):
    """Entailment probabilities, the likeliest class and a single score; on request."""

    kind = "entailment"
    usual_title = "Entailment"
    options_type = EntailmentMetricOptions
    needs_context = True
    needs = (CHECKPOINT_NEEDED,)
    languages = ("en",)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        chosen: EntailmentMetricOptions | None = self.options
        self.utterance = chosen.utterance if chosen else 0
        self.value = chosen.value if chosen else "entailment"
        self.window = -self.utterance or (chosen.window if chosen else 5) or None
        difference = self.value == "difference"
        self.columns = (
            *per_turn(
                f"{self.name}_bot",
                f"{self.title}, bot",
                unit="difference of probabilities" if difference else "probability",
                range=(-1 if difference else 0, 1),
                direction="higher",
                description="Probability that the preceding conversation entails the bot's turn"
                + (", minus the probability that it contradicts it. " if difference else ". ")
                + "Undefined for a turn that opens the conversation.",
            ),
            *(
                column
                for name, meaning in (
                    ("entailment", "it fits"),
                    ("neutral", "it is off-topic or dull"),
                    ("contradiction", "it makes no sense here"),
                )
                for column in per_turn(
                    f"{self.name}_{name}_bot",
                    f"{self.title}: {name}",
                    unit="probability",
                    range=(0, 1),
                    direction="higher" if name == "entailment" else "lower",
                    description=f"Probability of the class {name} for the bot's turn: {meaning}.",
                )
            ),
            *per_turn(
                f"{self.name}{CLASS_COLUMN}",
                f"{self.title}: likeliest class",
                unit="class",
                range=(0, 2),
                direction="higher",
                description="Likeliest class of the bot's turn: 0 contradiction, 1 neutral, 2 entailment.",
            ),
        )
        if chosen is not None and super().unavailable_reason() is None:
            licences = self.checkpoint.manifest.facts.get("licences") or ["not stated"]
            self.licence = f"of the training text: {', '.join(licences)}"

    @property
    def params(self) -> dict[str, Any]:
        return {**super().params, "utterance": self.utterance, "window": self.window, "value": self.value}

    def lacking(self, reply: ReplyInContext, column: str = "") -> str | None:
        reason = super().lacking(reply, column)
        if reason is None and len(reply.context) < -self.utterance:
            return TOO_SHORT
        return reason

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        from evaluation.training.inference_pairs import LABELS

        chances = self._probabilities(
            [self._premise(reply) for reply in replies], [reply.response for reply in replies], shared
        )
        by_name = {name: chances[:, LABELS.index(name)] for name in CLASSES}
        value = by_name["entailment"]
        if self.value == "difference":
            value = value - by_name["contradiction"]
        likeliest = np.stack([by_name[name] for name in CLASSES], axis=1).argmax(axis=1)
        return {
            f"{self.name}_bot": value,
            **{f"{self.name}_{name}_bot": values for name, values in by_name.items()},
            f"{self.name}{CLASS_COLUMN}": likeliest.astype(float),
        }

    def explain(self, reply: ReplyInContext, others: Sequence[ReplyInContext], shared: TextCache) -> Explanation | None:
        """Return the class of the reply for each previous utterance as premise (Dziri et al. 2019, Figure 1)."""
        from evaluation.training.inference_pairs import LABELS

        if self.lacking(reply) is not None:
            return None
        previous = reply.context[-MAX_EXPLAINED:]
        premises = [("Premise of the metric", self._premise(self.seen(reply)))]
        premises += [(f"Utterance −{len(previous) - k}", text) for k, text in reversed(list(enumerate(previous)))]
        chances = self._probabilities([text for _name, text in premises], [reply.response] * len(premises), shared)
        table = declared_table(
            "premises",
            "Class for each premise",
            zip(premises, chances.tolist(), strict=True),
            ("Premise", lambda row: Cell(row[0][0])),
            ("Text", lambda row: Cell(shorten(row[0][1]))),
            ("Class", lambda row: Cell(LABELS[int(np.argmax(row[1]))])),
            (list(reversed(CLASSES)), lambda row: [share_cell(row[1][LABELS.index(n)]) for n in reversed(CLASSES)]),
            method="Probability of each class. The reply is the hypothesis; utterance −1 is the last one before it.",
        )
        return Explanation((table,))

    def _premise(self, reply: ReplyInContext) -> str:
        return reply.context[self.utterance] if self.utterance else " ".join(reply.context)

    def _probabilities(self, premises: Sequence[str], hypotheses: Sequence[str], shared: TextCache) -> np.ndarray:
        """Return (N, 3) probabilities in the order of `LABELS`."""
        import torch

        network = self.restored(shared.device)
        config = self.checkpoint.config
        if config.metric_options.hypothesis_only:
            premises = [""] * len(hypotheses)
        if config.metric_options.network == "lite":
            from chatbots.encoders.sentence import encoder_get

            encoder = encoder_get(config.backbone.model, self.choose_device(shared.device))
            texts = list(dict.fromkeys(text for text in (*premises, *hypotheses) if text))
            place = {text: k for k, text in enumerate(texts)}
            vectors = shared.encode(texts, encoder)
            hypothesis_vectors = vectors[[place[text] for text in hypotheses]]
            if config.metric_options.hypothesis_only:
                premise_vectors = np.zeros_like(hypothesis_vectors)
            else:
                premise_vectors = vectors[[place[text] for text in premises]]
            with torch.inference_mode():
                batch_probabilities = network.probabilities(
                    torch.from_numpy(premise_vectors), torch.from_numpy(hypothesis_vectors)
                )
            return batch_probabilities.double().cpu().numpy()
        order = sorted(range(len(premises)), key=lambda k: len(premises[k]) + len(hypotheses[k]))
        probabilities = np.zeros((len(premises), 3))
        for start in range(0, len(order), ROWS):
            part = order[start : start + ROWS]
            with torch.inference_mode():
                batch_probabilities = network.probabilities([premises[k] for k in part], [hypotheses[k] for k in part])
            probabilities[part] = batch_probabilities.double().cpu()
        return probabilities


metrics.add(Entailment(name="entailment_lite", title="Entailment-lite", checkpoint="entailment-lite"))
