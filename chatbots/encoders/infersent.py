"""InferSent, the sentence encoder of Ghandeharioun et al. (2019), with 4,096 dimensions.

Fact sheet section 1.3; Conneau et al. (2017). Version 1 reads GloVe vectors, version 2 fastText's. Facebook and
Stanford publish weights and vectors; Confab does not ship them and uses `sentence.py` without them.
Network: `chatbots/models/published_encoders.py`; vectors: `published_files.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from chatbots.devices import rows_that_fit
from chatbots.encoders.published_files import FileVectors, VectorFormat, VectorTable, file_sha256, weights_read
from chatbots.encoders.sentence import EncoderError, Provenance
from chatbots.identity import Identity
from chatbots.installation import package_version
from chatbots.text import quote

COMPAT_BATCH = 64
COMPAT_ROWS = 100_000
"""Batch size, and number of word vectors, of the 2019 code."""


@dataclass(frozen=True, slots=True)
class _Version:
    begin: str
    end: str
    vectors: VectorFormat


_VERSIONS = {1: _Version("<s>", "</s>", "glove"), 2: _Version("<p>", "</p>", "fasttext")}


class InferSentEncoder:
    """InferSent with the published weights, a `SentenceEncoder`.

    Args:
        weights: `infersent1.pkl` or `infersent2.pkl`, or the same tensors as `.safetensors`.
        vectors: GloVe's or fastText's file, unpacked.
        version: 1 or 2.
        rows: number of most frequent word vectors to use; None for all that the texts need.
        normalise: scale rows to length 1, as every `SentenceEncoder` does; false for the raw vectors from which the
            paper computes its EI targets.
        compat: include the batch's padding in version 1's maximum, as the 2019 code does. A vector then depends on the
            other texts of its batch of 64, sorted by length.
    """

    def __init__(
        self,
        weights: Path | str,
        vectors: Path | str,
        version: Literal[1, 2] = 1,
        *,
        rows: int | None = COMPAT_ROWS,
        normalise: bool = True,
        compat: bool = False,
        device: str = "cpu",
    ) -> None:
        if version not in _VERSIONS:
            raise ValueError(f"InferSent's version is {quote(version)}; it must be 1 or 2")
        if compat and version == 2:
            raise ValueError("compat is only for version 1; version 2 excludes padding from the maximum")
        self.version, self.rows = version, rows
        self.normalise, self.compat = normalise, compat
        self.weights_path = Path(weights)
        self.device = device
        self._is = _VERSIONS[version]
        self._vectors = FileVectors(vectors, self._is.vectors)
        self._frequent: VectorTable | None = None
        self._model: Any = None
        self._lock = threading.RLock()

    @property
    def identity(self) -> Identity:
        return Identity(
            f"infersent{self.version}{'_compat' if self.compat else ''}",
            "1",
            {
                "weights": file_sha256(self.weights_path),
                "vectors": self._vectors.identity.as_dict(),
                "rows": self.rows,
                "normalised": self.normalise,
                "padding": "takes part in the maximum" if self.compat else "left out of the maximum",
                "tokenizer": f"NLTKWordTokenizer {package_version('nltk')}",
            },
        )

    @property
    def provenance(self) -> Provenance:
        return Provenance(
            licence="CC-BY-NC-4.0 (weights and code); word vectors: " + self._vectors.provenance.licence,
            source="https://github.com/facebookresearch/InferSent",
            fetch=f"its README gives the address of infersent{self.version}.pkl; word vectors: "
            + self._vectors.provenance.fetch,
        )

    def unavailable_reason(self) -> str | None:
        if not self.weights_path.is_file():
            return f"there is no file {self.weights_path}; to get it: {self.provenance.fetch}"
        return self._vectors.unavailable_reason()

    def load(self) -> None:
        """Read the weights; safe to call again.

        Raises:
            EncoderError: weights or vectors are missing or have another format.
        """
        with self._lock:
            if self._model is not None:
                return
            reason = self.unavailable_reason()
            if reason is not None:
                raise EncoderError(f"InferSent {self.version}: {reason}")
            state = weights_read(self.weights_path)
            from chatbots.models.published_encoders import infersent_from_state

            try:
                model = infersent_from_state(state, compat_padding=self.compat)
            except (KeyError, RuntimeError) as error:
                raise EncoderError(
                    f"{self.weights_path} does not contain InferSent in its published layout: {error}"
                ) from error
            self._model = model.to(self.device).eval()

    def words(self, text: str) -> list[str]:
        """Return a text's tokens between the version's markers.

        The tokens are NLTK's words with their case kept; version 2 moves the n of "n't", which brings them closer to
        Moses. The published code first splits sentences, which needs a download. Without this step only full stops
        inside a text of several sentences are treated differently.
        """
        from nltk.tokenize import NLTKWordTokenizer

        tokens = NLTKWordTokenizer().tokenize(text)
        if self.version == 2:
            tokens = " ".join(tokens).replace(" n't ", "n 't ").split()
        return [self._is.begin, *tokens, self._is.end]

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts; equal texts are encoded once, except with `compat`.

        Words without a vector are skipped; if no word is left, only the end marker is encoded.

        Returns:
            (N, 4096) float32, with rows of length 1 if `normalise` is set.

        Raises:
            EncoderError: the encoder cannot be used here.
        """
        import torch

        with self._lock:
            self.load()
            # In the 2019 code padding changes the vectors, so batches must include repeated texts.
            distinct = list(texts) if self.compat else list(dict.fromkeys(texts))
            place = {text: i for i, text in enumerate(distinct)}
            table = self._table(tokens := [self.words(text) for text in distinct])
            known = [[word for word in words if word in table] for words in tokens]
            lengths = np.array([max(1, len(words)) for words in known])
            embeddings = np.zeros((len(known), 2 * self._model.enc_lstm.hidden_size), dtype=np.float32)
            order = np.argsort(-lengths, kind="stable")
            n_rows = COMPAT_BATCH if self.compat else self._n_rows(lengths)
            for start in range(0, len(order), n_rows):
                batch = order[start : start + n_rows]
                x = np.zeros((len(batch), lengths[batch[0]], self._model.enc_lstm.input_size), np.float32)
                for row, i in enumerate(batch):
                    x[row, : lengths[i]] = table.matrix(known[i] or [self._end_of(table)])
                with torch.inference_mode():
                    vectors = self._model(torch.from_numpy(x).to(self.device), torch.from_numpy(lengths[batch]))
                embeddings[batch] = vectors.cpu().numpy()
        if self.normalise:
            embeddings /= np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return embeddings if self.compat else embeddings[[place[text] for text in texts]]

    def _n_rows(self, lengths: np.ndarray) -> int:
        """Return the number of texts per batch.

        Each word needs memory for the states and gates of both directions.
        """
        states = 5 * 2 * self._model.enc_lstm.hidden_size
        return rows_that_fit(self.device, 4 * states * int(lengths.max(initial=1)))

    def _table(self, tokens: Sequence[Sequence[str]]) -> VectorTable:
        """Return the vectors that these tokens may use."""
        markers = {self._is.begin, self._is.end}
        if self.rows is None:
            table = self._vectors.table(words=markers.union(*tokens))
        elif self._frequent is None:
            table = self._frequent = self._vectors.table(words=markers, first=self.rows)
        else:
            return self._frequent
        if len(table) and table.dimension != self._model.enc_lstm.input_size:
            raise EncoderError(
                f"{self._vectors.path} has {table.dimension} dimensions; {self.weights_path} was trained on "
                f"{self._model.enc_lstm.input_size}"
            )
        return table

    def _end_of(self, table: VectorTable) -> str:
        if self._is.end not in table:
            raise EncoderError(
                f"{self._vectors.path} has no vector for {self._is.end}, which stands for a text without known words"
            )
        return self._is.end
