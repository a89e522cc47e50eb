"""A language model as judge of pairs of replies or whole chats, each in both orders; its position and length biases."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from chatbots import Conversation
from evaluation.formats.base import Skipped
from evaluation.items import ChatPair, Item, items_read
from evaluation.metrics.judge import (
    CHATS_PROMPT,
    PAIR_PROMPT,
    PAIRS_WEIGHTED,
    PAIRS_WRITTEN,
    Judge,
    chat_lines,
    lines,
)
from evaluation.stats.correlation import Correlation, correlate
from evaluation.stats.intervals import SHARE, Interval, mean_interval

NO_SECOND = "it has no second reply to compare with"
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class PairJudged:
    """Judgement of one pair by a judge.

    Attributes:
        item: its name; context: a name for the turns before, which groups pairs; a pair of chats has its own.
        first, second: the dialogue models.
        preference: probability that the first reply or chat is better, mean of both orders.
        first_place: probability that the one shown first is preferred, mean of both orders.
        words_first, words_second: length of the replies, of chats all replies of the bot.
    """

    item: str
    context: str
    first: str
    second: str
    preference: float
    first_place: float
    words_first: int
    words_second: int

    @property
    def preferred(self) -> str:
        """`first` or `second` where both orders agree, else `tie`."""
        forward = self.preference + self.first_place - 0.5
        swapped = self.preference - self.first_place + 0.5
        if forward > 0.5 and swapped > 0.5:
            return "first"
        return "second" if forward < 0.5 and swapped < 0.5 else "tie"

    @property
    def changed(self) -> bool:
        """True if the preferred reply changes with the order."""
        forward = self.preference + self.first_place - 0.5
        swapped = self.preference - self.first_place + 0.5
        return (forward - 0.5) * (swapped - 0.5) < 0


@dataclass(frozen=True)
class PairsJudged:
    """Comparisons of two replies by a judge.

    Attributes:
        judge: the name of the judge.
        pairs: those that it judged.
        n_requests: what they cost in this run.
        refused: pairs that were not asked since the judge's cap was reached.
        unanswered: pairs that were asked without a usable answer, and why the first of them.
        kinds: how many of the pairs judged in this run have a preference of which kind, by log-probabilities in both
            orders or as written.
    """

    judge: str
    pairs: tuple[PairJudged, ...]
    n_requests: int
    refused: int
    unanswered: int = 0
    trouble: str = ""
    kinds: Mapping[str, int] = field(default_factory=dict)

    @property
    def position_bias(self) -> Interval:
        """Mean increase in the preference for a reply that stands first, from −.5 to .5, over contexts."""
        values = [one.first_place - 0.5 for one in self.pairs]
        return mean_interval(values, [one.context for one in self.pairs], _LEVEL, scale=(-0.5, 0.5))

    @property
    def changed(self) -> Interval:
        """Share of pairs whose preferred reply changes with the order, over contexts."""
        values = [float(one.changed) for one in self.pairs]
        return mean_interval(values, [one.context for one in self.pairs], _LEVEL, scale=SHARE)

    @property
    def n_changed(self) -> int:
        """Pairs whose better reply is another one in the other order."""
        return sum(one.changed for one in self.pairs)

    @property
    def length_bias(self) -> Correlation:
        """Spearman correlation of preference with greater length: a bias as far as it exceeds people's."""
        longer = [one.words_first - one.words_second for one in self.pairs]
        preference = [one.preference for one in self.pairs]
        units = [one.context for one in self.pairs]
        return correlate(longer, preference, "spearman", units=units)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each pair, as `rank` reads them: `first`, `second`, `preferred` and more.

        There is no `rater`: of one alone nobody could tell how raters differ, so judgements count as independent.
        """
        return [
            {
                **{name: getattr(one, name) for name in PairJudged.__slots__},
                "preferred": one.preferred,
                "judged_by": self.judge,
            }
            for one in self.pairs
        ]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        position, changed = self.position_bias, self.changed
        return {
            "judge": self.judge,
            "n": len(self.pairs),
            "n_requests": self.n_requests,
            "refused": self.refused,
            "unanswered": self.unanswered,
            "trouble": self.trouble,
            "kinds": dict(self.kinds),
            "position_bias": {
                "value": position.mean,
                "ci95": None if position.low is None else [position.low, position.high],
            },
            "changed": {
                "value": changed.mean,
                "ci95": None if changed.low is None else [changed.low, changed.high],
            },
            "length_bias": self.length_bias.to_json(),
        }


def pairs_judged(judge: Judge, items: Sequence[Item | ChatPair]) -> PairsJudged:
    """Have the judge compare the two replies of each item, or two chats, in both orders, as far as its cap allows.

    Raises:
        ValueError: the judge cannot be asked here, with the reason; or an item has one reply.
    """
    reason = judge.unavailable_reason()
    if reason is not None or judge.options is None:
        raise ValueError(f"{judge.name} cannot judge: {reason}")
    for item in items:
        if isinstance(item, Item) and item.second_response is None:
            raise ValueError(f"item {item.key}: {NO_SECOND}")
    window = judge.options.window
    left = max(judge.options.max_requests - judge.n_requests, 0) // 2
    asked = items[:left]
    prompts = [prompt for item in asked for prompt in _both_orders(item, window)]
    before = judge.n_requests
    found, weighted = np.full((0, 2), np.nan), np.zeros((0, 2), dtype=bool)
    if prompts:
        whole = any(isinstance(item, ChatPair) for item in asked)
        found = judge.chances(prompts, ("A", "B"), whole=whole)[:, 0].reshape(-1, 2)
        weighted = judge.weighted.reshape(-1, 2)
    answered = np.isfinite(found).all(axis=1)
    kinds = Counter(PAIRS_WEIGHTED if all(one) else PAIRS_WRITTEN for one in weighted[answered])
    pairs = tuple(
        _pair(item, float(forward), float(swapped))
        for item, (forward, swapped) in zip(asked, found, strict=True)
        if np.isfinite(forward + swapped)
    )
    unanswered = len(asked) - len(pairs)
    return PairsJudged(
        judge=judge.name,
        pairs=pairs,
        n_requests=judge.n_requests - before,
        refused=len(items) - len(asked),
        unanswered=unanswered,
        trouble=(judge.trouble or "its answer was neither A nor B") if unanswered else "",
        kinds=kinds,
    )


def judge_pairs(
    pairs: Sequence[Item] | Path | str, judge: Judge | None = None, **options: Any
) -> PairsJudged:
    """Have a language model judge pairs of replies, each in both orders.

    Args:
        pairs: items with two replies, or a file of such.
        judge: who judges; without it one is made of the options (`bot` or `model`, `max_requests`, `window`, …).

    Raises:
        ValueError: a line of the file is no item, or has one reply; or the judge cannot be asked.
    """
    if isinstance(pairs, str | Path):
        read = list(items_read(Path(pairs)))
        for one in read:
            if isinstance(one, Skipped):
                raise ValueError(f"{pairs}, line {one.line}: {one.reason}")
        pairs = [one.item for one in read if not isinstance(one, Skipped)]
    return pairs_judged(judge or Judge(**options), pairs)


def in_batches(
    judge: Judge,
    items: Sequence[Item | ChatPair],
    known: Sequence[PairJudged],
    keep: Callable[[Sequence[PairJudged]], None],
    size: int = 25,
) -> PairsJudged:
    """Have the judge compare pairs in small batches, so that paid results are kept after an error.

    It ends where the cap is reached, or where none of a batch is answered.

    Args:
        known: what was judged before; these items are not asked again.
        keep: stores what was just judged.
    """
    there = {one.item for one in known}
    missing = [item for item in items if item.key not in there]
    pairs, n_requests, n_asked, unanswered, trouble = list(known), 0, 0, 0, ""
    kinds: Counter[str] = Counter()
    for begin in range(0, len(missing), size):
        batch = missing[begin : begin + size]
        found = pairs_judged(judge, batch)
        keep(found.pairs)
        pairs += found.pairs
        n_requests += found.n_requests
        n_asked += len(batch) - found.refused
        unanswered += found.unanswered
        trouble = trouble or found.trouble
        kinds.update(found.kinds)
        if found.refused or not found.pairs:
            break
    return PairsJudged(
        judge.name, tuple(pairs), n_requests, len(missing) - n_asked, unanswered, trouble, kinds
    )


def _pair(item: Item | ChatPair, forward: float, swapped: float) -> PairJudged:
    if isinstance(item, ChatPair):
        texts = [_bots_words(item.first), _bots_words(item.second)]
    else:
        texts = [item.response.split(), (item.second_response or "").split()]
    return PairJudged(
        item=item.key,
        context=context_name(item),
        first=item.model,
        second=item.second_model,
        preference=(forward + 1 - swapped) / 2,
        first_place=(forward + swapped) / 2,
        words_first=len(texts[0]),
        words_second=len(texts[1]),
    )


def _bots_words(chat: Conversation) -> list[str]:
    return [word for turn in chat.turns if turn.speaker == "bot" for word in turn.text.split()]


def context_name(item: Item | ChatPair) -> str:
    """Return a name for the context, which groups pairs; without a context each pair stands alone."""
    said = f"pair {item.key}"
    if isinstance(item, Item) and item.context:
        said = "\n".join((item.source, *item.context))
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _both_orders(item: Item | ChatPair, window: int) -> list[str]:
    """Return the judge's prompts for a pair, in its own order and swapped."""
    if isinstance(item, ChatPair):
        chats = [chat_lines(one, self_play=item.self_play) for one in (item.first, item.second)]
        return [
            CHATS_PROMPT.format(first=one, second=other) for one, other in (chats, reversed(chats))
        ]
    replies = [item.response, str(item.second_response)]
    said = lines(item.context[-window:])
    return [
        PAIR_PROMPT.format(context=said, first=one, second=other)
        for one, other in (replies, reversed(replies))
    ]
