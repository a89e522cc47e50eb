"""Each rule against raters made to break it, and only it."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from evaluation.stats.rater_filters import RULES, RaterVerdict, Thresholds, screen_raters

NAN = float("nan")
BOTS = ["a", "b", "c", "d", "qc"]
QUALITY = np.array([70.0, 55, 40, 30, 8])
TURNED = [False, False, False, True]


def study(n_honest: int = 30, seed: int = 0) -> dict:
    """Make honest raters of five bots on four dimensions 0 … 100, the last one turned round."""
    rng = np.random.default_rng(seed)
    results: dict = {"values": [], "raters": [], "bots": [], "control": [], "seconds": []}
    for rater in range(n_honest):
        kind = rng.normal(0, 8)
        for bot, quality in zip(BOTS, QUALITY, strict=True):
            row = np.clip(quality + kind + rng.normal(0, 10, 4), 0, 100)
            add(results, f"honest{rater}", bot, row, rng.uniform(200, 500))
    return results


def add(result: dict, rater: str, bot: str, row, seconds: float = 300.0) -> None:
    result["values"].append(np.asarray(row, dtype=float))
    result["raters"].append(rater)
    result["bots"].append(bot)
    result["control"].append(bot == "qc")
    result["seconds"].append(seconds)


def screen(result: dict, **options) -> dict[str, RaterVerdict]:
    verdicts = screen_raters(**result, scale=(0, 100), turned=TURNED, **options)
    return {verdict.rater: verdict for verdict in verdicts}


def failed(verdict: RaterVerdict) -> set[str]:
    return {finding.rule for finding in verdict.findings if finding.failed}


def test_honest_raters_pass():
    verdicts = screen(study())
    assert len(verdicts) == 30
    assert sum(v.passed for v in verdicts.values()) >= 29
    assert all(f.failed is not None for v in verdicts.values() for f in v.findings)
    assert all(v.n == 5 for v in verdicts.values())


def test_flat_liner_as_the_questions_were_worded():
    """90 everywhere; the negative statement's 90 was turned into 10."""
    result = study()
    for bot, answer in zip(BOTS, [90, 80, 70, 60, 30], strict=True):
        add(result, "flat", bot, [answer, answer, answer, 100 - answer])
    assert "flat" in failed(screen(result)["flat"])
    turned_like = [np.full(4, answer) for answer in (90, 80, 70, 60, 30)]
    for bot, row in zip(BOTS, turned_like, strict=True):
        add(result, "consistent", bot, row)
    assert "flat" not in failed(screen(result)["consistent"])


def test_hardly_any_variation():
    result = study()
    for bot in BOTS:
        add(result, "narrow", bot, [50, 52, 49, 51] if bot != "qc" else [47, 48, 49, 48])
    verdict = screen(result)["narrow"]
    assert failed(verdict) == {"narrow"}
    as_worded = [50, 52, 49, 49] * 4 + [47, 48, 49, 52]
    spread = np.std(as_worded, ddof=1) / 100
    assert verdict.reasons == (f"answers vary by {spread:.1%} of the scale (standard deviation)",)


def test_variation_is_a_fraction_of_the_scale_wherever_the_scale_begins():
    result = study()
    for bot in BOTS:
        add(result, "narrow", bot, [50, 52, 49, 51])
    shifted = result | {"values": [row + 100 for row in result["values"]]}
    [verdict] = [v for v in screen_raters(**shifted, scale=(100, 200), turned=TURNED) if v.rater == "narrow"]
    [spread, before] = [
        next(finding.value for finding in v.findings if finding.rule == "narrow")
        for v in (verdict, screen(result)["narrow"])
    ]
    assert spread == pytest.approx(before)


def test_opposite_view():
    result = study()
    for bot, quality in zip(BOTS, QUALITY, strict=True):
        row = [80 - quality, 78 - quality, 79 - quality, 77 - quality]
        add(result, "upside", bot, row)
    verdict = screen(result)["upside"]
    assert {"disagrees", "control"} <= failed(verdict)
    finding = next(f for f in verdict.findings if f.rule == "disagrees")
    others = np.array(study()["values"]).reshape(30, 5, 4).mean(axis=0)
    own = np.array(result["values"][-5:])
    x, y = own - own.mean(axis=0), others - others.mean(axis=0)
    assert finding.value == pytest.approx(stats.pearsonr(x.ravel(), y.ravel()).statistic)
    assert finding.value < -0.9


def test_own_ratings_are_left_out_of_what_they_are_compared_with():
    """Alone on a bot, a rater has nobody to agree with."""
    result = study(3)
    for bot in ("x", "y", "z", "w"):
        add(result, "alone", bot, [10, 20, 30, 40])
    finding = next(f for f in screen(result)["alone"].findings if f.rule == "disagrees")
    assert finding.failed is None
    assert finding.reason == "only 0 bots also rated by others"


def test_too_fast():
    result = study()
    for bot, quality in zip(BOTS, QUALITY, strict=True):
        add(result, "fast", bot, np.clip(quality + np.array([1, -4, 6, 3]), 0, 100), 40.0)
    verdict = screen(result)["fast"]
    assert failed(verdict) == {"too_fast"}
    assert verdict.reasons[0].startswith("40 s per conversation; raters usually take 3")
    result["seconds"] = [NAN] * len(result["seconds"])
    assert failed(screen(result)["fast"]) == set()


def test_affirming_a_statement_and_its_opposite():
    result = study()
    for bot, shift in zip(BOTS, [6, 4, 2, 0, -12], strict=True):
        add(result, "yes", bot, [86 + shift, 88 + shift, 90 + shift, 14 + shift])
    verdict = screen(result)["yes"]
    assert "contradicts" in failed(verdict)
    finding = next(f for f in verdict.findings if f.rule == "contradicts")
    # Straight answers 88 and the negative one 86, as worded: 74 beyond 100.
    assert finding.value == pytest.approx(0.74)
    assert finding.reason.startswith("affirms")


def test_control_not_rated_lower():
    result = study()
    for bot, quality in zip(BOTS, [70, 55, 40, 30, 60], strict=True):
        add(result, "blind", bot, quality + np.array([3, 0, -2, 5]))
    verdict = screen(result)["blind"]
    assert failed(verdict) == {"control"}
    rows = np.array(result["values"][-5:])[:, :3]  # the negative statement apart
    expected = stats.mannwhitneyu(rows[4], rows[:4].ravel(), alternative="less", method="asymptotic")
    finding = next(f for f in verdict.findings if f.rule == "control")
    assert finding.value == pytest.approx(expected.pvalue)
    all_dimensions = screen(result, control_dimensions=[True] * 4)["blind"]
    assert all_dimensions.findings[-1].value != pytest.approx(expected.pvalue)


def test_rules_that_cannot_judge_count_for_nothing():
    verdicts = screen_raters([[1.0], [2.0]], ["u", "u"], scale=(1, 7))
    assert verdicts[0].passed
    assert [f.failed for f in verdicts[0].findings] == [None] * len(RULES)
    assert [f.reason.code for f in verdicts[0].findings] == [
        *("few_long_forms", "few_conversations", "no_bots"),
        *("no_times", "no_opposites", "no_control"),
    ]


def test_choice_of_rules_thresholds_and_number():
    result = study()
    for bot in BOTS:
        add(result, "dull", bot, [50, 50, 50, 50])
    assert failed(screen(result)["dull"]) >= {"narrow", "control"}
    assert screen(result, rules=["too_fast"])["dull"].passed
    assert screen(result, min_failed=6)["dull"].passed
    lax = dataclasses.replace(Thresholds(), min_spread=0.0)
    assert "narrow" not in failed(screen(result, thresholds=lax)["dull"])


def test_rows_without_a_rater_or_a_value_are_left_out():
    result = study(4)
    plain = screen(result)
    add(result, "", "a", [1, 1, 1, 1])
    add(result, "honest0", "a", [NAN] * 4)
    assert set(screen(result)) == set(plain)
    assert screen(result)["honest0"].n == 5


def test_planted_careless_raters_are_found():
    result = study(40)
    rng = np.random.default_rng(9)
    for rater in range(12):
        for bot in BOTS:
            add(result, f"careless{rater}", bot, rng.uniform(0, 100, 4))
    verdicts = screen_raters(**result, scale=(0, 100), turned=TURNED)
    caught = [verdict.rater.startswith("careless") for verdict in verdicts if not verdict.passed]
    assert np.mean(caught) >= 0.8
    assert sum(caught) / 12 >= 0.8


def test_refusals():
    with pytest.raises(ValueError, match="outside the scale 1 … 7"):
        screen_raters([[8.0]], ["a"], scale=(1, 7))
    with pytest.raises(ValueError, match="no rule 'slow'"):
        screen_raters([[1.0]], ["a"], scale=(1, 7), rules=["slow"])
    with pytest.raises(ValueError, match="bots has 2 entries for 1 rows"):
        screen_raters([[1.0]], ["a"], scale=(1, 7), bots=["x", "y"])
    with pytest.raises(ValueError, match="turned has 2 entries for 1 dimensions"):
        screen_raters([[1.0]], ["a"], scale=(1, 7), turned=[True, False])
    with pytest.raises(ValueError, match="lowest value must come first"):
        screen_raters([[1.0]], ["a"], scale=(7, 1))
