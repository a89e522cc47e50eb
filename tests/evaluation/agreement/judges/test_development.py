"""Split, differences of versions and panels, against independent computations."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from chatbots import Conversation
from evaluation.agreement.judges.agreement import agreement_difference, agreement_of
from evaluation.agreement.judges.development import assign_parts, compare_words, split_groups
from evaluation.agreement.judges.panels import panel_pairs, panel_scores
from evaluation.agreement.judges.scoring import JudgeScores, score_gold
from evaluation.agreement.llm_judge import JudgedPair, JudgedPairs
from evaluation.metrics.verdicts import read_reason
from tests.evaluation.agreement.judges.fake_judge import RuleJudge, gold_of

RNG = np.random.default_rng(7)


def jackknife(gold, statistic):
    """Return value and 95 % interval of a statistic of the kept items, by leaving out one item at a time."""
    n = len(gold)
    parts = np.array([statistic(np.arange(n) != k) for k in range(n)])
    freedom = min(n - 1, 2 * n / (stats.kurtosis(parts, bias=False) + 2))
    half = stats.t.ppf(0.975, freedom) * ((n - 1) * parts.var()) ** 0.5
    value = statistic(np.ones(n, dtype=bool))
    return value, value - half, value + half


def test_the_difference_of_two_versions_has_the_interval_of_the_paired_jackknife():
    truth = RNG.normal(3, 1, 50)
    ratings = np.clip(np.round(truth + RNG.normal(0, 0.6, 50)), 1, 5)[:, None]
    first, second = truth + RNG.normal(0, 0.5, 50), truth + RNG.normal(0, 1.5, 50)
    gold = gold_of(ratings)

    def statistic(kept):
        rho = [stats.spearmanr(scores[kept], ratings[kept, 0]).statistic for scores in (first, second)]
        return rho[0] - rho[1]

    difference = agreement_difference(gold, first, second)
    value, low, high = jackknife(gold, statistic)
    assert difference.value == pytest.approx(value)
    assert (difference.low, difference.high) == pytest.approx((low, high))
    assert agreement_difference(gold, second, first).value == pytest.approx(-value)
    assert agreement_of(gold, first).value - agreement_of(gold, second).value == pytest.approx(value)
    missing = np.where(np.arange(50) < 5, np.nan, second)
    kept = agreement_difference(gold, first, missing)
    assert (kept.n, kept.value) == (45, pytest.approx(statistic(np.arange(50) >= 5)))
    same = agreement_difference(gold, first, first)
    assert (same.value, same.low) == (0, None)


def test_contexts_stay_together_and_later_items_move_no_earlier_one():
    ratings = RNG.integers(1, 6, (400, 2)).astype(float)
    gold = gold_of(ratings, context=[[f"context {k // 4}"] for k in range(400)])
    parts = assign_parts(gold, "a", 0.3)
    assert {len(set(parts[k : k + 4])) for k in range(0, 400, 4)} == {1}
    assert parts[:200] == assign_parts(gold.take(range(200)), "a", 0.3)
    assert parts != assign_parts(gold, "b", 0.3)
    test_contexts = parts[::4].count("test")
    assert stats.binomtest(test_contexts, 100, 0.3).pvalue > 0.001


def test_the_same_words_and_replies_of_one_chat_are_never_divided():
    chats = ["0b8f1c1e-0000-4000-8000-000000000001", "0b8f1c1e-0000-4000-8000-000000000002"]
    names = [f"{chats[0]}/1", f"{chats[0]}/3", f"{chats[1]}/1", "a", "b", "c", "d"]
    contexts = [["Hi"], ["Hi", "reply", "Yes"], ["Hi"], ["Same  words"], ["same words"], [], []]
    sources = ["s", "s", "s", "one", "two", "one", "one"]
    gold = gold_of(np.full((7, 1), 3.0), id=names, context=contexts, source=sources)
    groups = split_groups(gold)
    assert groups[0] == groups[1] != groups[2]
    assert groups[3] == groups[4]
    assert len(set(groups)) == 5

    talks = [Conversation.from_texts(texts, id=str(k)) for k, texts in enumerate((["Hi", "Hello"], ["hi", "hello"]))]
    assert len(set(split_groups(replace(gold.take([0, 1]), texts=tuple(talks))))) == 1


def test_a_panel_votes_or_averages_and_skips_what_one_judge_skipped():
    gold = gold_of(RNG.integers(1, 6, (4, 3)).astype(float))
    rows = np.array([[1.2, 5, 2, 3], [1.4, 4, 4, np.nan], [4.9, 4, 3, 3.0]])
    members = [
        JudgeScores(str(k), str(k), str(k), "p", "m", row[None], n_requests=4, cost=k and 1.0)
        for k, row in enumerate(rows)
    ]
    mean, vote = (panel_scores(gold, members, rule) for rule in ("mean", "vote"))
    assert mean.first[:3] == pytest.approx(rows[:, :3].mean(axis=0))
    assert vote.first[:3] == pytest.approx([1, 4, 3]), "three different votes count alike"
    assert np.isnan([mean.first[3], vote.first[3]]).all()
    assert (mean.n_requests, mean.cost) == (12, 2.0)
    assert (
        panel_scores(gold, [*members, JudgeScores("x", "x", "x", "p", "m", rows[:1], cost=None)], "mean").cost is None
    )


def test_a_panel_votes_on_each_order_of_a_pair():
    orders = {"a": (0.9, 0.2), "b": (0.6, 0.4), "c": (0.1, 0.9)}  # of preferring the reply shown first
    members = [
        JudgedPairs(name, (JudgedPair("1", "c", "m", "n", (f + 1 - s) / 2, (f + s) / 2, 1, 1),), 2, 0)
        for name, (f, s) in orders.items()
    ]
    [voted], [averaged] = (panel_pairs(members, rule).pairs for rule in ("vote", "mean"))
    assert (voted.preference, voted.first_place, voted.preferred) == (1, 0.5, "first")
    assert averaged.preference == pytest.approx(np.mean([(f + 1 - s) / 2 for f, s in orders.values()]))


def test_examples_and_reasons_change_the_identity_and_no_text_is_in_it():
    plain = RuleJudge(lambda text, repeat: 3.0)
    examples = [{"context": ["hello"], "reply": "a secret", "rating": 2, "reason": "too short"}]
    shown, other = (RuleJudge(plain.rule, examples=[{**examples[0], "rating": rating}]) for rating in (2, 3))
    assert len({judge.identity.key for judge in (plain, shown, other)}) == 3
    assert "secret" not in repr(shown.identity.as_dict())
    gold = gold_of(np.full((3, 1), 4.0))
    prompt = shown.reply_prompt(gold.texts[0], "overall")
    assert prompt.index("a secret") < prompt.index("too short\nRating: 2") < prompt.index("reply 0")
    assert score_gold(shown, gold).first.tolist() == [3, 3, 3]
    with pytest.raises(ValueError, match="an example is rated 9; ratings are from 1 to 5"):
        RuleJudge(plain.rule, examples=[{**examples[0], "rating": 9}])


def test_changes_of_a_prompt_rebuild_both_texts():
    before, after = "Rate the reply. Be strict.", "Rate the last reply, and be strict!"
    pieces = compare_words(before, after)
    assert "".join(text for kind, text in pieces if kind != "insert") == before
    assert "".join(text for kind, text in pieces if kind != "delete") == after


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"reason": "It is kind.", "rating": 4}', "It is kind."),
        ("It is kind.\nRating: 4", "It is kind."),
        ("Rating: 4", ""),
        ("4", ""),
        ('{"rating": 4}', ""),
    ],
)
def test_the_reason_is_what_a_judge_writes_beside_its_verdict(text, reason):
    assert read_reason(text) == reason
