"""Model by formula: the page's form and tables, what is refused, the job, the API and the report."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils.html import escape

from tests.builders import make_conversation, make_rating, make_study, signed_in
from tests.webapp.api.programs import Program
from webapp.conversations.models import Conversation
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.ratings.models import Rating
from webapp.results import cache
from webapp.results.cache import AnalysisKey, get_result
from webapp.results.formula_models import ModelParams, formula_columns, usual_terms
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db

FACTORS: list[dict[str, Any]] = [
    {
        "key": "scenario",
        "levels": [
            {"key": "good", "label": "Good news", "goal": "x"},
            {"key": "bad", "label": "Bad news", "goal": "y"},
        ],
    }
]
BY_HAND = "quality ~ bot + scenario + (1|rater)"


@pytest.fixture(scope="module")
def varied_study(rows_of_file: None) -> Study:
    """Make a study of two bots in two scenarios; each of twelve people rates all four cells."""
    from webapp.bots.services import bot_version_record_imported

    study, rng = make_study("varied", bots=["eliza", "generic"], factors=FACTORS), np.random.default_rng(5)
    versions = {bot: bot_version_record_imported(bot_id=bot, source="") for bot in ("eliza", "generic")}
    rater = None
    for person in range(12):
        for n, (bot, level) in enumerate((bot, level) for bot in versions for level in ("good", "bad")):
            chat = make_conversation(study, n_exchanges=3, entry_nonce=f"n{person}-{n}")
            quality = 4 + (bot == "eliza") + (level == "good") + person % 3 - 1 + rng.integers(-1, 2)
            rating = make_rating(chat, quality=int(np.clip(quality, 1, 7)), fluency=int(rng.integers(1, 6))).rating
            rater = chat.participant if not n else rater
            Rating.objects.filter(pk=rating.pk).update(participant=rater)
            Conversation.objects.filter(pk=chat.pk).update(condition={"scenario": level}, bot=versions[bot])
    return study


@pytest.fixture
def study(varied_study: Study, db: None) -> Study:
    return Study.objects.get(pk=varied_study.pk)


@pytest.fixture
def client() -> Client:
    return signed_in(Right.READ)


ADDRESS = "/dashboard/studies/varied/results/why/"


def asked(terms: str, outcome: str = "y", kind: str = "linear") -> dict[str, str]:
    return {"part": "formula", "only": "1", "outcome": outcome, "terms": terms, "kind": kind}


def tables(response: Any) -> dict[str, list[list[str]]]:
    [fold] = response.context["sections"]
    return {table.id: [[cell.text for cell in row] for row in table.table.rows] for table in fold.content.tables}


def test_the_usual_formula_stands_in_the_form_and_is_fitted(study: Study, client: Client) -> None:
    assert usual_terms(study) == "bot * scenario + (1|rater)"
    assert formula_columns(study)[:2] == ["y", "quality"]
    response = client.get(ADDRESS, {"part": "formula", "only": "1"})
    assert response.status_code == 200
    html = response.content.decode()
    assert 'value="bot * scenario + (1|rater)"' in html
    [fold] = response.context["sections"]
    assert fold.conclusion.startswith("“Quality” depends on bot (F(1, 33.0) = ")
    assert "Clearly different in “Quality”: 1 of 1 pair of bots." in html
    shown = tables(response)
    assert [row[0] for row in shown["formula-tests"]] == ["bot", "scenario", "bot × scenario"]
    assert [row[0] for row in shown["formula-differences"]][1] == "scenario: Bad news − Good news"
    assert shown["formula-differences"][0][-1] == "clearly different"
    assert [row[0] for row in shown["formula-variance"]] == ["rater", "Residual"]
    folded = client.get(ADDRESS)
    assert folded.status_code == 200
    assert escape(fold.conclusion) not in folded.content.decode()  # a second answer about the bots


def test_terms_outcome_and_kind_are_the_readers(study: Study, client: Client) -> None:
    response = client.get(ADDRESS, asked("bot + (1|rater) + (1|conversation)", "fluency", "ordinal"))
    assert response.status_code == 200
    shown = tables(response)
    assert shown["formula-tests"][0][3] == "–"
    assert {row[4] for row in shown["formula-sizes"]} == {"–"}, "log odds have no share of the scale"
    assert "formula-thresholds" in shown
    content = response.context["sections"][0].content
    text = " ".join(content.methods)
    assert content.title == "Model by formula: fluency ~ bot + (1|rater) + (1|conversation)"
    assert "The model is ordinal, for 48 ratings" in text
    assert content.caution.startswith("Caution: only 12 levels of rater: with fewer than 20, p-values")
    assert content.caution.replace("'", "&#x27;") in response.content.decode()
    assert "Every rating has a different conversation" in text
    [fold] = client.get(ADDRESS, asked("bot + conversation + (1|rater)")).context["sections"]
    assert fold.content.missing == [
        "No model was fitted: these ratings cannot separate the factors: one depends on the others, or there are too "
        "few ratings."
    ]


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ("bto + (1|rater)", "There is no column &#x27;bto&#x27; (do you mean bot?); available: bot, contingency"),
        ("bot", "add (1|rater)"),
        ("__import__('os') + (1|rater)", "cannot be read"),
        ("b" * 501, "at most 500 characters (it has 501)"),
        ("", "This field is required"),
    ],
)
def test_a_wrong_formula_is_refused_at_the_door(study: Study, client: Client, terms: str, told: str) -> None:
    response = client.get(ADDRESS, asked(terms))
    assert response.status_code == 400
    assert told in response.content.decode()
    assert response.context["sections"][0].content is None
    assert client.get(ADDRESS, asked("bot\x00 + (1|rater)")).status_code == 404
    assert client.get(ADDRESS, asked("bot + (1|rater)", kind="cubic")).status_code == 400
    assert client.get(ADDRESS, asked("bot + (1|rater)", outcome="taste")).status_code == 400


def test_each_formula_is_a_job_of_its_own_and_the_newest_are_kept(
    study: Study, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "DIRECT_RATINGS", 0)
    monkeypatch.setattr(cache, "KEPT_MODELS", 2)
    for terms in ("bot + (1|rater)", "scenario + (1|rater)", "bot + scenario + (1|rater)"):
        waiting = client.get(ADDRESS, asked(terms))
        assert waiting.status_code == 200
        assert waiting.context["sections"][0].waiting is not None
        job = Job.objects.latest("pk")
        assert job.payload["model"] == {"formula": f"y ~ {terms}", "kind": "linear"}
        run_job(job)
        assert [row[0] for row in tables(client.get(ADDRESS, asked(terms)))["formula-tests"]] == terms.split(" + ")[:-1]
    assert [job.payload["model"]["formula"] for job in Job.objects.order_by("pk")] == [
        "y ~ scenario + (1|rater)",
        "y ~ bot + scenario + (1|rater)",
    ]
    assert "model" not in AnalysisKey(study, "models").params.model_dump()
    other = AnalysisKey(study, "formula", model=ModelParams(formula=BY_HAND))
    assert get_result(other).computed_result is None


def test_the_api_and_the_report_have_the_same_model(study: Study, client: Client, tmp_path: Path) -> None:
    program = Program(Right.READ)
    answer = program.get("studies/varied/results/formula", formula=BY_HAND)
    assert answer.status_code == 200, answer.content
    out = StringIO()
    call_command("report", study="varied", formula=BY_HAND, json=True, stdout=out)
    document = json.loads(out.getvalue())["formula"]
    assert [test["term"] for test in document["tests"]] == ["bot", "scenario"]
    assert answer.json()["document"] == document
    usual = program.get("studies/varied/results/formula")
    assert usual.status_code == 200
    assert usual.json()["document"]["formula"] == "y ~ bot * scenario + (1|rater)"
    for part, given, told in (
        ("formula", {"formula": "quality ~ bto + (1|rater)"}, "no column 'bto' (do you mean bot?)"),
        ("formula", {"kind": "ordinal"}, "add formula"),
        ("models", {"formula": BY_HAND}, "formula can only be used with the part formula, not with models"),
    ):
        refused = program.get(f"studies/varied/results/{part}", **given)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "bad_formula")
        assert told in refused.json()["error"]["message"]
    with pytest.raises(CommandError, match="no column 'bto'"):
        call_command("report", study="varied", formula="y ~ bto + (1|rater)", output=tmp_path / "none.html")
    call_command("report", study="varied", formula=BY_HAND, output=tmp_path / "report.html")
    assert "Model by formula" in (tmp_path / "report.html").read_text()
