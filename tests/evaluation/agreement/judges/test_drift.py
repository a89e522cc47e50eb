"""A changed model behind a name is noticed on the stored sample; noise, rounding and other prompts are no drift."""

import numpy as np
import pytest

from evaluation.agreement.judges.comparison import compare_judges
from evaluation.agreement.judges.drift import measure_drift
from evaluation.agreement.judges.scoring import score_gold
from tests.evaluation.agreement.judges.fake_judge import RuleJudge, crowd, gold_of

RNG = np.random.default_rng(1)
TRUTH, RATINGS = crowd(50, 3, RNG)
NOISE = RNG.normal(0, 0.3, (3, 50))


def rule(shift=0.0, at=0):
    def score(text, repeat):
        k = int(text.split()[1])
        return 3 + 0.4 * (TRUTH[k] - 3) + NOISE[(repeat + at) % 3, k] + shift

    return score


@pytest.fixture(scope="module")
def stored():
    gold = gold_of(RATINGS)
    document = compare_judges(gold, [score_gold(RuleJudge(rule()), gold)], families={}).to_json()
    return gold, document["judges"][0], document["digests"]


def test_scores_that_moved_beyond_self_consistency_are_drift(stored):
    gold, kept, digests = stored
    drift = measure_drift(RuleJudge(rule(1.0, at=2)), gold, kept, digests)
    assert drift.has_drifted
    now = np.array([rule(1.0, at=2)(f"reply {k}", 0) for k in range(50)])
    then = np.array(kept["scores"])
    assert drift.change == pytest.approx(np.abs(now - then[0]).mean())
    assert drift.before == pytest.approx(np.abs(then[1] - then[0]).mean())
    assert drift.drift == pytest.approx(drift.change - drift.before)
    assert "has drifted: scores of 50 stored instances moved by" in drift.sentence


def test_other_noise_is_no_drift_and_nothing_is_told_of_absence(stored):
    gold, kept, digests = stored
    drift = measure_drift(RuleJudge(rule(at=2)), gold, kept, digests)
    assert drift.has_drifted is False
    assert drift.sentence.startswith("There is no evidence of drift of Language model as judge")
    fixed = measure_drift(RuleJudge(rule(0.001)), gold, {**kept, "is_fixed": True}, digests)
    assert fixed.has_drifted is False, "a difference of rounding"
    assert measure_drift(RuleJudge(rule(0.5)), gold, {**kept, "is_fixed": True}, digests).has_drifted


def test_another_prompt_too_few_texts_or_one_pass_leave_it_undefined(stored):
    gold, kept, digests = stored
    other = measure_drift(RuleJudge(rule(1.0), prompt="{reply} {question}"), gold, kept, digests)
    assert other.has_drifted is None
    assert "has changed" in other.sentence
    few = measure_drift(RuleJudge(rule(1.0)), gold.take(range(9)), kept, digests)
    assert few.reason == "only 9 stored instances still exist with the same text; 10 are needed"
    once = measure_drift(RuleJudge(rule(1.0)), gold, {**kept, "scores": kept["scores"][:1]}, digests)
    assert "scored only once" in once.reason
