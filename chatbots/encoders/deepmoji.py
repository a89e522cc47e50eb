"""DeepMoji: emotion encoder that gives a distribution over 64 emoji.

Emotion encoder of Ghandeharioun et al. (2019), fact sheet section 1.1. Hugging Face's port torchMoji publishes the
weights; Confab does not ship them and uses `emotion.py` without them. Network: `chatbots/models/published_encoders.py`.

The conversion of text to word ids is our own code after Felbo et al. (2017) and torchMoji (MIT). Quirks of the port on
Python 3 are kept, because the published results depend on them:

- elongated words ("soooo") are not shortened, because a test for ASCII always fails;
- its pattern for emoji matches none of the pairs it was written for; an emoji is still one token, because any character
that no other pattern matches is a separate token;
- an e-mail address becomes the token of mentions, because it contains "@" and a word.

One deviation: the port converts symbols to ASCII with the package text-unidecode; a table here covers common
punctuation (quotes, dashes, opening marks). Rarer symbols are left unchanged and are unknown to the published
vocabulary, which is ASCII only.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chatbots.compressed_files import DAMAGE_ERRORS
from chatbots.devices import rows_that_fit
from chatbots.encoders.emotion import sentiment_of
from chatbots.encoders.published_files import file_sha256, weights_read
from chatbots.encoders.sentence import EncoderError, Provenance
from chatbots.identity import Identity

MASK, UNKNOWN, MENTION, URL, NUMBER, BREAK = (
    "CUSTOM_MASK",
    "CUSTOM_UNKNOWN",
    "CUSTOM_AT",
    "CUSTOM_URL",
    "CUSTOM_NUMBER",
    "CUSTOM_BREAK",
)
DEEPMOJI_SPECIAL_TOKENS = (MASK, UNKNOWN, MENTION, URL, NUMBER, BREAK, *(f"CUSTOM_BLANK_{i}" for i in range(6, 10)))
"""The first ten words of every vocabulary."""
MAX_WORDS = 30

_BREAKS = ("\\\\n", "\\n", "\n", "\\\\r", "\\r", "\r", "<br>")
"""Line breaks, including escaped ones, which occur in tweet data sets."""
_VARIATION_SELECTORS = dict.fromkeys(range(0xFE00, 0xFE10))
_PUNCTUATION = str.maketrans(
    {
        **dict.fromkeys("‘’‛′ʼʹˈ", "'"),
        **dict.fromkeys("“”‟", '"'),
        **dict.fromkeys("‐‒–−", "-"),
        **dict.fromkeys("—―", "--"),
        **dict.fromkeys("‚،", ","),
        **dict.fromkeys("¿؟", "?"),
        "„": ",,",
        "‹": "<",
        "›": ">",
        "«": "<<",
        "»": ">>",
        "¡": "!",
        "؛": ";",
    }
)
"""Applied after NFKC, which has already converted "…" to "..." and full-width signs to ASCII."""

_MENTION = r"@[a-zA-Z0-9_]+"
_URL = (
    r"(?:https?://|www\.)"
    r"(?:[a-zA-Z]|[0-9]|[$-_@.&+]|[!*\(\),]|(?:%[0-9a-fA-F][0-9a-fA-F]))+"
)


def _emoticons() -> str:
    """Return the pattern of an emoticon: eyes, optional nose and mouth.

    Nine other emoticons are listed.
    """
    faces = ["-_-", "x_x", "^_^", "o.o", "o_o", "(:", "):", ");", "(;"]
    eyes = "|".join(map(re.escape, (">:", ":", "=", ";")))
    mouths = "|".join(f"{re.escape(mouth)}+" for mouth in "DdpPv)oO(3/|\\")
    return "|".join(map(re.escape, faces)) + rf"|(?:{eyes})[-,^'\"]?(?:{mouths})"


_RUNS = "|".join(f"{re.escape(sign)}+" for sign in "()<!?.,/'\"-_=\\§|´ˇ°[]>{}~$^&*;:%+€`")
_KINDS = (  # most specific first
    _URL,
    r"\b[a-zA-Z0-9_.+-]+@[a-zA-Z0-9-]+\.[a-zA-Z0-9-.]+\b",  # e-mail addresses
    r"[a-zA-Z]+[-_][a-zA-Z]+",  # red-haired, CUSTOM_BREAK
    r"#[a-zA-Z0-9_]+",
    _MENTION,
    r"(?:<+/?3+)+",  # hearts, including broken ones
    _emoticons(),
    r"[a-zA-Z]+'[a-zA-Z]+",
    r"mr\.|ms\.|mrs\.|dr\.|prof\.",
    r"\b(?<!\.)(?:[A-Za-z]\.){2,}",  # abbreviations
    r"[0-9]+",
    r"[a-zA-Z]+",
    _RUNS,
    # "##name" becomes "#" and "#name".
    r"#+(?=#[a-zA-Z0-9_]+)|@+(?=@[a-zA-Z0-9_]+)|#+|@+",
    r".",
)
# Case-insensitive, because the port's flag in the pattern for titles applies to the whole pattern.
_TOKEN = re.compile(rf"\s+|({'|'.join(_KINDS)})", re.IGNORECASE)
_HAS_MENTION, _HAS_URL = re.compile(_MENTION), re.compile(_URL)


class DeepMojiVocabularyError(EncoderError, ValueError):
    """Error in a DeepMoji vocabulary; the message gives the reason."""


def deepmoji_words(text: str) -> list[str]:
    """Split a text into DeepMoji's words, in lower case.

    Numbers, mentions, links and line breaks each become a special word.
    """
    text = text.strip().lower()
    for sign in _BREAKS:
        text = text.replace(sign, f" {BREAK} ")
    text = text.translate(_VARIATION_SELECTORS)
    parts = (unicodedata.normalize("NFKC", part).translate(_PUNCTUATION) for part in text.split())
    tokens = _TOKEN.findall(" ".join(parts))
    return [_special(token) for token in tokens if token.strip()]


def _special(token: str) -> str:
    try:
        int(token)
    except ValueError:
        if _HAS_MENTION.search(token):
            return MENTION
        return URL if _HAS_URL.search(token) else token
    return NUMBER


def word_ids(text: str, vocabulary: Mapping[str, int], max_words: int = MAX_WORDS) -> list[int]:
    """Return the ids of a text's first `max_words` words.

    Unknown words have id 1.
    """
    return [vocabulary.get(word, 1) for word in deepmoji_words(text)[:max_words]]


def vocabulary_read(path: Path | str) -> dict[str, int]:
    """Read torchMoji's `vocabulary.json`, plain or gzip: word to id.

    The ten special words come first.

    Raises:
        DeepMojiVocabularyError: the file is not such a vocabulary.
    """
    path = Path(path)
    data = path.read_bytes()
    try:
        ids_by_word = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except DAMAGE_ERRORS as error:
        raise DeepMojiVocabularyError(f"{path} is not a JSON vocabulary: {error}") from error
    if not isinstance(ids_by_word, dict) or sorted(ids_by_word.values()) != list(range(len(ids_by_word))):
        raise DeepMojiVocabularyError(f"{path} must give each word a distinct id, from 0 without gaps")
    first = sorted(ids_by_word, key=ids_by_word.__getitem__)[: len(DEEPMOJI_SPECIAL_TOKENS)]
    if first[:6] != list(DEEPMOJI_SPECIAL_TOKENS[:6]):
        raise DeepMojiVocabularyError(
            f"{path} begins with {', '.join(map(str, first[:6]))}; DeepMoji's begins with "
            f"{', '.join(DEEPMOJI_SPECIAL_TOKENS[:6])}"
        )
    return {str(word): int(number) for word, number in ids_by_word.items()}


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
"""Emoji in the order of the outputs, with the sentiment weights of the 2019 code. torchMoji's own list has different
names at 24, 36, 38, 44, 47, 48 and 58; the weights belong to the emoji listed here."""


class DeepMojiEncoder:
    """DeepMoji with the published weights, which a researcher must provide.

    Args:
        weights: torchMoji's `pytorch_model.bin`, or the same tensors as `.safetensors`.
        vocabulary: torchMoji's `vocabulary.json`, plain or gzip.
        device: device that it runs on.
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
            fetch=(
                "git clone https://github.com/huggingface/torchMoji; model/vocabulary.json is included, and "
                "scripts/download_weights.py gives the address of model/pytorch_model.bin"
            ),
        )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(EMOJI)

    @property
    def weights(self) -> np.ndarray:
        """(64,) float32 valence weights, 31 of them not 0."""
        return np.array(list(EMOJI.values()), dtype=np.float32)

    def unavailable_reason(self) -> str | None:
        for path in (self.weights_path, self.vocabulary_path):
            if not path.is_file():
                return f"there is no file {path}; to get it: {self.provenance.fetch}"
        return None

    def load(self) -> None:
        """Read weights and vocabulary; safe to call again.

        Raises:
            EncoderError: a file is missing, or the files do not match.
        """
        with self._lock:
            if self._model is not None:
                return
            reason = self.unavailable_reason()
            if reason is not None:
                raise EncoderError(f"DeepMoji: {reason}")
            self._vocabulary = vocabulary_read(self.vocabulary_path)
            state = weights_read(self.weights_path)
            from chatbots.models.published_encoders import deepmoji_from_state

            try:
                model: Any = deepmoji_from_state(state)
            except (KeyError, RuntimeError) as error:
                raise EncoderError(
                    f"{self.weights_path} does not contain DeepMoji in torchMoji's layout: {error}"
                ) from error
            if len(model.output_layer[0].bias) != len(EMOJI):
                raise EncoderError(
                    f"{self.weights_path} has {len(model.output_layer[0].bias)} classes; DeepMoji has {len(EMOJI)} "
                    "emoji"
                )
            if model.embed.num_embeddings != len(self._vocabulary):
                raise EncoderError(
                    f"{self.weights_path} has {model.embed.num_embeddings} words, {self.vocabulary_path} has "
                    f"{len(self._vocabulary)}; they belong to different models"
                )
            self._model = model.to(self.device).eval()

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Predict the emoji of texts; equal texts are encoded once.

        The published torchMoji fails on a text without tokens. Here its row is uniform, 1/64 each, as in the data
        sets of 2019.

        Returns:
            (N, 64) float32, each row a distribution.
        """
        import torch

        with self._lock:
            self.load()
            place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
            ids = [word_ids(text, self._vocabulary) for text in place]
            distributions = np.full((len(ids), len(EMOJI)), 1 / len(EMOJI), dtype=np.float32)
            # Sort by length, to waste little time on padding.
            rows = sorted((i for i, words in enumerate(ids) if words), key=lambda i: len(ids[i]))
            n_rows = rows_that_fit(self.device, self._row_bytes())
            for start in range(0, len(rows), n_rows):
                batch = rows[start : start + n_rows]
                padded = np.zeros((len(batch), len(ids[batch[-1]])), dtype=np.int64)
                for row, i in enumerate(batch):
                    padded[row, : len(ids[i])] = ids[i]
                with torch.inference_mode():
                    scores = self._model(torch.from_numpy(padded).to(self.device))
                    distributions[batch] = scores.softmax(dim=1).cpu().numpy()
        return distributions[[place[text] for text in texts]]

    def _row_bytes(self) -> int:
        """Return the memory in bytes needed for the longest text."""
        return 4 * MAX_WORDS * 2 * 2 * 5 * int(self._model.lstm_0.H)

    def sentiment(self, p: np.ndarray) -> np.ndarray:
        return sentiment_of(p, self.weights)
