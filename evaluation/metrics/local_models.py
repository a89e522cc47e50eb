"""Language models and classifiers from folders on this machine.

Researchers can name any transformers model with safetensors by its folder or by the hub id under which it was
downloaded. A language model can also be a GGUF file or the id of a bot that uses one. This module downloads nothing.
Metrics use the two protocols, so any other object with the same methods works too.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from chatbots.devices import rows_that_fit, transformer_row_bytes
from chatbots.gguf_files import (
    CONVERSION_VERSION,
    SMOLLM2,
    gguf_folder,
    gguf_locate,
    gguf_sha256,
    gguf_transformers_reason,
    is_gguf,
)
from chatbots.huggingface import (
    LoadedPretrained,
    find_model,
    load_pretrained,
    missing_reason,
    model_known_by,
    n_positions,
)
from chatbots.identity import Identity
from chatbots.text import nearest_names, quote

MOST_TOKENS = 1024
"""Maximum length of a text; longer ones are truncated, so that one very long turn cannot fill the memory."""


class ModelError(Exception):
    """Error for an unusable model; the message gives reason and remedy."""


class TextClassifier(Protocol):
    """Returns probabilities of texts, or pairs of texts."""

    @property
    def identity(self) -> Identity:
        """Identity of the model; available without loading it."""
        ...

    def unavailable_reason(self) -> str | None:
        """Return the reason why it cannot be used here, or None.

        Loads nothing.
        """
        ...

    def probabilities(self, texts: Sequence[str | tuple[str, str]]) -> np.ndarray:
        """Return the (N,) probability of its label for each text or pair."""
        ...


class ReplyModel(Protocol):
    """Returns likelihoods of replies."""

    @property
    def identity(self) -> Identity:
        """Identity of the model; available without loading it."""
        ...

    def unavailable_reason(self) -> str | None:
        """Return the reason why it cannot be used here, or None.

        Loads nothing.
        """
        ...

    def surprise(self, replies: Sequence[tuple[Sequence[str], str]]) -> tuple[np.ndarray, np.ndarray]:
        """Compute the negative log-likelihood of each reply given the turns before it.

        Args:
            replies: (earlier turns, reply).

        Returns:
            (N,) negative log-likelihood in nats, and (N,) number of tokens it is summed over; NaN and 0 for
            a reply without a token to predict.
        """
        ...


class LocalModel:
    """Base class of local models, which finds their files and loads once."""

    def __init__(self, model: str, device: str, dtype: str = "auto") -> None:
        if not isinstance(model, str) or not model.strip():
            raise ValueError(f"model is {quote(model)}; it must be a folder or a hub id")
        self.model = model
        self.device = device
        self.dtype = dtype
        self._loaded: LoadedPretrained | None = None
        self._lock = threading.RLock()
        self._elsewhere: dict[str, Self] = {}

    def on(self, device: str) -> Self:
        """Return this model on a device; it is loaded once per device."""
        if device == self.device:
            return self
        with self._lock:
            if device not in self._elsewhere:
                twin = copy.copy(self)
                twin.device, twin._loaded, twin._lock = device, None, threading.RLock()
                self._elsewhere[device] = twin
            return self._elsewhere[device]

    @property
    def _source(self) -> str:
        """Source of the model: a bot's model, otherwise the configured name."""
        return _model_of_bot(self.model) or self.model

    @property
    def known_by(self) -> dict[str, Any]:
        """Parameters that identify the model; available without loading it."""
        source = self._source
        if is_gguf(source):
            file = gguf_locate(source)
            digest = gguf_sha256(file) if file else None
            return {"model": Path(source).name, "sha256": digest, "conversion": CONVERSION_VERSION}
        return model_known_by(source)

    def config(self) -> dict[str, Any]:
        """Return the model's config.json; empty if there is none."""
        source = self._source
        folder = None if is_gguf(source) else find_model(source)
        return {} if folder is None else _json(folder / "config.json")

    def unavailable_reason(self) -> str | None:
        if find_spec("transformers") is None:
            return "the package transformers is not installed"
        source = self._source
        if is_gguf(source):
            return gguf_transformers_reason(source)
        return missing_reason(source, None, allow_download=False, has_option=False)

    def load(self, kind: str) -> LoadedPretrained:
        """Load the model once.

        Raises:
            ModelError: if it cannot be used here.
        """
        with self._lock:
            if self._loaded is None:
                reason, source = self.unavailable_reason(), self._source
                if reason is not None:
                    raise ModelError(reason)
                if is_gguf(source):
                    file = gguf_locate(source)
                    folder = gguf_folder(file) if file else None
                else:
                    folder = find_model(source)
                if folder is None:
                    raise ModelError(f"the files of {self.model} no longer exist")
                self._loaded = load_pretrained(folder, kind, device=self.device, dtype=self.dtype)
            return self._loaded


class LocalClassifier(LocalModel):
    """Sequence classifier of transformers.

    Args:
        model: a folder, or the hub id of a downloaded model.
        label: label whose probability is returned.
        device: device to compute on.
    """

    def __init__(self, model: str, label: str, device: str = "cpu") -> None:
        super().__init__(model, device)
        self.label = label

    @property
    def identity(self) -> Identity:
        return Identity("local_classifier", "1", {**self.known_by, "label": self.label})

    def unavailable_reason(self) -> str | None:
        reason = super().unavailable_reason()
        if reason is None and self._index() is None:
            labels = self._labels()
            near = nearest_names(self.label, labels, 1)
            reason = f"{self.model} has no label {quote(self.label)}; its labels are {', '.join(labels)}"
            reason += f"; did you mean {near[0]}?" if near else ""
        return reason

    def _labels(self) -> list[str]:
        return [str(name) for name in self._label_names().values()]

    def _label_names(self) -> dict[str, Any]:
        """Return the labels by number; transformers omits them if they are the default two."""
        return self.config().get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}

    def _index(self) -> int | None:
        for number, name in self._label_names().items():
            if str(name).casefold() == self.label.casefold():
                return int(number)
        return None

    def probabilities(self, texts: Sequence[str | tuple[str, str]]) -> np.ndarray:
        import torch

        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return np.zeros(0)
        with self._lock:
            loaded = self.load("AutoModelForSequenceClassification")
            longest, model = most_tokens(loaded), loaded.model
            n_rows = rows_that_fit(self.device, transformer_row_bytes(loaded.config, longest))
            probabilities = np.empty(len(distinct))
            # Batch texts of similar length to reduce padding.
            order = sorted(range(len(distinct)), key=lambda i: len("".join(distinct[i])))
            several = model.config.problem_type == "multi_label_classification"
            for start in range(0, len(order), n_rows):
                part = order[start : start + n_rows]
                encoded = loaded.tokenizer(
                    [distinct[i] for i in part], padding=True, truncation=True, max_length=longest, return_tensors="pt"
                ).to(self.device)
                with torch.inference_mode():
                    logits = model(**encoded).logits.double()
                shares = torch.sigmoid(logits) if several else torch.softmax(logits, dim=-1)
                probabilities[part] = shares[:, self._index()].cpu().numpy()
        place = {text: k for k, text in enumerate(distinct)}
        return probabilities[[place[text] for text in texts]]


class LocalLanguageModel(LocalModel):
    """A causal language model of transformers; turns are lines of one text.

    Args:
        model: a folder, the hub id of a downloaded model, a GGUF file, or a bot's id.
        window: number of earlier turns it sees.
        device: device to compute on.
    """

    def __init__(self, model: str, window: int = 5, device: str = "cpu") -> None:
        super().__init__(model, device)
        if window < 0:
            raise ValueError(f"window is {window}; it must be at least 0")
        self.window = window

    @property
    def identity(self) -> Identity:
        return Identity("local_language_model", "2", {**self.known_by, "window": self.window})

    def unavailable_reason(self) -> str | None:
        reason = super().unavailable_reason()
        if reason is None and self.config().get("is_encoder_decoder"):
            reason = f"{self.model} is an encoder-decoder; a causal language model (GPT-2, Llama) is required"
        return reason

    def surprise(self, replies: Sequence[tuple[Sequence[str], str]]) -> tuple[np.ndarray, np.ndarray]:
        with self._lock:
            loaded = self.load("AutoModelForCausalLM")
            limit, model = most_tokens(loaded), loaded.model
            row_bytes = transformer_row_bytes(loaded.config, limit, has_logits=True)
            n_rows = rows_that_fit(self.device, row_bytes)
            rows = [self._tokens(loaded.tokenizer, before, reply, limit) for before, reply in replies]
            total = np.full(len(rows), np.nan)
            count = np.zeros(len(rows), dtype=int)
            order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]))
            for start in range(0, len(order), n_rows):
                part = [i for i in order[start : start + n_rows] if rows[i][1] < len(rows[i][0])]
                if part:
                    sums = self._sums(model, [rows[i] for i in part])
                    total[part] = sums
                    count[part] = [len(rows[i][0]) - rows[i][1] for i in part]
        return total, count

    def _tokens(self, tokenizer: Any, before: Sequence[str], reply: str, limit: int) -> tuple[list[int], int]:
        """Return one row's tokens and the start of the scored tokens.

        Scored are the reply's tokens that have a predecessor.
        """
        context = "".join(f"{text}\n" for text in list(before)[max(0, len(before) - self.window) :])
        first = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
        context_tokens = tokenizer(context, add_special_tokens=False)["input_ids"] if context else []
        reply_tokens = tokenizer(reply, add_special_tokens=False)["input_ids"][: limit - len(first)]
        room = limit - len(first) - len(reply_tokens)
        context_tokens = context_tokens[len(context_tokens) - room :] if len(context_tokens) > room else context_tokens
        start = len(first) + len(context_tokens)
        return [*first, *context_tokens, *reply_tokens], max(start, 1)

    def _sums(self, model: Any, rows: Sequence[tuple[list[int], int]]) -> np.ndarray:
        """Return negative log-likelihoods (B,) in nats, summed from each start position."""
        import torch

        width = max(len(tokens) for tokens, _ in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        is_counted = torch.zeros(len(rows), width, dtype=torch.bool)
        for row, (tokens, start) in enumerate(rows):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
            is_counted[row, start : len(tokens)] = True
        ids, mask, is_counted = (x.to(self.device) for x in (ids, mask, is_counted))
        with torch.inference_mode():
            logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()  # (B, W−1, V)
            losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")  # (B, W−1)
            return (losses.double() * is_counted[:, 1:]).sum(dim=1).cpu().numpy()


def _model_of_bot(name: str) -> str | None:
    """Return the causal model of the bot with this id, or None."""
    from chatbots.registry import UnknownName, bots

    # Looking up an unknown id queries the database, so skip it for the models that every list of metrics names: the
    # built-in one and hub ids, whose slash no bot's id has.
    if name == SMOLLM2 or "/" in name:
        return None
    try:
        bot = bots.get(name)
    except UnknownName:
        return None
    if getattr(bot, "kind", "") not in ("transformers", "gguf"):
        return None
    model = getattr(getattr(bot, "options", None), "model", None)
    return str(model) if model else None


def most_tokens(loaded: LoadedPretrained) -> int:
    """Return the maximum length of a text, in tokens."""
    limits = (n_positions(loaded.config), loaded.tokenizer.model_max_length)
    return min([MOST_TOKENS, *(limit for limit in limits if limit)])


def _json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
