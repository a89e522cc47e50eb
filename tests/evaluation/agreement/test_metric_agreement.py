"""Agreement of metrics with people's judgements, by data set, and of combinations of metrics."""

import json

import numpy as np
import pytest
from scipy import stats

from chatbots import Conversation
from chatbots.registry import UnknownName
from evaluation.agreement.agreement_by_group import (
    BEYOND_SCALE,
    NO_RATERS,
    NOT_JUDGED,
    ONLY_MEANS,
    best_raters_printed,
    ceiling_of,
    max_over_raters,
    max_over_raters_everywhere,
)
from evaluation.agreement.agreement_table import agreements_printed
from evaluation.agreement.combination import ScoredSet, combine, combine_sets
from evaluation.agreement.metric_agreement import (
    CLASH,
    DUPLICATE_ID,
    PARTLY_BEYOND,
    UNREADABLE,
    judge,
    judgements_of,
    judgements_read,
)
from evaluation.data.formats.base import Skipped
from evaluation.data.items import JudgedItem, ReplyInContext, detokenise_text, judged_read
from evaluation.data.tables import per_turn
from evaluation.metrics.grade import NO_KEYWORD
from evaluation.metrics.registry import metric_get
from evaluation.metrics.replies import NO_CONTEXT, NO_REFERENCE, ReplyMetric, item_scores
from evaluation.metrics.text_cache import BLANK, TextCache
from tests.conftest import ROOT
from tests.evaluation import simulated_gains

CASES = ROOT / "tests" / "cases"


class Length(ReplyMetric):
    """Counts characters, and what it was asked."""

    name = "length_of_reply"
    title = "Length"
    columns = per_turn(
        "length_of_reply", "Length", unit="1", range=(0, None), direction="higher", description="Length."
    )
    window = 1

    def __init__(self):
        self.asked = []

    def score(self, replies, shared):
        self.asked += replies
        return {"length_of_reply": np.array([len(reply.response) for reply in replies])}


def line(number, response, score, **more):
    return {
        "id": number,
        "source": "s",
        "context": ["", "how are you ?"],
        "response": response,
        "ratings": [{"rater": "a", "good": score}, {"rater": "b", "good": score + 1}],
        "scale": [1, 5],
        **more,
    }


@pytest.fixture
def file(tmp_path):
    def write(*lines):
        path = tmp_path / "judged.jsonl"
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return path

    return write


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("I ' m fine , it 's good .", "I'm fine, it's good."),
        ("do n't  you can ' t do n ' t", "don't you can't don't"),
        ("What 's up ? ! . . .", "What's up?!..."),
        ("that's :) fine: I'm OK, 3.14 a.m.", "that's :) fine: I'm OK, 3.14 a.m."),
        ("rock ' n ' roll , the dogs ' tails", "rock ' n ' roll, the dogs ' tails"),
    ],
)
def test_tokens_are_put_together_as_a_person_writes(text, wanted):
    assert detokenise_text(text) == wanted
    assert detokenise_text(wanted) == wanted


def test_scores_beyond_the_scale_and_texts_for_numbers_are_told(file):
    bad = line(2, "x", 1) | {"ratings": [{"good": "four"}]}
    results = list(judged_read(file(line(1, "x", 5), bad)))
    assert results[0].scores("good") == ([("a", 5.0)], 1)
    assert results[0].dimensions == ["good"]
    assert isinstance(results[1], Skipped)
    assert "good is 'four'" in results[1].reason


def test_a_reply_of_which_one_score_lies_beyond_the_scale_keeps_the_others_and_is_told(file):
    lines = [line(k, "x" * (k + 1), k + 1) for k in range(4)]
    lines[1]["ratings"].append({"good": 70})
    document = judge(judgements_read(file(*lines)), [Length()])["length_of_reply"].to_json()
    assert (document["n"], document["skipped"]) == (4, {})
    assert document["remarks"] == {PARTLY_BEYOND: 1}
    assert document["pearson"]["r"] == pytest.approx(1)


def test_agreement_is_scipys_and_everything_left_out_is_counted(file):
    rng = np.random.default_rng(1)
    rows = [
        line(k, "x" * int(n), int(score), model=f"m{k % 2}", context=["hi", f"context {k // 3}"])
        for k, (n, score) in enumerate(zip(rng.integers(1, 30, 24), rng.integers(1, 5, 24), strict=True))
    ]
    odd = [
        line(0, "again", 1, model="m0"),
        rows[1],
        line(90, "  ", 2),
        line(91, "far", 70),
        line(92, "unjudged", 2) | {"ratings": [{"other": 3}]},
        "{",
    ]
    metric = Length()
    judgements = judgements_read(file(*rows, *odd))
    assert judgements.lines[0].startswith("line 25: id 's/0' of model 'm0' has other texts")
    assert judgements.lines[1].startswith("line 30: not JSON")
    result = judge(judgements, [metric, "bleu"], target="good")
    told = result["length_of_reply"].to_json()
    x = [len(row["response"]) for row in rows]
    y = [row["ratings"][0]["good"] + 0.5 if row["ratings"][0]["good"] < 5 else 5 for row in rows]
    for name, test in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall", stats.kendalltau)):
        assert told[name]["r"] == pytest.approx(test(x, y).statistic)
        low, high = told[name]["ci95"]
        assert low < told[name]["r"] < high
        assert (told[name]["p"] < 0.05) == (not low <= 0 <= high), "over contexts, too"
    assert told["n"] == 24
    assert told["n_contexts"] == 8
    assert told["n_responses"] == len({row["response"] for row in rows})
    assert told["skipped"] == {
        BLANK: 1, BEYOND_SCALE: 1, NOT_JUDGED: 1, DUPLICATE_ID: 1, CLASH: 1, UNREADABLE: 1,
    }  # fmt: skip
    assert {name: model["n"] for name, model in told["models"].items()} == {"m0": 12, "m1": 12}
    assert len(metric.asked) == len({(row["context"][1], row["response"]) for row in rows})
    document = result["bleu"].to_json()
    assert document["n"] == 0
    assert document["skipped"][NO_REFERENCE] == 24
    assert document["pearson"]["reason"]["code"] == "few_pairs"
    printed = agreements_printed({name: one.to_json() for name, one in result.items()})
    assert f"24 × {NO_REFERENCE}" in printed
    json.dumps(told, allow_nan=False)


def test_models_may_number_their_replies_alike():
    document = judge(CASES / "judged_same_id_other_model.jsonl", ["words"])["words"].to_json()
    assert document["n"] == 12
    assert {name: model["n"] for name, model in document["models"].items()} == {"a": 6, "b": 6}
    assert document["skipped"] == {}


def test_a_metric_sees_its_window_without_absent_utterances_as_people_wrote_them(file):
    metric = Length()
    rows = [line(k, f"I ' m {k}", 1 + k) for k in range(4)]
    judge(judgements_read(file(*rows)), [metric])
    assert metric.asked[0] == ReplyInContext(("how are you?",), "I'm 0", None)


def test_grade_counts_replies_without_any_keyword(file):
    words = ("How is it?", "When is it?", "the dog eats food", "I love music")
    rows = [line(k, text, 1 + k, context=["do you like dogs?", "yes, a lot"]) for k, text in enumerate(words)]
    results = {
        name: one.to_json()
        for name, one in judge(judgements_read(file(*rows, line(9, " ", 1))), ["grade_lite"]).items()
    }
    grade_lite = results["grade_lite"]
    assert grade_lite["n"] == 4, "they are scored by their text"
    assert grade_lite["skipped"] == {BLANK: 1}
    assert grade_lite["remarks"] == {NO_KEYWORD: 2}
    assert f"grade_lite: 2 × {NO_KEYWORD}" in agreements_printed(results)


def test_a_metric_of_conversations_says_of_each_reply_why_it_has_no_value(file):
    rows = [line(k, "I like dogs", 1 + k % 4, context=["do you like dogs?"]) for k in range(4)]
    odd = [line(5, "zxqv", 1, context=["do you like dogs?"]), line(6, "I like dogs", 1, context=[])]
    result = judge(judgements_read(file(*rows, *odd)), ["word_coherence", "laughter"])
    assert result["word_coherence"].to_json()["skipped"] == {"no word of a text has a vector": 1, NO_CONTEXT: 1}
    printed = agreements_printed({name: one.to_json() for name, one in result.items()})
    assert "laughter: undefined, the metric or people gave all replies the same score" in printed


def test_any_metric_scores_items_as_the_last_turn_of_a_conversation():
    replies = [ReplyInContext(("hi", "hello", "how are you?"), "I am very well"), ReplyInContext((), "Hello there")]
    result = item_scores(metric_get("words"), replies, TextCache())
    assert next(iter(result)) == "words_bot"
    assert result["words_bot"].tolist() == [4, 2]


def test_a_turn_level_metric_measures_conversations_too():
    talk = Conversation.from_texts(["hi", "hello", "well?", "  ", "so?", "fine!"], id="c")
    table = Length().compute([talk])
    assert table.turns["length_of_reply"].dropna().tolist() == [5, 5]
    assert table.conversations["length_of_reply"].tolist() == [5]
    assert metric_get("bleu").compute([talk]).conversations["bleu_4"].isna().all()
    assert NO_REFERENCE in metric_get("bleu").compute([talk]).reasons["bleu_4"]


def test_columns_can_be_asked_for_and_unknown_names_are_told(file):
    judgements = judgements_read(file(*(line(k, "a b " * k, k, reference="a b c d") for k in (1, 2, 3, 4))))
    assert list(judge(judgements, ["bleu_1"])["bleu_1"].columns) == ["bleu_1"]
    with pytest.raises(UnknownName, match="bleu"):
        judge(judgements, ["bluw"])
    with pytest.raises(ValueError, match="there are no ratings of 'better'; available: good"):
        judge(judgements, ["bleu"], target="better")


def test_what_cannot_be_computed_says_so_and_takes_nobodys_place(file):
    result = judge(judgements_read(file(*(line(k, "x", k) for k in (1, 2, 3)))), ["perplexity"])
    document = result["perplexity"].to_json()
    assert "no language model is chosen" in document["unavailable"]
    assert document["n"] == 0
    assert document["pearson"] == {"r": None, "p": None}


def test_a_column_asked_by_name_that_no_reply_has_is_undefined_with_its_reason(file):
    lines = [line(k, "a reply of some words", 1 + k % 4, reference=None) for k in range(5)]
    document = judge(judgements_read(file(*lines)), ["rouge_2"])["rouge_2"].to_json()
    assert (document["column"], document["n"]) == ("rouge_2", 0)
    assert document["skipped"] == {NO_REFERENCE: 5}


def test_the_best_rater_and_the_bounds_of_people_are_scipys_and_the_best_is_never_below_the_mean():
    rng = np.random.default_rng(2)
    scores = rng.integers(1, 7, size=(3, 20)).astype(float)
    values = scores[1] + rng.normal(size=20)
    given = [[(name, scores[k, n]) for k, name in enumerate("abc")] for n in range(20)]
    result = max_over_raters(values, given)
    own = [stats.spearmanr(values, score)[0] for score in scores]
    pairs = [stats.spearmanr(scores[a], scores[b])[0] for a, b in ((0, 1), (0, 2), (1, 2))]
    spearman = result["spearman"]
    assert spearman["max_over_raters"] == pytest.approx(max(own))
    assert spearman["mean_over_raters"] == pytest.approx(np.mean(own))
    assert spearman["max_over_raters"] >= spearman["mean_over_raters"]
    assert (spearman["human_mean"], spearman["human_max"]) == pytest.approx((np.mean(pairs), max(pairs)))


def test_published_means_are_no_raters():
    result = max_over_raters(np.arange(4.0), [[("mean", k)] for k in range(4)])
    assert result == {"n_raters": 0, "n_named": 0, "replies": {}, "reason": NO_RATERS}
    assert NO_RATERS in "\n".join(best_raters_printed({"m": {"max_over_raters": result}}))


def test_who_judged_fewer_than_half_of_the_replies_is_not_the_best_rater():
    rng = np.random.default_rng(4)
    values = rng.normal(size=12)
    usual = [[("a", float(rng.integers(1, 6))), ("b", float(rng.integers(1, 6)))] for _ in values]
    rare = [[*one, ("c", value)] if k < 5 else one for k, (one, value) in enumerate(zip(usual, values, strict=True))]
    result = max_over_raters(values, rare)
    assert result["replies"] == {"a": 12, "b": 12, "c": 5}
    assert (result["n_raters"], result["n_named"]) == (2, 3)
    assert set(result["pearson"]["raters"]) == {"a", "b"}
    assert result["pearson"] == max_over_raters(values, usual)["pearson"]


def test_each_cell_has_its_best_rater_and_people_stand_below_the_metrics():
    rng = np.random.default_rng(5)
    sources = np.array(["s"] * 10 + ["t"] * 10, dtype=object)
    models = np.array(["x", "y"] * 10, dtype=object)
    scores = rng.integers(1, 6, size=(2, 20)).astype(float)
    values = scores[0] + rng.normal(size=20)
    given = [[("a", scores[0, k]), ("b", scores[1, k])] for k in range(20)]
    result = max_over_raters_everywhere(values, given, sources, models)
    here = (sources == "t") & (models == "y")
    expected = max(stats.pearsonr(values[here], score[here])[0] for score in scores)
    assert result["sources"]["t"]["models"]["y"]["pearson"]["max_over_raters"] == pytest.approx(expected)  # fmt: skip
    assert result["models"]["x"]["replies"] == {"a": 10, "b": 10}
    told = best_raters_printed({"m": {"max_over_raters": result}})
    rows = [line.split()[:3] for line in told if line.startswith(("m ", "Human "))]
    cells = [["all", "all"], ["all", "x"], ["all", "y"], *([d, m] for d in "st" for m in ("all", "x", "y"))]
    assert rows == [[name, *cell] for name in ("m", "Human") for cell in cells]
    [line] = [line for line in told if line.split()[:3] == ["m", "t", "y"]]
    assert line.split()[3:6] == ["2", "of", "2"]


def test_the_ceiling_is_the_root_of_the_means_reliability():
    # Two raters: between items mean square 2·var(means) = 2·4 = 8; within Σ(d²/2)/3 = (2 + 0 + 2)/3 = 4/3.
    result = ceiling_of([[("a", 0), ("b", 2)], [("a", 3), ("b", 3)], [("c", 4), ("d", 6)]])
    assert result.r == pytest.approx(np.sqrt((8 - 4 / 3) / 8))
    assert result.low < result.r < result.high
    assert (result.n_items, result.n_ratings) == (3, 6)


def test_a_metric_that_knows_the_true_values_reaches_it():
    rng = np.random.default_rng(0)
    true = rng.normal(size=4000)
    rated = true[:, None] + rng.normal(scale=2, size=(4000, 3))
    result = ceiling_of([[(str(k), value) for k, value in enumerate(row)] for row in rated])
    assert np.corrcoef(true, rated.mean(axis=1))[0, 1] == pytest.approx(result.r, abs=0.02)


def test_it_is_unknown_where_only_means_are_or_one_rater_was():
    assert ceiling_of([[("mean", 3.0)], [("mean", 4.0)]]).reason == ONLY_MEANS
    alone = ceiling_of([[("a", 3.0)], [("a", 4.0)]])
    assert alone.r is None
    assert alone.reason
    assert alone.to_json()["ci95"] is None


def items():
    rows = []
    for k, (said, references) in enumerate(
        [("a b c", ["x", "a b c"]), ("a b", ["a c", "b"]), ("x y", ["a", "q"]), ("q r s", ["q t", "s"])]
    ):
        rows.append(
            {
                "id": str(k),
                "context": [f"said {k}"],
                "response": said,
                "reference": references[0],
                "references": references,
                "ratings": [{"rater": "a", "overall": 5 - k}, {"rater": "b", "overall": 5 - k // 2}],
                "scale": [1, 5],
            }
        )
    return judgements_of(JudgedItem.model_validate_json(json.dumps(row)) for row in rows)


def test_several_references_give_the_best_score_or_the_mean():
    result = judge(items(), ["rouge_1"])["rouge_1"]
    shares = [[0.0, 1.0], [0.5, 2 / 3], [0.0, 0.0], [2 / 5, 1 / 2]]
    assert result.scores["rouge_1"].tolist() == pytest.approx([max(row) for row in shares])

    class Averaged(type(metric_get("rouge"))):
        over_references = "mean"

    result = judge(items(), [Averaged()])["rouge"]
    assert result.scores["rouge_1"].tolist() == pytest.approx([np.mean(row) for row in shares])


def test_rouge_l_takes_precision_and_recall_each_of_the_reference_that_is_best_for_it():
    row = {
        "id": "1", "context": ["said"], "response": "a b c d", "reference": "a b c x y z",
        "references": ["a b c x y z", "a b"], "ratings": [{"overall": 3}], "scale": [1, 5],
    }  # fmt: skip
    one = judgements_of([JudgedItem.model_validate_json(json.dumps(row))])
    rouge_l = judge(one, ["rouge_l"])["rouge_l"].scores["rouge_l"]
    assert rouge_l.tolist() == pytest.approx([2.44 * 0.75 / (1 + 1.44 * 0.75)])


def test_the_ceiling_stands_beside_the_metric():
    told = {"rouge_1": judge(items(), ["rouge_1"])["rouge_1"].to_json()}
    assert 0.5 < told["rouge_1"]["ceiling"]["r"] <= 1
    printed = agreements_printed(told)
    assert "ceiling: expected Pearson's r" in printed
    assert printed.splitlines()[0].split()[-1] == "ceiling"


def data_set(name, seed, n=60, signal=(0.6, 0.6), missing=0):
    """Make replies in contexts of three, of which two metrics each see a part of what people judge."""
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(2, n))
    human = np.array(signal) @ parts + 0.3 * rng.normal(size=n)
    scores = {"topic": np.exp(parts[0]), "likely": parts[1].copy()}
    scores["likely"][:missing] = np.nan
    return ScoredSet(name, human, np.array([f"c{k // 3}" for k in range(n)], dtype=object), scores)


def test_weights_are_those_of_ridge_on_the_other_sets():
    sets = [data_set(name, seed) for seed, name in enumerate("abcd")]

    def normal(values):
        ranks = stats.rankdata(values)
        quantiles = stats.norm.ppf((ranks - 3 / 8) / (len(values) + 1 / 4))
        return (quantiles - quantiles.mean()) / quantiles.std()

    def ridge(of, penalty):
        left, right = penalty * len(of) * np.eye(2), np.zeros(2)
        for one in of:
            x = np.stack([normal(values) for values in one.scores.values()], axis=1)
            y = (one.human - one.human.mean()) / one.human.std()
            left, right = left + x.T @ x / len(y), right + x.T @ y / len(y)
        return np.linalg.solve(left, right)

    for k, result in enumerate(combine_sets(sets).sets):
        others = [one for i, one in enumerate(sets) if i != k]
        np.testing.assert_allclose(list(result.weights.values()), ridge(others, result.penalty))
        x = np.stack([normal(values) for values in sets[k].scores.values()], axis=1)
        predicted = x @ ridge(others, result.penalty)
        assert result.combined["pearson"] == pytest.approx(stats.pearsonr(predicted, sets[k].human)[0])
        spearman = stats.spearmanr(sets[k].scores["topic"], sets[k].human)[0]
        assert result.single["spearman"]["topic"] == pytest.approx(spearman)


def test_nothing_of_the_set_left_out_is_learned_from():
    sets = [data_set(name, seed) for seed, name in enumerate("abc")]
    upside_down = ScoredSet("c", -sets[2].human, sets[2].contexts, sets[2].scores)
    first, second = combine_sets(sets).sets[2], combine_sets([*sets[:2], upside_down]).sets[2]

    assert (first.weights, first.best, first.penalty) == (second.weights, second.best, second.penalty)
    assert first.combined["pearson"] == pytest.approx(-second.combined["pearson"])


def test_two_signals_are_better_than_one_and_a_copy_is_not():
    both = combine_sets([data_set(name, seed) for seed, name in enumerate("abcd")])
    assert both.gains["pearson"].claimed
    assert both.gains["spearman"].claimed

    sets = [data_set(name, seed, signal=(0.6, 0.0)) for seed, name in enumerate("abcd")]
    copies = [
        ScoredSet(one.name, one.human, one.contexts, {"topic": one.scores["topic"], "again": one.scores["topic"]})
        for one in sets
    ]  # fmt: skip
    gain = combine_sets(copies).gains["spearman"]
    assert gain.value == pytest.approx(0)
    assert not gain.claimed


def _one_reply(values, name):
    result = np.zeros(len(values))
    result[0] = name == "a"
    return result


def test_a_combination_that_one_context_carries_claims_nothing():
    sets = [data_set(name, seed) for seed, name in enumerate("abcd")]
    alone = []
    for one in sets:
        human = np.zeros(len(one.human))
        human[0] = 1.0
        alone.append(ScoredSet(one.name, human, np.arange(len(human)).astype(str), one.scores))
    assert combine_sets(alone[:3]).gains["pearson"].reason is None, "one context of each of three sets carries it"
    # Of the best metric one reply of one set is not 0, and it is constant in the others.
    best = [
        ScoredSet(one.name, one.human, one.contexts, {name: _one_reply(v, one.name) for name, v in one.scores.items()})
        for one in sets
    ]  # fmt: skip
    gain = combine_sets(best).gains["pearson"]
    assert (gain.low, gain.high, gain.claimed) == (None, None, False)
    assert gain.to_json()["ci95"] is None
    assert gain.to_json()["reason"]["code"] == "few_carry"


def test_the_interval_is_that_of_another_data_set_and_of_other_contexts():
    sets = [data_set(name, seed, signal=(0.6, 0.4)) for seed, name in enumerate("abcd")]
    result = combine_sets(sets)
    gain = result.gains["pearson"]
    own = [one.combined["pearson"] - one.single["pearson"][one.best] for one in result.sets]
    half = stats.t.ppf(0.975, 3) * np.std(own, ddof=1) * np.sqrt(1 / 4 + 1 / 3)
    # Contexts come beside it: less than doubles it here, and never narrows it.
    assert half < gain.high - gain.value < 2 * half
    # Sets that gain alike leave the contexts: of one set four times, by the jackknife with weights of two metrics as
    # they are.
    alike = [ScoredSet(name, sets[0].human, sets[0].contexts, sets[0].scores) for name in "abcd"]
    same = combine_sets(alike)
    gain, (one, *_rest) = same.gains["pearson"], same.sets
    x = np.stack([stats.norm.ppf((stats.rankdata(v) - 3 / 8) / 60.25) for v in sets[0].scores.values()], axis=1)
    x = (x - x.mean(axis=0)) / x.std(axis=0) @ list(one.weights.values())
    best = sets[0].scores[one.best]
    without = np.array(
        [
            stats.pearsonr(x[rest], sets[0].human[rest])[0] - stats.pearsonr(best[rest], sets[0].human[rest])[0]
            for name in dict.fromkeys(sets[0].contexts)
            for rest in [sets[0].contexts != name]
        ]
    )
    error = np.sqrt(19 / 20 * ((without - without.mean()) ** 2).sum() / 4)
    assert 1.96 * error < gain.high - gain.value < 2.3 * error


def test_undefined_scores_are_counted_and_a_metric_undefined_on_a_whole_set_is_not_its_best():
    sets = [data_set("a", 0, missing=7), data_set("b", 1), data_set("c", 2)]
    sets[1].scores["topic"][:] = np.nan
    results = {one.name: one for one in combine_sets(sets).sets}

    assert results["a"].imputed == {"likely": 7}
    assert results["b"].imputed == {"topic": 60}
    assert results["b"].best == "likely"
    assert results["b"].single["pearson"]["topic"] is None


def test_what_cannot_be_combined_is_named():
    sets = [data_set(name, seed) for seed, name in enumerate("abc")]
    with pytest.raises(ValueError, match=r"2 data sets \(a, b\) are too few"):
        combine_sets(sets[:2])
    with pytest.raises(ValueError, match="two data sets are named 'a'"):
        combine_sets([*sets, sets[0]])
    alone = [ScoredSet(one.name, one.human, one.contexts, {"topic": one.scores["topic"]}) for one in sets]  # fmt: skip
    with pytest.raises(ValueError, match="1 metrics that can be computed"):
        combine_sets(alone)
    with pytest.raises(ValueError, match="all equal in c"):
        combine_sets([*sets[:2], ScoredSet("c", np.ones(60), sets[2].contexts, sets[2].scores)])


def test_files_are_scored_and_their_data_sets_combined(tmp_path):
    texts = ["no", "yes it is", "a much longer answer, with words", "short", "and what do you think?"]
    for name in ("one", "two", "three"):
        lines = [
            f'{{"id": {k}, "context": ["so?"], "response": "{text}", "ratings": [{{"good": {len(text) % 7 + k % 2}}}]}}'
            for k, text in enumerate(texts)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    files = [tmp_path / f"{name}.jsonl" for name in ("one", "two", "three")]
    document = combine(files, ["words_bot", "question_bot"]).to_json()

    assert list(document["sets"]) == ["one", "two", "three"]
    assert document["sets"]["one"]["n"] == 5
    assert set(document["pearson"]) == {"combined", "best", "gain", "ci95", "claimed"}
    assert json.loads(json.dumps(document)) == document  # nothing that a file would keep as words


@pytest.mark.slow
def test_the_interval_of_a_gain_holds():
    """40 studies of three data sets, three Monte-Carlo errors."""
    result = simulated_gains.combined(simulated_gains.COMBINED["3 sets that differ"], 40)
    assert result.inside / result.of >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 40)
