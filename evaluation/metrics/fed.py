"""FED: qualities of a reply or a dialogue from the likelihood of follow-up utterances.

Mehri and Eskenazi (2020), "Unsupervised Evaluation of Interactive Dialog with DialoGPT", SIGDIAL. After a good reply a
person would rather say "Wow that is really interesting." than "That's really boring."; a dialogue model tells how
likely each is. Eight qualities describe a reply, ten a whole dialogue. Nothing is trained.

Departures from the paper's equation, all as in its released code, which made the published figures: follow-ups of one
side are averaged, not summed, and a follow-up's log-likelihood is the mean over all tokens of dialogue and follow-up.
`likelihood: follow_up` takes the follow-up's own tokens only. Utterances end with the model's end-of-text token, as in
DialoGPT's training; a model with a chat template reads a chat. At most 512 tokens before a follow-up are read; older
utterances are left out.

A model reads each dialogue once and keeps its keys and values for all follow-ups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from chatbots.gguf_files import SMOLLM2
from chatbots.identity import Identity
from chatbots.validation import InputModel
from evaluation.data.items import ReplyInContext
from evaluation.data.tables import Column, per_turn
from evaluation.metrics.base import ConfiguredMetric, Measured
from evaluation.metrics.layout import Layout
from evaluation.metrics.likelihood import ContinuationRow, Continuations
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.text_cache import TextCache, blank

DIALOGPT = "microsoft/DialoGPT-large"
NO_BOT_TURN = "the bot has no turn with text"

Quality = tuple[tuple[str, ...], tuple[str, ...]]
"""Follow-ups after a good and after a bad reply."""

_MAKES_SENSE = ("That makes sense!", "You have a good point.")
REPLY_QUALITIES: Mapping[str, Quality] = {
    "interesting": (
        ("Wow that is really interesting.", "That's really interesting!", "Cool! That sounds super interesting."),
        ("That's not very interesting.", "That's really boring.", "That was a really boring response."),
    ),
    "engaging": (
        ("Wow! That's really cool!", "Tell me more!", "I'm really interested in learning more about this."),
        (
            "Let's change the topic.",
            "I don't really care. That's pretty boring.",
            "I want to talk about something else.",
        ),
    ),
    "specific": (
        ("That's good to know. Cool!", "I see, that's interesting.", "That's a good point."),
        ("That's a very generic response.", "Not really relevant here.", "That's not really relevant here."),
    ),
    "relevant": (
        (),
        ("That's not even related to what I said.", "Don't change the topic!", "Why are you changing the topic?"),
    ),
    "correct": (
        (),
        ("You're not understanding me!", "I am so confused right now!", "I don't understand what you're saying."),
    ),
    "semantically_appropriate": (_MAKES_SENSE, ("That makes no sense!",)),
    "understandable": (
        _MAKES_SENSE,
        ("I don't understand at all!", "I'm so confused!", "That makes no sense!", "What does that even mean?"),
    ),
    "fluent": (_MAKES_SENSE, ("Is that real English?", "I'm so confused right now!", "That makes no sense!")),
}
"""The paper's eight qualities of a reply; `overall` has no follow-ups and is their mean."""
DIALOGUE_QUALITIES: Mapping[str, Quality] = {
    "coherent": ((), ("You're making no sense at all.", "You're changing the topic so much!", "You are so confusing.")),
    "error_recovery": (
        (),
        ("I am so confused right now.", "You're really confusing.", "I don't understand what you're saying."),
    ),
    "consistent": ((), ("That's not what you said earlier!", "Stop contradicting yourself!")),
    "diverse": (
        (),
        ("Stop saying the same thing repeatedly.", "Why are you repeating yourself?", "Stop repeating yourself!"),
    ),
    "depth": ((), ("Stop changing the topic so much.", "Don't change the topic!")),
    "likeable": (
        ("I like you!", "You're super polite and fun to talk to", "Great talking to you."),
        ("You're not very nice.", "You're not very fun to talk to.", "I don't like you."),
    ),
    "understanding": (
        (),
        ("You're not understanding me!", "What are you trying to say?", "I don't understand what you're saying."),
    ),
    "flexible": (
        ("You're very easy to talk to!", "Wow you can talk about a lot of things!"),
        ("I don't want to talk about that!", "Do you know how to talk about something else?"),
    ),
    "informative": (
        ("Thanks for all the information!", "Wow that's a lot of information.", "You know a lot of facts!"),
        ("You're really boring.", "You don't really know much."),
    ),
    "inquisitive": (
        ("You ask a lot of questions!", "That's a lot of questions!"),
        ("You don't ask many questions.", "You don't seem interested."),
    ),
}
"""The paper's ten qualities of a dialogue."""


def follow_ups_of(qualities: Mapping[str, Quality]) -> list[str]:
    """Return the distinct follow-ups of some qualities."""
    return list(dict.fromkeys(text for sides in qualities.values() for side in sides for text in side))


def quality_scores(likelihoods: np.ndarray, qualities: Mapping[str, Quality]) -> np.ndarray:
    """Return scores (N, Q) from log-likelihoods (N, F) of `follow_ups_of(qualities)`.

    A side without follow-ups counts 0.
    """
    place = {text: k for k, text in enumerate(follow_ups_of(qualities))}

    def mean_of(texts: tuple[str, ...]) -> np.ndarray | float:
        return likelihoods[:, [place[text] for text in texts]].mean(axis=1) if texts else 0.0

    # Σ_i D(c + r, p_i) − Σ_i D(c + r, n_i), with means for the sums (Mehri and Eskenazi 2020, section 5).
    columns = [mean_of(good) - mean_of(bad) for good, bad in qualities.values()]
    return np.stack(np.broadcast_arrays(*columns), axis=1)


class FollowUps(Continuations):
    """Causal language model that returns log-likelihoods of follow-ups to dialogues."""

    @property
    def identity(self) -> Identity:
        return Identity("follow_ups", "1", {**self.known_by, "dtype": self.dtype})

    def _prompt(self, tokenizer: Any, lines: Sequence[str]) -> tuple[int, ...]:
        end = tokenizer.eos_token_id
        if getattr(tokenizer, "chat_template", None) or end is None:
            return super()._prompt(tokenizer, lines)
        utterances = [tokenizer(line.strip(), add_special_tokens=False)["input_ids"] for line in lines]
        return (end, *(token for utterance in utterances for token in (*utterance, end)))

    def likelihoods(
        self, dialogues: Sequence[Sequence[str]], follow_ups: Sequence[str], *, includes_dialogue: bool
    ) -> np.ndarray:
        """Return log-likelihoods per token, (N, F) in nats.

        Args:
            includes_dialogue: mean over the tokens of dialogue and follow-up, otherwise over the follow-up's.
        """
        with self._lock:
            loaded = self.load("AutoModelForCausalLM")
            texts = [self._row(loaded, (), text).text for text in follow_ups]
            longest = max(follow_ups, key=lambda text: len(texts[follow_ups.index(text)]))
            prompts = [self._row(loaded, dialogue, longest).before for dialogue in dialogues]
            rows = [ContinuationRow(prompt, text) for prompt in prompts for text in texts]
            totals = self.row_log_probabilities(loaded.model, rows).reshape(len(prompts), len(texts))
            counts = np.array([len(text) for text in texts], dtype=float)[None]
            if includes_dialogue:
                dialogue_rows = [ContinuationRow(prompt[:1], prompt[1:]) for prompt in prompts]
                of_dialogues = self.row_log_probabilities(loaded.model, dialogue_rows)
                totals = totals + np.nan_to_num(of_dialogues)[:, None]  # NaN for a dialogue without tokens
                counts = counts + np.array([len(row.text) for row in dialogue_rows], dtype=float)[:, None]
        return totals / counts


class FedOptions(InputModel):
    """Options of an entry of `metrics.yaml`."""

    model: str = Field(
        default=DIALOGPT,
        min_length=1,
        description="dialogue model: a transformers folder, a hub id, a GGUF file, or a bot's id",
    )
    likelihood: Literal["whole", "follow_up"] = Field(
        default="whole",
        description="mean log-likelihood of dialogue and follow-up (released code), or of the follow-up alone",
    )
    device: str = Field(default="", description="device to compute on; by default that of the run")


class FedLiteOptions(FedOptions):
    """Options of FED-lite."""

    model: str = Field(default=SMOLLM2, min_length=1, description="a small language model; by default the shipped one")


@register_metric
class FedQualities(ReplyMetric, ConfiguredMetric):
    """FED by DialoGPT, if it is in the Hugging Face cache, or by a configured model."""

    has_network = True
    kind = "fed"
    usual_title = "FED"
    options_type = FedOptions
    options: FedOptions | None
    default = False
    needs = ("DialoGPT (microsoft/DialoGPT-large)",)
    languages = ("en",)
    licence = "MIT (DialoGPT)"
    seen_sets = ("fed",)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self._chosen: FedOptions = self.options or self.options_type()
        self._model = FollowUps(self._chosen.model, self._chosen.device or "cpu")
        if self._chosen.model != self.options_type().model:
            self.licence = "that of the chosen model"
        self.columns = (*self._reply_columns(), *self._dialogue_columns())

    def _reply_columns(self) -> Iterator[Column]:
        for quality in ("", *REPLY_QUALITIES):
            words = quality.replace("_", " ")
            yield from per_turn(
                f"{self.name}_{quality}_bot" if quality else f"{self.name}_bot",
                f"{self.title}, {words or 'reply'}",
                unit="nats",
                range=(None, None),
                direction="higher",
                description=(
                    f"Log-likelihood of follow-ups to a reply that is {words}, minus that of follow-ups to one that is "
                    "not."
                    if quality
                    else "Mean of FED's eight qualities of a reply, from the likelihood of follow-up utterances."
                ),
            )

    def _dialogue_columns(self) -> Iterator[Column]:
        for quality in ("", *DIALOGUE_QUALITIES):
            words = quality.replace("_", " ")
            yield Column(
                f"{self.name}_dialogue_{quality}" if quality else f"{self.name}_dialogue",
                "conversation",
                f"{self.title}, dialogue" + (f": {words}" if quality else ""),
                "nats",
                (None, None),
                "higher",
                f"Log-likelihood of follow-ups that suit FED's dialogue quality “{words}”, minus that of opposite ones."
                if quality
                else "Mean of FED's ten qualities of a dialogue, from the likelihood of follow-ups to all of it.",
            )

    @property
    def params(self) -> dict[str, Any]:
        return {"model": self._model.identity.as_dict(), "likelihood": self._chosen.likelihood}

    def unavailable_reason(self) -> str | None:
        return self._model.unavailable_reason()

    def _scores(
        self, dialogues: Sequence[tuple[str, ...]], qualities: Mapping[str, Quality], shared: TextCache
    ) -> np.ndarray:
        """Return scores of dialogues, (N, 1 + Q), the mean over the qualities first."""

        def compute(distinct: list[tuple[str, ...]]) -> Iterable[np.ndarray]:
            model = self._model.on(self._chosen.device or shared.device)
            likelihoods = model.likelihoods(
                distinct, follow_ups_of(qualities), includes_dialogue=self._chosen.likelihood == "whole"
            )
            scores = quality_scores(likelihoods, qualities)
            return np.concatenate([scores.mean(axis=1, keepdims=True), scores], axis=1)

        key = f"{self.identity.key} {len(qualities)}"
        rows = shared.once(key, dialogues, compute) if dialogues else []
        return np.array(rows, dtype=float).reshape(len(dialogues), 1 + len(qualities))

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        rows = self._scores([(*reply.context, reply.response) for reply in replies], REPLY_QUALITIES, shared)
        return dict(zip(self.turn_columns, rows.T, strict=True))

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        measured = super().measure(layout, shared)
        names = [column.name for column in self.columns if column.name.startswith(f"{self.name}_dialogue")]
        every_turn = np.arange(len(layout.texts))
        dialogues = [
            tuple(text for text in layout.texts_at(turns) if not blank(text))
            for turns in layout.by_conversation(every_turn)
        ]
        rated = [
            k
            for k, turns in enumerate(layout.by_conversation(layout.said))
            if any(not blank(text) for text in layout.texts_at(turns))
        ]
        values = np.full((len(dialogues), len(names)), np.nan)
        values[rated] = self._scores([dialogues[k] for k in rated], DIALOGUE_QUALITIES, shared)
        reasons = dict.fromkeys(names, (NO_BOT_TURN,)) if len(rated) < len(dialogues) else {}
        return replace(
            measured, conversations=dict(zip(names, values.T, strict=True)), reasons={**measured.reasons, **reasons}
        )


@register_metric
class FedLite(FedQualities):
    """FED's follow-ups by the small language model that Confab can use offline; on request."""

    kind = "fed_lite"
    usual_title = "FED-lite (SmolLM2)"
    options_type = FedLiteOptions
    needs = ("a causal language model",)
    licence = "Apache-2.0 (SmolLM2-135M-Instruct)"
