"""Dialogues to windows of token ids, and windows to batches, fast enough not to be waited for.

Every distinct utterance is cut into words once and kept as a row of ids; a window is a row of utterance
numbers, and a batch is gathered from both by indexing. What belongs to utterances (EI targets) is gathered by
the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from chatbots.corpora.reader import Dialogue
from chatbots.corpora.text import Tokeniser
from chatbots.corpora.vocabulary import Vocabulary
from chatbots.models.tokens import EOS, PAD, UNK
from chatbots.storable import quote

if TYPE_CHECKING:
    from chatbots.models.batch import DialogueBatch

Mode = Literal["first", "slide"]
NONE = -1
"""Utterance number where a window has no utterance."""


class Targets(Protocol):
    """EI targets by text: row i of an array belongs to the text that `row` maps to i.

    Attributes:
        row: the row of each text; has all of `Windows.texts`.
        emotion: (n, K) emotion distributions, or None.
        sentence: (n, D) sentence embeddings, or None. Arrays may lie in a memory-mapped file.
    """

    @property
    def row(self) -> Mapping[str, int]: ...
    @property
    def emotion(self) -> np.ndarray | None: ...
    @property
    def sentence(self) -> np.ndarray | None: ...


@dataclass(frozen=True, eq=False)
class Windows:
    """W windows of up to N utterances, out of U distinct ones of up to T tokens.

    Attributes:
        texts: the U distinct utterances, as the corpus has them.
        ids: (U, T) int32: words, `<eos>`, `<pad>`.
        lengths: (U,) tokens with `<eos>`, at least 2.
        utterances: (W, N) int32, numbers of the utterances of each window, then `NONE`; at least 2 each.
        n_unreadable: turns of which the tokeniser leaves no word; dialogues are cut there.
    """

    texts: list[str]
    ids: np.ndarray
    lengths: np.ndarray
    utterances: np.ndarray
    n_unreadable: int

    def __len__(self) -> int:
        """Return W, the number of windows."""
        return len(self.utterances)

    @property
    def n_targets(self) -> int:
        """Utterances to predict: all of each window but the first."""
        return int((self.utterances[:, 1:] != NONE).sum())

    @property
    def n_target_tokens(self) -> int:
        """Their tokens, `<eos>` counted."""
        targets = self.utterances[:, 1:]
        return int(self.lengths[targets[targets != NONE]].sum())

    @property
    def coverage(self) -> float:
        """Share of the words of all windows (first 29 of each utterance) that the vocabulary knows; NaN: none."""
        used = self.utterances[self.utterances != NONE]
        n_words = int((self.lengths[used] - 1).sum())
        n_unknown = int((self.ids == UNK).sum(1)[used].sum())
        return 1 - n_unknown / n_words if n_words else float("nan")

    def n_batches(self, batch_size: int) -> int:
        """Return the number of batches in an epoch; the last of them may be smaller."""
        return -(-len(self) // batch_size)

    def batches(
        self,
        batch_size: int,
        seed: int,
        epoch: int,
        start: int = 0,
        targets: Targets | None = None,
    ) -> Iterator[DialogueBatch]:
        """Yield the batches of an epoch. Equal arguments give equal batches, whatever was asked before.

        Windows of like length share a batch, so that little is padding. The order of the batches, and which of
        several windows of equal length share one, is drawn from `seed` and `epoch`.

        Args:
            start: the number of batches to leave out, to go on in the middle of an epoch.
            targets: gathered into the batches' `emotion` and `sentence`.
        """
        import torch

        from chatbots.models.batch import DialogueBatch

        rows = None if targets is None else np.array([targets.row[t] for t in self.texts], np.int64)
        for chosen in self.order(batch_size, seed, epoch)[start:]:
            numbers = self.utterances[chosen]
            there = numbers != NONE  # (B, N)
            n_most = int(there.sum(1).max())
            numbers, there = numbers[:, :n_most], there[:, :n_most]
            lengths = np.where(there, self.lengths[numbers], 0)
            t_most = int(lengths.max())
            ids = np.where(there[..., None], self.ids[numbers, :t_most], PAD)
            extras = {}
            for name in ("emotion", "sentence"):
                values = None if targets is None else getattr(targets, name)
                if values is not None and rows is not None:
                    gathered = np.asarray(values[rows[numbers]], np.float32)  # (B, N, K or D)
                    extras[name] = torch.from_numpy(gathered * there[..., None])
            yield DialogueBatch(
                torch.from_numpy(ids.astype(np.int64)),
                torch.from_numpy(lengths.astype(np.int64)),
                **extras,
            )

    def order(self, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
        """Return an epoch's batches, each as an array of the numbers of its windows."""
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be 1 or more")
        draws = np.random.default_rng([seed, epoch])
        there = self.utterances != NONE
        longest = np.where(there, self.lengths[self.utterances], 0).max(1, initial=0)
        by_length = np.lexsort((draws.random(len(self)), longest, there.sum(1)))
        batches = [by_length[i : i + batch_size] for i in range(0, len(by_length), batch_size)]
        return [batches[i] for i in draws.permutation(len(batches))]


def windows_make(
    dialogues: Sequence[Dialogue],
    vocabulary: Vocabulary,
    tokeniser: Tokeniser,
    *,
    n_utterances: int = 10,
    mode: Mode = "first",
    max_tokens: int = 30,
) -> Windows:
    """Cut dialogues into windows. Dialogues with fewer than two utterances to read give none.

    A turn of which the tokeniser leaves no word cuts its dialogue in two: silence is nothing to learn, and
    what follows does not answer what stands before.

    Args:
        n_utterances: most utterances of a window.
        mode: "first": the first `n_utterances` of each dialogue (Ghandeharioun et al. 2019); "slide": one
            window after the other, each beginning with the last utterance of the one before, so that every
            utterance but a dialogue's first is predicted once.
        max_tokens: longest row; an utterance keeps its first `max_tokens` − 1 words and gets `<eos>`.

    Raises:
        ValueError: an argument that cannot be.
    """
    if n_utterances < 2:
        raise ValueError(f"n_utterances is {n_utterances}; it must be 2 or more")
    if max_tokens < 2:
        raise ValueError(f"max_tokens is {max_tokens}; it must be 2 or more")
    if mode not in ("first", "slide"):
        raise ValueError(f"mode is {quote(mode)}; it must be 'first' or 'slide'")
    words: dict[str, list[int]] = {}
    for dialogue in dialogues:
        for turn in dialogue.turns:
            if turn not in words:
                words[turn] = vocabulary.ids(tokeniser.tokenise(turn)[: max_tokens - 1])
    texts: dict[str, int] = {}
    windows: list[list[int]] = []
    for dialogue in dialogues:
        for part in dialogue.parts(lambda turn: bool(words[turn])):
            for turns in _cut(part.turns, n_utterances, mode):
                windows.append([texts.setdefault(turn, len(texts)) for turn in turns])
    n_unreadable = sum(not words[turn] for dialogue in dialogues for turn in dialogue.turns)
    rows = [[*words[text], EOS] for text in texts]
    return Windows(
        list(texts),
        _padded(rows, max_tokens, PAD),
        np.array([len(row) for row in rows], np.int32),
        _padded(windows, n_utterances, NONE),
        n_unreadable,
    )


def _cut(turns: tuple[str, ...], n: int, mode: Mode) -> Iterator[tuple[str, ...]]:
    """Yield windows of consecutive turns, each of two to `n` turns; the mode "first" takes the first window alone."""
    starts = range(0, len(turns) - 1, n - 1)
    for start in starts[:1] if mode == "first" else starts:
        yield turns[start : start + n]


def _padded(rows: Sequence[Sequence[int]], width: int, filler: int) -> np.ndarray:
    """Fill rows up with `filler` and return them as (len(rows), width) int32."""
    padded = np.full((len(rows), width), filler, np.int32)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded
