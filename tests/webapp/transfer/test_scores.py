"""`evaluate_metrics --scores`: each reply's scores as CSV, JSON Lines and Parquet, and mistakes in one line."""

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.builders import make_conversation, make_rating, make_study
from tests.evaluation.agreement.test_reply_scores import judged
from webapp.audit.models import PendingEntry
from webapp.conversations.services import vote_set

pytestmark = pytest.mark.django_db


def written(*arguments: str) -> str:
    notes = StringIO()
    call_command("evaluate_metrics", *arguments, stdout=StringIO(), stderr=notes)
    return notes.getvalue()


def test_three_formats_hold_the_same_scores(tmp_path: Path) -> None:
    import pandas as pd

    asked = ("--data", str(judged(tmp_path)), "--metrics", "rouge_l,words_bot,grade", "--target", "good")
    paths = [tmp_path / f"scores.{ending}" for ending in ("csv", "jsonl", "parquet")]
    for path in paths:
        notes = written(*asked, "--scores", str(path))
        assert f"scores of 6 replies are in {path}" in notes
        assert "grade is skipped: no checkpoint is specified" in notes
    by_csv = list(csv.DictReader(paths[0].open(newline="")))
    by_json = [json.loads(line) for line in paths[1].read_text().splitlines()]
    by_parquet = pd.read_parquet(paths[2])
    assert [row["id"] for row in by_csv] == [row["id"] for row in by_json] == by_parquet["id"].tolist()
    assert [float(row["words_bot"]) for row in by_csv[:4]] == by_parquet["words_bot"][:4].tolist()
    assert by_json[3]["rouge_l"] is None
    assert by_json[3]["reasons"] == {"rouge_l": "there is no reference"}
    assert json.loads(by_csv[3]["reasons"]) == by_json[3]["reasons"]
    assert (by_csv[5]["human_mean"], by_json[5]["human_means"]) == ("", {"fluent": 1.0})
    assert "grade_bot" not in by_json[0]


def test_scores_of_a_study_are_recorded_as_a_download(tmp_path: Path) -> None:
    study = make_study("talk")
    chat = make_conversation(study, n_exchanges=3)
    for turn, vote in ((1, 1), (3, -1)):
        vote_set(conversation_id=chat.pk, turn_index=turn, value=vote)
    make_rating(chat)
    path = tmp_path / "scores.jsonl"
    written("--study", "talk", "--metrics", "words_bot", "--scores", str(path))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["id"], row["human_mean"]) for row in rows] == [(f"{chat.pk}/1", 1), (f"{chat.pk}/3", -1)]
    [entry] = PendingEntry.everywhere.filter(action="download")
    assert entry.parameters == {"file": "scores"}


@pytest.mark.parametrize(
    ("file", "message"),
    [("scores.xlsx", r"must end in \.csv, \.jsonl, \.parquet"), ("missing/scores.csv", "there is no folder")],
)
def test_a_wrong_file_is_refused_before_anything_is_computed(tmp_path: Path, file: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        written("--data", str(judged(tmp_path)), "--metrics", "words_bot", "--scores", str(tmp_path / file))
