"""Language model as judge of pairs of replies or whole chats.

Each pair is shown in both orders; the judge's bias for position and length is reported.

Preferences are appended to a file: CSV in the format of `confab.rank`, one line per pair.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chatbots import Conversation
from evaluation.data.formats.base import Skipped
from evaluation.data.formats.tables import escape_cell, unescape_cell
from evaluation.data.items import ChatPair, ReplyItem, items_read
from evaluation.metrics.judge import (
    CHATS_PROMPT,
    PAIR_FORM,
    PAIR_PROMPT,
    PAIRS_WEIGHTED,
    PAIRS_WRITTEN,
    JudgeMetric,
    chat_lines,
    fence,
    lines,
)
from evaluation.metrics.verdicts import NO_LETTER
from evaluation.number_format import plain_interval
from evaluation.stats.constants import SCORE_LEVEL
from evaluation.stats.correlation import Correlation, correlate
from evaluation.stats.means import SHARE, Interval, mean_interval

NO_SECOND = "it has no second reply to compare with"


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """Judgement of one pair.

    Attributes:
        item: its name.
        context: name of the preceding turns, which groups pairs; each pair of chats has its own.
        first, second: the dialogue models.
        preference: probability that the first reply or chat is better, averaged over both orders.
        first_place: probability of preferring the one shown first, averaged over both orders.
        words_first, words_second: length of the replies; for chats, of all bot replies.
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
        """`first` or `second` if both orders agree, otherwise `tie`."""
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
class JudgedPairs:
    """Comparisons of two replies by a judge.

    Attributes:
        judge: the name of the judge.
        pairs: judged pairs.
        n_requests: number of requests in this run.
        refused: number of pairs not judged because the judge's limit was reached.
        unanswered: number of pairs without a usable answer, and the first reason.
        kinds: number of pairs judged in this run by kind of preference: log-probabilities in both orders, or the
            written answer.
    """

    judge: str
    pairs: tuple[JudgedPair, ...]
    n_requests: int
    refused: int
    unanswered: int = 0
    trouble: str = ""
    kinds: Mapping[str, int] = field(default_factory=dict)

    @property
    def position_bias(self) -> Interval:
        """Mean preference for the reply shown first minus .5, clustered by context."""
        values = [pair.first_place - 0.5 for pair in self.pairs]
        return mean_interval(values, [pair.context for pair in self.pairs], SCORE_LEVEL, scale=(-0.5, 0.5))

    @property
    def changed(self) -> Interval:
        """Share of pairs whose preference changes with the order.

        Clustered by context.
        """
        values = [float(pair.changed) for pair in self.pairs]
        return mean_interval(values, [pair.context for pair in self.pairs], SCORE_LEVEL, scale=SHARE)

    @property
    def n_changed(self) -> int:
        """Number of pairs whose preferred reply changes with the order."""
        return sum(pair.changed for pair in self.pairs)

    @property
    def length_bias(self) -> Correlation:
        """Spearman correlation of preference with relative length.

        The excess over people's is a bias.
        """
        longer = [pair.words_first - pair.words_second for pair in self.pairs]
        preference = [pair.preference for pair in self.pairs]
        units = [pair.context for pair in self.pairs]
        return correlate(longer, preference, "spearman", units=units)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per pair in the format of `rank`.

        Columns are `first`, `second`, `preferred` and more.

        There is no `rater`: with a single one, differences between raters are unknown, so judgements count as
        independent.
        """
        return [
            {
                **{name: getattr(pair, name) for name in JudgedPair.__slots__},
                "preferred": pair.preferred,
                "judged_by": self.judge,
            }
            for pair in self.pairs
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
            "position_bias": {"value": position.mean, "ci95": plain_interval(position.low, position.high)},
            "changed": {"value": changed.mean, "ci95": plain_interval(changed.low, changed.high)},
            "length_bias": self.length_bias.to_json(),
        }


def pairs_judged(judge: JudgeMetric, items: Sequence[ReplyItem | ChatPair]) -> JudgedPairs:
    """Judge the two replies (or chats) of each item in both orders.

    Stops at the judge's limit.

    Raises:
        ValueError: if the judge cannot be used here, with the reason; or an item has only one reply.
    """
    reason = judge.unavailable_reason()
    if reason is not None or judge.options is None:
        raise ValueError(f"{judge.name} cannot judge: {reason}")
    for item in items:
        if isinstance(item, ReplyItem) and item.second_response is None:
            raise ValueError(f"item {item.key}: {NO_SECOND}")
    window = judge.options.window
    n_affordable = max(judge.options.max_requests - judge.n_requests, 0) // 2
    requested_items = items[:n_affordable]
    prompts = [prompt for item in requested_items for prompt in _both_orders(item, window)]
    before = judge.n_requests
    chances, weighted = np.full((0, 2), np.nan), np.zeros((0, 2), dtype=bool)
    if prompts:
        has_chats = any(isinstance(item, ChatPair) for item in requested_items)
        chances = judge.chances(prompts, ("A", "B"), read_all=has_chats)[:, 0].reshape(-1, 2)
        weighted = judge.weighted.reshape(-1, 2)
    answered = np.isfinite(chances).all(axis=1)
    kinds = Counter(PAIRS_WEIGHTED if all(is_weighted) else PAIRS_WRITTEN for is_weighted in weighted[answered])
    pairs = tuple(
        _pair(item, float(forward), float(swapped))
        for item, (forward, swapped) in zip(requested_items, chances, strict=True)
        if np.isfinite(forward + swapped)
    )
    unanswered = len(requested_items) - len(pairs)
    return JudgedPairs(
        judge=judge.name,
        pairs=pairs,
        n_requests=judge.n_requests - before,
        refused=len(items) - len(requested_items),
        unanswered=unanswered,
        trouble=(judge.trouble or NO_LETTER) if unanswered else "",
        kinds=kinds,
    )


def judge_pairs(
    pairs: Sequence[ReplyItem] | Path | str, judge: JudgeMetric | None = None, **options: Any
) -> JudgedPairs:
    """Have a language model judge pairs of replies, each in both orders.

    Args:
        pairs: items with two replies, or a file of them.
        judge: judge to use; by default one is made from the options (`bot` or `model`, `max_requests`, `window`, …).

    Raises:
        ValueError: if a line of the file is not an item, or has only one reply; or the judge cannot be used.
    """
    if isinstance(pairs, str | Path):
        read = list(items_read(Path(pairs)))
        for line in read:
            if isinstance(line, Skipped):
                raise ValueError(f"{pairs}, line {line.line}: {line.reason}")
        pairs = [line.item for line in read if not isinstance(line, Skipped)]
    return pairs_judged(judge or JudgeMetric(**options), pairs)


def in_batches(
    judge: JudgeMetric,
    items: Sequence[ReplyItem | ChatPair],
    known: Sequence[JudgedPair],
    keep: Callable[[Sequence[JudgedPair]], None],
    size: int = 25,
) -> JudgedPairs:
    """Judge pairs in small batches, to keep paid results after an error.

    It ends when the limit is reached, or when no pair of a batch is answered.

    Args:
        known: earlier judgements; these items are not judged again.
        keep: stores new judgements.
    """
    judged_keys = {pair.item for pair in known}
    missing = [item for item in items if item.key not in judged_keys]
    pairs, n_requests, n_asked, unanswered, trouble = list(known), 0, 0, 0, ""
    kinds: Counter[str] = Counter()
    for begin in range(0, len(missing), size):
        batch = missing[begin : begin + size]
        judged = pairs_judged(judge, batch)
        keep(judged.pairs)
        pairs += judged.pairs
        n_requests += judged.n_requests
        n_asked += len(batch) - judged.refused
        unanswered += judged.unanswered
        trouble = trouble or judged.trouble
        kinds.update(judged.kinds)
        if judged.refused or not judged.pairs:
            break
    return JudgedPairs(judge.name, tuple(pairs), n_requests, len(missing) - n_asked, unanswered, trouble, kinds)


def _pair(item: ReplyItem | ChatPair, forward: float, swapped: float) -> JudgedPair:
    if isinstance(item, ChatPair):
        texts = [_bots_words(item.first), _bots_words(item.second)]
    else:
        texts = [item.response.split(), (item.second_response or "").split()]
    return JudgedPair(
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


def context_name(item: ReplyItem | ChatPair) -> str:
    """Return a name for the context, which groups pairs.

    A pair without a context is its own group.
    """
    context_text = f"pair {item.key}"
    if isinstance(item, ReplyItem) and item.context:
        context_text = "\n".join((item.source, *item.context))
    return hashlib.sha256(context_text.encode()).hexdigest()[:16]


def _both_orders(item: ReplyItem | ChatPair, window: int) -> list[str]:
    """Return the judge's prompts for a pair, in original and swapped order."""
    if isinstance(item, ChatPair):
        chats = [chat_lines(chat, self_play=item.self_play) for chat in (item.first, item.second)]
        return [
            fence(CHATS_PROMPT, PAIR_FORM, {"first": first, "second": second}, what="chatbot")
            for first, second in (chats, reversed(chats))
        ]
    replies = [item.response, str(item.second_response)]
    context = lines(item.context[-window:])
    return [
        fence(PAIR_PROMPT, PAIR_FORM, {"context": context, "first": first, "second": second}, what="reply")
        for first, second in (replies, reversed(replies))
    ]


_TEXTS = ("item", "context", "first", "second")
_NUMBERS = ("preference", "first_place", "words_first", "words_second")
_COLUMNS = (*_TEXTS, "preferred", "judged_by", *_NUMBERS, "judge")


class JudgedRead(NamedTuple):
    """File of judged pairs.

    Attributes:
        name: name of the judge.
        judge: digest of its model, prompt and window; both empty for a file without pairs.
    """

    name: str
    judge: str
    pairs: tuple[JudgedPair, ...]


def judged_file_read(path: Path) -> JudgedRead:
    """Read a file of judged pairs, ignoring an incomplete last line.

    Raises:
        ValueError: if it is another kind of file, or contains judgements of several judges.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            csv_rows = list(csv.reader(line for line in file if line.endswith("\n")))
    except csv.Error:
        csv_rows = []
    if not csv_rows or tuple(csv_rows[0]) != _COLUMNS or {len(row) for row in csv_rows} != {len(_COLUMNS)}:
        raise ValueError(f"{path} is not a file of judged pairs from judge_pairs --output; choose another file")
    rows = [dict(zip(_COLUMNS, row, strict=True)) for row in csv_rows[1:]]
    judges = sorted({(unescape_cell(row["judged_by"]), row["judge"]) for row in rows})
    if len({judge for _name, judge in judges}) > 1:
        judges_text = ", ".join(f"{name} ({judge})" for name, judge in judges)
        raise ValueError(f"{path} contains judgements of several judges: {judges_text}")
    name, judge = judges[0] if judges else ("", "")
    return JudgedRead(
        name,
        judge,
        tuple(
            JudgedPair(
                **{name: unescape_cell(row[name]) for name in _TEXTS},
                preference=float(row["preference"]),
                first_place=float(row["first_place"]),
                words_first=int(row["words_first"]),
                words_second=int(row["words_second"]),
            )
            for row in rows
        ),
    )


class JudgedFile:
    """File of judged pairs of one judge.

    Existing judgements are kept, and new ones are appended; the pair of an incomplete line is judged again.

    Args:
        prompt: the judge's prompt, for two replies or two chats.

    Raises:
        ValueError: if it is another kind of file, or belongs to another judge, model, prompt or window.
    """

    def __init__(self, path: Path, judge: JudgeMetric, *, prompt: str = PAIR_PROMPT) -> None:
        self.path = path
        self._name = judge.name
        self._judge = hashlib.sha256(f"{judge.identity.key} {prompt}".encode()).hexdigest()[:16]
        self.known: list[JudgedPair] = []
        if path.exists() and path.stat().st_size:
            self.known = self._read()
            self._mend()

    def _mend(self) -> None:
        """Remove an incomplete last line before appending."""
        with self.path.open("rb+") as file:
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)

    def _read(self) -> list[JudgedPair]:
        stored = judged_file_read(self.path)
        if stored.judge and stored.judge != self._judge:
            raise ValueError(
                f"{self.path} belongs to another judge ({stored.judge}, now {self._judge}): the model, "
                "prompt or window differs; choose another file"
            )
        return list(stored.pairs)

    def keep(self, pairs: Sequence[JudgedPair]) -> None:
        """Append these pairs to the file immediately."""
        is_new = not self.path.exists() or not self.path.stat().st_size
        with self.path.open("a+", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow(_COLUMNS)
            for pair in pairs:
                texts = [getattr(pair, name) for name in _TEXTS]
                numbers = [repr(getattr(pair, name)) for name in _NUMBERS]
                writer.writerow(
                    [*map(escape_cell, texts), pair.preferred, escape_cell(self._name), *numbers, self._judge]
                )  # fmt: skip
