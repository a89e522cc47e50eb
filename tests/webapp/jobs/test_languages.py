"""A metric is left out of conversations in languages that it does not hold for, and every reader is told why."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

from evaluation.metrics.registry import metric_get
from tests.builders import exchange, make_conversation, make_rating, make_study
from tests.evaluation.test_languages import GERMAN, SPANISH
from tests.markup import flat
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.jobs.models import HybridFit, MetricResult, MetricRun
from webapp.jobs.selectors.fits import features_held
from webapp.jobs.selectors.metrics import language_sentences, left_out_sentences, metrics_left_out
from webapp.studies.models import Study
from webapp.transfer.import_file import import_conversations

ENGLISH = ["Hello, how was your day?", "Fine, thanks. I took the dog to the park and then it rained."]


def study_of(folder: Path, *talks: list[str]) -> Study:
    """Make an imported study of these conversations."""
    path = folder / "talks.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, texts in enumerate(talks):
            turns = [{"speaker": ("human", "bot")[i % 2], "text": text} for i, text in enumerate(texts)]
            record = {"dialogue_id": str(number), "bot": "b", "turns": turns}
            file.write(json.dumps({**record, "ratings": [{"rater": "r", "quality": 3}]}) + "\n")
    import_conversations(path, study_key="talks", scale=(1, 7))
    return Study.objects.get(key="talks")


def compute(*metrics: str, study: str = "talks") -> str:
    """Return what `compute_metrics` tells on standard error."""
    err = StringIO()
    where = ("--study", study, "--metrics", ",".join(metrics), "--inline", "--json")
    call_command("compute_metrics", *where, stdout=StringIO(), stderr=err)
    return err.getvalue()


@pytest.mark.django_db
def test_imported_conversations_are_told_by_their_words(tmp_path: Path, admin_client: Client) -> None:
    study = study_of(tmp_path, GERMAN, GERMAN, SPANISH, ENGLISH, ["ok"])
    told = compute("question", "votes", "vader")
    assert "Left out of 3 conversations in German and Spanish" in told
    assert "hold for English only: Question score, Sentiment by VADER." in told
    found = {one.metric.name: one for one in metrics_left_out(study=study)}
    assert set(found) == {"question", "vader"}
    assert all(one.n == {"de": 2, "es": 1} for one in found.values())
    assert not any(one.is_whole for one in found.values())
    rows = MetricResult.objects.filter(metric__name="question").order_by("pk")
    assert [row.language for row in rows] == ["de", "de", "es", "", ""]
    assert rows[0].reasons["question_user"] == {"code": "other_language", "language": "de", "holds": ["en"]}
    assert set(rows[0].values.values()) == {None}
    assert any(value is not None for value in rows[3].values.values())
    page = flat(admin_client.get(f"/dashboard/studies/{study.key}/metrics/", follow=True).content.decode())
    assert "Left out of 3 conversations in German and Spanish" in page
    assert "3 left out: in another language" in page
    chat = Conversation.objects.get(pk=rows[0].conversation_id)
    reader = admin_client.get(f"/dashboard/conversations/{chat.pk}/", follow=True).content.decode()
    assert "left out: it holds for English, and this is in German" in reader
    out = tmp_path / "undefined.csv"
    call_command("export", "--study", study.key, "--what", "undefined", "--format", "csv", "--out", str(out))
    [line] = [
        row
        for row in out.read_text(encoding="utf-8").splitlines()
        if str(rows[2].conversation_id) in row and ",question_user," in row
    ]
    assert ",the conversation is in es; the metric holds for en only,other_language," in line
    assert "Left out of 3" in compute("question"), "told again, though nothing was left to compute"


@pytest.mark.django_db
def test_an_import_names_the_language_whatever_the_words_are(tmp_path: Path) -> None:
    study = study_of(tmp_path, SPANISH, ["ok"])
    file = next(tmp_path.glob("*.jsonl"))
    import_conversations(file, study_key=study.key, scale=(1, 7), language="PT-br")
    import_conversations(file, study_key=study.key, scale=(1, 7), language="de")  # that is known
    assert set(study.conversations.values_list("language", flat=True)) == {"pt-br"}
    assert "Left out of 2 conversations in Brazilian Portuguese" in compute("question")
    with pytest.raises(Refused, match="the language is 'german'; a code of ISO 639 such as en, de"):
        import_conversations(file, study_key=study.key, language="german")


@pytest.mark.django_db
def test_a_chat_is_in_the_language_of_its_study_whatever_is_written() -> None:
    study = make_study("s", language="ar", min_exchanges=1)
    chat = make_conversation(study)
    exchange(chat, "Hello, how are you today? I hope that all is well with you.", "I am fine.")
    make_rating(chat)
    compute("question", "length", study="s")
    left = metrics_left_out(study=study)
    assert [(one.metric.name, one.n, one.is_whole) for one in left] == [("question", {"ar": 1}, True)]
    assert "in Arabic, since they hold for English only: Question score." in left_out_sentences(left)[0]
    fit = HybridFit(study=study)
    kept, [found] = features_held(fit, ["question_user", "words_user"], [], may_leave_out=True)
    assert kept == ["words_user"]
    assert found.to_json() == {"code": "other_language", "features": ["question_user"], "languages": ["ar"]}
    for features, blocks, may in (
        (["question_user"], [], True),
        (["question_user", "words_user"], [], False),
        (["words_user"], ["embedding_user"], True),
    ):
        with pytest.raises(Refused, match="Arabic"):
            features_held(fit, features, blocks, may_leave_out=may)


@pytest.mark.django_db
def test_numbers_from_before_metrics_were_left_out_are_warned_of(tmp_path: Path, admin_client: Client) -> None:
    study = study_of(tmp_path, ENGLISH)
    compute("question")
    MetricRun.objects.update(languages={"en": 3, "de": 1})
    page = admin_client.get(f"/dashboard/studies/{study.key}/metrics/", follow=True).content.decode()
    assert "German is written in 1 of the 4 conversations" in page


def test_a_few_that_are_misread_are_not_told() -> None:
    metrics = [metric_get("question")]
    assert language_sentences({"en": 90, "ml": 2}, metrics) == []
    assert language_sentences({}, metrics) == []
    (told,) = language_sentences({"en": 3, "xx": 1}, metrics)
    assert told.startswith("xx is written in 1 of the 4 conversations")
