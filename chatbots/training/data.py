"""From the corpora of a config to windows of token ids: read, split, cut, counted, once per training."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from chatbots.corpora.formats import corpus_read
from chatbots.corpora.reader import EVERYDAY as EVERYDAY_FOLDER
from chatbots.corpora.reader import Corpus, CorpusError, Dialogue
from chatbots.corpora.split import dialogues_split
from chatbots.corpora.text import Tokeniser, tokeniser_get
from chatbots.corpora.vocabulary import Vocabulary
from chatbots.corpora.windows import Windows, windows_make
from chatbots.identity import canonical_json
from chatbots.models.batch import DialogueBatch
from chatbots.training.config import EVERYDAY, CorpusConfig, DataConfig, TrainingConfig
from chatbots.training.targets import EITargets, targets_make

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+")


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Data of a training.

    Attributes:
        config: of the data.
        train, validation, test: windows of each split.
        test_dialogues: the test dialogues, for first replies.
        targets: of all their texts, or None without EI.
        reads_targets: whether a model generates with them (the input-only ablation).
        digest: 16 hexadecimal digits of all dialogues, as split.
        n_dialogues: by split.
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

    def first_exchanges(self, most: int = 0) -> list[tuple[str, str]]:
        """Return the first and second utterance of the test dialogues, of the first `most` of them (0: of all)."""
        pairs = [(d.turns[0], d.turns[1]) for d in self.test_dialogues if len(d.turns) > 1]
        return pairs[:most] if most else pairs

    def contexts(self, conversations: Sequence[Sequence[str]]) -> DialogueBatch:
        """Make a batch of conversations to be answered, with the targets of utterances where the model reads them."""
        ids = [
            [self.vocabulary.ids(self.tokeniser.tokenise(text)) for text in texts]
            for texts in conversations
        ]
        batch = partial(DialogueBatch.from_ids, ids, max_tokens=self.config.max_tokens)
        if not self.reads_targets or self.targets is None:
            return batch()
        targets = self.targets

        def of(values: np.ndarray, texts: Sequence[str]) -> torch.Tensor:
            return torch.from_numpy(values[[targets.row[text] for text in texts]])

        return batch(
            emotion=[of(targets.emotion, texts) for texts in conversations],
            sentence=[of(targets.sentence, texts) for texts in conversations],
        )


def data_prepare(config: TrainingConfig, device: str = "cpu") -> TrainingData:
    """Read and prepare everything.

    Args:
        device: where the encoders of the EI targets compute.

    Raises:
        CorpusError: a corpus that cannot be read, or that leaves a split without a reply.
        VocabularyError: no word is frequent enough.
        EncoderError: an encoder for the EI targets cannot be used here.
    """
    data = config.data
    tokeniser = tokeniser_get(data.tokeniser)
    splits: dict[str, list[Dialogue]] = {"train": [], "validation": [], "test": []}
    kept: list[Dialogue] = []
    digest = hashlib.sha256()
    for corpus in data.corpora:
        dialogues = [_cut(d, data, tokeniser) for d in _read(config, corpus).dialogues]
        parts = dialogues_split(
            dialogues, validation=data.validation, test=data.test, seed=data.split_seed
        )
        kept += parts.train
        for name, found in splits.items():
            part = list(getattr(parts, name))
            found += part * (corpus.repeat if name == "train" else 1)
            for dialogue in part:
                digest.update(canonical_json([name, *dialogue.turns]).encode())
        digest.update(str(corpus.repeat).encode())
    # Words are counted once, however often a corpus is read.
    vocabulary = Vocabulary.build(
        (tokeniser.tokenise(turn) for d in kept for turn in d.turns), data.max_words, data.min_count
    )
    windows = {
        name: _windows(found, name, vocabulary, tokeniser, data) for name, found in splits.items()
    }
    targets = None
    if config.ei is not None:
        others = [*windows["validation"].texts, *windows["test"].texts]
        emotion, sentence = config.ei.encoders(config.folder, device)
        targets = targets_make(
            windows["train"].texts,
            others,
            emotion=emotion,
            sentence=sentence,
            variance=config.ei.variance,
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
        n_dialogues={"train": len(kept), **{n: len(splits[n]) for n in ("validation", "test")}},
    )


def _read(config: TrainingConfig, corpus: CorpusConfig) -> Corpus:
    path = EVERYDAY_FOLDER if corpus.path == EVERYDAY else config.corpus_path(corpus)
    found = corpus_read(corpus.format, path)
    if not found.dialogues:
        raise CorpusError(f"the corpus {corpus.path!r} is empty: {path} holds no dialogue")
    return found


def _windows(
    dialogues: Sequence[Dialogue],
    split: str,
    vocabulary: Vocabulary,
    tokeniser: Tokeniser,
    data: DataConfig,
) -> Windows:
    windows = windows_make(
        dialogues,
        vocabulary,
        tokeniser,
        n_utterances=data.n_utterances,
        mode=data.windows,
        max_tokens=data.max_tokens,
    )
    if not windows.n_targets:
        raise CorpusError(
            f"the {split} split of {len(dialogues)} dialogues has no reply to learn; give more dialogues of "
            "two utterances or more"
        )
    return windows


def _cut(dialogue: Dialogue, data: DataConfig, tokeniser: Tokeniser) -> Dialogue:
    """Cut utterances after the last sentence that fits, if the config says so."""
    if not data.whole_sentences:
        return dialogue
    turns = (sentences_fit(turn, data.max_tokens - 1, tokeniser) for turn in dialogue.turns)
    return replace(dialogue, turns=tuple(turns))


def sentences_fit(text: str, n_tokens: int, tokeniser: Tokeniser) -> str:
    """Return the first sentences of a text that have at most `n_tokens` words together; at least the first one."""
    kept: list[str] = []
    n = 0
    for sentence in _SENTENCE_END.split(text):
        n += len(tokeniser.tokenise(sentence))
        if kept and n > n_tokens:
            break
        kept.append(sentence)
    return " ".join(kept)
