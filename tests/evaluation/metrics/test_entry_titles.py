"""Titles of metrics: two entries of one kind show their ids."""

from evaluation.metrics.judge import JudgeMetric
from evaluation.metrics.likelihood import Perplexity


def test_two_entries_of_one_kind_have_different_titles() -> None:
    first, second = JudgeMetric("judge_a", bot="a"), JudgeMetric("judge_b", bot="b")
    assert (first.title, second.title) == ("Language model as judge (judge_a)", "Language model as judge (judge_b)")
    assert first.columns[0].title.startswith("Language model as judge (judge_a)")
    assert first.fresh().title == first.title


def test_a_name_of_the_entry_and_the_only_entry_of_a_kind_need_no_id() -> None:
    assert JudgeMetric("judge_a", "Strict judge", bot="a").title == "Strict judge"
    assert JudgeMetric().title == "Language model as judge"
    assert Perplexity("perplexity_small", model="m").title.endswith("(perplexity_small)")
