"""Agreement, biases, self-consistency and verdicts on cases whose answer is known, and the level of the interval."""

import numpy as np
import pytest
from scipy import stats

from chatbots import Conversation
from evaluation.agreement.judges.agreement import FIXED, agreement_of, biases_of, binary_alpha, partial_rank
from evaluation.agreement.judges.comparison import SELECTED, compare_judges, judges
from evaluation.agreement.judges.gold import gold_of_chats, gold_of_replies
from evaluation.agreement.judges.scoring import CAPPED, JudgeScores, model_family, model_parameters, score_gold
from evaluation.agreement.metric_agreement import judgements_of
from evaluation.analysis.prediction_powered import powered_means
from evaluation.data.items import JudgedItem
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.stats.agreement import krippendorff_alpha
from tests.evaluation.agreement.judges.fake_judge import RuleJudge, crowd, gold_of, items


def scores_of(values, **more):
    return JudgeScores("j", "J", "i", "p", more.pop("model", "m"), np.atleast_2d(values), **more)


def numbers(rng, n=90, raters=4, **more):
    """Return a gold set whose replies are named by their number, and the truth by reply."""
    truth, ratings = crowd(n, raters, rng, **more)
    return gold_of(ratings), {f"reply {k}": value for k, value in enumerate(truth.tolist())}


def test_agreement_is_spearmans_with_the_mean_and_its_interval_is_over_contexts_and_raters():
    rng = np.random.default_rng(0)
    truth, ratings = crowd(100, 4, rng)
    gold, scores = gold_of(ratings), truth + rng.normal(0, 0.5, 100)
    result = agreement_of(gold, scores)
    assert result.value == pytest.approx(stats.spearmanr(scores, ratings.mean(axis=1)).statistic)
    assert result.over == "contexts and raters"
    assert result.low < result.value < result.high
    few = agreement_of(gold_of(ratings[:, :3]), scores)
    assert few.over == "contexts", "three raters tell too little about others"
    assert agreement_of(gold, np.full(100, 3.0)).reason == "all scores or all ratings are equal"


def test_the_interval_holds_what_it_claims_and_is_wider_for_few_raters():
    rng = np.random.default_rng(1)
    big_truth, big = crowd(20_000, 40, rng)
    n_inside, n = 0, 120
    target = []
    for _ in range(n):
        truth, ratings = crowd(60, 6, rng)
        scores = truth + rng.normal(0, 0.8, 60)
        result = agreement_of(gold_of(ratings), scores)
        target.append((result.low, result.high))
    reference = [
        stats.spearmanr(big_truth + rng.normal(0, 0.8, 20_000), big[:, rng.choice(40, 6, replace=False)].mean(axis=1))
        for _ in range(5)
    ]
    middle = float(np.mean([one.statistic for one in reference]))
    n_inside = sum(low <= middle <= high for low, high in target)
    assert n_inside >= stats.binom.ppf(0.001, n, 0.95)


def test_alpha_of_two_points_is_krippendorffs():
    rng = np.random.default_rng(2)
    one = rng.integers(0, 2, 50) * 1.0
    other = np.where(rng.random(50) < 0.8, one, 1 - one)
    expected = krippendorff_alpha(np.stack([one, other], axis=1), "nominal").value
    assert binary_alpha(one, other) == pytest.approx(expected)
    truth, ratings = crowd(80, 5, rng)
    ratings = np.where(ratings > 3, 5.0, 1.0)
    result = agreement_of(gold_of(ratings), np.where(truth > 3, 4.8, 1.1))
    majority = np.where(ratings.mean(axis=1) > 3, 5.0, 1.0)
    answers = np.where(truth > 3, 5.0, 1.0)
    assert result.value == pytest.approx(krippendorff_alpha(np.stack([answers, majority], axis=1), "nominal").value)


def test_biases_for_length_and_markup_are_found_where_they_were_built_in_and_not_elsewhere():
    rng = np.random.default_rng(3)
    truth, ratings = crowd(150, 5, rng, noise=0.3)
    n_words = rng.integers(3, 40, 150)
    marked = rng.random(150) < 0.5
    texts = [
        ("**Well:** " if mark else "") + "word " * n + f"no{k}"
        for k, (n, mark) in enumerate(zip(n_words, marked, strict=True))
    ]
    gold = gold_of(ratings, texts)
    fair = biases_of(gold, scores_of(truth + rng.normal(0, 0.5, 150)), {})
    assert fair["length"].low < 0 < fair["length"].high
    assert fair["markup"].low < 0 < fair["markup"].high
    biased = biases_of(gold, scores_of(truth + 0.06 * n_words + 1.0 * marked), {})
    assert biased["length"].low > 0.3
    assert biased["markup"].low > 0.2
    held = np.linalg.lstsq(np.stack([np.ones(150), stats.rankdata(truth)], axis=1), stats.rankdata(n_words), rcond=None)
    rest = stats.rankdata(n_words) - np.stack([np.ones(150), stats.rankdata(truth)], axis=1) @ held[0]
    scores = truth + 0.06 * n_words
    fit = np.linalg.lstsq(np.stack([np.ones(150), stats.rankdata(truth)], axis=1), stats.rankdata(scores), rcond=None)
    other = stats.rankdata(scores) - np.stack([np.ones(150), stats.rankdata(truth)], axis=1) @ fit[0]
    assert partial_rank(scores, n_words * 1.0, truth) == pytest.approx(np.corrcoef(rest, other)[0, 1])


def test_the_own_family_is_compared_with_others_and_undefined_without_one():
    rng = np.random.default_rng(4)
    _truth, ratings = crowd(80, 3, rng)
    gold = gold_of(ratings, model=["llama-bot" if k % 2 else "qwen-bot" for k in range(80)])
    scores = gold.means + np.where(np.arange(80) % 2, 0.7, 0.0) + rng.normal(0, 0.2, 80)
    families = {"llama-bot": "llama", "qwen-bot": "qwen"}
    family = biases_of(gold, scores_of(scores, model="meta-llama/Llama-3.1-8B"), families)["family"]
    above = scores - gold.means
    assert family.value == pytest.approx(above[1::2].mean() - above[::2].mean())
    assert family.low < 0.7 < family.high
    assert family.low > 0.5
    assert biases_of(gold, scores_of(scores, model="gpt-5"), families)["family"].value is None
    family = biases_of(gold, scores_of(scores, model="meta-llama/Meta-Llama-3-8B"), families)["family"]
    assert family.value == pytest.approx(above[1::2].mean() - above[::2].mean())
    assert [model_parameters(name) for name in ("a/Llama-3.1-8B", "smollm2-135m-instruct", "gpt-4o")] == [
        8e9,
        135e6,
        None,
    ]


@pytest.mark.parametrize(
    ("names", "family"),
    [
        (
            ("a/Llama-3", "meta-llama/Meta-Llama-3-8B-Instruct", "Llama-3.1-8B", "llama3.2:3b", "x/Meta-Llama-3.1-70B"),
            "llama",
        ),
        (("chatgpt-4o-latest", "gpt-4o", "o3-mini", "openai/o1", "ft:gpt-4o-mini:lab", "gpt-5"), "gpt"),
        (
            ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mistral-large-latest", "Ministral-8B", "open-mixtral-8x22b"),
            "mistral",
        ),
        (("Qwen/QwQ-32B", "qwen3:8b", "Qwen2.5-7B-Instruct"), "qwen"),
        (("smollm2-135m-instruct", "HuggingFaceTB/SmolLM2-135M-Instruct"), "smollm"),
        (("claude-3-5-sonnet", "us.anthropic.claude-3-haiku"), "claude"),
        (("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "deepseek-chat"), "deepseek"),
        (("gpt2", "distilgpt2", "microsoft/DialoGPT-small"), "gpt2"),
        (("4x", "acme-7b", ""), ""),
    ],
)
def test_families_of_models_are_those_of_a_table(names, family):
    assert {name: model_family(name) for name in names} == dict.fromkeys(names, family)


def test_a_judge_as_good_as_a_rater_is_not_refused_for_few_items():
    rng = np.random.default_rng(8)
    verdicts, needed = [], []
    for _ in range(25):
        _truth, ratings = crowd(40, 5, rng)
        judge = compare_judges(gold_of(ratings[:, :4]), [scores_of(ratings[:, 4], is_fixed=True)], families={}).judges[
            0
        ]
        verdicts.append(judge.verdict)
        needed += [judge.test.n_needed] if judge.verdict == "unknown" else []
        assert judge.verdict != "unknown" or "for a judge as good as a rater" in judge.sentence
    assert "may not" not in verdicts
    assert verdicts.count("unknown") > 12
    assert 80 < np.median(needed) < 600
    n = int(np.median(needed))
    verdicts = []
    for _ in range(25):
        _truth, ratings = crowd(n, 5, rng)
        judge = compare_judges(gold_of(ratings[:, :4]), [scores_of(ratings[:, 4], is_fixed=True)], families={}).judges[
            0
        ]
        verdicts.append(judge.verdict)
    assert verdicts.count("may") >= 16, "planned with a power of .8"


def test_a_judge_that_leaves_items_out_may_not_be_said_to_replace_a_rater():
    rng = np.random.default_rng(9)
    truth, ratings = crowd(200, 4, rng)
    scores = np.clip(truth + rng.normal(0, 0.1, 200), 1, 5)
    scores[:40] = np.nan
    judge = compare_judges(gold_of(ratings), [scores_of(scores, is_fixed=True)], families={}).judges[0]
    assert judge.test.passes
    assert judge.verdict == "unknown"
    assert "It scored 160 of 200 rated items (80 %); at least 90 % are required." in judge.sentence
    assert (judge.to_json()["n_scored"], judge.to_json()["n_rated"]) == (160, 200)
    scores[20:40] = truth[20:40]
    full = compare_judges(gold_of(ratings), [scores_of(scores, is_fixed=True)], families={}).judges[0]
    assert full.verdict == "may"


def test_a_judge_is_scored_repeated_compared_in_both_orders_and_capped():
    rng = np.random.default_rng(5)
    _truth, ratings = crowd(40, 3, rng)
    gold = gold_of(ratings, context=[[f"context {k // 2}"] for k in range(40)])
    judge = RuleJudge(lambda text, repeat: 2 + int(text.split()[1]) % 3 + (repeat if text == "reply 3" else 0), high=9)
    result = score_gold(judge, gold, repeats=2, n_pairs=10)
    assert result.scores.shape == (2, 40)
    assert result.first[:3] == pytest.approx([1 + (value - 1) / 8 * 4 for value in (2, 3, 4)]), "stretched from 9 to 5"
    assert result.n_requests == 40 + 40 + 20
    compared = compare_judges(gold, [result]).judges[0]
    assert compared.biases["place"].value == pytest.approx(0.3), "the first one has .8 in either order"
    assert compared.consistency.same.mean == pytest.approx(39 / 40)
    assert compared.consistency.apart.mean == pytest.approx(0.5 / 40)
    capped = score_gold(RuleJudge(judge.rule, max_requests=33), gold, repeats=2)
    assert capped.reasons == {CAPPED: 8}
    assert int(np.isfinite(capped.first).sum()) == 32


def test_a_good_judge_may_replace_a_rater_a_reversed_one_may_not_and_little_evidence_tells_nothing():
    rng = np.random.default_rng(6)
    gold, truth = numbers(rng)
    good = score_gold(RuleJudge(lambda text, repeat: truth[text]), gold)
    noise = dict(zip(truth, rng.uniform(1, 5, 90).tolist(), strict=True))
    bad = score_gold(RuleJudge(lambda text, repeat: noise[text]), gold)
    reversed_judge = score_gold(RuleJudge(lambda text, repeat: 6 - truth[text]), gold)
    result = compare_judges(gold, [good, bad, reversed_judge], families={})
    assert [judge.verdict for judge in result.judges] == ["may", "unknown", "may not"]
    assert "It scored 90 of 90 rated items (100 %)." in result.sentences[0]
    assert "rated items would decide it" in result.sentences[1]
    assert "may not replace a rater. It scored" in result.sentences[2]
    assert "It is significantly worse by .15 than" in result.sentences[2]
    assert "may replace a rater. It scored 90 of 90 rated items (100 %). It wins the" in result.sentences[0]
    assert (
        "test against 4 of 4 raters; half are required. It is significantly worse by .15 than 0 of them."
        in result.sentences[0]
    )
    assert "do not use it as a judge here" in result.sentences[1]
    assert result.sentences[3] == SELECTED
    assert repr(result) == "\n".join(result.sentences)
    _truth, ratings = crowd(60, 2, rng)
    two = gold_of(ratings)
    alone = compare_judges(two, [scores_of(two.means + rng.normal(0, 0.3, 60), is_fixed=True)], families={})
    assert alone.judges[0].verdict == "unknown"
    assert (
        " may replace a rater. It scored 60 of 60 rated items (100 %). The alternative-annotator test is undefined: "
        "only 2 of 2" in alone.sentences[0]
    )
    plain = alone.to_json()["judges"][0]
    assert plain["consistency_reason"] == FIXED
    assert plain["cost_per_1000"] is None


def test_whole_conversations_are_judged_and_unrated_ones_make_the_means_of_bots_better():
    rng = np.random.default_rng(7)
    truth = rng.normal(3, 1, 160)
    chats = {Conversation.from_texts(["hi", f"hello {k}"], id=str(k)): "ab"[k % 2] for k in range(160)}
    rated = np.arange(60)
    ratings = Ratings(
        conversation=rated.astype(str).astype(object),
        bot=np.array(["ab"[k % 2] for k in rated], dtype=object),
        rater=np.array([f"r{k}" for k in rated], dtype=object),
        answers={"quality": np.clip(np.round(truth[rated] + rng.normal(0, 0.3, 60)), 1, 5)},
        dimensions=(RatingDimension("quality", "Quality", 1, 5),),
    )
    gold = gold_of_chats(ratings, chats, name="s", extra=[str(k) for k in range(110, 160)])
    assert (gold.unit, len(gold), np.isfinite(gold.means).sum()) == ("chat", 160, 60)
    compared = compare_judges(gold, [scores_of(truth, is_fixed=True)], families={}).judges[0]
    expected = powered_means(
        ratings, [str(k) for k in range(110)], ["ab"[k % 2] for k in range(110)], truth[:110], predictor="J"
    )
    assert compared.worth["people"].to_json() == expected.to_json()
    assert compared.worth["people"].saved > 0.2
    assert compared.worth["extra"].bots["a"].n_unrated == 25
    assert compared.biases["place"].value is None
    assert compared.test.passes is None


def test_a_sample_takes_rated_and_other_instances_in_turn_and_is_the_same_again():
    chats = {Conversation.from_texts(["hi", f"hello {k}"], id=str(k)): "a" for k in range(200)}
    few = np.arange(30)
    ratings = Ratings(
        conversation=few.astype(str).astype(object),
        bot=np.full(30, "a", dtype=object),
        rater=few.astype(object),
        answers={"quality": 1.0 + few % 5},
        dimensions=(RatingDimension("quality", "Quality", 1, 5),),
    )
    gold = gold_of_chats(ratings, chats, name="s")
    drawn = gold.sample(50)
    assert (len(drawn), int(np.isfinite(drawn.means).sum())) == (50, 25)
    assert drawn.keys == gold.sample(50).keys
    expected = dict(zip(gold.keys, gold.means.tolist(), strict=True))
    assert drawn.means == pytest.approx([expected[key] for key in drawn.keys], nan_ok=True)


def test_a_published_mean_and_raters_without_a_name_are_nobody():
    rows = items(np.array([[4.0, 2.0]] * 12), [f"reply {k}" for k in range(12)])
    for row in rows:
        row["ratings"][0]["rater"], row["ratings"][1]["rater"] = "mean", ""
    gold = gold_of_replies(judgements_of(JudgedItem.model_validate(row) for row in rows))
    assert gold.rater.tolist() == [None] * 24
    assert compare_judges(gold, [scores_of(np.arange(12.0))], families={}).judges[0].test.reason == (
        "the raters are not identified"
    )


def test_a_notebook_compares_judges_with_rated_replies():
    rng = np.random.default_rng(8)
    gold, truth = numbers(rng, n=50)
    result = judges(gold, [RuleJudge(lambda text, repeat: truth[text], name="mine")], most=40)
    assert (len(result.gold), result.judges[0].scores.judge) == (40, "mine")
    with pytest.raises(ValueError, match="words is not a metric of kind judge"):
        judges(gold, ["words"])
