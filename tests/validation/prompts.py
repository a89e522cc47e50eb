"""Compare the two prompts of mutual information on all sets of judged replies.

    python -m tests.validation.prompts [--data FOLDER] [--most 150]

Prints for each set Spearman's coefficients on the same replies and the gain, then the decision by the rule of
docs/research/reply_pmi.md.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy import stats

from evaluation.agreement.agreement_by_group import HumanScores
from evaluation.agreement.metric_agreement import JudgedReplies, judge, judgements_read
from evaluation.agreement.paired_comparison import compare_paired
from evaluation.metrics.text_cache import TextCache
from evaluation.number_format import share, span
from tests.validation.replies import SHARED

SEED = 7
DIALOGUE, TEMPLATE = "reply_pmi_dialogue", "reply_pmi"


def sampled(judgements: JudgedReplies, most: int) -> JudgedReplies:
    """Draw so many judged replies without replacement; all of a smaller set."""
    target = judgements.target()
    items = [item for item in judgements.items if item.scores(target)[0]]
    if len(items) > most:
        chosen = np.sort(np.random.default_rng(SEED).choice(len(items), most, replace=False))
        items = [items[k] for k in chosen]
    return JudgedReplies(tuple(items))


def main() -> int:
    """Print a row for each set as soon as it is scored; 1 where there are no sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "turn_level")
    parser.add_argument("--most", type=int, default=150)
    options = parser.parse_args()
    gains: dict[str, float] = {}
    for path in sorted(options.data.glob("*.jsonl.gz")):
        name = path.name.partition(".")[0]
        every = judgements_read(path)
        target, judgements = every.target(), sampled(every, options.most)
        result = judge(judgements, [DIALOGUE, TEMPLATE], target=target, shared=TextCache("cpu"))
        humans = HumanScores.from_items(judgements.items, {}, target)
        dialogue, template = (next(iter(result[one].scores.values())) for one in (DIALOGUE, TEMPLATE))
        cells = [(str(source), "") for source in humans.sources]
        compared = compare_paired(dialogue, template, humans.means, humans.contexts, cells, TEMPLATE)
        if not compared.gains:
            print(f"| {name} | {target} | – | – | – | undefined | |", flush=True)
            continue
        spearman = compared.gains["spearman"]
        gains[name] = spearman.gain
        n = sum(compared.cells.values())
        print(
            f"| {name} | {target} | {n} | {share(spearman.theirs)} | {share(spearman.ours)} | {share(spearman.gain)} | "
            f"{span(spearman.low, spearman.high, shares=True)} |",
            flush=True,
        )
    if not gains:
        print(f"There are no judged replies in {options.data}.", file=sys.stderr)
        return 1
    values = np.array(list(gains.values()))
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    other = float(np.mean([gain for name, gain in gains.items() if name != "grade"]))
    is_better = values.mean() - half > 0 and other > 0
    print(
        f"Mean gain over {len(values)} sets {share(values.mean(), 3)} "
        f"{span(values.mean() - half, values.mean() + half, shares=True)}; without GRADE {share(other, 3)}. "
        f"The form of reply_pmi is {'the dialogue' if is_better else 'the template'}."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
