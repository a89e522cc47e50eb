"""Data packages: what is in them, that the same data are the same bytes, and that their loaders know every column."""

import csv
import hashlib
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import confab
from evaluation.data.package import LEFT_OUT, PackageError
from tests.builders import BY_PROLIFIC, exchange, make_conversation, make_participant, make_rating, make_study
from webapp.conversations.models import Conversation
from webapp.conversations.task_start import conversation_start
from webapp.core.rights import Right
from webapp.jobs.models import MetricResult, MetricVersion
from webapp.ratings.services import rating_submit
from webapp.studies.models import Study
from webapp.studies.pre_task import question_answers_store
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions
from webapp.transfer.import_file import import_conversations
from webapp.transfer.package.contents import package_pieces, sps_names
from webapp.transfer.package.tables import packaged_tables

pytestmark = pytest.mark.django_db


NASTY = '=cmd("x"),\n“zwei”\r\nZeilen'
QUESTIONS = [{"key": "age", "title": "How old?", "kind": "choice", "options": ["18, or 19", "it's 20+"]}]
AFTER = [
    {"key": "with", "title": "Was it good?", "kind": "scale", "low": 1, "high": 5,
     "labels": {1: "it isn't", 5: 'a "lot"'}},
    {"key": "dull", "title": "Was it dull?", "kind": "scale", "low": 1, "high": 7, "reversed": True},
    {"key": "why", "title": "Why?", "kind": "text", "required": False},
]  # fmt: skip


@pytest.fixture
def study() -> Study:
    study = make_study("shop", questions=QUESTIONS, after=AFTER, organisation="A lab", **BY_PROLIFIC)
    rate(study, 0)
    study = study_edit(study=study, minutes=9)  # agreed to before: a second version
    rate(study, 1)
    return study


def rate(study: Study, number: int) -> Conversation:
    person = make_participant(study, platform="prolific", external_id=f"SECRET{number}")
    chat = conversation_start(participant=person)
    question_answers_store(task=chat.task, answers={"age": "it's 20+"})
    for n in range(3):
        exchange(chat, NASTY, f"reply {n}")
    chat.refresh_from_db()
    rating_submit(conversation=chat, participant=person, answers={"with": 4, "dull": 2, "why": "'=1+1"}, comment=NASTY)
    return chat


def packed(study: Study, **options: bool) -> bytes:
    return b"".join(package_pieces(study, ExportOptions(**options)))


def opened(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def rows(files: dict[str, bytes], table: str) -> list[dict[str, str]]:
    text = io.StringIO(files[f"data/{table}.csv"].decode(), newline="")
    return list(csv.DictReader(text))


def test_a_package_has_everything_and_its_digests_and_names_nobody(study: Study) -> None:
    data = packed(study)
    files = opened(data)
    assert {name for name in files if name.startswith("data/")} >= {
        f"data/{name}.csv"
        for name in (
            *("participants", "conversations", "turns", "ratings", "metrics", "bots", "items"),
            *("checks", "consent_texts", "undefined", "turn_metrics"),
        )
    }
    others = {
        *("README.md", "codebook.csv", "codebook.json", "datapackage.json", "versions.json"),
        *("load.py", "load.R", "load.sps", "SHA256SUMS"),
        *("study/study.yaml", "study/version-1.yaml", "study/version-2.yaml"),
    }
    assert others <= files.keys()
    assert len([name for name in files if name.startswith("texts/")]) == 4
    sums = dict(reversed(line.split("  ")) for line in files["SHA256SUMS"].decode().splitlines())
    assert sums.keys() == files.keys() - {"SHA256SUMS"}
    assert all(hashlib.sha256(files[name]).hexdigest() == sums[name] for name in sums)

    assert len(rows(files, "ratings")) == 2
    assert rows(files, "ratings")[0]["comment"] == "'" + NASTY
    assert [row["version"] for row in rows(files, "ratings")] == ["1", "2"]
    people = {row["participant"] for row in rows(files, "participants")}
    assert people == {row["rater"] for row in rows(files, "ratings")}
    assert people == {row["participant"] for row in rows(files, "conversations")}
    everything = b"".join(files.values()).decode()
    assert "SECRET" not in everything
    assert not any(code in everything for code in BY_PROLIFIC.values() if code != "prolific")
    assert not any(str(participant.pk) in everything for participant in study.participants.all())
    with_ids = b"".join(opened(packed(study, include_private=True)).values()).decode()
    assert all(told in with_ids for told in ("SECRET0", "SECRET1", "RATED1"))


def test_the_same_data_are_the_same_bytes_and_more_of_it_needs_no_more_queries(study: Study) -> None:
    first, second = packed(study), packed(study)
    assert first == second
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    with CaptureQueriesContext(connection) as few:
        packed(study)
    for number in range(2, 5):
        rate(study, number)
    changed = packed(study)  # flags of the new people are found now, once
    with CaptureQueriesContext(connection) as many:
        packed(study)
    assert len(many) == len(few)
    assert changed != first


def test_the_descriptor_keeps_the_rules_of_data_package(study: Study) -> None:
    files = opened(packed(study))
    document = json.loads(files["datapackage.json"])
    assert document["$schema"] == "https://datapackage.org/profiles/2.0/datapackage.json"
    assert re.fullmatch(r"[-a-z0-9._/]+", document["name"])
    assert re.fullmatch(r"\d{4}(-\d\d){2}T(\d\d:){2}\d\dZ", document["created"])
    assert all(contributor["title"] for contributor in document["contributors"])
    names = [resource["name"] for resource in document["resources"]]
    assert len(set(names)) == len(names) >= 11
    types = {"string", "integer", "number", "boolean", "datetime", "any"}
    readers = {"integer": int, "number": float, "boolean": {"true": 1, "false": 0}.__getitem__}
    for one in document["resources"]:
        assert re.fullmatch(r"[-a-z0-9._/]+", one["name"])
        data = files[one["path"]]
        assert one["bytes"] == len(data)
        assert one["hash"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        fields = one["schema"]["fields"]
        assert all(field["type"] in types for field in fields)
        assert len({field["name"].lower() for field in fields}) == len(fields)
        header, *body = csv.reader(io.StringIO(data.decode(), newline=""))
        assert header == [field["name"] for field in fields]
        assert set(one["schema"].get("primaryKey", [])) <= set(header)
        for field, *cells in zip(fields, *body, strict=True):
            if "categories" in field:
                assert field["type"] in ("string", "integer")
                allowed = {str(each["value"]) for each in field["categories"]}
                assert {cell for cell in cells if cell} <= allowed, field["name"]
            for cell in filter(None, cells):
                readers.get(field["type"], str)(cell)


def test_the_codebook_says_what_was_asked_and_which_way_round(study: Study) -> None:
    files = opened(packed(study, include_private=True))
    codebook = json.loads(files["codebook.json"])["columns"]
    by_name = {(one["table"], one["column"]): one for one in codebook}
    asked = by_name["ratings", "with"]
    assert (asked["question"], asked["asked"], asked["versions"]) == ("Was it good?", "after", [1, 2])
    assert (asked["low"], asked["high"], asked["direction"]) == (1, 5, "not known")
    assert asked["values"] == [
        {"value": 1, "label": "it isn't"}, {"value": 5, "label": 'a "lot"'},
    ]  # fmt: skip
    assert by_name["ratings", "dull"]["direction"] == "lower is better (reversed)"
    assert by_name["participants", "question_age"]["asked"] == "before"
    assert all(one["label"] and one["missing"][0]["reason"] for one in codebook)
    assert by_name["turns", "latency_ms"]["unit"] == "ms"
    as_csv = list(csv.DictReader(io.StringIO(files["codebook.csv"].decode(), newline="")))
    assert [(one["table"], one["column"]) for one in as_csv] == list(by_name)
    tables = packaged_tables(study, ExportOptions(include_private=True))
    there = {(table.name, column.name) for table in tables for column in table.columns}
    assert there == by_name.keys()


def test_every_loader_knows_every_column_and_its_words(study: Study) -> None:
    files = opened(packed(study))
    of_r, of_sps = files["load.R"].decode(), files["load.sps"].decode()
    for table in packaged_tables(study, ExportOptions()):
        part = of_sps.split(f"spss/{table.name}.csv'")[1].split("SAVE OUTFILE")[0]
        for column, name in zip(table.columns, sps_names(table.columns), strict=True):
            assert f'{table.name}[["{column.name}"]] <- ' in of_r
            assert len(re.findall(rf"^    {name} [ADF][A-Z]*\d", part, re.M)) == 1
            assert len(re.findall(rf"^  {name}$", part, re.M)) >= 1
            for _value, words in column.labels:
                assert json.dumps(words, ensure_ascii=False) in of_r
                assert "'" + words.replace("'", "''") + "'" in part
    assert "v_with F20.0" in of_sps  # a reserved word of SPSS
    for text, quote, escaped in ((of_r, '"', r"\""), (of_sps, "'", "''")):
        for line in text.splitlines():
            if not line.startswith(("#", "*")):
                shown = line.replace(escaped, "").replace('"\'"', "")
                assert shown.count(quote) % 2 == 0, line
    assert of_r.count("(") == of_r.count(")")
    assert all(len(line.encode()) <= 256 for line in of_sps.splitlines())
    for name, data in files.items():
        if name.startswith("spss/"):
            whole = csv.reader(io.StringIO(files[name.replace("spss", "data")].decode(), newline=""))
            assert len(data.decode().splitlines()) == len(list(whole))


def test_pandas_gets_the_values_as_they_were(study: Study, tmp_path: Any) -> None:
    with zipfile.ZipFile(io.BytesIO(packed(study, include_private=True))) as archive:
        archive.extractall(tmp_path)
    loaded: dict[str, Any] = {"__file__": str(tmp_path / "load.py"), "__name__": "load"}
    exec((tmp_path / "load.py").read_text(), loaded)
    tables = loaded["load"]()
    ratings = tables["ratings"]
    assert ratings["with"].tolist() == [4.0, 4.0]
    assert ratings.attrs["labels"]["with"] == {1: "it isn't", 5: 'a "lot"'}
    assert ratings["comment"].tolist() == [NASTY, NASTY]
    assert ratings["why"].tolist() == ["'=1+1"] * 2
    assert ratings["target"].dtype == pd.CategoricalDtype(["conversation", "turn", "item", "pair"])
    assert str(ratings["submitted_at"].dt.tz) == "UTC"
    assert ratings["turn"].isna().all()
    assert tables["turns"]["text"].tolist()[0] == NASTY
    assert tables["participants"]["question_age"].tolist() == ["it's 20+"] * 2
    assert tables["bots"]["settings"].map(type).eq(dict).all()


def test_an_undefined_metric_keeps_its_reason(study: Study) -> None:
    chat = Conversation.objects.filter(study=study).order_by("created_at").first()
    version = MetricVersion.objects.create(key="k", name="gone", version="1")
    MetricResult.objects.create(conversation=chat, metric=version, values={"gone": None}, reasons={"gone": "no words"})
    files = opened(packed(study))
    [row] = rows(files, "undefined")
    assert (row["metric"], row["reason"]) == ("gone", "no words")
    assert rows(files, "metrics")[0]["gone"] == ""


def test_left_over_chats_stay_out(study: Study) -> None:
    make_conversation(study, n_exchanges=1, external_id="left", platform="prolific")
    files = opened(packed(study))
    assert [row["state"] for row in rows(files, "conversations")] == ["completed"] * 2 + ["open"]


def test_what_was_left_out_is_said_and_no_study_is_made_of_the_rest(tmp_path: Path) -> None:
    study = make_study("shop", code_rated="THANKS-7")
    make_rating(make_conversation(study, n_exchanges=3), quality=5)
    whole, part = (
        b"".join(package_pieces(study, ExportOptions(), rights=rights)) for rights in ([*Right], [Right.READ])
    )
    assert whole == b"".join(package_pieces(study, ExportOptions()))
    with zipfile.ZipFile(io.BytesIO(part)) as archive:
        names = archive.namelist()
        described = json.loads(archive.read("datapackage.json"))
        text = archive.read("README.md").decode()
        assert b"THANKS-7" not in b"".join(map(archive.read, names))
    assert "data/participants.csv" not in names
    assert described[LEFT_OUT] == [{"table": "participants", "right": "pay"}]
    assert "the table `participants`, because the requester does not have the right `pay`" in text
    assert LEFT_OUT not in json.loads(zipfile.ZipFile(io.BytesIO(whole)).read("datapackage.json"))

    path = tmp_path / "part.zip"
    path.write_bytes(part)
    read = confab.read(path)
    assert (len(read), read.left_out) == (1, ("participants",))
    with pytest.raises(PackageError, match="lacks participants, because its creator"):
        import_conversations(path, study_key="again")
