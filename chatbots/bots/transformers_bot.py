"""Bot that runs a transformers model from a local folder or hub id.

The model is decoder-only or encoder-decoder. Bots of this kind are configured, one per entry of `bots.yaml`
(`chatbots/yaml_registry.py`). Many conversations share the model, one token per step
(`chatbots/generation/language_model.py`); each samples its tokens with its own random numbers.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from chatbots.bots.base import BotError
from chatbots.generation.options import TransformersOptions
from chatbots.generation.prefix_cache import PREFIX_CACHE
from chatbots.huggingface import NEEDS_CODE, find_model, import_lock, missing_reason, model_known_by, n_weights
from chatbots.yaml_registry import ConfiguredBot, register_bot_kind

if TYPE_CHECKING:
    from chatbots.generation.transformers_batch import LoadedModel, SlotGeneration


@register_bot_kind("transformers")
class TransformersBot(ConfiguredBot):
    """A configured transformers model."""

    options_type = TransformersOptions
    options: TransformersOptions

    kind = "transformers"
    version = "4"
    deterministic = True

    def __init__(self, *, name: str, title: str = "", **options: Any) -> None:
        super().__init__(name=name, title=title, **options)
        self.capacity = self.options.capacity
        self._loaded: LoadedModel | None = None

    @property
    def params(self) -> dict[str, Any]:
        """The decoding settings and the weights.

        A local model is identified by folder name and digest.
        """
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
            "starts_thinking": self.options.starts_thinking,
            "thought_marks": dict(self.options.thought_marks),
            "dtype": self.options.dtype,
        }

    @property
    def memory_bytes(self) -> int:
        """Memory of the weights, from their files' headers.

        0 while they are missing.
        """
        folder = find_model(self.options.model, self.options.revision)
        try:
            n = n_weights(folder) if folder else 0
        except (OSError, ValueError):  # loading reports the error
            n = 0
        return n * (4 if self.options.dtype == "float32" else 2)

    @property
    def kept_bytes(self) -> int:
        """Memory of the prefix cache for earlier turns; not included in `memory_bytes`."""
        return PREFIX_CACHE.n_bytes(self._loaded.owner) if self._loaded else 0

    def unavailable_reason(self) -> str | None:
        for package in ("torch", "transformers"):
            if find_spec(package) is None:
                return f"the package {package} is not installed; see docs/guide/start.md, Installing PyTorch"
        return missing_reason(self.options.model, self.options.revision, allow_download=self.options.allow_download)

    def load(self, device: str) -> None:
        """Load weights and tokenizer.

        A hub id is downloaded only if `allow_download` is set.

        Raises:
            BotError: the model is missing or cannot be loaded.
        """
        if self._loaded is None:
            with import_lock:
                from chatbots.generation.transformers_batch import load_model

            try:
                self._loaded = load_model(self, device)
            except BotError:
                raise
            except Exception as exc:  # transformers raises many types
                if "trust_remote_code" in str(exc):
                    raise BotError(f"{self.options.model} {NEEDS_CODE}") from None
                raise BotError(f"{self.options.model} cannot be loaded: {exc}") from exc

    @property
    def has_idle_work(self) -> bool:
        """True if `work_idle` has anything to do."""
        return self._loaded is not None and self._loaded.ahead.has_work

    def work_idle(self) -> None:
        """Prefill the known part of one conversation's next prompt."""
        if self._loaded is not None:
            self._loaded.ahead.read()

    def unload(self) -> None:
        self._loaded = None

    def start(self) -> SlotGeneration:
        """Return a new, empty batch.

        Raises:
            BotError: the bot is not loaded.
        """
        if self._loaded is None:
            raise BotError(f"{self.name} is not loaded")
        from chatbots.generation.transformers_batch import SlotGeneration

        return SlotGeneration(self, self._loaded)
