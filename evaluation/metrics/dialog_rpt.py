"""DialogRPT: rankers of replies, trained on the feedback that people gave on Reddit.

Gao et al. (2020), "Dialogue Response Ranking Training with Large-Scale Human Feedback Data", EMNLP. Each ranker is a
GPT-2 with one output: three predict feedback (votes, number of answers, length of the thread below), two distinguish a
person's reply from a random one and from a generated one. Their combination is that of the released `ensemble.yml`.

Departures: utterances are joined by the end-of-text token, as in training; the survey of Yeh et al. (2021) joined them
by blanks. A context that is too long loses its oldest tokens. Each ranker is optional, and the combination averages
those that are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from chatbots.devices import rows_that_fit, transformer_row_bytes
from chatbots.identity import Identity
from chatbots.validation import InputModel
from evaluation.data.items import ReplyInContext
from evaluation.data.tables import per_turn
from evaluation.metrics.base import ConfiguredMetric
from evaluation.metrics.local_models import LocalModel, most_tokens
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.text_cache import TextCache

HUMAN_LIKE: Mapping[str, float] = {"human_vs_rand": 0.5, "human_vs_machine": 0.5}
FEEDBACK: Mapping[str, float] = {"updown": 1.0, "depth": 0.48, "width": -0.5}
"""Weights of the rankers in the released combination."""
SUBJECTS: Mapping[str, str] = {
    "updown": "Probability that the reply gets more upvotes than another one.",
    "depth": "Probability that the reply starts a longer thread than another one.",
    "width": "Probability that the reply gets more direct answers than another one.",
    "human_vs_rand": "Probability that the reply was written to this context and not drawn at random.",
    "human_vs_machine": "Probability that a person wrote the reply and not a model.",
}


class Ranker(LocalModel):
    """Decoder of transformers with one output, such as `GPT2ForSequenceClassification`."""

    @property
    def identity(self) -> Identity:
        return Identity("ranker", "1", self.known_by)

    def unavailable_reason(self) -> str | None:
        reason = super().unavailable_reason()
        if reason is not None:
            return reason
        config = self.config()
        kinds = [str(kind) for kind in config.get("architectures") or ()]
        n = len(config.get("id2label") or ("", ""))  # transformers omits the default number of labels, two
        if n != 1 or not any(kind.endswith("ForSequenceClassification") for kind in kinds):
            return (
                f"{self.model} is {', '.join(kinds) or 'unknown'} with {n} outputs; a ranker is a classifier with one"
            )
        return None

    def probabilities(self, pairs: Sequence[tuple[tuple[str, ...], str]]) -> np.ndarray:
        """Return σ(h(context, reply)) for each pair, (N,)."""
        import torch

        probabilities = np.empty(len(pairs))
        with self._lock:
            loaded = self.load("AutoModelForSequenceClassification")
            limit = most_tokens(loaded)
            rows = [_tokens(loaded.tokenizer, context, reply, limit) for context, reply in pairs]
            n_rows = rows_that_fit(self.device, transformer_row_bytes(loaded.config, limit))
            order = sorted(range(len(rows)), key=lambda k: len(rows[k]))
            for start in range(0, len(order), n_rows):
                part = order[start : start + n_rows]
                lengths = torch.tensor([len(rows[k]) for k in part])
                ids = torch.zeros(len(part), int(lengths.max()), dtype=torch.long)
                for row, k in enumerate(part):
                    ids[row, : len(rows[k])] = torch.tensor(rows[k])
                mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
                with torch.inference_mode():
                    states = loaded.model.base_model(
                        input_ids=ids.to(self.device), attention_mask=mask.to(self.device)
                    ).last_hidden_state  # (B, T, H)
                    last = states[torch.arange(len(part)), lengths - 1]
                    # s(c, r) = σ(h(c, r)), read at the last token (Gao et al. 2020, section 3).
                    probabilities[part] = torch.sigmoid(loaded.model.score(last)[:, 0].double()).cpu().numpy()
        return probabilities


def _tokens(tokenizer: Any, context: Sequence[str], reply: str, limit: int) -> list[int]:
    """Return the tokens of the utterances, with an end of text after each but the reply."""
    end = tokenizer.eos_token_id or 0
    before = [
        token for text in context for token in (*tokenizer(text.strip(), add_special_tokens=False)["input_ids"], end)
    ]
    return [*before, *tokenizer(reply.strip(), add_special_tokens=False)["input_ids"]][-limit:] or [end]


def combined(scores: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the released combination of the rankers' scores: human-likeness times feedback."""

    def mean_of(weights: Mapping[str, float]) -> np.ndarray | float:
        chosen = {name: weight for name, weight in weights.items() if name in scores}
        total = sum(chosen.values())
        return sum(weight * scores[name] for name, weight in chosen.items()) / total if chosen else 1.0

    # P(preferred | c) = P(human-like | c) · P(preferred | human-like, c) (Gao et al. 2020, section 3).
    return np.asarray(mean_of(HUMAN_LIKE) * mean_of(FEEDBACK))


class DialogRptOptions(InputModel):
    """Options of an entry of `metrics.yaml`: a folder or hub id for each ranker, or "" to leave it out."""

    updown: str = Field(default="microsoft/DialogRPT-updown", description="ranker by votes")
    depth: str = Field(default="microsoft/DialogRPT-depth", description="ranker by the length of the thread below")
    width: str = Field(default="microsoft/DialogRPT-width", description="ranker by the number of answers")
    human_vs_rand: str = Field(
        default="microsoft/DialogRPT-human-vs-rand", description="ranker of true against random replies"
    )
    human_vs_machine: str = Field(
        default="microsoft/DialogRPT-human-vs-machine", description="ranker of people against models"
    )
    device: str = Field(default="", description="device to compute on; by default that of the run")

    @model_validator(mode="after")
    def _a_ranker_is_named(self) -> DialogRptOptions:
        if not any(getattr(self, name) for name in SUBJECTS):
            raise ValueError(f"name at least one ranker: {', '.join(SUBJECTS)}")
        if self.width and not self.updown:
            raise ValueError("width counts negatively and needs updown; name both or set width to ''")
        return self


@register_metric
class DialogRpt(ReplyMetric, ConfiguredMetric):
    """DialogRPT's rankers and their combination; on request."""

    has_network = True
    kind = "dialog_rpt"
    usual_title = "DialogRPT"
    options_type = DialogRptOptions
    options: DialogRptOptions | None
    default = False
    needs = ("DialogRPT's rankers (microsoft/DialogRPT-updown and others)",)
    languages = ("en",)
    licence = "MIT (DialogRPT)"
    needs_context = True
    seen_sets = ()

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        chosen = self._chosen = self.options or DialogRptOptions()
        if chosen.model_copy(update={"device": ""}) != DialogRptOptions():
            self.licence = "that of the chosen models"
        self._rankers = {
            ranker: Ranker(model, chosen.device or "cpu") for ranker in SUBJECTS if (model := getattr(chosen, ranker))
        }
        self.columns = tuple(
            column
            for ranker in ("", *self._rankers)
            for column in per_turn(
                f"{self.name}_{ranker}_bot" if ranker else f"{self.name}_bot",
                f"{self.title}, {ranker.replace('_', ' ')}" if ranker else f"{self.title}, bot",
                unit="probability" if ranker else "1",
                range=(0, 1) if ranker else (None, None),
                direction="higher",
                description=(
                    SUBJECTS[ranker]
                    if ranker
                    else "How human-like a reply is, times the feedback that people on Reddit would give it."
                )
                + " Undefined for a turn that opens the conversation.",
            )
        )

    @property
    def params(self) -> dict[str, Any]:
        return {"rankers": {name: ranker.identity.as_dict() for name, ranker in self._rankers.items()}}

    def unavailable_reason(self) -> str | None:
        reasons = {name: ranker.unavailable_reason() for name, ranker in self._rankers.items()}
        return "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason) or None

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        pairs = [(reply.context, reply.response) for reply in replies]
        device = self._chosen.device or shared.device
        scores = {name: ranker.on(device).probabilities(pairs) for name, ranker in self._rankers.items()}
        return {
            f"{self.name}_bot": combined(scores),
            **{f"{self.name}_{name}_bot": values for name, values in scores.items()},
        }
