"""Valence of GoEmotions' categories: the weights of the sentiment score Σ_k w_k p_k.

Ghandeharioun et al. (2019) weigh DeepMoji's 64 emoji by hand for their sentiment (fact sheet section 1.1);
this is the same for the 27 emotions and neutral of Demszky et al. (2020), "GoEmotions", ACL. The numbers are
our own judgement, in steps of a tenth, made once from the category definitions of that paper and fitted to
no data. They follow the circumplex of affect (Russell 1980): pleasant above 0, unpleasant below, and the
size says how sure and how strong the pleasantness is, whatever the arousal. Each has its reason beside it.
"""

from __future__ import annotations

import numpy as np

VALENCE: dict[str, tuple[float, str]] = {
    "admiration": (0.8, "praise of somebody or something"),
    "amusement": (0.7, "enjoyment, though one may also laugh at somebody"),
    "anger": (-0.9, "strong displeasure, directed at somebody"),
    "annoyance": (-0.6, "mild anger"),
    "approval": (0.5, "a favourable opinion, often no more than agreement"),
    "caring": (0.5, "kindness, often towards somebody in trouble"),
    "confusion": (-0.3, "not understanding is slightly unpleasant, and a complaint in a chat"),
    "curiosity": (0.2, "interest, slightly pleasant"),
    "desire": (0.3, "a pleasant thing in mind, but not had"),
    "disappointment": (-0.7, "a hope that failed"),
    "disapproval": (-0.6, "an unfavourable opinion; the counterpart of approval, and more heated"),
    "disgust": (-0.9, "revulsion, as strong as anger"),
    "embarrassment": (-0.5, "unpleasant, yet often told with a smile"),
    "excitement": (0.8, "joy with high arousal, now and then uneasy"),
    "fear": (-0.8, "strongly unpleasant"),
    "gratitude": (0.9, "thanks for something good"),
    "grief": (-1.0, "the most unpleasant category: a death or a great loss"),
    "joy": (1.0, "pleasure itself"),
    "love": (1.0, "pleasure in somebody or something"),
    "nervousness": (-0.5, "mild fear"),
    "optimism": (0.6, "a good thing expected, not yet there"),
    "pride": (0.7, "pleasure in what one has done"),
    "realization": (0.0, "becoming aware of something, good or bad"),
    "relief": (0.5, "pleasant, with the trouble it ends still in mind"),
    "remorse": (-0.6, "regret of one's own deed; an apology mends a little"),
    "sadness": (-0.8, "unpleasant with low arousal; milder than grief"),
    "surprise": (0.0, "pleasant as often as unpleasant"),
    "neutral": (0.0, "no emotion"),
}
"""Category, in the order of the head's outputs, to weight and reason."""

LABELS: tuple[str, ...] = tuple(VALENCE)
"""The 28 categories in order: alphabetical, neutral last, as GoEmotions numbers them."""


def valence_weights() -> np.ndarray:
    """Return the (28,) float32 weights in [-1, 1], in the order of `LABELS`."""
    return np.array([weight for weight, _ in VALENCE.values()], dtype=np.float32)
