"""Headline, plot and plans of a study agree, and closing the study changes none of them."""

import json
import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from tests.builders import make_conversation, make_rating, make_study
from tests.webapp.dashboard.test_leaderboard import study_of, text_of
from webapp.results.cache import AnalysisKey, data_of
from webapp.results.compute import PARTS
from webapp.studies.assignment.capacity import keeps_always_valid
from webapp.studies.models import Study
from webapp.studies.versions import study_edit
from webapp.transfer.import_file import import_conversations

pytestmark = pytest.mark.django_db


def page_of(client: Client, study: Study, query: str = "") -> str:
    return text_of(client.get(reverse("dashboard:study_results", args=[study.key]) + query).content.decode())


def comparisons_of(study: Study):
    return PARTS["comparisons"].make(data_of(AnalysisKey(Study.objects.get(pk=study.pk), "comparisons")), None)


def set_state(study: Study, state: str) -> None:
    """Change the state of a study whose bots are of a file, as opening and closing do."""
    Study.objects.filter(pk=study.pk).update(state=state, is_sequential=True)


def test_closing_changes_no_verdict_and_the_plot_shows_what_decides(staff: Client, tmp_path: Path) -> None:
    study = study_of(tmp_path, {"alpha": 4.6, "beta": 4.2, "gamma": 3.4}, n=14)
    imported = comparisons_of(study)
    assert (imported.compared.test, imported.means.is_always_valid) == ("fixed", False)
    assert "interval; the fixed-sample test decides which bots differ." in page_of(staff, study)

    set_state(study, Study.State.COLLECTING)
    collecting, page = comparisons_of(study), page_of(staff, study)
    assert collecting.compared.n_told_apart < imported.compared.n_told_apart
    for key, row in collecting.means.rows.items():
        once = imported.means.rows[key].interval
        assert row.interval.mean == once.mean
        assert row.interval.high - row.interval.low > once.high - once.low
    assert "% interval. Like the tests, the intervals remain valid however often you look." in page
    assert page.index("however often you look") < page.index("Rank Bot Ratings"), "above the plot"
    assert "a single look" not in page_of(staff, study, "?part=questions")

    set_state(study, Study.State.ENDED)
    closed = comparisons_of(study)
    assert closed.compared == collecting.compared
    assert closed.means == collecting.means
    words = re.compile(r"Clearly different in “Quality”.*?\. First: ")
    assert words.search(page_of(staff, study))[0] == words.search(page)[0]


def test_each_pair_has_one_plan(staff: Client, tmp_path: Path) -> None:
    study = study_of(tmp_path, {"alpha": 4.6, "beta": 4.4, "gamma": 3.4}, n=14)
    for is_collecting in (False, True):
        if is_collecting:
            set_state(study, Study.State.COLLECTING)
        page = page_of(staff, study, "?part=comparisons")
        sentences = re.findall(r"alpha and beta do not differ significantly.*?About ([\d,]+) (?:more )?each", page)
        [row] = re.findall(r"alpha − beta 14 (?:−?[\d.]+) \[[^]]*\] ([\d,]+|none)", page)
        assert {row} == set(sentences)
        result = comparisons_of(study)
        others = page[page.index("per bot for other differences, in a new study") :]
        assert f" {result.compared.smallest:.2f} 10 %" not in others


def test_a_study_with_the_number_it_was_opened_with_has_the_fixed_sample_test() -> None:
    study = make_study(bots=["eliza", "parrot"], n_conversations_wanted=2)
    for is_decided_later in (True, False):
        assert keeps_always_valid(study)
        make_rating(make_conversation(study, n_exchanges=3))
        study = Study.objects.get(pk=study.pk)
        assert keeps_always_valid(study) == is_decided_later
    assert not keeps_always_valid(study_edit(study=study, state="ended")), "it was reached"
    # A number that is chosen after ratings were seen is no plan.
    changed = study_edit(study=study_edit(study=study, state="collecting"), n_conversations_wanted=1)
    assert keeps_always_valid(study_edit(study=changed, state="ended"))


def test_a_study_closed_before_its_number_keeps_the_always_valid_test() -> None:
    study = make_study(bots=["eliza", "parrot"], n_conversations_wanted=2)
    make_rating(make_conversation(study, n_exchanges=3))
    assert keeps_always_valid(study_edit(study=study, state="ended"))
    assert not keeps_always_valid(make_study("draft", state="draft"))


def test_two_bots_with_too_few_ratings_are_not_called_one(staff: Client, tmp_path: Path) -> None:
    turns = [{"speaker": speaker, "text": "hello"} for _ in range(3) for speaker in ("human", "bot")]
    lines = [
        json.dumps({"dialogue_id": f"d{k}", "bot": bot, "turns": turns, "ratings": [{"rater": f"r{k}", "quality": 3}]})
        for k, bot in enumerate(["alpha", "beta", "beta"])
    ]
    (tmp_path / "few.jsonl").write_text("\n".join(lines))
    import_conversations(tmp_path / "few.jsonl", study_key="few", scale=(1, 5))
    page = page_of(staff, Study.objects.get(key="few"))
    assert "Only one bot is rated" not in page
    assert "No two bots can be compared yet: a bot has only one rating, so its spread is unknown." in page


def test_pairs_without_a_test_are_counted_in_the_headline(staff: Client, tmp_path: Path) -> None:
    study = study_of(tmp_path, {"alpha": 4.6, "beta": 4.4}, n=6)
    turns = [{"speaker": speaker, "text": "hello"} for _ in range(3) for speaker in ("human", "bot")]
    (tmp_path / "more.jsonl").write_text(
        json.dumps({"dialogue_id": "x", "bot": "new", "turns": turns, "ratings": [{"rater": "z", "quality": 3}]})
    )
    import_conversations(tmp_path / "more.jsonl", study_key=study.key, scale=(1, 7))
    assert "2 pairs cannot be compared: a bot has only one rating, so its spread is unknown." in page_of(staff, study)
