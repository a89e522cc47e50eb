"""Log-probabilities of texts after other texts, by a causal language model: many at a time, each beginning read once.

What stands before is a chat where the model has a template for chats, as such models were trained on; otherwise
lines. A row is (what stands before, the text). Rows with the same beginning share its keys and values, so of ten
replies to one context the model reads the context once; and the log-probabilities of replies on their own share the
one token that stands before them. A text's first token is predicted by the beginning's last one, its last token is
never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from chatbots.huggingface import n_positions
from chatbots.identity import Identity
from evaluation.metrics.local_models import LocalModel, most_tokens

MOST_TEXT = 256
"""Tokens of a text that are read; the rest is cut off."""
MOST_BEFORE = 512
"""Tokens before it that are read: its end."""
MOST_WHOLE = 8192
"""Tokens of what must be read whole, where the model does not hold fewer."""
_STEP_TOKENS = 768
"""Tokens computed at once: each has a number for every word of the vocabulary."""


class Row(NamedTuple):
    """Tokens of a beginning, not empty, and of the text after it, not empty."""

    before: tuple[int, ...]
    text: tuple[int, ...]


class Continuations(LocalModel):
    """A causal language model that gives texts a log-probability.

    Args:
        model: a folder, a hub id that was downloaded before, a GGUF file, or a bot's id.
        device: where it computes.
        dtype: of its weights, "float32" or "bfloat16"; "auto": as they are stored.
    """

    @property
    def identity(self) -> Identity:
        return Identity("continuations", "1", {**self.known_by, "dtype": self.dtype})

    def unavailable_reason(self) -> str | None:
        reason = super().unavailable_reason()
        if reason is None and self.config().get("is_encoder_decoder"):
            reason = f"{self.model} is an encoder-decoder; a causal language model (GPT-2, Llama) is needed"
        return reason

    def log_probabilities(
        self, asked: Sequence[tuple[Sequence[str], str]], *, whole: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-probability of each text after the lines before it.

        Args:
            asked: (lines before, text); no line before: the text on its own.
            whole: read all lines before it; a text whose lines the model cannot hold has no log-probability.

        Returns:
            (N,) sums over tokens in nats, and (N,) the number of tokens; NaN and 0 for a text without tokens.
        """
        with self._lock:
            loaded = self.load("AutoModelForCausalLM")
            read = self._whole_row if whole else self._row
            rows = [read(loaded, before, text) for before, text in asked]
            total = np.full(len(rows), np.nan)
            told = [k for k, row in enumerate(rows) if row.text]
            for part in _steps(rows, told):
                total[part] = self._step(loaded.model, [rows[k] for k in part])
        return total, np.array([len(row.text) for row in rows], dtype=int)

    def _row(self, loaded: Any, before: Sequence[str], text: str) -> Row:
        tokenizer, limit = loaded.tokenizer, most_tokens(loaded)
        said = tokenizer(text, add_special_tokens=False)["input_ids"][: min(MOST_TEXT, limit // 2)]
        room = min(MOST_BEFORE, limit - len(said))
        lines = list(before)
        while len(told := self._prompt(tokenizer, lines)) > room and lines:
            if len(lines) > 1:
                lines = lines[1:]
            else:  # keep the end of a single long line
                kept = int(0.9 * len(lines[0]) * room / len(told))
                lines = [lines[0][-kept:]] if kept else []
        return Row(told[-room:], tuple(said))

    def _whole_row(self, loaded: Any, before: Sequence[str], text: str) -> Row:
        tokenizer = loaded.tokenizer
        limits = (n_positions(loaded.config), tokenizer.model_max_length, MOST_WHOLE)
        told = self._prompt(tokenizer, before)
        said = tokenizer(text, add_special_tokens=False)["input_ids"]
        fits = len(told) + len(said) <= min(limit for limit in limits if limit)
        return Row(told, tuple(said)) if fits else Row(told[-1:], ())

    def _prompt(self, tokenizer: Any, lines: Sequence[str]) -> tuple[int, ...]:
        """Return the tokens that stand before a text: messages for a model made for chats, otherwise lines."""
        if getattr(tokenizer, "chat_template", None):
            return tuple(_chat(tokenizer, lines))
        given = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        first = next((token for token in given if token is not None), 0)
        before = "".join(f"{line}\n" for line in lines)
        told = tokenizer(before, add_special_tokens=False)["input_ids"] if before else []
        return (first, *told)

    def _step(self, model: Any, rows: Sequence[Row]) -> np.ndarray:
        """Return the log-probability of each row's text: the distinct beginnings first, then all texts at once."""
        import torch

        begins = list(dict.fromkeys(row.before for row in rows))
        place = {before: k for k, before in enumerate(begins)}
        ids, there = self._padded(begins, left=True)
        with torch.inference_mode():
            read = model(
                input_ids=ids,
                attention_mask=there,
                position_ids=(there.cumsum(-1) - 1).clamp(min=0),
                use_cache=True,
                logits_to_keep=1,
            )
            at = torch.tensor([place[row.before] for row in rows]).to(self.device)
            first = torch.log_softmax(read.logits[:, -1].float(), dim=-1)  # (P, V)
            starts = torch.tensor([row.text[0] for row in rows]).to(self.device)
            total = first[at, starts].double()
            if max(len(row.text) for row in rows) == 1:
                return total.cpu().numpy()
            cache = read.past_key_values
            cache.batch_select_indices(at)
            texts, said = self._padded([row.text for row in rows], left=False)
            before = there[at]
            positions = before.sum(-1, keepdim=True) + torch.arange(texts.shape[1] - 1).to(
                self.device
            )
            logits = model(
                input_ids=texts[:, :-1],
                attention_mask=torch.cat([before, said[:, :-1]], dim=1),
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
            ).logits.float()  # (B, T−1, V)
            chosen = logits.gather(-1, texts[:, 1:, None])[..., 0] - logits.logsumexp(dim=-1)
            total += (chosen.double() * said[:, 1:]).sum(dim=-1)
            return total.cpu().numpy()

    def _padded(self, rows: Sequence[Sequence[int]], *, left: bool) -> tuple[Any, Any]:
        """Return token ids (B, W), padded at one side, and 1 where a token stands."""
        import torch

        width = max(map(len, rows))
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        there = torch.zeros(len(rows), width, dtype=torch.long)
        for k, row in enumerate(rows):
            at = slice(width - len(row), width) if left else slice(0, len(row))
            ids[k, at] = torch.tensor(row)
            there[k, at] = 1
        return ids.to(self.device), there.to(self.device)


def _chat(tokenizer: Any, lines: Sequence[str]) -> list[int]:
    """Return the tokens of a chat up to where the assistant begins; the last line is the user's.

    The system message is empty, so that a template puts none of its own there. Templates that refuse one, or a chat
    that the assistant begins, get neither; where nothing was said, the user's message is empty.
    """
    said = [
        {"role": "user" if (len(lines) - k) % 2 else "assistant", "content": line}
        for k, line in enumerate(lines)
    ]
    opened = said if not said or said[0]["role"] == "user" else said[1:]
    tries = (
        [{"role": "system", "content": ""}, *said],
        [{"role": "system", "content": ""}, *opened],
        opened or [{"role": "user", "content": ""}],
    )
    for k, messages in enumerate(tries):
        try:
            made = tokenizer.apply_chat_template(
                messages,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                enable_thinking=False,
            )
            return list(made["input_ids"])
        except Exception:  # whatever a template's author raises
            if k + 1 == len(tries):
                raise
    raise AssertionError("the loop returns or raises")


def _steps(rows: Sequence[Row], told: Sequence[int]) -> Iterator[list[int]]:
    """Group rows that are computed together: those of one beginning side by side, of like length, not too many."""
    order = sorted(
        told, key=lambda k: (len(rows[k].before), rows[k].before, len(rows[k].text), rows[k].text)
    )
    part: list[int] = []
    longest = 0
    begins: set[tuple[int, ...]] = set()
    for k in order:
        row = rows[k]
        wider = max(longest, len(row.text))
        more = begins | {row.before}
        tokens = (len(part) + 1) * wider + len(more) * len(row.before)
        if part and tokens > _STEP_TOKENS:
            yield part
            part, wider, more = [], len(row.text), {row.before}
        part.append(k)
        longest, begins = wider, more
    if part:
        yield part
