"""Candidates tested on single replies: predictions without the replies to the same contexts, and what is left out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.agreement.metric_agreement import JudgedReplies, judgements_of
from evaluation.data.items import JudgedItem
from evaluation.metrics.registry import metric_get, metrics
from evaluation.replacement.notebook import can_replace
from evaluation.replacement.result import CandidateVerdict, ReplacementResult, Settlement
from evaluation.stats.gls import label_codes
from tests.evaluation.agreement.judges.fake_judge import PROMPT, RuleJudge

RNG = np.random.default_rng(48)


def replies(n_bots: int, n_contexts: int, *, source: str = "", spread: float = 1.0) -> tuple[JudgedReplies, np.ndarray]:
    """Return rated replies of bots to the same contexts, and what an average rater would say of each."""
    levels = np.linspace(-spread, spread, n_bots) if n_bots > 1 else np.zeros(1)
    truth = 4 + np.repeat(levels, n_contexts) + RNG.normal(0, 0.8, n_bots * n_contexts)
    rows: list[dict[str, Any]] = [
        {
            "id": f"{k % n_contexts}",
            "source": source,
            "context": [f"question {k % n_contexts}"],
            "response": " ".join(["word"] * int(RNG.integers(1, 9))) + f" {k}",
            "model": f"b{k // n_contexts}",
            "ratings": [
                {"rater": f"r{(k + j) % 12}", "overall": float(np.clip(value + RNG.normal(0, 0.7), 1, 7))}
                for j in range(2)
            ],
            "scale": [1, 7],
        }
        for k, value in enumerate(truth.tolist())
    ]
    return judgements_of(JudgedItem.model_validate(row) for row in rows), truth


def scores_of(judged: JudgedReplies, values: np.ndarray) -> dict[str, float]:
    return {f"{item.key} {item.model}": float(value) for item, value in zip(judged.items, values, strict=True)}


def candidate(result: ReplacementResult, kind: str) -> CandidateVerdict:
    [verdict] = [verdict for verdict in result.candidates if verdict.kind == kind]
    return verdict


def test_with_few_bots_values_leave_out_the_replies_to_the_same_contexts() -> None:
    """Ten folds of contexts, each predicted by a line through the other nine (numpy)."""
    judged, truth = replies(2, 60)
    scores = 10 * truth + RNG.normal(0, 3, len(truth))
    result = can_replace(judged, scores={"file": scores_of(judged, scores)})
    verdict = candidate(result, "imported")
    contexts = label_codes(["\n".join(("", *item.context)) for item in judged.items])
    people = np.array([np.mean([value for _rater, value in item.scores("overall")[0]]) for item in judged.items])
    predicted = np.empty(len(people))
    for fold in range(10):
        rest = contexts % 10 != fold
        predicted[~rest] = np.polyval(np.polyfit(scores[rest], people[rest], 1), scores[~rest])
    for bot in verdict.equality.bots:
        rows = np.array([item.model == bot.bot for item in judged.items])
        assert bot.value == pytest.approx(predicted[rows].mean())
        assert bot.people == pytest.approx(people[rows].mean())
    assert (verdict.ranking.answer, verdict.ranking.n_bots) == ("not_known", 2)
    assert verdict.ranking.settled_by == Settlement("bots", 5)
    assert (verdict.equality.answer, verdict.worth.answer, verdict.standing) == ("yes", "yes", "not_known")
    assert result.unit == "reply"
    assert {"selfplay", "simulated", "hybrid"}.isdisjoint({*result.absent, *(v.kind for v in result.candidates)})


def test_with_enough_bots_the_order_is_tested_and_a_good_judge_can_replace_people() -> None:
    judged, truth = replies(9, 40, spread=1.8)
    by_text = {item.response: value for item, value in zip(judged.items, truth.tolist(), strict=True)}
    judge = RuleJudge(lambda text, repeat: by_text[text], name="good", title="Good", low=1, high=7)
    result = can_replace(judged, judges=[judge], metrics=["words_bot"])
    good, words = candidate(result, "judge"), candidate(result, "metric")
    assert (good.standing, good.ranking.n_bots, good.share_scored) == ("yes", 9, 1.0)
    assert {rival.rival for rival in good.ranking.rivals} >= {"log_turns", "log_words", "own_turns"}
    assert words.standing != "yes"
    assert result.own_turns == "replies"


def test_replies_of_a_set_that_a_metric_was_developed_on_do_not_test_it() -> None:
    seen, _truth = replies(1, 20, source="usr/topical")
    new, _truth = replies(1, 30, source="mine")
    both = JudgedReplies((*seen.items, *new.items))
    unbuilt = candidate(can_replace(both, metrics=["words_bot"]), "metric")
    built = candidate(can_replace(both, metrics=["words_bot"], built_on={"words_bot": {"usr/topical/0 b0"}}), "metric")
    assert (unbuilt.n_left_out, built.n_left_out) == (0, 1)
    assert sum(bot.n_ratings for bot in built.equality.bots) == 98


def test_a_metric_of_unknown_origin_and_replies_quoted_in_a_prompt_do_not_count() -> None:
    judged, _truth = replies(1, 30)
    metric = metric_get("words")
    foreign = type("Foreign", (type(metric),), {"__module__": "elsewhere", "name": "foreign", "seen_sets": None})()
    metrics.add(foreign)
    try:
        unknown = candidate(can_replace(judged, metrics=["foreign"]), "metric")
        declared = candidate(can_replace(judged, metrics=["foreign"], built_on={"foreign": ()}), "metric")
    finally:
        metrics.discard("foreign")
    assert unknown.equality.reason is not None
    assert (unknown.equality.reason.code, unknown.equality.settled_by) == ("unknown_training", Settlement("origin"))
    assert declared.equality.reason is None
    first, *others = judged.items
    quoted = JudgedReplies((first.model_copy(update={"response": "Nobody else says this"}), *others))
    prompt = f"{PROMPT} Example: “nobody else  says this”: 2."
    judge = RuleJudge(lambda text, repeat: 4, prompt=prompt, low=1, high=7)
    assert candidate(can_replace(quoted, judges=[judge]), "judge").n_left_out == 1


def test_a_single_context_cannot_be_left_out() -> None:
    judged, truth = replies(2, 2)
    verdict = candidate(can_replace(judged, scores={"file": scores_of(judged, truth)}), "imported")
    assert verdict.equality.reason is not None
    assert verdict.equality.reason.code == "few_contexts"


def test_a_file_is_read_and_unknown_names_are_refused(tmp_path: Path) -> None:
    judged, _truth = replies(1, 30)
    path = tmp_path / "rated.jsonl"
    path.write_text("".join(item.model_dump_json() + "\n" for item in judged.items))
    assert "Metric (words_bot)" in can_replace(path, metrics=["words_bot"]).summary()
    with pytest.raises(ValueError, match="no reply of the study"):
        can_replace(path, scores={"file": {"nobody": 1.0}})
    with pytest.raises(ValueError, match="neither self-play nor simulated"):
        can_replace(path, simulated=[None])  # type: ignore[list-item]
