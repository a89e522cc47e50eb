"""Training data, from corpora to windows of token ids to batches.

Corpora are read, split, cut and counted once per run. Every distinct utterance is tokenised once and stored as a row of
ids; a window is a row of utterance numbers. A batch is gathered from both by indexing, fast enough that training does
not wait for it. EI targets of utterances are gathered by the same numbers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import torch

from chatbots.corpora.dialogues import EVERYDAY as EVERYDAY_FOLDER
from chatbots.corpora.dialogues import Corpus, CorpusError, Dialogue, dialogues_split, nested_share
from chatbots.corpora.reading import corpus_read
from chatbots.corpora.vocabulary import EOS, PAD, UNK, Tokeniser, Vocabulary, tokeniser_get
from chatbots.identity import canonical_json, derive_seed
from chatbots.models.batch import DialogueBatch
from chatbots.text import quote
from chatbots.training.config import EVERYDAY, CorpusConfig, DataConfig, TrainingConfig
from chatbots.training.ei import EITargets, targets_make

if TYPE_CHECKING:
    from chatbots.models.batch import DialogueBatch

WindowMode = Literal["first", "slide"]
NO_UTTERANCE = -1
"""Utterance number that pads windows."""


class TargetRows(Protocol):
    """Protocol of EI targets by text.

    Attributes:
        row: row number by text, for all of `Windows.texts`.
        emotion: (n, K) emotion distributions, or None.
        sentence: (n, D) sentence embeddings, or None. Arrays may be memory-mapped.
    """

    @property
    def row(self) -> Mapping[str, int]: ...
    @property
    def emotion(self) -> np.ndarray | None: ...
    @property
    def sentence(self) -> np.ndarray | None: ...


@dataclass(frozen=True, eq=False)
class Windows:
    """W windows of up to N of the U distinct utterances.

    Attributes:
        texts: the U distinct utterances, as in the corpus.
        ids: (U, T) int32: words, `<eos>`, `<pad>`; T is the maximum number of tokens.
        lengths: (U,) tokens with `<eos>`, at least 2.
        utterances: (W, N) int32, the utterance numbers of each window, at least 2, padded with `NO_UTTERANCE`.
        n_unreadable: number of turns without any words, at which dialogues are split.
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
        """Number of utterances to predict: all except the first of each window."""
        return int((self.utterances[:, 1:] != NO_UTTERANCE).sum())

    @property
    def n_target_tokens(self) -> int:
        """Number of target tokens, including `<eos>`."""
        targets = self.utterances[:, 1:]
        return int(self.lengths[targets[targets != NO_UTTERANCE]].sum())

    @property
    def coverage(self) -> float:
        """Share of known words in all windows; NaN without words."""
        used = self.utterances[self.utterances != NO_UTTERANCE]
        n_words = int((self.lengths[used] - 1).sum())
        n_unknown = int((self.ids == UNK).sum(1)[used].sum())
        return 1 - n_unknown / n_words if n_words else float("nan")

    def n_batches(self, batch_size: int) -> int:
        """Return the number of batches per epoch; the last may be smaller."""
        return -(-len(self) // batch_size)

    def batches(
        self, batch_size: int, seed: int, epoch: int, start: int = 0, targets: TargetRows | None = None
    ) -> Iterator[DialogueBatch]:
        """Yield the batches of an epoch, determined only by the arguments.

        Windows of similar length share a batch, which reduces padding. `seed` and `epoch` determine the order of the
        batches and the distribution of windows of equal length.

        Args:
            start: number of batches to skip, for resuming within an epoch.
            targets: source of the batches' `emotion` and `sentence`.
        """
        import torch

        from chatbots.models.batch import DialogueBatch

        rows = None if targets is None else np.array([targets.row[t] for t in self.texts], np.int64)
        for chosen in self.order(batch_size, seed, epoch)[start:]:
            numbers = self.utterances[chosen]
            mask = numbers != NO_UTTERANCE  # (B, N)
            n_most = int(mask.sum(1).max())
            numbers, mask = numbers[:, :n_most], mask[:, :n_most]
            lengths = np.where(mask, self.lengths[numbers], 0)
            t_most = int(lengths.max())
            ids = np.where(mask[..., None], self.ids[numbers, :t_most], PAD)
            extras = {}
            for name in ("emotion", "sentence"):
                values = None if targets is None else getattr(targets, name)
                if values is not None and rows is not None:
                    gathered = np.asarray(values[rows[numbers]], np.float32)  # (B, N, K or D)
                    extras[name] = torch.from_numpy(gathered * mask[..., None])
            yield DialogueBatch(
                torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(lengths.astype(np.int64)), **extras
            )

    def order(self, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
        """Return an epoch's batches as arrays of window numbers."""
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        draws = np.random.default_rng([seed, epoch])
        mask = self.utterances != NO_UTTERANCE
        longest = np.where(mask, self.lengths[self.utterances], 0).max(1, initial=0)
        by_length = np.lexsort((draws.random(len(self)), longest, mask.sum(1)))
        batches = [by_length[i : i + batch_size] for i in range(0, len(by_length), batch_size)]
        return [batches[i] for i in draws.permutation(len(batches))]


def windows_make(
    dialogues: Sequence[Dialogue],
    vocabulary: Vocabulary,
    tokeniser: Tokeniser,
    *,
    n_utterances: int = 10,
    mode: WindowMode = "first",
    max_tokens: int = 30,
) -> Windows:
    """Cut dialogues into windows of at least two utterances.

    A dialogue is split at a turn without words: it cannot be learnt, and the next turn does not reply to the previous
    one.

    Args:
        n_utterances: maximum utterances of a window.
        mode: "first" takes the first `n_utterances` of each dialogue (Ghandeharioun et al. 2019); "slide" takes
            consecutive windows, each beginning with the last utterance of the previous one, so that every utterance
            except a dialogue's first is predicted once.
        max_tokens: maximum row length; an utterance is cut to `max_tokens` − 1 words plus `<eos>`.

    Raises:
        ValueError: an argument is out of range.
    """
    if n_utterances < 2:
        raise ValueError(f"n_utterances is {n_utterances}; it must be at least 2")
    if max_tokens < 2:
        raise ValueError(f"max_tokens is {max_tokens}; it must be at least 2")
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
            for turns in _cut_windows(part.turns, n_utterances, mode):
                windows.append([texts.setdefault(turn, len(texts)) for turn in turns])
    n_unreadable = sum(not words[turn] for dialogue in dialogues for turn in dialogue.turns)
    rows = [[*words[text], EOS] for text in texts]
    return Windows(
        list(texts),
        _padded(rows, max_tokens, PAD),
        np.array([len(row) for row in rows], np.int32),
        _padded(windows, n_utterances, NO_UTTERANCE),
        n_unreadable,
    )


def _cut_windows(turns: tuple[str, ...], n: int, mode: WindowMode) -> Iterator[tuple[str, ...]]:
    """Yield windows of 2 to `n` consecutive turns.

    In mode "first" there is only one.
    """
    starts = range(0, len(turns) - 1, n - 1)
    for start in starts[:1] if mode == "first" else starts:
        yield turns[start : start + n]


def _padded(rows: Sequence[Sequence[int]], width: int, filler: int) -> np.ndarray:
    """Pad rows to `width` with `filler`; int32."""
    padded = np.full((len(rows), width), filler, np.int32)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded


_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+")


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Data of a training run.

    Attributes:
        config: data settings.
        train, validation, test: windows of each split.
        test_dialogues: test dialogues, for first replies.
        targets: EI targets of all texts, or None without EI.
        reads_targets: True if the model reads the targets during generation (the input-only ablation).
        digest: 16 hexadecimal digits over all dialogues and their split.
        n_dialogues: number of dialogues by split.
    """

    config: DataConfig
    vocabulary: Vocabulary
    tokeniser: Tokeniser
    train: Windows
    validation: Windows
    test: Windows
    test_dialogues: tuple[Dialogue, ...]
    targets: EITargets | None
    reads_targets: bool
    digest: str
    n_dialogues: dict[str, int]

    def first_exchanges(self, limit: int = 0) -> list[tuple[str, str]]:
        """Return the first two utterances of up to `limit` test dialogues.

        0 for all.
        """
        pairs = [(d.turns[0], d.turns[1]) for d in self.test_dialogues if len(d.turns) > 1]
        return pairs[:limit] if limit else pairs

    def contexts(self, conversations: Sequence[Sequence[str]]) -> DialogueBatch:
        """Build a batch for generation, with EI targets if the model needs them."""
        ids = [[self.vocabulary.ids(self.tokeniser.tokenise(text)) for text in texts] for texts in conversations]
        batch = partial(DialogueBatch.from_ids, ids, max_tokens=self.config.max_tokens)
        if not self.reads_targets or self.targets is None:
            return batch()
        targets = self.targets

        def gather_rows(values: np.ndarray, texts: Sequence[str]) -> torch.Tensor:
            return torch.from_numpy(values[[targets.row[text] for text in texts]])

        return batch(
            emotion=[gather_rows(targets.emotion, texts) for texts in conversations],
            sentence=[gather_rows(targets.sentence, texts) for texts in conversations],
        )


def data_prepare(config: TrainingConfig, device: str = "cpu") -> TrainingData:
    """Read and prepare all data of a training run.

    Args:
        device: device of the encoders for the EI targets.

    Raises:
        CorpusError: a corpus cannot be read, or a split has no reply.
        VocabularyError: no word is frequent enough.
        EncoderError: an encoder for the EI targets cannot be used here.
    """
    data = config.data
    tokeniser = tokeniser_get(data.tokeniser)
    splits: dict[str, list[Dialogue]] = {"train": [], "validation": [], "test": []}
    training_dialogues: list[Dialogue] = []
    digest = hashlib.sha256()
    for corpus in data.corpora:
        dialogues = [_cut_sentences(d, data, tokeniser) for d in _read(config, corpus).dialogues]
        parts = dialogues_split(dialogues, validation=data.validation, test=data.test, seed=data.split_seed)
        parts = replace(parts, train=tuple(nested_share(parts.train, data.share, derive_seed(config.seed, "share"))))
        training_dialogues += parts.train
        for name, split_dialogues in splits.items():
            part = list(getattr(parts, name))
            split_dialogues += part * (corpus.repeat if name == "train" else 1)
            for dialogue in part:
                digest.update(canonical_json([name, *dialogue.turns]).encode())
        digest.update(str(corpus.repeat).encode())
    # Words are counted once, regardless of `repeat`.
    vocabulary = Vocabulary.build(
        (tokeniser.tokenise(turn) for d in training_dialogues for turn in d.turns), data.max_words, data.min_count
    )
    windows = {
        name: _windows(split_dialogues, name, vocabulary, tokeniser, data) for name, split_dialogues in splits.items()
    }
    targets = None
    if config.ei is not None:
        held_out_texts = [*windows["validation"].texts, *windows["test"].texts]
        emotion, sentence = config.ei.encoders(config.folder, device)
        targets = targets_make(
            windows["train"].texts, held_out_texts, emotion=emotion, sentence=sentence, variance=config.ei.variance
        )
    return TrainingData(
        config=data,
        vocabulary=vocabulary,
        tokeniser=tokeniser,
        **windows,
        test_dialogues=tuple(splits["test"]),
        targets=targets,
        reads_targets=config.ei is not None and config.ei.input_only,
        digest=digest.hexdigest()[:16],
        n_dialogues={"train": len(training_dialogues), **{n: len(splits[n]) for n in ("validation", "test")}},
    )


def _read(config: TrainingConfig, corpus: CorpusConfig) -> Corpus:
    path = EVERYDAY_FOLDER if corpus.path == EVERYDAY else config.corpus_path(corpus)
    dialogue_corpus = corpus_read(corpus.format, path)
    if not dialogue_corpus.dialogues:
        raise CorpusError(f"the corpus {corpus.path!r} is empty: {path} contains no dialogue")
    return dialogue_corpus


def _windows(
    dialogues: Sequence[Dialogue], split: str, vocabulary: Vocabulary, tokeniser: Tokeniser, data: DataConfig
) -> Windows:
    windows = windows_make(
        dialogues, vocabulary, tokeniser, n_utterances=data.n_utterances, mode=data.windows, max_tokens=data.max_tokens
    )
    if not windows.n_targets:
        raise CorpusError(
            f"the {split} split of {len(dialogues)} dialogues has no reply to learn; add dialogues of at least two "
            "utterances"
        )
    return windows


def _cut_sentences(dialogue: Dialogue, data: DataConfig, tokeniser: Tokeniser) -> Dialogue:
    """Cut utterances after the last sentence that fits, if configured."""
    if not data.whole_sentences:
        return dialogue
    turns = (sentences_fit(turn, data.max_tokens - 1, tokeniser) for turn in dialogue.turns)
    return replace(dialogue, turns=tuple(turns))


def sentences_fit(text: str, n_tokens: int, tokeniser: Tokeniser) -> str:
    """Return the first sentences with up to `n_tokens` words, at least one."""
    sentences: list[str] = []
    n = 0
    for sentence in _SENTENCE_END.split(text):
        n += len(tokeniser.tokenise(sentence))
        if sentences and n > n_tokens:
            break
        sentences.append(sentence)
    return " ".join(sentences)
