"""Conversations that nobody rated: the page, the report, the JSON and a notebook tell the same of what they add."""

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from evaluation.analysis.prediction_powered import powered_means
from evaluation.hybrid.levels import predict_conversations
from evaluation.hybrid.results import KeptFit
from evaluation.number_format import figure, percent, share, span
from tests.webapp.dashboard.analysis.test_one_result import text_of
from webapp.jobs.models import HybridFit
from webapp.ratings.models import Rating
from webapp.results.cache import compute_part, made_dump, made_load
from webapp.results.study_data import study_data
from webapp.studies.models import Study


@pytest.fixture
def half_rated(study: Study) -> Study:
    """Return the study with every second conversation's ratings gone."""
    rated = Rating.objects.filter(conversation__study=study)
    names = rated.order_by("conversation__bot__bot_id", "pk").values_list("pk", flat=True)
    Rating.objects.filter(pk__in=list(names)[::2]).delete()
    call_command("fit_hybrid", "--study", study.key, "--features", "words_user", stdout=StringIO())
    return study


def told(html: str, section: str) -> str:
    return text_of(html.partition(f'id="{section}"')[2] or html)


def test_every_reader_is_told_the_same(staff: Client, half_rated: Study, tmp_path: Path) -> None:
    out, path = StringIO(), tmp_path / "report.html"
    call_command("report", "--study", half_rated.key, "--json", stdout=out)
    document = json.loads(out.getvalue())["powered"]
    assert (document["first"], document["n_unrated"]) == ("hybrid", 32)
    data = study_data(half_rated)
    made = compute_part("powered", data)
    kept_document = json.loads(json.dumps(made_dump("powered", made), allow_nan=False))
    assert made_load("powered", kept_document) == made
    frame = data.metrics
    kept = KeptFit.from_json(HybridFit.objects.get().kept)
    notebook = {
        "hybrid": predict_conversations(kept, frame),
        "words_user": frame["words_user"].to_numpy(),
        "question_bot": np.ones(len(frame)),
    }
    where = reverse("dashboard:study_why", args=[half_rated.key])
    call_command("report", "--study", half_rated.key, "--output", str(path), stdout=StringIO())
    for by, predicted in notebook.items():
        found = powered_means(data.ratings, frame.index.tolist(), frame["bot"].tolist(), predicted, by=by)
        assert document["by"][by] == found.to_json()
        page = text_of(staff.get(where, {"part": "powered", "by": by}).content.decode())
        if by == "question_bot":
            assert "cannot be used: the predictions do not vary." in page
            continue
        assert found.gains
        pages = [page]
        if by == "hybrid":
            pages += [
                text_of(staff.get(where, {"part": "powered"}).content.decode()),
                told(path.read_text(), "powered"),
            ]
        for shown in pages:
            assert f"{percent(found.saved)} smaller" in shown
            for bot, one in found.bots.items():
                alone = f"{bot} {one.n} {one.n_unrated} {figure(one.ratings)}"
                cells = [alone, span(one.ratings_low, one.ratings_high)]
                if one.reason is None:
                    cells += [figure(one.mean), span(one.low, one.high), share(one.saved)]
                assert " ".join(cells) in shown


def test_where_everything_is_rated_there_is_nothing_to_add(staff: Client, study: Study, tmp_path: Path) -> None:
    where = reverse("dashboard:study_why", args=[study.key]) + "?part=powered"
    assert "No finished conversation is without a rating." in staff.get(where).content.decode()
    path = tmp_path / "report.html"
    call_command("report", "--study", study.key, "--output", str(path), stdout=StringIO())
    assert 'id="powered"' not in path.read_text()
