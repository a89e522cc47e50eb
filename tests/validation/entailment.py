"""Classes of `entailment_lite` on good and bad replies, as in DialogEntailment's Table 2 and t-tests.

    python -m tests.validation.entailment [--data FOLDER] [--checkpoint FOLDER] [--rule majority]

For each judged set that lies in the folder: accuracy of the likeliest class against people's, the share of their
commonest class, the mean human score of each predicted class with Welch's tests, and Pearson's r of the numbers of
classes and of the semantic distance with people. Prints only; nothing here can fail but a missing folder.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evaluation.agreement.metric_agreement import judgements_read
from evaluation.data.items import JudgedItem, ReplyInContext, detokenise_text
from evaluation.metrics.entailment import Entailment
from evaluation.metrics.replies import item_scores
from evaluation.metrics.semantic_distance import SemanticDistance
from evaluation.metrics.text_cache import TextCache
from evaluation.number_format import figure, probability, share, span
from evaluation.stats.correlation import correlate
from tests.validation.entailment_classes import CLASSES, ClassReport, accuracies_printed, class_report, human_classes
from tests.validation.replies import SHARED

SETS = {
    "grade": "coherence",
    "dailydialog_zhao": "overall",
    "persona_zhao": "overall",
    "dailydialog_gupta": "appropriateness",
    "persona_usr": "",
    "holistic_context": "coherence",
    "predictive_engagement_dailydialog": "overall",
    "fed_turn": "overall",
    "conture_turn": "overall",
}
"""The dimension that is compared with; empty: the only one."""


def told_classes(found: ClassReport, n_ties: int) -> str:
    """Return what the classes are worth, in lines."""
    by_class = ", ".join(f"{name} {share(value)}" for name, value in found.by_class.items())
    means = ", ".join(f"{name} {figure(found.means[name])} (n {found.n[name]})" for name in CLASSES)
    tests = ", ".join(
        f"{a} − {b} {span(test.low, test.high)} {probability(test.p)}" if test else f"{a} − {b} –"
        for (a, b), test in found.tests.items()
    )
    return (
        f"accuracy {share(found.accuracy, 3)}, commonest class {share(found.majority, 3)}; found of {by_class}; ties "
        f"{n_ties}\n    mean score: {means}\n    95 %: {tests}"
    )


def as_written(reply: ReplyInContext) -> ReplyInContext:
    """Return the reply with its tokens put together again, as `evaluate_metrics` does."""
    context = tuple(detokenise_text(text) for text in reply.context)
    return reply._replace(context=context, response=detokenise_text(reply.response))


def told_correlations(scores: dict[str, np.ndarray], items: Sequence[JudgedItem], people: np.ndarray) -> list[str]:
    """Return Pearson's r of each column with people's means, pooled and by data set; intervals resample contexts."""
    sources = np.array([item.source for item in items])
    contexts = ["\n".join(item.context) for item in items]
    names = sorted(set(sources)) if len(set(sources)) > 1 else []
    lines = []
    for column, values in scores.items():
        if column.endswith(("_class_bot", "_entailment_bot", "_echo_bot")):
            continue
        told = []
        for name in ("", *names):
            part = np.flatnonzero((sources == name) | (name == ""))
            result = correlate(values[part], people[part], units=[contexts[k] for k in part])
            ends = span(result.low, result.high, shares=True)
            told.append(f"{name or 'all'} {share(result.r, 3)} {ends} (n {result.n})")
        lines.append(f"    {column}: {'; '.join(told)}")
    return lines


def main() -> int:
    """Print every set that is here; 1 where there is none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "turn_level")
    parser.add_argument("--checkpoint", default="entailment-lite")
    parser.add_argument("--rule", choices=["mean_threshold", "majority"], default="mean_threshold")
    options = parser.parse_args()
    there = {name: options.data / f"{name}.jsonl.gz" for name in SETS}
    if not any(path.exists() for path in there.values()):
        print(f"There are no judged replies in {options.data}.", file=sys.stderr)
        return 1
    metrics = [
        Entailment(f"entailment{name}", checkpoint=options.checkpoint, utterance=utterance)
        for name, utterance in (("", 0), ("_last", -1), ("_second", -2))
    ]
    difference = Entailment("difference", checkpoint=options.checkpoint, value="difference")
    shared = TextCache()
    print(accuracies_printed())
    for name, path in there.items():
        if not path.exists():
            continue
        judgements = judgements_read(path)
        items, target = judgements.items, judgements.target(SETS[name])
        print(f"\n{name}, {target}, {len(items)} replies", flush=True)
        people = human_classes(items, target, options.rule)
        replies = [as_written(item.reply) for item in items]
        for metric in (*metrics, difference, SemanticDistance()):
            if reason := metric.unavailable_reason():
                print(f"  {metric.name} is skipped: {reason}")
                continue
            scores = item_scores(metric, replies, shared)
            if metric in metrics:
                predicted = scores.get(f"{metric.name}_class_bot")
                if predicted is None:
                    print(f"  {metric.name}: no reply has so long a context")
                    continue
                report = class_report(predicted, people)
                print(f"  {metric.name}: {told_classes(report, people.n_ties)}")
            if metric is difference:
                scores = {f"{metric.name}_bot": scores[f"{metric.name}_bot"]}
            print("\n".join(told_correlations(scores, items, people.means)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
