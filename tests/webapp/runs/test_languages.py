"""Who measures German conversations with English metrics is told so."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

from evaluation.metrics.registry import metric_get
from tests.evaluation.test_languages import GERMAN, SPANISH
from webapp.runs.models import MetricRun
from webapp.runs.selectors.languages import languages_of, languages_told, study_languages
from webapp.studies.models import Study
from webapp.transfer.jobs import import_conversations

ENGLISH = [
    "Hello, how was your day?",
    "Fine, thanks. I took the dog to the park and then it rained.",
]


def study_of(folder: Path, *talks: list[str]) -> Study:
    """Make an imported study of these conversations."""
    path = folder / "talks.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, texts in enumerate(talks):
            turns = [
                {"speaker": ("human", "bot")[i % 2], "text": text} for i, text in enumerate(texts)
            ]
            record = {"dialogue_id": str(number), "bot": "b", "turns": turns}
            file.write(json.dumps({**record, "ratings": [{"rater": "r", "quality": 3}]}) + "\n")
    import_conversations(path, study_key="talks", scale=(1, 7))
    return Study.objects.get(key="talks")


def compute(*metrics: str) -> str:
    """Return what `compute_metrics` tells on standard error."""
    err = StringIO()
    where = ("--study", "talks", "--metrics", ",".join(metrics), "--inline", "--json")
    call_command("compute_metrics", *where, stdout=StringIO(), stderr=err)
    return err.getvalue()


@pytest.mark.django_db
def test_the_command_and_the_page_warn(tmp_path: Path, admin_client: Client) -> None:
    study = study_of(tmp_path, GERMAN, GERMAN, SPANISH, ENGLISH, ["ok"])
    told = compute("question", "votes", "vader")
    assert "German or Spanish is written in 3 of the 4 conversations" in told
    assert "hold for English only: Question score, Sentiment by VADER." in told
    assert study_languages(study) == {"de": 2, "es": 1, "en": 1}
    page = admin_client.get(f"/dashboard/studies/{study.key}/metrics/").content.decode()
    assert "German or Spanish is written in 3 of the 4" in page
    assert "Question score" in page
    assert not compute("question")  # nothing was left to compute, so nothing is told again


@pytest.mark.django_db
def test_what_holds_for_every_language_is_not_warned_of(
    tmp_path: Path, admin_client: Client
) -> None:
    study = study_of(tmp_path, GERMAN)
    assert "German" not in compute("votes", "length")
    assert MetricRun.objects.get().languages == {}  # nobody wanted to know
    page = admin_client.get(f"/dashboard/studies/{study.key}/metrics/").content.decode()
    assert "German" not in page


def test_a_few_that_are_misread_are_not_told() -> None:
    metrics = [metric_get("question")]
    assert languages_told({"en": 90, "ml": 2}, metrics) == []
    assert languages_told({}, metrics) == []
    (told,) = languages_told({"en": 3, "xx": 1}, metrics)
    assert told.startswith("xx is written in 1 of the 4 conversations")


def test_metrics_say_it_in_words(admin_client: Client) -> None:
    found = [languages_of(metric_get(name)) for name in ("question", "votes", "perplexity")]
    assert found == ["English", "any language", "the languages of its model"]
