"""Example of a benchmark: replies of the everyday corpus with made-up ratings."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chatbots.corpora.dialogues import EVERYDAY
from webapp.jobs.models import Job
from webapp.results.benchmark import BASELINE, benchmark_ask, benchmark_metrics
from webapp.results.benchmark_data import benchmark_file_keep

TITLE = "Example with made-up ratings.jsonl"
METRICS = ("rouge_l", "bleu", "embedding_match", "pone_lite", BASELINE)
_N_CONTEXTS, _RATERS = 40, ("a", "b", "c")
_MEANS = {"the person": 4.3, "same topic": 2.8, "other topic": 1.7}
"""Mean rating of the reply that was given, of another talk on the topic, and of another topic, of 1 to 5."""


def benchmark_example(*, created_by: Any = None) -> Job:
    """Start the comparison of some metrics with the example's ratings, the same each time."""
    with tempfile.TemporaryDirectory(prefix="confab-benchmark-") as folder:
        path = Path(folder) / "example.jsonl"
        path.write_text("".join(json.dumps(item) + "\n" for item in _items()), encoding="utf-8")
        file = benchmark_file_keep(path, ".jsonl")
    known = {one.name for one in benchmark_metrics() if not one.reason}
    return benchmark_ask(
        metrics=[name for name in METRICS if name in known], file=file, title=TITLE, created_by=created_by
    )


def _items() -> Iterator[dict[str, Any]]:
    """Yield judged replies: to each context the one that was given, and two of other talks."""
    draw = random.Random(7)
    files = sorted(EVERYDAY.glob("*.jsonl"))
    talks = [[json.loads(line)["turns"] for line in path.read_text(encoding="utf-8").splitlines()] for path in files]
    for number in range(_N_CONTEXTS):
        topic = number % len(talks)
        talk, sibling = draw.sample(talks[topic], 2)
        stranger = draw.choice(talks[(topic + 1 + draw.randrange(len(talks) - 1)) % len(talks)])
        for model, reply in (("the person", talk[1]), ("same topic", sibling[3]), ("other topic", stranger[3])):
            yield {
                "id": f"{number}-{model}",
                "model": model,
                "context": [talk[0]],
                "response": reply,
                "reference": talk[1] if model != "the person" else None,
                "ratings": [
                    {"rater": rater, "quality": min(5, max(1, round(draw.gauss(_MEANS[model], 0.9))))}
                    for rater in _RATERS
                ],
                "scale": [1, 5],
            }
