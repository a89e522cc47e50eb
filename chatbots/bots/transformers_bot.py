"""A bot made of a transformers model: decoder-only or encoder-decoder, a local folder or a hub id.

Not registered by itself: bots of this kind are configured, one per entry of `bots.yaml`
(`chatbots/configured.py`). Many conversations share the model a token at a time
(`chatbots/generation/language_model.py`); each draws its tokens with random numbers of its own.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from chatbots.base import BotError
from chatbots.configured import ConfiguredBot, register_bot_kind
from chatbots.huggingface import find_model, missing_reason, model_known_by, n_weights
from chatbots.imports import import_lock
from chatbots.outside import Many, NumberAsWritten, Values

if TYPE_CHECKING:
    from chatbots.generation.transformers_batch import LoadedModel, SlotGeneration


class TransformersOptions(Values):
    """What an entry of `bots.yaml` may say of such a bot."""

    model: str = Field(
        min_length=1, description='folder of a model, or hub id ("microsoft/DialoGPT-small").'
    )
    system_prompt: str = Field("", description="what the model is told first.")
    temperature: NumberAsWritten = Field(
        0.7,
        ge=0,
        le=10,
        description="0: always the likeliest token. Below 1 safer, above 1 wilder.",
    )
    top_k: int = Field(50, ge=0, description="only the k likeliest tokens; 0: all.")
    top_p: NumberAsWritten = Field(
        0.9,
        gt=0,
        le=1,
        description="only the fewest tokens holding this share of the probability; 1: all.",
    )
    repetition_penalty: NumberAsWritten = Field(
        1.0, gt=0, description="above 1 discourages tokens of the context and reply; 1: off."
    )
    no_repeat_ngram_size: int = Field(
        0, ge=0, description="no sequence of so many tokens twice in a reply; 0: off."
    )
    window: int = Field(
        10, ge=0, description="most turns of the conversation given to the model; 0: all."
    )
    max_new_tokens: int = Field(60, ge=1, description="a reply's longest.")
    min_new_tokens: int = Field(
        1,
        ge=0,
        description="the end token is forbidden before; 1 keeps replies from being empty.",
    )
    max_context_tokens: int | None = Field(
        None,
        ge=1,
        description="most tokens given to the model; None: what it can hold, at most 1,024.",
    )
    separator: str | None = Field(
        None,
        description="between turns where there is no chat template; None: the end token.",
    )
    stop: Many[str] = Field((), description="texts before which a reply ends.")
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = Field(
        "float32",
        description='"float32", "bfloat16", "float16", or "auto" (as the weights are stored); bfloat16 is refused on '
        "a processor that does not compute it itself.",
    )
    revision: str | None = Field(None, description="branch, tag or commit of a hub id.")
    allow_download: bool = Field(
        False, description="fetch a hub id that is not on this machine when the bot is loaded."
    )
    capacity: int = Field(64, ge=1, description="most replies under way at once.")

    @model_validator(mode="after")
    def _fits_together(self) -> TransformersOptions:
        if self.min_new_tokens > self.max_new_tokens:
            right = f"0 to max_new_tokens ({self.max_new_tokens})"
            raise ValueError(f"min_new_tokens is {self.min_new_tokens}; it must be {right}")
        return self


@register_bot_kind("transformers")
class TransformersBot(ConfiguredBot):
    """A configured transformers model."""

    options_type = TransformersOptions
    options: TransformersOptions

    kind = "transformers"
    version = "2"
    deterministic = True

    def __init__(self, *, name: str, title: str = "", **options: Any) -> None:
        super().__init__(name=name, title=title, **options)
        self.capacity = self.options.capacity
        self._loaded: LoadedModel | None = None

    @property
    def params(self) -> dict[str, Any]:
        """The decoding settings and which weights; a local model goes by its folder's name and digest."""
        return {
            **model_known_by(self.options.model, self.options.revision),
            "revision": self.options.revision,
            "system_prompt": self.options.system_prompt,
            "temperature": self.options.temperature,
            "top_k": self.options.top_k,
            "top_p": self.options.top_p,
            "repetition_penalty": self.options.repetition_penalty,
            "no_repeat_ngram_size": self.options.no_repeat_ngram_size,
            "window": self.options.window,
            "max_new_tokens": self.options.max_new_tokens,
            "min_new_tokens": self.options.min_new_tokens,
            "max_context_tokens": self.options.max_context_tokens,
            "separator": self.options.separator,
            "stop": list(self.options.stop),
            "dtype": self.options.dtype,
        }

    @property
    def memory_bytes(self) -> int:
        """Of the weights, by the headers of their files; 0 while they are not here."""
        folder = find_model(self.options.model, self.options.revision)
        try:
            n = n_weights(folder) if folder else 0
        except (OSError, ValueError):  # loading will say what is wrong with them
            n = 0
        return n * (4 if self.options.dtype == "float32" else 2)

    def unavailable_reason(self) -> str | None:
        for package in ("torch", "transformers"):
            if find_spec(package) is None:
                return f"the package {package} is not installed; see README, Installing PyTorch"
        return missing_reason(
            self.options.model, self.options.revision, allow_download=self.options.allow_download
        )

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
                raise BotError(f"{self.options.model} cannot be loaded: {exc}") from exc

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
