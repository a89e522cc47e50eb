"""Agreement of metrics with judgements of replies."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from chatbots import Conversation
from chatbots.registry import UnknownName
from evaluation.agreement_by_group import BEYOND_SCALE, NOT_JUDGED
from evaluation.agreement_table import agreements_printed
from evaluation.formats.base import Skipped
from evaluation.items import ReplyInContext, detokenise_text, judged_read
from evaluation.metric_agreement import CLASH, DUPLICATE_ID, PARTLY_BEYOND, UNREADABLE, judge, judgements_read
from evaluation.metrics.grade import NO_KEYWORD
from evaluation.metrics.registry import metric_get
from evaluation.metrics.replies import NO_CONTEXT, NO_REFERENCE, ReplyMetric, item_scores
from evaluation.metrics.text_cache import BLANK, TextCache
from evaluation.tables import per_turn
from tests.conftest import ROOT

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
        path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
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
    found = list(judged_read(file(line(1, "x", 5), bad)))
    assert found[0].scores("good") == ([("a", 5.0)], 1)
    assert found[0].dimensions == ["good"]
    assert isinstance(found[1], Skipped)
    assert "good is 'four'" in found[1].reason


def test_a_reply_of_which_one_score_lies_beyond_the_scale_keeps_the_others_and_is_told(file):
    lines = [line(k, "x" * (k + 1), k + 1) for k in range(4)]
    lines[1]["ratings"].append({"good": 70})
    found = judge(judgements_read(file(*lines)), [Length()])["length_of_reply"].to_json()
    assert (found["n"], found["skipped"]) == (4, {})
    assert found["remarks"] == {PARTLY_BEYOND: 1}
    assert found["pearson"]["r"] == pytest.approx(1)


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
    found = judge(judgements, [metric, "bleu"], target="good")
    told = found["length_of_reply"].to_json()
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
    assert {name: one["n"] for name, one in told["models"].items()} == {"m0": 12, "m1": 12}
    assert len(metric.asked) == len({(row["context"][1], row["response"]) for row in rows})
    without = found["bleu"].to_json()
    assert without["n"] == 0
    assert without["skipped"][NO_REFERENCE] == 24
    assert without["pearson"]["reason"]["code"] == "few_pairs"
    printed = agreements_printed({name: one.to_json() for name, one in found.items()})
    assert f"24 × {NO_REFERENCE}" in printed
    json.dumps(told, allow_nan=False)


def test_models_may_number_their_replies_alike():
    found = judge(CASES / "judged_same_id_other_model.jsonl", ["words"])["words"].to_json()
    assert found["n"] == 12
    assert {name: one["n"] for name, one in found["models"].items()} == {"a": 6, "b": 6}
    assert found["skipped"] == {}


def test_a_metric_sees_its_window_without_absent_utterances_as_people_wrote_them(file):
    metric = Length()
    rows = [line(k, f"I ' m {k}", 1 + k) for k in range(4)]
    judge(judgements_read(file(*rows)), [metric])
    assert metric.asked[0] == ReplyInContext(("how are you?",), "I'm 0", None)


def test_grade_counts_replies_without_any_keyword(file):
    words = ("How is it?", "When is it?", "the dog eats food", "I love music")
    rows = [line(k, text, 1 + k, context=["do you like dogs?", "yes, a lot"]) for k, text in enumerate(words)]
    found = {
        name: one.to_json()
        for name, one in judge(judgements_read(file(*rows, line(9, " ", 1))), ["grade_lite"]).items()
    }
    told = found["grade_lite"]
    assert told["n"] == 4, "they are scored by their text"
    assert told["skipped"] == {BLANK: 1}
    assert told["remarks"] == {NO_KEYWORD: 2}
    assert f"grade_lite: 2 × {NO_KEYWORD}" in agreements_printed(found)


def test_a_metric_of_conversations_says_of_each_reply_why_it_has_no_value(file):
    rows = [line(k, "I like dogs", 1 + k % 4, context=["do you like dogs?"]) for k in range(4)]
    odd = [line(5, "zxqv", 1, context=["do you like dogs?"]), line(6, "I like dogs", 1, context=[])]
    found = judge(judgements_read(file(*rows, *odd)), ["word_coherence", "laughter"])
    assert found["word_coherence"].to_json()["skipped"] == {"no word of a text has a vector": 1, NO_CONTEXT: 1}
    printed = agreements_printed({name: one.to_json() for name, one in found.items()})
    assert "laughter: undefined, the metric or people gave all replies the same score" in printed


def test_any_metric_scores_items_as_the_last_turn_of_a_conversation():
    replies = [ReplyInContext(("hi", "hello", "how are you?"), "I am very well"), ReplyInContext((), "Hello there")]
    found = item_scores(metric_get("words"), replies, TextCache())
    assert next(iter(found)) == "words_bot"
    assert found["words_bot"].tolist() == [4, 2]


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
    with pytest.raises(ValueError, match="there are no ratings of 'better'; there is good"):
        judge(judgements, ["bleu"], target="better")


def test_what_cannot_be_computed_says_so_and_takes_nobodys_place(file):
    found = judge(judgements_read(file(*(line(k, "x", k) for k in (1, 2, 3)))), ["perplexity"])
    told = found["perplexity"].to_json()
    assert "no language model is chosen" in told["unavailable"]
    assert told["n"] == 0
    assert told["pearson"] == {"r": None, "p": None}


def test_a_column_asked_by_name_that_no_reply_has_is_undefined_with_its_reason(file):
    lines = [line(k, "a reply of some words", 1 + k % 4, reference=None) for k in range(5)]
    found = judge(judgements_read(file(*lines)), ["rouge_2"])["rouge_2"].to_json()
    assert (found["column"], found["n"]) == ("rouge_2", 0)
    assert found["skipped"] == {NO_REFERENCE: 5}
