"""llama.cpp's server, run inside this process by xllamacpp.

llama.cpp batches the running conversations, caches keys and values (in the slots, and in a separate prompt cache for
conversations that lost their slot), applies the file's chat template and samples the tokens. Imports no torch.

The server requires an address to listen on. It gets a socket file in a folder that only this user can open, and the
file is removed as soon as it is bound. So no other user can connect, and no port is used.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chatbots.bots.base import BotError

PROMPT_CACHE_MB = 64
"""Memory for prompt caches of conversations that have lost their slot."""
_BATCH_TOKENS = 256
"""Prompt tokens per batch. More need more memory and delay the other replies."""


class PromptTooLong(Exception):
    """Error for a prompt that exceeds a slot's limit."""

    def __init__(self, n_tokens: int) -> None:
        super().__init__(f"the prompt has {n_tokens} tokens")
        self.n_tokens = n_tokens


class LlamaServer:
    """Server with one loaded model.

    Args:
        file: the model's GGUF file.
        n_slots: maximum number of concurrent replies.
        max_prompt: maximum tokens of a prompt.
        max_reply: maximum tokens of a reply.
        device: "cpu", "cuda" or "cuda:1"; a build without CUDA always uses the CPU.
        n_threads: number of CPU threads.
        opening: messages for a test reply of one token, which reveals a template that rejects them.

    Raises:
        BotError: the file cannot be loaded, or the test reply fails.
        PromptTooLong: `opening` is too long.
    """

    def __init__(
        self,
        file: Path,
        *,
        n_slots: int,
        max_prompt: int,
        max_reply: int,
        device: str,
        n_threads: int,
        opening: list[dict[str, str]],
    ) -> None:
        import xllamacpp

        self._max_prompt = max_prompt
        params = xllamacpp.CommonParams()
        params.model.path = str(file)
        params.n_parallel = n_slots
        params.n_ctx = n_slots * (max_prompt + max_reply)
        params.kv_unified = False  # each conversation attends to its own slot only
        params.n_batch = params.n_ubatch = _BATCH_TOKENS
        params.cache_ram_mib = PROMPT_CACHE_MB
        params.fit_params = False  # prevents llama.cpp from changing our sizes
        params.n_gpu_layers = 0 if device == "cpu" else 999
        if ":" in device:
            params.main_gpu = int(device.partition(":")[2])
            params.split_mode = xllamacpp.llama_split_mode.LLAMA_SPLIT_MODE_NONE
        for threads in (params.cpuparams, params.cpuparams_batch):
            threads.n_threads = n_threads
            threads.poll = 0  # waiting threads sleep, because the web server runs at the same time
        params.offline = True
        params.ui = False
        params.verbosity = -1
        with tempfile.TemporaryDirectory(prefix="confab-") as folder:
            params.hostnames = [os.path.join(folder, "llama.sock")]
            try:
                self._server = xllamacpp.Server(params)
            except Exception as error:  # the binding raises RuntimeError without a reason
                raise BotError(
                    f"llama.cpp cannot load {file.name}: it is damaged, unsupported by this version of xllamacpp, or "
                    f"too large for the memory ({error})"
                ) from error
        # A server stopped before its loop has started would never exit; a reply shows that the loop runs.
        self.chat(opening, {"max_tokens": 1}, lambda piece: False)

    def chat(self, messages: list[dict[str, str]], settings: Mapping[str, Any], on_piece: Callable[[str], bool]) -> str:
        """Generate one reply in the calling thread. Thread-safe.

        Args:
            settings: settings of llama.cpp's chat completions.
            on_piece: callback for each piece of the reply; returns True to stop.

        Returns:
            The finish reason: "stop", "length", or "" if `on_piece` stopped it.

        Raises:
            PromptTooLong: before the first piece.
            BotError: llama.cpp refuses the request.
        """
        reply = _Reply(self._max_prompt, on_piece)
        self._server.handle_chat_completions(
            {"messages": messages, "stream": True, "timings_per_token": True, **settings}, reply.take
        )
        if reply.failure is not None:
            raise reply.failure
        return reply.finish


class _Reply:
    """Reader of a reply's chunks. Must not raise, because C++ calls it."""

    def __init__(self, max_prompt: int, on_piece: Callable[[str], bool]) -> None:
        self._max_prompt = max_prompt
        self._on_piece = on_piece
        self.finish = ""
        self.failure: Exception | None = None

    def take(self, chunk: Any) -> bool:
        """Process a chunk of the reply; return True to stop."""
        try:
            return any(self._take(part) for part in (chunk if isinstance(chunk, list) else [chunk]))
        except Exception as error:
            self.failure = error
            return True

    def _take(self, chunk: dict[str, Any]) -> bool:
        if "error" in chunk:
            error = chunk["error"]
            if error.get("type") == "exceed_context_size_error":
                raise PromptTooLong(error["n_prompt_tokens"])
            raise BotError(f"llama.cpp rejected the request: {error.get('message', error)}")
        timings = chunk.get("timings", {})
        n_prompt = timings.get("prompt_n", 0) + timings.get("cache_n", 0)
        if n_prompt > self._max_prompt:
            raise PromptTooLong(n_prompt)
        for choice in chunk.get("choices", ()):
            self.finish = choice.get("finish_reason") or self.finish
            piece = choice.get("delta", {}).get("content")
            if piece and self._on_piece(piece):
                self.finish = ""
                return True
        return False
