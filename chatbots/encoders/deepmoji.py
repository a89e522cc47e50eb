"""DeepMoji: a distribution over 64 emoji for a text, the emotion encoder of Ghandeharioun et al. (2019).

Fact sheet section 1.1. The weights are published by Hugging Face's port torchMoji and not shipped; without
them `emotion.py` serves in its place. Words: `deepmoji_words.py`; network: `chatbots/models/deepmoji.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chatbots.devices import rows_that_fit
from chatbots.encoders.deepmoji_words import MAX_WORDS, vocabulary_read, word_ids
from chatbots.encoders.emotion import sentiment_of
from chatbots.encoders.provenance import Provenance
from chatbots.encoders.sentence import EncoderError
from chatbots.encoders.weights import file_sha256, weights_read
from chatbots.identity import Identity

_TABLE = """
    joy 0  unamused -1  weary 0  sob 0
    heart_eyes 0.75  pensive 0  ok_hand 1  blush 0.75
    heart 0  smirk 0.5  grin 0.75  notes 0
    flushed 0  100 0.75  sleeping -0.5  relieved 0.5
    relaxed 0.5  raised_hands 0  two_hearts 0.5  expressionless -0.5
    sweat_smile 0  pray 0  confused -0.75  kissing_heart 1
    heartbeat 0.5  neutral_face -0.75  information_desk_person 0  disappointed -0.5
    see_no_evil 0  tired_face 0  v 0  sunglasses 0.5
    rage -1  thumbsup 1  cry 0  sleepy 0
    yum 0  triumph -0.75  hand 0  mask 0
    clap 0  eyes -0.5  gun 0  persevere 0
    smiling_imp 0  sweat 0  broken_heart 0  yellow_heart 0.5
    musical_note 0  speak_no_evil 0  wink 0.75  skull 0
    confounded -0.75  smile 1  stuck_out_tongue_winking_eye 0.5  angry -1
    no_good 0  muscle 0.75  facepunch 0  purple_heart 0
    sparkling_heart 0  blue_heart 0.5  grimacing -0.5  sparkles 0
"""
_CELLS = _TABLE.split()
EMOJI: dict[str, float] = dict(zip(_CELLS[::2], map(float, _CELLS[1::2]), strict=True))
"""The emoji in the order of the outputs, with the sentiment weights of the 2019 code. The list of names that
torchMoji ships has other names at 24, 36, 38, 44, 47, 48 and 58; the weights are meant for these."""


class DeepMojiEncoder:
    """DeepMoji with the published weights, where a researcher has them.

    Args:
        weights: torchMoji's `pytorch_model.bin`, or the same tensors as `.safetensors`.
        vocabulary: torchMoji's `vocabulary.json`, plain or gzip.
        device: where it runs.
    """

    def __init__(self, weights: Path | str, vocabulary: Path | str, device: str = "cpu") -> None:
        self.weights_path, self.vocabulary_path = Path(weights), Path(vocabulary)
        self.device = device
        self._model: Any = None
        self._vocabulary: dict[str, int] = {}
        self._lock = threading.RLock()

    @property
    def identity(self) -> Identity:
        return Identity(
            "deepmoji",
            "1",
            {
                "weights": file_sha256(self.weights_path),
                "vocabulary": file_sha256(self.vocabulary_path),
                "valence": EMOJI,
            },
        )

    @property
    def provenance(self) -> Provenance:
        return Provenance(
            licence="MIT",
            source="torchMoji (Hugging Face), a port of DeepMoji by Felbo et al. (2017)",
            fetch="git clone https://github.com/huggingface/torchMoji; model/vocabulary.json is in it, and "
            "its scripts/download_weights.py says where model/pytorch_model.bin is",
        )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(EMOJI)

    @property
    def weights(self) -> np.ndarray:
        """(64,) float32: 31 of them not 0."""
        return np.array(list(EMOJI.values()), dtype=np.float32)

    def unavailable_reason(self) -> str | None:
        for path in (self.weights_path, self.vocabulary_path):
            if not path.is_file():
                return f"there is no file {path}; to have it: {self.provenance.fetch}"
        return None

    def load(self) -> None:
        """Read weights and vocabulary; safe to call again.

        Raises:
            EncoderError: if they are not here or do not fit each other.
        """
        with self._lock:
            if self._model is not None:
                return
            reason = self.unavailable_reason()
            if reason is not None:
                raise EncoderError(f"DeepMoji: {reason}")
            self._vocabulary = vocabulary_read(self.vocabulary_path)
            state = weights_read(self.weights_path)
            from chatbots.models.deepmoji import deepmoji_from_state

            try:
                model: Any = deepmoji_from_state(state)
            except (KeyError, RuntimeError) as error:
                raise EncoderError(
                    f"{self.weights_path} does not hold DeepMoji in torchMoji's layout: {error}"
                ) from error
            if len(model.output_layer[0].bias) != len(EMOJI):
                raise EncoderError(
                    f"{self.weights_path} tells {len(model.output_layer[0].bias)} classes apart; DeepMoji's "
                    f"are {len(EMOJI)} emoji"
                )
            if model.embed.num_embeddings != len(self._vocabulary):
                raise EncoderError(
                    f"{self.weights_path} knows {model.embed.num_embeddings} words, {self.vocabulary_path} "
                    f"{len(self._vocabulary)}; they belong to different models"
                )
            self._model = model.to(self.device).eval()

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Predict the emoji of texts; equal texts are encoded once.

        The published torchMoji stops at a text without a token. Here such a text's row is uniform, 1/64 each, as
        in the data sets of 2019.

        Returns:
            (N, 64) float32, each row a distribution.
        """
        import torch

        with self._lock:
            self.load()
            place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
            ids = [word_ids(text, self._vocabulary) for text in place]
            found = np.full((len(ids), len(EMOJI)), 1 / len(EMOJI), dtype=np.float32)
            # Texts of a like length together: no step is spent on padding.
            rows = sorted((i for i, words in enumerate(ids) if words), key=lambda i: len(ids[i]))
            n_rows = rows_that_fit(self.device, self._row_bytes())
            for start in range(0, len(rows), n_rows):
                batch = rows[start : start + n_rows]
                padded = np.zeros((len(batch), len(ids[batch[-1]])), dtype=np.int64)
                for row, i in enumerate(batch):
                    padded[row, : len(ids[i])] = ids[i]
                with torch.inference_mode():
                    scores = self._model(torch.from_numpy(padded).to(self.device))
                    found[batch] = scores.softmax(dim=1).cpu().numpy()
        return found[[place[text] for text in texts]]

    def _row_bytes(self) -> int:
        """Return the bytes of memory that the longest text takes."""
        return 4 * MAX_WORDS * 2 * 2 * 5 * int(self._model.lstm_0.H)

    def sentiment(self, p: np.ndarray) -> np.ndarray:
        return sentiment_of(p, self.weights)
