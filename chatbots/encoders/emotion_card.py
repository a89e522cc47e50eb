"""The emotion head's model card, `emotion_head/CARD.md`, written from its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatbots.encoders.emotion_figures import BERT_F1
from chatbots.encoders.valence import VALENCE

BERT_MACRO_F1 = 0.46


def card(manifest: Mapping[str, Any]) -> str:
    """Return the model card as Markdown."""
    test = manifest["test"]
    training = ", ".join(f"{name} {value:g}" for name, value in manifest["training"].items())
    return f"""# Emotion head

Written by `manage.py train_emotion`; edit `chatbots/encoders/emotion_card.py`, not this file.

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
text scores above a negative one. VADER is a word list with rules (`sentiment.py`).

## Valence

Our own judgement, fitted to no data; reasons in `chatbots/encoders/valence.py`.

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
    for name, found in polarity.items():
        ours, vader = found["emotion_head"], found["vader"]
        lines.append(
            f"| {name} | {found['n']:,} | {_f(ours['balanced_accuracy'])} | {_f(ours['auc'])} "
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
