"""Quality figures of the emotion head, and its model card.

Thresholds are chosen on the valid part, F1 is measured on the test part, polarity on other data sets. The model card,
`emotion_head/CARD.md`, is generated from the head's manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chatbots.encoders.emotion import LABELS, VALENCE

GRID = np.arange(0.02, 0.81, 0.02)
"""Thresholds tried. Coarse on purpose: emotions with twenty valid comments must not choose a third digit."""

BERT_F1: dict[str, float] = dict(
    zip(
        LABELS,
        (
            *(0.65, 0.80, 0.47, 0.34, 0.36, 0.39, 0.37, 0.54, 0.49, 0.28, 0.39, 0.45, 0.43, 0.34),
            *(0.60, 0.86, 0.00, 0.51, 0.78, 0.35, 0.51, 0.36, 0.21, 0.15, 0.66, 0.49, 0.50, 0.68),
        ),
        strict=True,
    )
)
"""Test F1 of the fine-tuned BERT of Demszky et al. (2020), Table 4; their macro average is .46."""


def f1_scores(present: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return each label's F1, (K,).

    0 for a label neither present nor predicted.
    """
    correct = (present & predicted).sum(axis=0)
    either = present.sum(axis=0) + predicted.sum(axis=0)
    return 2 * correct / np.maximum(either, 1)


def thresholds_choose(p: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Choose for each label the threshold of `GRID` with the best F1.

    Args:
        p: (N, K) shares of the valid part.
        present: (N, K) bool.

    Returns:
        (K,) thresholds; the middle one if several are best.
    """
    f1 = np.stack([f1_scores(present, p >= threshold) for threshold in GRID])  # (T, K)
    chosen = []
    for column in f1.T:
        best = np.flatnonzero(column == column.max())
        chosen.append(GRID[best[len(best) // 2]])
    return np.round(chosen, 2)


def test_figures(p: np.ndarray, present: np.ndarray, thresholds: np.ndarray) -> dict[str, Any]:
    """Return the figures of the test part that the model card shows.

    Args:
        p: (N, K) shares.
        present: (N, K) bool.
        thresholds: (K,), chosen elsewhere.

    Returns:
        Macro and micro F1, F1 per label, macro F1 of the single likeliest label, and the cross-entropy in
        nats, with that of the label frequencies for comparison.
    """
    predicted = p >= thresholds
    f1 = f1_scores(present, predicted)
    likeliest = np.eye(p.shape[1], dtype=bool)[p.argmax(axis=1)]
    shares = present / present.sum(axis=1, keepdims=True)
    frequencies = shares.mean(axis=0)
    frequencies = frequencies[frequencies > 0]
    return {
        "n": len(p),
        "macro_f1": _round(f1.mean()),
        "micro_f1": _round(f1_scores(present.reshape(-1, 1), predicted.reshape(-1, 1))[0]),
        "macro_f1_likeliest": _round(f1_scores(present, likeliest).mean()),
        "cross_entropy": _round(-(shares * np.log(p)).sum(axis=1).mean()),
        "cross_entropy_of_frequencies": _round(-(frequencies * np.log(frequencies)).sum()),
        "f1": {label: _round(value) for label, value in zip(LABELS, f1, strict=True)},
        "comments": dict(zip(LABELS, present.sum(axis=0).tolist(), strict=True)),
    }


def polarity_figures(scores: Mapping[str, np.ndarray], positive: np.ndarray) -> dict[str, Any]:
    """Measure how well scores separate positive from negative texts.

    Args:
        scores: (N,) sentiment scores by name; above 0 means positive.
        positive: (N,) bool.

    Returns:
        N and, per name, the balanced accuracy of the sign (mean recall of both classes; a score of 0 is always
        wrong) and the area under the ROC curve, which needs no threshold.
    """
    from sklearn.metrics import roc_auc_score

    figures: dict[str, Any] = {"n": len(positive)}
    for name, values in scores.items():
        recalls = ((values[positive] > 0).mean(), (values[~positive] < 0).mean())
        figures[name] = {"balanced_accuracy": _round(np.mean(recalls)), "auc": _round(roc_auc_score(positive, values))}
    return figures


def _round(value: float) -> float:
    return round(float(value), 4)


BERT_MACRO_F1 = 0.46


def emotion_model_card(manifest: Mapping[str, Any]) -> str:
    """Return the model card as Markdown."""
    test = manifest["test"]
    training = ", ".join(f"{name} {value:g}" for name, value in manifest["training"].items())
    return f"""# Emotion head

Written by `manage.py train_emotion`; edit `chatbots/encoders/emotion_report.py`, not this file.

**What it is.** A softmax over 28 categories (27 emotions and neutral) with one hidden layer of
{manifest["training"]["hidden"]} units, on the sentence vectors of {manifest["encoder"]["model"]}
({manifest["n_parameters"]:,} parameters, half precision, SHA-256 `{manifest["sha256"][:16]}…`). It gives each text a
distribution over emotions and, weighted by the valences below, a sentiment in [−1, 1].

**What it was trained on.** GoEmotions (Demszky et al. 2020, "GoEmotions: A Dataset of Fine-Grained Emotions",
ACL): {manifest["n"]["train"]:,} English Reddit comments for training, {manifest["n"]["valid"]:,} for choosing, \
{manifest["n"]["test"]:,} for the figures below.
Nothing else; the sentence encoder stayed as published.

**How several labels become a distribution.** A comment's labels share its target equally, and the head is
trained by cross-entropy against these shares. No class is weighted, so that p_k stays what it says: the share of
emotion k among what raters would say. Neutral is about a third of the data, and a dull text is mostly neutral.

**Licence.** Apache-2.0, as the data and the encoder are.

**Training again.** `manage.py train_emotion --data goemotions.jsonl.gz [--measure FILE …]`, with
`training.yaml`: {training}. The epoch with the best valid loss was kept \
({manifest["best_epoch"]} of {manifest["training"]["epochs"]}).
The same versions on the same kind of machine give the same figures to the third digit.

## Figures

On the test part ({test["n"]:,} comments), with one threshold per label chosen on the valid part:

| | macro F1 | micro F1 |
| --- | --- | --- |
| this head (the encoder is frozen) | **{_f(test["macro_f1"])}** | {_f(test["micro_f1"])} |
| only the likeliest label | {_f(test["macro_f1_likeliest"])} | |
| BERT, fine-tuned as a whole, as published | {_f(BERT_MACRO_F1)} | |

Cross-entropy of the distributions: {test["cross_entropy"]:.2f} nats; of the labels' frequencies for every text:
{test["cross_entropy_of_frequencies"]:.2f}. Published BERT used one threshold for all labels, this head one for each.

| label | test comments | F1 | BERT | threshold |
| --- | --- | --- | --- | --- |
{_rows(manifest)}

**Sentiment** on texts of other kinds, which were used for nothing else; neutral texts are left out:

{_polarity(manifest["polarity"])}

Balanced accuracy: of the score's sign, the mean of the recalls of both classes; no threshold was fitted, and a
score of 0, which VADER gives to texts without a word of its list, is wrong in both. AUC: how often a positive
text scores above a negative one. VADER is a word list with rules (`emotion.py`).

## Valence

Our own judgement, fitted to no data; reasons in `chatbots/encoders/emotion.py`.

| label | weight | why |
| --- | --- | --- |
{_valences()}

## Limits

- English only, and Reddit's: young, male and American more than not; its raters were from India. Irony, dialects
  and other cultures' ways of showing feelings are read badly.
- One text at a time: the conversation before it is not seen.
- Rare emotions ({_rare(test)}) rest on few comments; their F1 has wide errors. Do not report single rare emotions.
- The vectors are of meaning first: topics that often come with an emotion raise it ("funeral" raises grief).
- For comparing groups of conversations. Not for judging persons, their health or state of mind.
"""


def _f(value: float) -> str:
    return f"{value:.3f}".lstrip("0") if value < 1 else f"{value:.3f}"


def _rows(manifest: Mapping[str, Any]) -> str:
    test = manifest["test"]
    return "\n".join(
        f"| {label} | {test['comments'][label]} | {test['f1'][label]:.2f} | {BERT_F1[label]:.2f} "
        f"| {manifest['thresholds'][label]:.2f} |"
        for label in manifest["labels"]
    )


def _polarity(polarity: Mapping[str, Any]) -> str:
    if not polarity:
        return "(not measured)"
    lines = [
        "| data | texts | balanced accuracy | AUC | VADER's balanced accuracy | VADER's AUC |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, figures in polarity.items():
        ours, vader = figures["emotion_head"], figures["vader"]
        lines.append(
            f"| {name} | {figures['n']:,} | {_f(ours['balanced_accuracy'])} | {_f(ours['auc'])} "
            f"| {_f(vader['balanced_accuracy'])} | {_f(vader['auc'])} |"
        )
    return "\n".join(lines)


def _valences() -> str:
    return "\n".join(
        f"| {label} | {f'{weight:+.1f}'.replace('-', '−') if weight else '0'} | {reason} |"
        for label, (weight, reason) in VALENCE.items()
    )


def _rare(test: Mapping[str, Any]) -> str:
    return ", ".join(label for label, n in test["comments"].items() if n < 40)
