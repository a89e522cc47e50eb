"""Beam search for the networks of `chatbots/models`, batched over independent replies.

`BeamSearch` is the bookkeeping between two steps of a running batch; `beam_search` drives it to the end.

The search in the paper's released code mixed up the states of different conversations or older messages: it stored the
copies of a batch in blocks but indexed them as neighbours. Here `repeat` puts the rows of a conversation next to each
other, as the search expects; a test that swaps the last message covers this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from chatbots.generation.decoding import NgramBan, S, Stepper, forbid
from chatbots.text import quote


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Reply found by beam search.

    Attributes:
        tokens: the tokens without the end token.
        ended: True if the end token was generated, False if the reply was cut at the maximum length.
        log_probability: of the tokens and, if ended, the end token, under the model, nats.
        score: the ranking criterion, `log_probability` divided by the length penalty.
    """

    tokens: tuple[int, ...]
    ended: bool
    log_probability: float
    score: float


@dataclass(frozen=True, kw_only=True)
class BeamSettings:
    """Settings of a beam search.

    Attributes:
        beam: number of hypotheses; 1 is greedy.
        max_tokens: maximum length of a reply, including the end token.
        end: token that ends a reply.
        length_penalty: α of the divisor ((5 + length) / 6)^α of log-probabilities, Wu et al. (2016), Eq. 14; the length
            includes the end token. 0 for none; larger values favour longer replies.
        min_tokens: minimum number of tokens before the end token; 1 prevents empty replies.
        forbidden: tokens that are never generated; the probabilities of the others are not renormalised.
        no_repeat_ngram: length of n-grams that must not repeat in a hypothesis; 0 for off.
    """

    beam: int
    max_tokens: int
    end: int
    length_penalty: float = 0.0
    min_tokens: int = 0
    forbidden: tuple[int, ...] = ()
    no_repeat_ngram: int = 0

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("max_tokens", 1), ("length_penalty", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if self.end in self.forbidden:
            raise ValueError(f"forbidden contains {self.end}, the token that ends a reply; remove it")

    def penalty(self, length: int) -> float:
        """Return the length penalty ((5 + length) / 6)^α."""
        return ((5 + length) / 6) ** self.length_penalty

    def hypothesis(self, tokens: tuple[int, ...], ended: bool, log_p: float) -> Hypothesis:
        """Return a hypothesis with its score."""
        return Hypothesis(tokens, ended, log_p, log_p / self.penalty(len(tokens) + ended))


@dataclass(slots=True)
class _Slot:
    """Search of one reply: `beam` rows, with the live ones first."""

    number: int
    alive: list[tuple[tuple[int, ...], float]]
    ended: list[Hypothesis] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Advance:
    """Instruction after a step: `state.select(rows)`, then `step(tokens, …)`.

    `finished` has the hypotheses of the finished slots, best first.
    """

    rows: list[int]
    tokens: list[int]
    finished: dict[int, list[Hypothesis]]


class BeamSearch:
    """Batched beam search; each reply is a slot of `beam` adjacent rows.

    At each step all one-token extensions of a slot's hypotheses compete. Ended hypotheses among the `beam` best are
    stored as finished; the `beam` best others are continued. A slot is finished if no live hypothesis can still beat a
    full set of finished ones, if none is live, or at `max_tokens`. Requests are admitted between steps, and slots are
    independent.
    """

    def __init__(self, settings: BeamSettings) -> None:
        self._settings = settings
        self._slots: list[_Slot] = []
        self._n_admitted = 0

    @property
    def n_slots(self) -> int:
        """Number of replies in progress.

        Each takes `beam` rows of the next logits.
        """
        return len(self._slots)

    def admit(self, n: int) -> list[int]:
        """Append n slots; the caller joins `newcomers.repeat(beam)` and feeds `<sos>`.

        Returns:
            Their slot numbers, which are never reused.
        """
        numbers = list(range(self._n_admitted, self._n_admitted + n))
        self._slots += [_Slot(number, [((), 0.0)]) for number in numbers]
        self._n_admitted += n
        return numbers

    def cancel(self, number: int) -> list[int]:
        """Close a slot, if it exists.

        Returns:
            The remaining rows, for `state.select` and for the input tokens.
        """
        beam = self._settings.beam
        rows = [i * beam + j for i, slot in enumerate(self._slots) if slot.number != number for j in range(beam)]
        self._slots = [slot for slot in self._slots if slot.number != number]
        return rows

    def advance(self, logits: Tensor) -> Advance:
        """Process the logits of the last step, (n_slots · beam, V)."""
        settings, beam = self._settings, self._settings.beam
        if len(logits) != len(self._slots) * beam:
            raise ValueError(
                f"{len(logits)} rows for {len(self._slots)} slots of {beam}; select the rows returned by the last step"
            )
        if not self._slots:
            return Advance([], [], {})
        # Normalise before forbidding tokens, so that the other probabilities stay unchanged.
        log_p_next = logits.log_softmax(-1)  # (R, V)
        by_row = (self._banned(slot, j) for slot in self._slots for j in range(beam))
        forbid(log_p_next, settings.forbidden, by_row)
        # Take one more extension than hypotheses, because one may be the end token.
        values, tokens = log_p_next.topk(min(beam + 1, logits.shape[-1]), dim=-1)  # (R, K)
        so_far = torch.tensor(
            [log_p for slot in self._slots for log_p in self._log_probabilities(slot)], dtype=torch.float64
        ).to(logits.device)[:, None]  # (R, 1)
        total = (so_far + values.double()).view(len(self._slots), -1)  # (slots, beam·K)
        best, places = total.topk(min(2 * beam, total.shape[-1]), dim=-1)
        next_tokens = tokens.view(len(self._slots), -1).gather(-1, places)
        parents = places // values.shape[-1]
        rows: list[int] = []
        inputs: list[int] = []
        finished: dict[int, list[Hypothesis]] = {}
        staying: list[_Slot] = []
        candidates = zip(best.tolist(), parents.tolist(), next_tokens.tolist(), strict=True)
        for i, (slot, (log_ps, origins, words)) in enumerate(zip(self._slots, candidates, strict=True)):
            before = slot.alive
            alive = self._extend(slot, log_ps, origins, words)
            if self._is_over(slot):
                finished[slot.number] = self._ranked(slot, before)
                continue
            staying.append(slot)
            alive += alive[:1] * (beam - len(alive))  # unused rows
            rows += [i * beam + origin for origin, _ in alive]
            inputs += [word for _, word in alive]
        self._slots = staying
        return Advance(rows, inputs, finished)

    def _banned(self, slot: _Slot, row: int) -> set[int]:
        """Return the tokens that are forbidden next in a hypothesis."""
        if row >= len(slot.alive):
            return set()
        words = slot.alive[row][0]
        banned: set[int] = set()
        if self._settings.no_repeat_ngram:
            ban = NgramBan(self._settings.no_repeat_ngram)
            for token in words:
                ban.add(token)
            banned |= ban.forbidden()
        if len(words) < self._settings.min_tokens:
            banned.add(self._settings.end)
        return banned

    def _log_probabilities(self, slot: _Slot) -> list[float]:
        """Return the log-probabilities of a slot's rows; −inf for unused rows."""
        dead = self._settings.beam - len(slot.alive)
        return [log_p for _, log_p in slot.alive] + [-torch.inf] * dead

    def _extend(self, slot: _Slot, log_ps: list[float], origins: list[int], words: list[int]) -> list[tuple[int, int]]:
        """Extend a slot by its best extensions, best first.

        Returns:
            Origin row and token of each live hypothesis.
        """
        settings = self._settings
        alive: list[tuple[tuple[int, ...], float]] = []
        steps: list[tuple[int, int]] = []
        for rank, (log_p, origin, word) in enumerate(zip(log_ps, origins, words, strict=True)):
            if log_p == -torch.inf:
                break
            prefix = slot.alive[origin][0]
            if word == settings.end:
                if rank < settings.beam:
                    slot.ended.append(settings.hypothesis(prefix, True, log_p))
            elif len(alive) < settings.beam:
                alive.append(((*prefix, word), log_p))
                steps.append((origin, word))
        slot.alive = alive
        slot.ended.sort(key=lambda h: -h.score)
        del slot.ended[settings.beam :]
        return steps

    def _is_over(self, slot: _Slot) -> bool:
        """Return True if further steps cannot change a slot's result."""
        settings = self._settings
        if not slot.alive or len(slot.alive[0][0]) >= settings.max_tokens:
            return True
        if len(slot.ended) < settings.beam:
            return False
        # Further tokens only lower the log-probability, and the longest reply has the largest divisor.
        reachable = slot.alive[0][1] / settings.penalty(settings.max_tokens)
        return slot.ended[-1].score >= reachable

    def _ranked(self, slot: _Slot, before: list[tuple[tuple[int, ...], float]]) -> list[Hypothesis]:
        """Return up to `beam` hypotheses: ended ones, best first, then cut ones."""
        unfinished = slot.alive or ([] if slot.ended else before)  # every token was forbidden, so the reply ends here
        cut = [self._settings.hypothesis(words, False, log_p) for words, log_p in unfinished]
        cut.sort(key=lambda h: -h.score)
        return [*slot.ended, *cut][: self._settings.beam]


def beam_search(model: Stepper[S], state: S, settings: BeamSettings, *, start: int) -> list[list[Hypothesis]]:
    """Search the complete replies of all rows.

    Args:
        state: the encoded contexts, R rows.
        start: first input token, `<sos>`.

    Returns:
        For each row up to `beam` hypotheses, best first.
    """
    search = BeamSearch(settings)
    numbers = search.admit(state.n_rows)
    state = state.repeat(settings.beam)
    tokens = [start] * state.n_rows
    hypotheses: dict[int, list[Hypothesis]] = {}
    while search.n_slots:
        logits, state = model.step(torch.tensor(tokens, device=model.device), state)
        move = search.advance(logits)
        hypotheses |= move.finished
        state, tokens = state.select(move.rows), move.tokens
    return [hypotheses[number] for number in numbers]


def pick_hypothesis(
    hypotheses: Sequence[Hypothesis],
    uniform: float,
    *,
    rule: Literal["best", "priority", "length"] = "best",
    unknown: int | None = None,
) -> Hypothesis:
    """Choose a reply from the results of a search, given best first.

    Args:
        uniform: random number in [0, 1).
        rule: "best" takes the first. The other rules follow the released code of Ghandeharioun et al. (2019), which
            draws from the non-empty hypotheses with at most two unknown words (uniformly from all if there are none):
            "priority" draws rank j of n with probability (n − 1 − j) / (n (n − 1) / 2), "length" in proportion to the
            number of tokens.
        unknown: the unknown word's token.
    """
    if rule == "best":
        return hypotheses[0]
    if rule not in ("priority", "length"):
        raise ValueError(f"rule is {quote(rule)}; it must be 'best', 'priority' or 'length'")
    fit = [h for h in hypotheses if h.tokens and h.tokens.count(unknown) <= 2]
    if not fit:
        return hypotheses[int(uniform * len(hypotheses))]
    if len(fit) == 1:
        return fit[0]
    weights = [len(fit) - 1 - j for j in range(len(fit))] if rule == "priority" else [len(h.tokens) for h in fit]
    target = uniform * sum(weights)
    for hypothesis, weight in zip(fit, weights, strict=True):
        if target < weight:
            return hypothesis
        target -= weight
    return fit[-1]
