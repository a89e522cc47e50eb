"""Decoding of the next token of every row, independent of the batch.

A row's choice depends only on its own logits and its own uniform number, never on the rest of the batch. Cumulative
probabilities are taken in the order of the vocabulary, not of probability. A rounding error in two almost equal tokens
then only moves a boundary by that error, and cannot swap them.

`choose` selects tokens from any logits, `sample` generates whole replies with the networks of `chatbots/models`, and
`chatbots/models/beam_search.py` implements beam search. A `ReplyRow` is one reply in a running batch: its random
numbers, its tokens and the text shown so far.

Filters as in Holtzman et al. (2020), "The Curious Case of Neural Text Degeneration": temperature, then
the k likeliest tokens, then the nucleus of the probability mass p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from chatbots.bots.base import BotError, Piece
from chatbots.conversation import Conversation
from chatbots.generation.output_filter import OutputFilter
from chatbots.generation.streamed_text import GrowingText

_FIRST_LOOK = 512
"""Number of likeliest tokens that usually contain the nucleus; otherwise the whole vocabulary is sorted."""


def uniform_numbers(seed: int, n: int) -> list[float]:
    """Draw the uniform numbers in [0, 1) for a reply's tokens.

    Always drawn on the CPU, so that a seed gives the same numbers on every device.

    Args:
        seed: the reply's seed (`Conversation.reply_seed`), 0 … 2^63 − 1.
        n: number of tokens.
    """
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, generator=generator, dtype=torch.float64).tolist()


def choose(
    logits: Tensor, uniforms: Sequence[float], *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> Tensor:
    """Choose one token per row.

    Args:
        logits: (B, V), any float type; −inf forbids a token. A row must have a finite entry.
        uniforms: one number in [0, 1) per row; ignored if `temperature` is 0.
        temperature: 0 for greedy decoding (the likeliest token; the first of equally likely ones).
        top_k: keep only the k likeliest tokens; 0 for all.
        top_p: keep only the smallest set of tokens with this probability mass; 1 for all.

    Returns:
        Token ids, (B,), on the device of the logits.
    """
    if temperature == 0:
        return logits.argmax(dim=-1)  # (B,)
    scaled = logits.float() / temperature  # (B, V)
    n_vocabulary = scaled.shape[-1]
    if 0 < top_k < n_vocabulary:
        values, tokens = scaled.topk(top_k, dim=-1)  # (B, K), likeliest first
        values = _nucleus_of_sorted(values, values.logsumexp(-1), top_p)
        tokens, order = tokens.sort(dim=-1)  # in the order of the vocabulary
        return tokens.gather(-1, _draw(values.gather(-1, order), uniforms)).squeeze(-1)
    if top_p < 1:
        scaled = _nucleus(scaled, top_p)
    return _draw(scaled, uniforms).squeeze(-1)


def _nucleus_of_sorted(values: Tensor, log_total: Tensor, top_p: float) -> Tensor:
    """Forbid tokens outside the nucleus.

    Args:
    values: (B, K), likeliest first.
    log_total: (B,)
    """
    if top_p >= 1:
        return values
    probabilities = (values - log_total[:, None]).exp()  # (B, K)
    before = probabilities.cumsum(-1) - probabilities  # mass of the likelier tokens
    outside = before >= top_p
    outside[:, 0] = False
    return values.masked_fill(outside, -torch.inf)


def _nucleus(scaled: Tensor, top_p: float) -> Tensor:
    """Forbid tokens outside the nucleus of unsorted logits, (B, V)."""
    log_total = scaled.logsumexp(-1)  # (B,)
    n_look = min(_FIRST_LOOK, scaled.shape[-1])
    values = scaled.topk(n_look, dim=-1).values  # (B, N)
    enough = (values.logsumexp(-1) - log_total).exp() >= top_p
    if not bool(enough.all()):
        values = scaled.sort(dim=-1, descending=True).values
    nucleus = _nucleus_of_sorted(values, log_total, top_p)
    smallest = nucleus.masked_fill(nucleus.isneginf(), torch.inf).amin(-1, keepdim=True)  # (B, 1)
    return scaled.masked_fill(scaled < smallest, -torch.inf)


def _draw(scaled: Tensor, uniforms: Sequence[float]) -> Tensor:
    """Sample by inverting the cumulative distribution: (B, K) → (B, 1)."""
    probabilities = torch.softmax(scaled, dim=-1).double()
    reached = probabilities.cumsum(-1)  # (B, K)
    numbers = torch.tensor(uniforms, dtype=torch.float64, device=scaled.device)[:, None]
    target = numbers * reached[:, -1:]
    # Take the first entry whose cumulative sum exceeds the target; its probability is never 0.
    return torch.searchsorted(reached, target, right=True).clamp_(max=scaled.shape[-1] - 1)


def penalise_repetition(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Penalise tokens that have occurred (Keskar et al. 2019, CTRL, section 4.1).

    Args:
        logits: (B, V).
        seen: (B, V), true for tokens in the row's context or reply.
        penalty: above 1 to discourage repetition; divides positive logits and multiplies negative ones.

    Returns:
        (B, V)
    """
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


class NgramBan:
    """Ban of repeated n-grams in a reply (Paulus et al. 2018, section 2.5)."""

    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"n is {n}; it must be at least 1")
        self._n = n
        self._tokens: list[int] = []
        self._followers: dict[tuple[int, ...], set[int]] = {}

    def add(self, token: int) -> None:
        """Add the reply's next token."""
        self._tokens.append(token)
        if len(self._tokens) >= self._n:
            gram = tuple(self._tokens[-self._n :])
            self._followers.setdefault(gram[:-1], set()).add(token)

    def forbidden(self) -> set[int]:
        """Return the tokens that are forbidden at the next position."""
        head = tuple(self._tokens[len(self._tokens) - self._n + 1 :]) if self._n > 1 else ()
        return self._followers.get(head, set())


class StateRows(Protocol):
    """Protocol of a running batch's state, as in `chatbots.models.batch.DecoderState`."""

    @property
    def n_rows(self) -> int: ...

    def select(self, rows: Tensor | Sequence[int]) -> Self: ...

    def repeat(self, n: int) -> Self: ...


S = TypeVar("S", bound=StateRows)


class Stepper(Protocol[S]):
    """Protocol of a network that generates token by token, as `DialogueModel` does."""

    @property
    def device(self) -> torch.device: ...

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]: ...


def sample(
    model: Stepper[S],
    state: S,
    seeds: Sequence[int],
    *,
    start: int,
    end: int,
    max_tokens: int,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    forbidden: Sequence[int] = (),
    no_repeat_ngram: int = 0,
) -> list[list[int]]:
    """Generate one reply per row, greedily (temperature 0) or by sampling.

    Args:
        state: the encoded contexts, R rows.
        seeds: seeds of the R replies; a seed gives the same reply in any batch.
        start: first input token, `<sos>`.
        end: token that ends a reply, `<eos>`.
        max_tokens: maximum length of a reply, including the end token.
        forbidden: tokens that are never generated (`<unk>`, `<pad>`, `<sos>`).
        no_repeat_ngram: length of n-grams that must not repeat in a reply; 0 for off.

    Returns:
        The tokens of each reply, without the end token.
    """
    if len(seeds) != state.n_rows:
        raise ValueError(f"{len(seeds)} seeds for {state.n_rows} rows; there must be one per row")
    replies: list[list[int]] = [[] for _ in range(state.n_rows)]
    uniforms = [uniform_numbers(seed, max_tokens) for seed in seeds]
    bans = [NgramBan(no_repeat_ngram) if no_repeat_ngram else None for _ in replies]
    alive = list(range(state.n_rows))
    tokens = [start] * len(alive)
    for i in range(max_tokens):
        logits, state = model.step(torch.tensor(tokens, device=model.device), state)
        forbid(logits, forbidden, ((ban.forbidden() if (ban := bans[r]) else ()) for r in alive))
        chosen = choose(
            logits, [uniforms[r][i] for r in alive], temperature=temperature, top_k=top_k, top_p=top_p
        ).tolist()
        running = [row for row, token in enumerate(chosen) if token != end]
        if not running:
            break
        for row in running:
            replies[alive[row]].append(chosen[row])
            if ban := bans[alive[row]]:
                ban.add(chosen[row])
        if len(running) < len(alive):
            state = state.select(running)
        tokens = [chosen[row] for row in running]
        alive = [alive[row] for row in running]
    return replies


def forbid(logits: Tensor, everywhere: Sequence[int], by_row: Iterable[Iterable[int]]) -> None:
    """Set logits (R, V) of forbidden tokens to −inf, in place."""
    if everywhere:
        logits[:, list(everywhere)] = -torch.inf
    pairs = [(row, token) for row, banned in enumerate(by_row) for token in banned]
    if pairs:
        rows, tokens = torch.tensor(pairs, device=logits.device).T
        logits[rows, tokens] = -torch.inf


NO_NUMBERS = "the model computed NaN"


class ReplyRow:
    """One reply in a running batch of any model.

    Args:
        number: slot number in the batch.
        context: the conversation; its reply seed determines every choice.
        max_tokens: maximum length of the reply.
        no_repeat_ngram_size: length of n-grams that must not repeat in the reply; 0 for off.
        stops: stop texts; the reply ends before the first one.
        prompt: token ids of the prompt, for models that have one.
    """

    def __init__(
        self,
        number: int,
        context: Conversation,
        *,
        max_tokens: int,
        no_repeat_ngram_size: int = 0,
        stops: Sequence[str] = (),
        make_filter: Callable[[], OutputFilter] | None = None,
        prompt: Sequence[int] = (),
    ) -> None:
        self.number = number
        self.max_tokens = max_tokens
        self.context = context
        self.prompt = list(prompt)
        self.said = ""
        """Text shown so far."""
        self.place = (context.id, context.turns[-1].speaker if context.turns else "")
        """Conversation and last speaker; in self-play a bot has two places in one conversation."""
        self.tokens: list[int] = []
        self.gone = False
        """True if finished or cancelled; the row is removed with the next change of the batch."""
        self._uniforms = uniform_numbers(context.reply_seed, max_tokens)
        self._ban = NgramBan(no_repeat_ngram_size) if no_repeat_ngram_size else None
        self._text = GrowingText(stops, make_filter=make_filter)

    @property
    def uniform(self) -> float:
        """The number in [0, 1) that chooses the next token."""
        return self._uniforms[len(self.tokens)]

    @property
    def is_full(self) -> bool:
        """True if the reply has reached its maximum length."""
        return len(self.tokens) >= self.max_tokens

    def forbidden(self) -> set[int]:
        """Return the tokens that would repeat an n-gram of this reply."""
        return self._ban.forbidden() if self._ban else set()

    def say(self, token: int) -> None:
        """Add the next token."""
        self.tokens.append(token)
        if self._ban:
            self._ban.add(token)

    def piece(self, text: str, *, ended: bool) -> Piece:
        """Return the next piece of the reply.

        Args:
            text: the decoded text of all tokens so far.
            ended: the model has generated its end token.
        """
        if ended or self.is_full:
            return self.last_piece(text, cut=not ended)
        try:
            new_text, stopped = self._text.grow(text)
        except BotError as error:  # fails only this reply
            return Piece(self.number, done=True, error=str(error))
        self.said += new_text
        return Piece(self.number, new_text, done=stopped)

    def last_piece(self, text: str, *, cut: bool) -> Piece:
        """Return the rest of the reply.

        Args:
            cut: the reply was cut off, so an incomplete last sentence is removed.
        """
        try:
            new_text = self._text.end(text, cut=cut)
        except BotError as error:
            return Piece(self.number, done=True, error=str(error))
        self.said += new_text
        return Piece(self.number, new_text, done=True)
