"""Emotion and sentiment of texts: encoders, valence weights, VADER.

The default is Confab's own head on the sentence encoder MiniLM, trained on GoEmotions (Demszky et al. 2020,
"GoEmotions", ACL; 27 emotions and neutral). It is shipped in `emotion_head/` with its model card, `CARD.md`, which
gives the training command. It replaces the DeepMoji of Ghandeharioun et al. (2019) (`deepmoji.py`): its rows sum to 1
like DeepMoji's softmax over 64 emoji, so cosine, cross-entropy and Σ_k w_k p_k mean the same for both.

The head reads MiniLM's vectors, so it costs almost nothing for callers who already have them (`from_embeddings`). It
runs in NumPy without torch.

`VALENCE` contains the weights w_k of the sentiment score. Ghandeharioun et al. weight DeepMoji's 64 emoji by hand
(fact sheet section 1.1); these are the weights for the categories of GoEmotions. We assigned them once from the
category definitions, in steps of 0.1, without fitting them to data. They follow the circumplex of affect (Russell
1980): positive for pleasant, negative for unpleasant, with a size that reflects the certainty and strength of the
valence regardless of arousal.

VADER's compound score is lexicon-based sentiment: Hutto and Gilbert (2014), "VADER: A Parsimonious Rule-based Model
for Sentiment Analysis of Social Media Text", ICWSM, computed with their package `vaderSentiment`. One deviation: VADER
recognises negations only with a straight apostrophe ("don't"), but phones type a curly one ("don’t"). Curly
apostrophes are therefore straightened first; otherwise "I don’t like it" would count as praise.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from chatbots.encoders.sentence import EncoderError, Provenance, SentenceEncoder, sentence_encoder
from chatbots.identity import Identity
from chatbots.installation import package_version

VALENCE: dict[str, tuple[float, str]] = {
    "admiration": (0.8, "praise for a person or thing"),
    "amusement": (0.7, "enjoyment, though sometimes at another's expense"),
    "anger": (-0.9, "strong displeasure directed at a person"),
    "annoyance": (-0.6, "mild anger"),
    "approval": (0.5, "a favourable opinion, often mere agreement"),
    "caring": (0.5, "kindness, often towards a person in trouble"),
    "confusion": (-0.3, "slightly unpleasant; in a chat, a complaint"),
    "curiosity": (0.2, "interest, slightly pleasant"),
    "desire": (0.3, "thinking of something pleasant without having it"),
    "disappointment": (-0.7, "a failed hope"),
    "disapproval": (-0.6, "an unfavourable opinion, more heated than approval"),
    "disgust": (-0.9, "revulsion, as strong as anger"),
    "embarrassment": (-0.5, "unpleasant, but often recounted with a smile"),
    "excitement": (0.8, "joy with high arousal, sometimes uneasy"),
    "fear": (-0.8, "strongly unpleasant"),
    "gratitude": (0.9, "thanks for something good"),
    "grief": (-1.0, "the most unpleasant category: a death or a great loss"),
    "joy": (1.0, "pleasure itself"),
    "love": (1.0, "pleasure in a person or thing"),
    "nervousness": (-0.5, "mild fear"),
    "optimism": (0.6, "expecting something good that has not happened yet"),
    "pride": (0.7, "pleasure in one's own achievement"),
    "realization": (0.0, "becoming aware of something, good or bad"),
    "relief": (0.5, "pleasant, but the trouble is still in mind"),
    "remorse": (-0.6, "regret for one's own actions, softened by apology"),
    "sadness": (-0.8, "unpleasant with low arousal; milder than grief"),
    "surprise": (0.0, "pleasant as often as unpleasant"),
    "neutral": (0.0, "no emotion"),
}
"""Weight and reason per category, in the order of the head's outputs."""

LABELS: tuple[str, ...] = tuple(VALENCE)
"""The 28 categories in order: alphabetical, neutral last, as GoEmotions numbers them."""


def valence_weights() -> np.ndarray:
    """Return the valence weights, (28,) float32 in [-1, 1], in label order."""
    return np.array([weight for weight, _ in VALENCE.values()], dtype=np.float32)


EMOTION_HEAD_FOLDER = Path(__file__).parent / "emotion_head"
"""Folder of the shipped head."""
WEIGHTS_FILE, MANIFEST_FILE = "head.safetensors", "manifest.json"


class EmotionEncoder(Protocol):
    """Protocol of emotion encoders; all methods may be called from any thread."""

    @property
    def identity(self) -> Identity:
        """Identity of the encoder that made the distributions; known without loading weights."""
        ...

    @property
    def provenance(self) -> Provenance:
        """Licence and source of the weights, and how to fetch them."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """The K emotions, in the order of the columns."""
        ...

    @property
    def weights(self) -> np.ndarray:
        """(K,) float32 valence of each emotion, in [-1, 1]."""
        ...

    def unavailable_reason(self) -> str | None:
        """Explain why the encoder cannot be used here, or return None.

        Cheap: loads nothing.
        """
        ...

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Predict the emotions of texts; equal texts are encoded once.

        Returns:
            (N, K) float32, each row a distribution: no entry below 0, sum 1. No text gives (0, K).

        Raises:
            EncoderError: the encoder cannot be used here.
        """
        ...

    def sentiment(self, p: np.ndarray) -> np.ndarray:
        """Return Σ_k w_k p_k of each row: (N, K) to (N,) in [-1, 1]."""
        ...


def sentiment_of(p: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sentiment Σ_k w_k p_k of each row, (N,) float32.

    Raises:
        ValueError: the number of columns of `p` differs from the number of weights.
    """
    if p.ndim != 2 or p.shape[1] != len(weights):
        raise ValueError(f"emotions have shape {p.shape}; they must be (N, {len(weights)})")
    return np.asarray(p @ weights, dtype=np.float32)


class EmotionHead:
    """Small network on sentence vectors that predicts GoEmotions' 28 categories.

    Args:
        folder: folder of the head's weights and manifest; the shipped one by default.
        sentence: the sentence encoder that it reads, MiniLM.
    """

    def __init__(self, folder: Path | str = EMOTION_HEAD_FOLDER, sentence: SentenceEncoder | None = None) -> None:
        self.folder = Path(folder)
        self.sentence = sentence if sentence is not None else sentence_encoder()
        self._arrays: dict[str, np.ndarray] | None = None
        self._lock = threading.Lock()

    @property
    def manifest(self) -> dict[str, Any]:
        """Manifest written by the training: digest, labels, thresholds and quality figures."""
        return _manifest(self.folder, (self.folder / MANIFEST_FILE).stat().st_mtime_ns)

    @property
    def identity(self) -> Identity:
        return Identity(
            "emotion_head",
            "1",
            {
                "weights": self.manifest["sha256"],
                "encoder": self.sentence.identity.as_dict(),
                "valence": {label: weight for label, (weight, _) in VALENCE.items()},
            },
        )

    @property
    def provenance(self) -> Provenance:
        return Provenance(
            licence="Apache-2.0 (trained on GoEmotions, Apache-2.0, over all-MiniLM-L6-v2, Apache-2.0)",
            source="this project: chatbots/encoders/emotion_head/CARD.md",
            fetch="included in the project",
        )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.manifest["labels"])

    @property
    def weights(self) -> np.ndarray:
        return valence_weights()

    @property
    def thresholds(self) -> np.ndarray:
        """(28,) minimum share of a present emotion, chosen on the validation part."""
        return np.array(list(self.manifest["thresholds"].values()), dtype=np.float32)

    def unavailable_reason(self) -> str | None:
        for name in (MANIFEST_FILE, WEIGHTS_FILE):
            if not (self.folder / name).is_file():
                return f"{self.folder} has no {name}; train it again with `manage.py train_emotion`"
        identity = self.sentence.identity
        files = identity.params.get("files", {})
        if self.manifest["encoder"]["files"].items() - files.items():
            return (
                f"the head was trained on {self.manifest['encoder']['model']}, but the sentence encoder "
                f"{identity.params.get('model', identity.name)!r} has other files"
            )
        return self.sentence.unavailable_reason()

    def load(self) -> None:
        """Read the weights. Safe to call again.

        The sentence encoder loads on first use.

        Raises:
            EncoderError: the weights are missing or do not match the manifest.
        """
        with self._lock:
            if self._arrays is None:
                self._arrays = self._read()

    def _read(self) -> dict[str, np.ndarray]:
        from safetensors.numpy import load

        reason = self.unavailable_reason()
        if reason is not None:
            raise EncoderError(f"emotion head: {reason}")
        data = (self.folder / WEIGHTS_FILE).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest != self.manifest["sha256"]:
            raise EncoderError(
                f"{self.folder / WEIGHTS_FILE} is not the file of its manifest: its SHA-256 is {digest}, "
                f"expected {self.manifest['sha256']}"
            )
        return {name: array.astype(np.float32) for name, array in load(data).items()}

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.load()
        return self.from_embeddings(self.sentence.encode(texts))

    def from_embeddings(self, embeddings: np.ndarray) -> np.ndarray:
        """Predict the emotions of texts from their MiniLM vectors.

        Args:
            embeddings: (N, 384) unit rows from the sentence encoder.

        Returns:
            (N, 28) float32, each row a distribution.

        Raises:
            ValueError: the vectors have another shape.
            EncoderError: the head cannot be used here.
        """
        self.load()
        w = self._arrays or {}
        x = np.asarray(embeddings, dtype=np.float32)
        width = w["hidden.weight"].shape[1]
        if x.ndim != 2 or x.shape[1] != width:
            raise ValueError(f"sentence vectors have shape {x.shape}; they must be (N, {width})")
        return head_forward(x, w)

    def sentiment(self, p: np.ndarray) -> np.ndarray:
        return sentiment_of(p, self.weights)


def head_forward(x: np.ndarray, w: Mapping[str, np.ndarray]) -> np.ndarray:
    """Compute softmax(W₂ relu(W₁ x + b₁) + b₂): (N, K) float32 probabilities.

    Args:
        x: (N, D) sentence vectors.
        w: the head's weights by name: `hidden.weight` (H, D), `output.weight` (K, H) and their biases.
    """
    hidden = np.maximum(x @ w["hidden.weight"].T + w["hidden.bias"], 0)  # (N, H)
    scores = hidden @ w["output.weight"].T + w["output.bias"]  # (N, K)
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True), dtype=np.float32)


@lru_cache(maxsize=8)
def emotion_encoder(device: str = "cpu") -> EmotionHead:
    """Return the default emotion encoder, shared by this process's bots and metrics.

    Args:
        device: device of the sentence encoder; the head itself is NumPy.
    """
    return EmotionHead(sentence=sentence_encoder(device))


@lru_cache(maxsize=8)
def _manifest(folder: Path, mtime_ns: int) -> dict[str, Any]:
    """Read the manifest; the modification time is part of the cache key."""
    return dict(json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8")))


_CURLY = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})
_lock = threading.Lock()


@lru_cache(maxsize=1)
def _analyser() -> Any:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    class Analyser(SentimentIntensityAnalyzer):  # type: ignore[misc]
        """VADER with faster versions of the two rules that lower-case the text.

        VADER applies them to the whole text for each word. They use at most three words before and two after it,
        so passing only these gives the same scores, and a text of 10,000 words no longer takes seconds.
        """

        @staticmethod
        def _negation_check(valence: float, words: list[str], start_i: int, i: int) -> float:
            first = max(0, i - 3)
            adjusted = SentimentIntensityAnalyzer._negation_check(valence, words[first : i + 1], start_i, i - first)
            return float(adjusted)

        @staticmethod
        def _special_idioms_check(valence: float, words: list[str], i: int) -> float:
            first = max(0, i - 3)
            adjusted = SentimentIntensityAnalyzer._special_idioms_check(valence, words[first : i + 3], i - first)
            return float(adjusted)

    return Analyser()


def vader_identity() -> Identity:
    """Return the identity of the scores: package version and treatment of apostrophes."""
    return Identity("vader", "1", {"vaderSentiment": package_version("vaderSentiment"), "apostrophes": "straight"})


def vader_scores(texts: Sequence[str]) -> np.ndarray:
    """Compute VADER's compound sentiment of each text.

    Returns:
        (N,) float64 in [-1, 1]; 0 is neutral, also for a text without words. Equal texts are scored once.
    """
    return vader_details(texts)[:, 0]


def vader_details(texts: Sequence[str]) -> np.ndarray:
    """Compute VADER's compound sentiment and negative, neutral and positive shares.

    Returns:
        (N, 4) float64: compound in [-1, 1] as in `vader_scores`, then the three proportions, which sum to about 1
        (VADER rounds to three digits), or are all 0 for a text without words.
    """
    with _lock:
        analyser = _analyser()
    details: dict[str, tuple[float, float, float, float]] = {}
    for text in texts:
        if text not in details:
            scores = analyser.polarity_scores(text.translate(_CURLY))
            details[text] = (scores["compound"], scores["neg"], scores["neu"], scores["pos"])
    return np.array([details[text] for text in texts], dtype=np.float64).reshape(-1, 4)
