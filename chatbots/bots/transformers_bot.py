"""A bot made of a transformers model: decoder-only or encoder-decoder, a local folder or a hub id.

Not registered by itself: bots of this kind are configured, one per entry of `bots.yaml`
(`chatbots/configured.py`). Many conversations share the model a token at a time
(`chatbots/generation/language_model.py`); each draws its tokens with random numbers of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from chatbots.base import BotDefaults, BotError
from chatbots.huggingface import find_model, missing_reason, model_known_by, n_weights
from chatbots.imports import import_lock

if TYPE_CHECKING:
    from chatbots.generation.transformers_batch import LoadedModel, SlotGeneration

_DTYPES = ("float32", "bfloat16", "float16", "auto")


class TransformersBot(BotDefaults):
    """A configured transformers model.

    Args:
        name, title: as of any bot.
        model: folder of a model, or hub id ("microsoft/DialoGPT-small").
        system_prompt: what the model is told first.
        temperature: 0: always the likeliest token. Below 1 safer, above 1 wilder.
        top_k: only the k likeliest tokens; 0: all.
        top_p: only the fewest tokens holding this share of the probability; 1: all.
        repetition_penalty: above 1 discourages tokens of the context and reply; 1: off.
        no_repeat_ngram_size: no sequence of so many tokens twice in a reply; 0: off.
        window: most turns of the conversation given to the model; 0: all.
        max_new_tokens: a reply's longest.
        min_new_tokens: the end token is forbidden before; 1 keeps replies from being empty.
        max_context_tokens: most tokens given to the model; None: what it can hold, at most 1,024.
        separator: between turns where there is no chat template; None: the end token.
        stop: texts before which a reply ends.
        dtype: "float32", "bfloat16", "float16", or "auto" (as the weights are stored); bfloat16 is refused on a
            processor that does not compute it itself.
        revision: branch, tag or commit of a hub id.
        allow_download: fetch a hub id that is not on this machine when the bot is loaded.
        capacity: most replies under way at once.

    Raises:
        ValueError: for a parameter out of its range.
    """

    kind = "transformers"
    version = "2"
    deterministic = True

    def __init__(
        self,
        *,
        name: str,
        model: str,
        title: str = "",
        system_prompt: str = "",
        temperature: float = 0.7,
        top_k: int = 50,
        top_p: float = 0.9,
        repetition_penalty: float = 1.0,
        no_repeat_ngram_size: int = 0,
        window: int = 10,
        max_new_tokens: int = 60,
        min_new_tokens: int = 1,
        max_context_tokens: int | None = None,
        separator: str | None = None,
        stop: Sequence[str] = (),
        dtype: str = "float32",
        revision: str | None = None,
        allow_download: bool = False,
        capacity: int = 64,
    ) -> None:
        _check("model", model, bool(model), "a folder or a hub id")
        _check("temperature", temperature, 0 <= temperature <= 10, "0 to 10")
        _check("top_k", top_k, top_k >= 0, "0 (all tokens) or more")
        _check("top_p", top_p, 0 < top_p <= 1, "above 0 and at most 1")
        _check("repetition_penalty", repetition_penalty, repetition_penalty > 0, "above 0")
        _check("no_repeat_ngram_size", no_repeat_ngram_size, no_repeat_ngram_size >= 0, "0 or more")
        _check("window", window, window >= 0, "0 (the whole conversation) or more")
        _check("max_new_tokens", max_new_tokens, max_new_tokens >= 1, "1 or more")
        fits = 0 <= min_new_tokens <= max_new_tokens
        _check("min_new_tokens", min_new_tokens, fits, f"0 to max_new_tokens ({max_new_tokens})")
        fits = max_context_tokens is None or max_context_tokens >= 1
        _check("max_context_tokens", max_context_tokens, fits, "1 or more")
        _check("dtype", dtype, dtype in _DTYPES, " or ".join(_DTYPES))
        _check("stop", stop, not isinstance(stop, str), "a list of texts")
        _check("capacity", capacity, capacity >= 1, "1 or more")
        self.name = name
        self.title = title or name
        self.capacity = capacity
        self.model = model
        self.revision = revision
        self.allow_download = allow_download
        self.system_prompt = system_prompt
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.repetition_penalty = repetition_penalty
        self.no_repeat_ngram_size = no_repeat_ngram_size
        self.window = window
        self.max_new_tokens = max_new_tokens
        self.min_new_tokens = min_new_tokens
        self.max_context_tokens = max_context_tokens
        self.separator = separator
        self.stop = tuple(stop)
        self.dtype = dtype
        self._loaded: LoadedModel | None = None

    @property
    def params(self) -> dict[str, Any]:
        """The decoding settings and which weights; a local model goes by its folder's name and digest."""
        return {
            **model_known_by(self.model, self.revision),
            "revision": self.revision,
            "system_prompt": self.system_prompt,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "repetition_penalty": self.repetition_penalty,
            "no_repeat_ngram_size": self.no_repeat_ngram_size,
            "window": self.window,
            "max_new_tokens": self.max_new_tokens,
            "min_new_tokens": self.min_new_tokens,
            "max_context_tokens": self.max_context_tokens,
            "separator": self.separator,
            "stop": list(self.stop),
            "dtype": self.dtype,
        }

    @property
    def memory_bytes(self) -> int:
        """Of the weights, by the headers of their files; 0 while they are not here."""
        folder = find_model(self.model, self.revision)
        try:
            n = n_weights(folder) if folder else 0
        except (OSError, ValueError):  # loading will say what is wrong with them
            n = 0
        return n * (4 if self.dtype == "float32" else 2)

    def unavailable_reason(self) -> str | None:
        for package in ("torch", "transformers"):
            if find_spec(package) is None:
                return f"the package {package} is not installed; see README, Installing PyTorch"
        return missing_reason(self.model, self.revision, allow_download=self.allow_download)

    def load(self, device: str) -> None:
        """Load weights and tokenizer; downloads a hub id only if `allow_download` is set.

        Raises:
            BotError: if the model is not here or cannot be loaded.
        """
        if self._loaded is None:
            with import_lock:
                from chatbots.generation.transformers_batch import load_model

            try:
                self._loaded = load_model(self, device)
            except BotError:
                raise
            except Exception as exc:  # transformers raises many kinds
                raise BotError(f"{self.model} cannot be loaded: {exc}") from exc

    def unload(self) -> None:
        self._loaded = None

    def start(self) -> SlotGeneration:
        """An empty running batch.

        Raises:
            BotError: if the bot is not loaded.
        """
        if self._loaded is None:
            raise BotError(f"{self.name} is not loaded")
        from chatbots.generation.transformers_batch import SlotGeneration

        return SlotGeneration(self, self._loaded)


def _check(name: str, value: object, ok: bool, right: str) -> None:
    if not ok:
        raise ValueError(f"{name} is {value!r}; it must be {right}")
