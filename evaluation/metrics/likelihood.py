"""Perplexity and mutual information of replies under a language model.

Log-probabilities: texts are batched, and each distinct prefix is read once. A row is (prefix, text). If the model has a
chat template, the prefix is formatted as a chat, as in the model's training; otherwise as lines of text. Rows with the
same prefix share its keys and values: for ten replies to one context, the model reads the context once. Replies without
context share the single token before them. The prefix's last token predicts the text's first token; the text's last
token is never fed to the model.

Perplexity: exp of the mean negative log-likelihood per token of the bot's turns, each given the turns before it. A low
value means fluent or commonplace text, without distinguishing the two. Values of models with different tokenizers
cannot be compared. A conversation's value pools tokens, not turns.

Mutual information: (log P(reply | context) − log P(reply)) / tokens of the reply, in nats, from a causal language model
that needs no training on dialogue. It is positive if the context makes the reply likelier. Unlike the likelihood
itself, it does not reward commonplace replies, which are likely in any context. A chat model reads the turns in its
template, without a system prompt; other models read them as lines of one text. Without context the reply takes the
position of a first turn. `reply_pmi_dialogue` presents a dialogue of two speakers as one text to every model: `A: …`,
`B: …`, `A:` before the reply, and only `A:` without context. `docs/research/reply_pmi.md` compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from chatbots.gguf_files import SMOLLM2
from chatbots.huggingface import n_positions
from chatbots.identity import Identity
from chatbots.validation import InputModel
from evaluation.data.items import ReplyInContext
from evaluation.data.tables import Column, per_turn
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric, Measured
from evaluation.metrics.layout import Layout
from evaluation.metrics.local_models import LocalLanguageModel, LocalModel, ReplyModel, most_tokens
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.text_cache import BLANK, TextCache

MOST_TEXT = 256
"""Maximum number of tokens of a text; the rest is cut off."""
MOST_BEFORE = 512
"""Maximum number of tokens before the text; only the end is read."""
MOST_WHOLE = 8192
"""Maximum number of tokens of a text that must be read completely; a model may support fewer."""
_STEP_TOKENS = 768
"""Number of tokens per batch; each has a value for every word of the vocabulary."""


class ContinuationRow(NamedTuple):
    """Non-empty tokens of a prefix and of the text after it."""

    before: tuple[int, ...]
    text: tuple[int, ...]


class Continuations(LocalModel):
    """Causal language model that returns log-probabilities of texts.

    Args:
        model: a folder, the hub id of a downloaded model, a GGUF file, or a bot's id.
        device: device to compute on.
        dtype: data type of its weights, "float32" or "bfloat16"; "auto" for the stored type.
    """

    @property
    def identity(self) -> Identity:
        return Identity("continuations", "1", {**self.known_by, "dtype": self.dtype})

    def unavailable_reason(self) -> str | None:
        reason = super().unavailable_reason()
        if reason is None and self.config().get("is_encoder_decoder"):
            reason = f"{self.model} is an encoder-decoder; a causal language model (GPT-2, Llama) is required"
        return reason

    def log_probabilities(
        self, continuations: Sequence[tuple[Sequence[str], str]], *, read_all: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-probability of each text after the lines before it.

        Args:
            continuations: (lines before, text); with no lines before, the text on its own.
            read_all: True to require the complete prefix; a text whose prefix exceeds the model's limit has no
                log-probability.

        Returns:
            (N,) sums over tokens in nats, and (N,) the number of tokens; NaN and 0 for a text without tokens.
        """
        with self._lock:
            loaded = self.load("AutoModelForCausalLM")
            read = self._whole_row if read_all else self._row
            rows = [read(loaded, before, text) for before, text in continuations]
            total = self.row_log_probabilities(loaded.model, rows)
        return total, np.array([len(row.text) for row in rows], dtype=int)

    def row_log_probabilities(self, model: Any, rows: Sequence[ContinuationRow]) -> np.ndarray:
        """Return the log-probability of each row's text, (N,) in nats; NaN for an empty text."""
        total = np.full(len(rows), np.nan)
        for part in _steps(rows, [k for k, row in enumerate(rows) if row.text]):
            total[part] = self._step(model, [rows[k] for k in part])
        return total

    def _row(self, loaded: Any, before: Sequence[str], text: str) -> ContinuationRow:
        tokenizer, limit = loaded.tokenizer, most_tokens(loaded)
        text_tokens = self._text(tokenizer, text)[: min(MOST_TEXT, limit // 2)]
        room = min(MOST_BEFORE, limit - len(text_tokens))
        lines = list(before)
        while len(prompt := self._prompt(tokenizer, lines)) > room and lines:
            if len(lines) > 1:
                lines = lines[1:]
            else:  # truncate the start of a single long line
                n_kept = int(0.9 * len(lines[0]) * room / len(prompt))
                lines = [lines[0][-n_kept:]] if n_kept else []
        return ContinuationRow(prompt[-room:], tuple(text_tokens))

    def _whole_row(self, loaded: Any, before: Sequence[str], text: str) -> ContinuationRow:
        tokenizer = loaded.tokenizer
        limits = (n_positions(loaded.config), tokenizer.model_max_length, MOST_WHOLE)
        prompt = self._prompt(tokenizer, before)
        text_tokens = self._text(tokenizer, text)
        fits = len(prompt) + len(text_tokens) <= min(limit for limit in limits if limit)
        return ContinuationRow(prompt, tuple(text_tokens)) if fits else ContinuationRow(prompt[-1:], ())

    def _text(self, tokenizer: Any, text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def _prompt(self, tokenizer: Any, lines: Sequence[str]) -> tuple[int, ...]:
        """Return the tokens before a text: chat messages or lines."""
        if getattr(tokenizer, "chat_template", None):
            return tuple(_chat(tokenizer, lines))
        special_tokens = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        first = next((token for token in special_tokens if token is not None), 0)
        before = "".join(f"{line}\n" for line in lines)
        tokens = tokenizer(before, add_special_tokens=False)["input_ids"] if before else []
        return (first, *tokens)

    def _step(self, model: Any, rows: Sequence[ContinuationRow]) -> np.ndarray:
        """Return each row's log-probability: first read distinct prefixes, then all texts."""
        import torch

        begins = list(dict.fromkeys(row.before for row in rows))
        place = {before: k for k, before in enumerate(begins)}
        ids, mask = self._padded(begins, pads_left=True)
        with torch.inference_mode():
            read = model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
                use_cache=True,
                logits_to_keep=1,
            )
            begin_rows = torch.tensor([place[row.before] for row in rows]).to(self.device)
            first = torch.log_softmax(read.logits[:, -1].float(), dim=-1)  # (P, V)
            starts = torch.tensor([row.text[0] for row in rows]).to(self.device)
            total = first[begin_rows, starts].double()
            if max(len(row.text) for row in rows) == 1:
                return total.cpu().numpy()
            cache = read.past_key_values
            cache.batch_select_indices(begin_rows)
            texts, text_mask = self._padded([row.text for row in rows], pads_left=False)
            before = mask[begin_rows]
            positions = before.sum(-1, keepdim=True) + torch.arange(texts.shape[1] - 1).to(self.device)
            logits = model(
                input_ids=texts[:, :-1],
                attention_mask=torch.cat([before, text_mask[:, :-1]], dim=1),
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
            ).logits.float()  # (B, T−1, V)
            chosen = logits.gather(-1, texts[:, 1:, None])[..., 0] - logits.logsumexp(dim=-1)
            total += (chosen.double() * text_mask[:, 1:]).sum(dim=-1)
            return total.cpu().numpy()

    def _padded(self, rows: Sequence[Sequence[int]], *, pads_left: bool) -> tuple[Any, Any]:
        """Return token ids (B, W) padded on one side, and their mask."""
        import torch

        width = max(map(len, rows))
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        for k, row in enumerate(rows):
            columns = slice(width - len(row), width) if pads_left else slice(0, len(row))
            ids[k, columns] = torch.tensor(row)
            mask[k, columns] = 1
        return ids.to(self.device), mask.to(self.device)


class DialogueContinuations(Continuations):
    """Causal language model that reads a dialogue as one text.

    The speakers are A and B; A is the speaker of the scored text.
    """

    @property
    def identity(self) -> Identity:
        return Identity("dialogue_continuations", "1", {**self.known_by, "dtype": self.dtype})

    def _text(self, tokenizer: Any, text: str) -> list[int]:
        return super()._text(tokenizer, f" {text}" if text else "")

    def _prompt(self, tokenizer: Any, lines: Sequence[str]) -> tuple[int, ...]:
        chat_lines = [f"{'AB'[(len(lines) - k) % 2]}: {' '.join(line.split())}\n" for k, line in enumerate(lines)]
        return tuple(tokenizer("".join([*chat_lines, "A:"]))["input_ids"])


def _chat(tokenizer: Any, lines: Sequence[str]) -> list[int]:
    """Return the tokens of a chat up to the assistant's turn.

    The last line is the user's.

    The system message is empty, so that the template does not insert its own. It is omitted for templates that refuse
    one and for chats that the assistant begins. Without context, the user's message is empty.
    """
    turns = [{"role": "user" if (len(lines) - k) % 2 else "assistant", "content": line} for k, line in enumerate(lines)]
    opened = turns if not turns or turns[0]["role"] == "user" else turns[1:]
    tries = (
        [{"role": "system", "content": ""}, *turns],
        [{"role": "system", "content": ""}, *opened],
        opened or [{"role": "user", "content": ""}],
    )
    for k, messages in enumerate(tries):
        try:
            encoded = tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=True, return_dict=True, enable_thinking=False
            )
            return list(encoded["input_ids"])
        except Exception:  # templates may raise any error
            if k + 1 == len(tries):
                raise
    raise AssertionError("the loop returns or raises")


def _steps(rows: Sequence[ContinuationRow], indices: Sequence[int]) -> Iterator[list[int]]:
    """Group rows into batches with shared prefixes and similar lengths.

    Batches have limited size.
    """
    order = sorted(indices, key=lambda k: (len(rows[k].before), rows[k].before, len(rows[k].text), rows[k].text))
    part: list[int] = []
    longest = 0
    begins: set[tuple[int, ...]] = set()
    for k in order:
        row = rows[k]
        wider = max(longest, len(row.text))
        wider_begins = begins | {row.before}
        tokens = (len(part) + 1) * wider + len(wider_begins) * len(row.before)
        if part and tokens > _STEP_TOKENS:
            yield part
            part, wider, wider_begins = [], len(row.text), {row.before}
        part.append(k)
        longest, begins = wider, wider_begins
    if part:
        yield part


class PerplexityOptions(InputModel):
    """Options of an entry of `metrics.yaml`."""

    model: str = Field(
        min_length=1, description="folder of a causal transformers model, or the hub id of a downloaded one"
    )
    window: int = Field(5, ge=0, description="number of earlier turns the model sees")
    device: str = Field("cpu", description="device to compute on")


@register_metric
class Perplexity(ConfiguredMetric):
    """Perplexity -B; on request.

    Args:
        replies: object that returns likelihoods of replies; replaces the options.
    """

    has_network = True
    needs = ("a causal language model",)
    licence = CHOSEN_LICENCE
    kind = "perplexity"
    usual_title = "Perplexity"
    options_type = PerplexityOptions
    options: PerplexityOptions | None

    def __init__(self, name: str = "", title: str = "", *, replies: ReplyModel | None = None, **options: Any) -> None:
        super().__init__(name, title, **options)
        self._replies = replies
        if chosen := self.options:
            self._replies = LocalLanguageModel(chosen.model, chosen.window, chosen.device)
        self.columns = (
            *per_turn(
                f"{self.name}_nll_bot",
                f"Negative log-likelihood per token, bot ({self.title})",
                unit="nats",
                range=(0, None),
                direction="neither",
                description="Mean negative log-likelihood of the tokens of the bot's turn under the chosen language "
                "model, given the preceding turns.",
            ),
            Column(
                f"{self.name}_bot",
                "conversation",
                f"{self.title}, bot",
                "1",
                (1, None),
                "neither",
                "exp of the mean negative log-likelihood over all tokens of the bot's turns under the chosen "
                "language model, each turn given the preceding ones.",
            ),
        )

    @property
    def params(self) -> dict[str, Any]:
        return {"model": None if self._replies is None else self._replies.identity.as_dict()}

    def unavailable_reason(self) -> str | None:
        if self._replies is None:
            return (
                "no language model is chosen; name a local one in metrics.yaml (kind: perplexity, "
                "params: {model: path or hub id})"
            )
        return self._replies.unavailable_reason()

    def _surprise(self, continuations: list[tuple[tuple[str, ...], str]]) -> Iterable[tuple[float, float]]:
        """Return the nats and the number of tokens of each reply."""
        assert self._replies is not None, "called although it is unavailable"
        return zip(*self._replies.surprise(continuations), strict=True)

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        n = len(layout.conversations)
        continuations = [(tuple(layout.texts[i - layout.turn_of[i] : i]), layout.texts[i]) for i in layout.bot.tolist()]
        total, count = np.zeros(0), np.zeros(0)
        if continuations:
            assert self._replies is not None, "called although it is unavailable"
            surprise = shared.once(self._replies.identity.key, continuations, self._surprise)
            total, count = np.array(surprise, dtype=float).T
        has_tokens = count > 0
        mean = np.divide(total, count, out=np.full(len(total), np.nan), where=has_tokens)
        owner = layout.conversation_of[layout.bot[has_tokens]]
        tokens = np.bincount(owner, weights=count[has_tokens], minlength=n)
        nats = np.bincount(owner, weights=total[has_tokens], minlength=n)
        with np.errstate(over="ignore"):  # infinite values become NaN with a reason
            pooled = np.exp(np.divide(nats, tokens, out=np.full(n, np.nan), where=tokens > 0))
        reason = (BLANK,) if not has_tokens.all() else ()
        return Measured(
            {f"{self.name}_nll_bot": layout.spread(layout.bot, mean)},
            {f"{self.name}_bot": pooled},
            {
                f"{self.name}_nll_bot": reason,
                f"{self.name}_bot": ("no turn of the bot with a token",) if np.isnan(pooled).any() else (),
            },
        )


WINDOW = 5


class ReplyPmiOptions(InputModel):
    """Options of an entry of `metrics.yaml`."""

    model: str = Field(
        SMOLLM2,
        min_length=1,
        description="causal language model: a transformers folder, the hub id of a downloaded model, a GGUF "
        "file, or the "
        "id of a bot that uses one",
    )
    window: int = Field(WINDOW, ge=1, description="number of earlier turns the model sees")
    device: str = Field("cpu", description="device to compute on")
    dtype: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="bfloat16 is two to three times as fast on processors that support it; values differ in the second "
        "digit",
    )


@register_metric
class ReplyPmi(ReplyMetric, ConfiguredMetric):
    """Mean pointwise mutual information of reply and context, by default with SmolLM2-135M."""

    has_network = True
    kind = "reply_pmi"
    usual_title = "Pointwise mutual information"
    options_type = ReplyPmiOptions
    options: ReplyPmiOptions | None
    default = False
    needs_context = True
    seen_sets = ("grade",)
    needs = ("a causal language model",)
    licence = "Apache-2.0 (SmolLM2-135M-Instruct)"
    reader: type[Continuations] = Continuations

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        chosen = self.options or ReplyPmiOptions()  # type: ignore[call-arg]
        self.window = chosen.window
        self.languages = ("en",) if chosen.model == SMOLLM2 else None
        if chosen.model != SMOLLM2:
            self.licence = CHOSEN_LICENCE
        self._model = self.reader(chosen.model, chosen.device, chosen.dtype)
        self.columns = (
            *per_turn(
                f"{self.name}_bot",
                f"{self.title}, bot",
                unit="nats",
                range=(None, None),
                direction="higher",
                description="(log P(reply | preceding turns) − log P(reply)) per token of the bot's turn, from a "
                "causal "
                "language model. Undefined for a turn that opens the conversation.",
            ),
            *per_turn(
                f"{self.name}_given_bot",
                f"Log-likelihood after the context, bot ({self.title})",
                unit="nats",
                range=(None, 0),
                direction="neither",
                description="log P(reply | preceding turns) per token of the bot's turn, from the same model.",
            ),
        )

    @property
    def params(self) -> dict[str, Any]:
        return {"model": self._model.identity.as_dict(), "window": self.window}

    def unavailable_reason(self) -> str | None:
        return self._model.unavailable_reason()

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        continuations: list[tuple[tuple[str, ...], str]] = [(r.context, r.response) for r in replies]
        continuations += [((), r.response) for r in replies]
        # Without an entry in metrics.yaml, use the run's device.
        model = self._model if self.options else self._model.on(shared.device)

        def likelihoods(few: list[tuple[tuple[str, ...], str]]) -> Iterable[tuple[float, float]]:
            return zip(*model.log_probabilities(few), strict=True)

        likelihood_rows = np.array(shared.once(model.identity.key, continuations, likelihoods), dtype=float)
        (in_context, tokens), (alone, _) = likelihood_rows[: len(replies)].T, likelihood_rows[len(replies) :].T
        tokens = np.where(tokens > 0, tokens, np.nan)
        return {f"{self.name}_bot": (in_context - alone) / tokens, f"{self.name}_given_bot": in_context / tokens}


@register_metric
class ReplyPmiDialogue(ReplyPmi):
    """Pointwise mutual information from a dialogue written as one text."""

    kind = "reply_pmi_dialogue"
    usual_title = "Pointwise mutual information, speakers A and B"
    reader = DialogueContinuations
