"""What Confab exports, `confab.read` reads: the same conversations and ratings from every form."""

import zipfile
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from django.core.management import call_command

import confab
from tests.builders import make_conversation, make_rating, make_study
from webapp.conversations.services import turn_add_human
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db


@pytest.fixture
def study() -> Study:
    study = make_study("shop")
    for number in range(3):
        make_rating(make_conversation(study, n_exchanges=3), quality=2 + number)
    return study


def exported(study: Study, what: str, path: Path) -> Path:
    call_command(
        "export", "--study", study.key, "--what", what, "--format", path.suffix[1:], "--output",
        str(path), stdout=StringIO(), stderr=StringIO(),
    )  # fmt: skip
    return path


def tables(study: confab.Study) -> dict[str, pd.DataFrame]:
    return {
        "messages": study.messages.sort_values(["conversation", "turn"], ignore_index=True),
        "ratings": study.ratings.sort_values("conversation", ignore_index=True),
    }


def test_every_form_of_an_export_reads_the_same(study: Study, tmp_path: Path) -> None:
    whole = tables(confab.read(exported(study, "conversations", tmp_path / "conversations.jsonl")))
    assert len(whole["ratings"]) == 3
    assert sorted(whole["ratings"]["quality"]) == [2, 3, 4]
    for ending in ("csv", "parquet", "jsonl"):
        folder = tmp_path / ending
        folder.mkdir()
        complete = exported(study, "conversations", tmp_path / f"whole.{ending}")
        for name, table in tables(confab.read(complete)).items():
            other = whole[name].drop(columns="conversation")
            pd.testing.assert_frame_equal(table.drop(columns="conversation"), other, check_like=True)
        messages = exported(study, "messages", folder / f"messages.{ending}")
        ratings = exported(study, "ratings", folder / f"ratings.{ending}")
        packed = tmp_path / f"{ending}.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            archive.write(messages, messages.name)
            archive.write(ratings, ratings.name)
        for result in (confab.read(messages, ratings), confab.read(folder), confab.read(packed)):
            for name, table in tables(result).items():
                pd.testing.assert_frame_equal(table, whole[name], check_like=True, obj=f"{ending} {name}")


def test_texts_that_look_like_formulas_come_back_as_they_were(study: Study, tmp_path: Path) -> None:
    conversation = make_conversation(study)
    turn_add_human(conversation_id=conversation.pk, client_id=conversation.pk, text="=1+1, 'quoted'")
    text = confab.read(exported(study, "messages", tmp_path / "messages.csv"))
    assert "=1+1, 'quoted'" in text.messages["text"].tolist()


def test_metrics_and_comparisons_of_every_form_are_the_same(tmp_path: Path) -> None:
    study = make_study("two", bots=["eliza", "parrot"])
    for number in range(6):
        make_rating(make_conversation(study, n_exchanges=3), quality=2 + number % 4)
    numbers = []
    for ending in ("csv", "parquet", "jsonl"):
        folder = tmp_path / ending
        folder.mkdir()
        text = confab.read(
            exported(study, "messages", folder / f"messages.{ending}"),
            exported(study, "ratings", folder / f"ratings.{ending}"),
        )
        assert text.bots == ("eliza", "parrot")
        measured = text.metrics(["question", "words"]).sort_values("conversation")
        assert list(measured.columns[:2]) == ["conversation", "bot"]
        numbers.append((measured.to_dict("records"), confab.compare(text, "quality").to_json()))
    assert str(numbers[0]) == str(numbers[1]) == str(numbers[2])
