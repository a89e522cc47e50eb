"""A judge with scores by a rule, in place of a language model, and gold sets made of numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evaluation.agreement.judges.gold import GoldSet, gold_of_replies
from evaluation.agreement.metric_agreement import judgements_of
from evaluation.data.items import JudgedItem
from evaluation.metrics.judge import JudgeMetric

PROMPT = "{context}|{reply}|{question}"


class RuleJudge(JudgeMetric):
    """A judge whose number for a reply is computed by a rule of the reply's text and the repeat."""

    def __init__(self, rule: Callable[[str, int], float], **options: Any) -> None:
        super().__init__(
            options.pop("name", "judge"), options.pop("title", ""), **{"bot": "nobody", "prompt": PROMPT} | options
        )
        self.rule = rule

    def unavailable_reason(self) -> str | None:
        return None

    def fresh(self, max_requests: int | None = None) -> JudgeMetric:
        return RuleJudge(self.rule, name=self.name, title=self.title, **self.options.model_dump())

    def chances(self, prompts: Sequence[str], answers: Sequence[str], *, read_all: bool = False) -> np.ndarray:
        self.n_requests += len(prompts)
        self.weighted = np.ones(len(prompts), dtype=bool)
        self.trouble = ""
        if list(answers) == ["A", "B"]:
            return np.array([[0.8, 0.2]] * len(prompts))
        points = np.array(
            [self.rule(prompt.split("|")[1].split("\n", 1)[1].rsplit("\n", 1)[0], self.repeat) for prompt in prompts]
        )
        points = np.clip(points, float(answers[0]), float(answers[-1]))
        low = np.minimum(np.floor(points), float(answers[-1]) - 1)
        values = np.zeros((len(prompts), len(answers)))
        rows, at = np.arange(len(prompts)), (low - float(answers[0])).astype(int)
        values[rows, at], values[rows, at + 1] = 1 - (points - low), points - low
        return values


def items(ratings: np.ndarray, texts: Sequence[str], **more: Any) -> list[dict[str, Any]]:
    """Return judged items of one context each: (N, raters) of ratings from 1 to 5, NaN for none."""
    return [
        {
            "id": str(k),
            "context": [f"context {k}"],
            "response": text,
            "model": "m",
            "ratings": [{"rater": f"r{j}", "overall": v} for j, v in enumerate(row.tolist()) if np.isfinite(v)],
            "scale": [1, 5],
            **{name: values[k] for name, values in more.items()},
        }
        for k, (row, text) in enumerate(zip(ratings, texts, strict=True))
    ]


def gold_of(ratings: np.ndarray, texts: Sequence[str] | None = None, **more: Any) -> GoldSet:
    """Return a gold set of these ratings; without texts each reply is its own number."""
    texts = [f"reply {k}" for k in range(len(ratings))] if texts is None else texts
    rows = items(ratings, texts, **more)
    return gold_of_replies(judgements_of(JudgedItem.model_validate(json.loads(json.dumps(row))) for row in rows))


def crowd(n: int, raters: int, rng: np.random.Generator, *, noise: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
    """Return the true values of n instances, and ratings from 1 to 5 of them by raters who err alike."""
    truth = rng.normal(3, 1, n)
    seen = truth[:, None] + rng.normal(0, 0.3, raters) + rng.normal(0, noise, (n, raters))
    return truth, np.clip(np.round(seen), 1, 5)
