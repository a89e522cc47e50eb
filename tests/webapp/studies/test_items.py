"""Items from a file: stored once whatever is repeated, and every bad line told."""

from __future__ import annotations

import gzip
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import DjangoAssertNumQueries

from tests.builders import make_study
from webapp.studies.items import study_item_sets
from webapp.studies.models import Study
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


def line(number: Any, **fields: Any) -> str:
    values = {
        "id": number,
        "source": "grade",
        "context": ["hello", "hi"],
        "response": f"reply {number}",
        "reference": "good day",
        "model": "m",
        "ratings": [{"coherence": 3}],
        "scale": [1, 5],
    }
    return json.dumps({**values, **fields})


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(path: Path, key: str = "s") -> dict[str, Any]:
    out = StringIO()
    call_command("import_items", str(path), "--study", key, "--json", stdout=out)
    return json.loads(out.getvalue())


@pytest.fixture
def study(db: None) -> Study:
    return make_study("s", protocol="annotate", bots=[], state="draft")


def test_items_are_stored_as_the_file_has_them(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl.gz"
    path.write_bytes(gzip.compress((line("a") + "\n" + line(7, reference=None)).encode()))
    assert run(path) == {"items": 2, "unchanged": 0, "skipped": []}
    first, second = study.items.order_by("pk")
    assert (first.key, first.context, first.reference) == ("grade/a", ["hello", "hi"], "good day")
    assert first.responses == [{"model": "m", "text": "reply a"}]
    assert (second.key, second.reference) == ("grade/7", None)


def test_the_same_file_again_changes_nothing(study: Study, tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", *(line(n) for n in range(1200)), line(3))
    assert run(path)["items"] == 1200
    assert run(path) == {"items": 0, "unchanged": 1201, "skipped": []}
    other = make_study("other", protocol="annotate", bots=[], state="draft")
    assert run(path, "other")["items"] == other.items.count() == 1200


def test_what_is_stored_is_not_changed_under_people(study: Study, tmp_path: Path) -> None:
    run(write(tmp_path / "x.jsonl", line(1)))
    result = run(write(tmp_path / "y.jsonl", line(1, response="another"), line(2), line(2, context=[])))
    assert result["items"] == 1
    assert [one["line"] for one in result["skipped"]] == [1, 3]
    assert "stands in the study with other texts" in result["skipped"][0]["reason"]
    assert "stands in line 2 with other texts" in result["skipped"][1]["reason"]
    assert study.items.get(key="grade/1").responses[0]["text"] == "reply 1"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "must be a mapping"),
        ('{"id": "x"}', "response is missing"),
        (line(1, response=" "), "must be a text that is not blank"),
        (line(1, response="a\x00b"), "U+0000"),
        (line(1, context="hello"), "context"),
        (line(1, context=[1], model=5), "2 mistakes"),
        (line(True), "id"),
        (line("x" * 200), "206 characters together"),
    ],
)
def test_a_bad_line_is_told_by_number_and_reason(study: Study, tmp_path: Path, bad: str, reason: str) -> None:
    result = run(write(tmp_path / "x.jsonl", line("good"), "", bad, line("too")))
    assert result["items"] == 2
    [skipped] = result["skipped"]
    assert skipped["line"] == 3
    assert reason in skipped["reason"]


def test_what_cannot_be_done_is_one_line(study: Study, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="there is no study 'nope'"):
        run(write(tmp_path / "x.jsonl", line(1)), "nope")
    with pytest.raises(CommandError, match="there is no file"):
        run(tmp_path / "none.jsonl")


def test_queries_do_not_grow_with_the_lines_of_a_batch(
    study: Study, tmp_path: Path, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    path = write(tmp_path / "x.jsonl", *(line(n) for n in range(500)))
    with django_assert_max_num_queries(14):
        run(path)


def test_a_second_reply_makes_an_item_for_comparisons(tmp_path: Path) -> None:
    study = make_study("p", protocol="pairwise", bots=[], state="draft")
    second = {"second_response": "another reply", "second_model": "n"}
    path = write(tmp_path / "pairs.jsonl", line(1, **second), line(2, second_response=" "))
    out = StringIO()
    call_command("import_items", str(path), "--study", "p", "--json", stdout=out)
    found = json.loads(out.getvalue())
    assert found["items"] == 1
    assert "second_response" in found["skipped"][0]["reason"]
    item = study.items.get()
    assert item.responses == [{"model": "m", "text": "reply 1"}, {"model": "n", "text": "another reply"}]
    study_edit(study=study, state=Study.State.COLLECTING)


def test_two_files_whose_lines_name_no_data_set_are_two_sets(study: Study, tmp_path: Path) -> None:
    for name in ("easy", "hard"):
        run(write(tmp_path / f"{name}.jsonl", line(f"{name}-1", source=None)))
    run(write(tmp_path / "named.jsonl", line("x", source="grade")))
    assert study_item_sets(study) == {"easy-1": "easy.jsonl", "hard-1": "hard.jsonl", "grade/x": "grade"}
