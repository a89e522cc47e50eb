"""Files in the browser: a study out and in with every mistake at once, a large import; and the phone beside it."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains

from tests.builders import import_upload, make_annotated, make_conversation, make_rating, make_study, signed_in
from tests.webapp.api.programs import Program
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.builder.base import FIELD_STEPS, preview_of
from webapp.dashboard.views import imports
from webapp.jobs import engine
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.jobs.services.jobs import job_create
from webapp.participant.steps.base import steps
from webapp.ratings.models import Rating
from webapp.studies.models import Outcome, Study
from webapp.studies.settings import NAMES
from webapp.studies.study_file import study_file_of, study_file_text
from webapp.transfer.exporters.base import ExportOptions
from webapp.transfer.job_files import UPLOADS_KEPT, files_expire
from webapp.transfer.package.contents import package_pieces

pytestmark = pytest.mark.django_db


def sent(text: str, name: str = "s.yaml") -> dict[str, Any]:
    return {"file": SimpleUploadedFile(name, text.encode())}


def text_of(client: Client, key: str) -> str:
    answer = client.get(reverse("dashboard:study_file", args=[key]))
    assert answer["Content-Disposition"] == f'attachment; filename="{key}.yaml"'
    return answer.content.decode()


def test_a_study_comes_back_as_a_draft_like_it(staff: Client) -> None:
    study = make_study("s", title="Talk to it", minutes=11)
    text = text_of(staff, "s")
    again = text.replace("key: s\n", "key: t\n", 1)
    answer = staff.post(reverse("dashboard:study_new_file"), sent(again))
    assert answer["Location"] == reverse("dashboard:study_build_step", args=["t", "check"])
    result = Study.objects.get(key="t")
    assert (result.state, result.version.author) == ("draft", "r")
    assert result.values.texts == study.values.texts
    assert text_of(staff, "t") == again


def test_every_mistake_is_told_at_once_and_nothing_is_stored(staff: Client) -> None:
    make_study("s")
    text = text_of(staff, "s").replace("key: s\n", "key: t\n", 1)
    wrong = text.replace("min_exchanges: 3", "min_exchanges: lots").replace("protocol: chat", "protocol: chatt")
    answer = staff.post(reverse("dashboard:study_new_file"), sent(wrong))
    html = answer.content.decode()
    assert answer.status_code == 422
    assert "There are 2 mistakes, so nothing was stored." in html
    assert html.count("chat.min_exchanges") == 1
    assert "did you mean chat?" in html
    assert Study.objects.count() == 1


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("s.pdf", "x", "is not a .yaml or .json file"),
        ("s.yaml", "", "empty"),
        ("s.yaml", "- 1", "must contain keys and values"),
        ("s.yaml", "a: [", "cannot be read"),
    ],
)
def test_what_is_no_studys_file_is_told(staff: Client, name: str, text: str, said: str) -> None:
    answer = staff.post(reverse("dashboard:study_new_file"), sent(text, name))
    html = answer.content.decode()
    assert answer.status_code == 422
    assert said in html or "Choose a study file first." in html


def test_a_changed_file_shows_what_would_change_before_it_does(staff: Client) -> None:
    make_study("s", title="Old title")
    text = text_of(staff, "s").replace("Old title", "New title")
    url = reverse("dashboard:study_file_upload", args=["s"])
    html = staff.post(url, sent(text)).content.decode()
    assert "The file would change 1 setting" in html
    assert "Old title" in html
    assert "New title" in html
    assert Study.objects.get().values.texts.title == "Old title"
    staff.post(url, {"text": text, "_sure": "1"})
    assert Study.objects.get().values.texts.title == "New title"
    same = staff.post(url, sent(text), follow=True).content.decode()
    assert "already matches the file" in same


def test_a_study_with_many_items_takes_two_files(staff: Client) -> None:
    make_annotated("a", n_items=30)
    text = text_of(staff, "a").replace("key: a\n", "key: b\n", 1)
    lines = b"".join(staff.get(reverse("dashboard:study_file", args=["a"]), {"items": ""}).streaming_content)  # type: ignore[attr-defined]
    url = reverse("dashboard:study_new_file")
    alone = staff.post(url, sent(text))
    assert alone.status_code == 422
    assert "not in the study file" in alone.content.decode()
    both = [SimpleUploadedFile("b.yaml", text.encode()), SimpleUploadedFile("a.items.jsonl", lines)]
    staff.post(url, {"file": both})
    assert Study.objects.get(key="b").items.count() == 30


QUESTIONS = [{"key": "age", "title": "How old are you?", "kind": "text"}]


@pytest.fixture
def builder() -> Client:
    return signed_in(Right.READ, Right.PAY)


def shown(study: Study, query: str = "", beside: str = "texts") -> tuple[str, list[str], list[str]]:
    preview = preview_of(study, QueryDict(query), step_name=beside)
    tabs = [str(tab.title) for tab in preview.tabs]
    return preview.step, tabs, [str(page.title) for page in preview.pages]


def test_a_tab_for_each_place_and_the_pages_of_one_that_has_several() -> None:
    study = make_study(questions=QUESTIONS)
    tabs = ["About", "Chat", "Rate", "Done"]
    about = ["Agreeing", "How it works", "Questions before"]
    assert shown(study) == ("consent", tabs, about)
    assert shown(study, "preview=chat") == ("chat", tabs, [])
    step, _tabs, pages = shown(study, "preview=done")
    assert (step, len(pages)) == ("done", len(Outcome.values))
    assert shown(make_study("t"))[2] == ["Agreeing", "How it works"]


@pytest.mark.parametrize("query", ["preview=nonsense", "theme=nonsense&lang=xx", "outcome=rated"])
def test_what_is_not_known_is_left_out(query: str) -> None:
    preview = preview_of(make_study(), QueryDict(query), step_name="texts")
    assert preview.address == "/preview/s/consent/?theme=light"


def test_a_protocol_whose_plug_in_is_away_has_no_phone(builder: Client) -> None:
    study = make_study()
    Study.objects.update(protocol="of-a-plugin")
    page = builder.get(f"/dashboard/studies/{study.key}/build/texts/").content.decode()
    assert "data-preview" not in page


def test_fields_name_values_and_steps_that_there_are() -> None:
    assert set(FIELD_STEPS) <= set(NAMES)
    assert set(FIELD_STEPS.values()) <= set(steps.names())


CASES = Path(__file__).parents[2] / "cases"


def test_a_large_upload_is_a_job(staff: Client, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DATA_DIR = tmp_path
    monkeypatch.setattr(imports, "WAITED_FOR_BYTES", 0)
    good = {
        "dialogue_id": "a",
        "bot": "b",
        "turns": [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "yo"}],
        "ratings": [{"rater": "w", "quality": 4, "fun": 2}],
    }
    upload = SimpleUploadedFile("talk.jsonl", (json.dumps(good) + "\n{broken\n").encode())
    scales = {"low-quality": 1, "high-quality": 5, "low-fun": 0, "high-fun": 1}
    answer = import_upload(staff, upload, study="imp", language="DE", **scales)
    job = Job.objects.get()
    page = reverse("dashboard:job", args=["import", job.pk])
    assert answer.redirect_chain == [(page, 302)]
    assertContains(staff.get(page), "Import into imp")
    assert not Conversation.objects.exists()
    run_job(job)
    job.refresh_from_db()
    assert (job.state, job.error) == ("done", "")
    assert (job.result["conversations"], job.result["ratings"]) == (1, 1)
    assert [skipped["line"] for skipped in job.result["skipped"]] == [1, 2]
    assert Rating.objects.get().answers == {"quality": 4}
    assert Conversation.objects.get().language == "de"
    assert list((tmp_path / "imports").iterdir()) == []
    html = staff.get(page).content.decode()
    assert "2 records or answers were skipped" in html
    assert "Done, 2 skipped" in html
    assert 'action="/dashboard/studies/imp/analyse/"' in html
    assert 'href="/dashboard/studies/imp/">Open the study' in html
    assert "&quot;conversations&quot;" not in html.partition("Stored result")[0]
    Study.objects.all().delete()
    html = staff.get(page).content.decode()
    assert "2 records or answers were skipped" in html
    assert "/dashboard/studies/imp/" not in html


def test_a_large_file_of_items_is_a_job_with_progress(staff: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "WAITED_FOR_BYTES", 0)
    study = make_study("judged", protocol="annotate", bots=[], state="draft")
    lines = [json.dumps({"id": str(n), "context": ["hi"], "response": f"hello {n}"}) for n in range(5)]
    upload = SimpleUploadedFile("some.jsonl", "\n".join([*lines, "{broken", lines[0]]).encode())
    preview = staff.post(reverse("dashboard:imports"), {"file": upload})["Location"]
    answer = staff.post(preview, {"study": "judged"})
    job = Job.objects.get()
    page = reverse("dashboard:job", args=["import", job.pk])
    assert answer["Location"] == page
    assert staff.post(preview, {"study": "judged"})["Location"] == page  # a double click
    assert Job.objects.count() == 1
    assert not study.items.exists()
    run_job(job)
    job.refresh_from_db()
    assert (job.state, job.error, job.n_skipped) == ("done", "", 1)
    assert study.items.count() == 5
    assert {item.origin["file"] for item in study.items.all()} == {"some.jsonl"}
    assert not Path(job.payload["file"]).exists()
    html = staff.get(page).content.decode()
    assert "5 new items, 1 already present." in " ".join(html.split())
    assert "Everything in the file" not in html
    assert 'href="/dashboard/studies/judged/build/bots/">Open the study’s items' in html


def test_items_for_a_study_that_rates_none_are_no_job(staff: Client, tmp_path: Path) -> None:
    make_study("chats")
    path = tmp_path / "some.jsonl"
    path.write_text("{}")
    for key in ("chats", "nowhere"):
        with pytest.raises(Refused, match=f"there is no study '{key}' whose participants rate items"):
            job_create(kind="import", payload={"file": str(path), "study": key, "items": True})


def test_the_import_page_takes_a_studys_file_as_json(staff: Client) -> None:
    plain = yaml.safe_load(text_of(staff, make_study("s").key))
    file = SimpleUploadedFile("s.json", json.dumps({**plain, "key": "t", "name": "T"}, indent=1).encode())
    answer = staff.post(reverse("dashboard:imports"), {"file": file})
    assert answer["Location"] == reverse("dashboard:study_build_step", args=["t", "check"])
    assert Study.objects.get(key="t").name == "T"
    talk = {"dialogue_id": "a", "bot": "b", "turns": [{"speaker": "human", "text": "hi"}], "protocol": "chat_rate"}
    file = SimpleUploadedFile("talk.json", json.dumps(talk, indent=1).encode())
    answer = staff.post(reverse("dashboard:imports"), {"file": file})
    assert staff.get(answer["Location"]).context["contents"].n_conversations == 1


def test_a_worker_that_is_killed_at_the_very_end_loses_neither_upload_nor_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = tmp_path / "talk.jsonl"
    turns = [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "yo"}]
    upload.write_text(json.dumps({"dialogue_id": "a", "bot": "b", "turns": turns}) + "\n")
    params = {"file": str(upload), "study": "imp", "is_upload": True}
    job = job_create(kind="import", payload=params, enqueue=False)

    def killed(**_: Any) -> None:
        raise SystemExit

    for name in ("shard_end", "job_done"):
        with monkeypatch.context() as patch:
            patch.setattr(engine, name, killed)
            with pytest.raises(SystemExit):
                run_job(job)
        assert upload.exists() == (name == "shard_end")
    run_job(job)
    job.refresh_from_db()
    assert (job.state, job.error) == ("done", "")
    assert (Conversation.objects.count(), len(job.result["skipped"])) == (1, 0)


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"file": "/nowhere.jsonl", "study": "a"}, "no file /nowhere.jsonl"),
        ({"file": __file__, "study": "a", "scale": [1]}, "two ends"),
        ({"file": __file__, "studie": "a"}, "did you mean study"),
    ],
)
def test_what_cannot_be_imported_is_refused_before_there_is_a_job(payload: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        job_create(kind="import", payload=payload)
    assert not Job.objects.exists()


def test_a_file_names_its_study_and_a_key_that_cannot_be_is_told_with_one_that_can(staff: Client) -> None:
    line = {
        "dialogue_id": "a",
        "bot": "b",
        "turns": [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "yo"}],
    }

    def sent(name: str, key: str, status: int = 400) -> str:
        upload = SimpleUploadedFile(name, (json.dumps(line) + "\n").encode())
        answer = import_upload(staff, upload, **({"study": key} if key else {}))
        assert answer.status_code == status
        return answer.content.decode()

    assert "1 new conversation" in sent("Talks of May.jsonl", "", 200)
    assert Conversation.objects.get().study.key == "talks_of_may"
    assert "“My study” is not a valid key." in (refused := sent("a.jsonl", "My study"))
    assert "such as “my-study”." in refused
    assert "This field is required." in sent("!!.jsonl", "")


def test_a_csv_is_read_as_its_columns_are_chosen_and_its_choices_are_stored(
    staff: Client, settings: Any, tmp_path: Path
) -> None:
    settings.DATA_DIR = tmp_path
    text = "Gespräch;Modell;Person;Antwort;Wer;Note\n"
    text += "".join(f"c{n};b{n % 2};hallo;hi;r{n};{n % 3 + 1},5\n" for n in range(6)) + "c9;b0;hallo;hi;r;gut\n"
    sent = staff.post(reverse("dashboard:imports"), {"file": SimpleUploadedFile("Talk.csv", text.encode())})
    page = sent["Location"]
    assert "no column identifies the conversation" in staff.get(page).context["error"]
    columns = {
        f"column-{n}": role for n, role in enumerate(["conversation", "bot", "human", "reply", "rater", "question"])
    }
    context = staff.post(page, {**columns, "_again": "1"}).context
    contents = context["contents"]
    assert (contents.n_conversations, contents.n_ratings, dict(contents.bots)) == (7, 6, {"b0": 4, "b1": 3})
    assert (contents.seen, context["form"].proposals) == ({"note": (1.5, 3.5)}, {"note": (1, 4)})
    assert [(one.line, one.reason) for one in contents.left_out] == [
        (8, "Note is 'gut'; it must be a number or a word of the scale; this answer is skipped")
    ]
    assert not Study.objects.exists()
    values = {"study": "talk", "accept": "on", "reversed-note": "on", "low_label-note": "bad", "controls": ["b1"]}
    for _ in range(2):  # a double click, or a reload
        answer = staff.post(page, {**columns, **values, "_import": "1"}, follow=True)
        assertContains(answer, "7 new conversations")
    assert Job.objects.count() == 1
    study = Study.objects.get(key="talk")
    question = study.rubric.dimensions.get()
    assert (question.key, question.scale, question.reversed) == ("note", (1, 4), True)
    assert (question.low_label, question.scale_inferred) == ("bad", False)
    assert study.bot_columns["marked"] == ["b1"]
    assert list((tmp_path / "imports").iterdir()) == []


def test_a_parquet_table_is_imported_by_page_and_api_as_a_csv_is(staff: Client, settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    program = Program(Right.READ, Right.RUN)
    frame = pd.DataFrame(
        {
            "conversation": [f"c{n}" for n in range(6)],
            "bot": ["a", "b"] * 3,
            "human": "hello",
            "reply": "hi",
            "rater": [f"r{n}" for n in range(6)],
            "quality": [1.0, 2.0, None, 4.0, 5.0, 3.0],
        }
    )
    frame.to_parquet(tmp_path / "Talk.parquet")
    contents = (tmp_path / "Talk.parquet").read_bytes()

    def preview_page(name: str, contents: bytes) -> str:
        response = staff.post(reverse("dashboard:imports"), {"file": SimpleUploadedFile(name, contents)})
        assert response.status_code == 302, response.content
        return str(response["Location"])

    address = preview_page("Talk.PARQUET", contents)
    preview = staff.get(address).context
    assert (preview["contents"].n_conversations, preview["contents"].n_ratings) == (6, 5)
    columns = {field.html_name: field.value() for field in preview["columns"]}
    assert list(columns.values()) == ["conversation", "bot", "human", "reply", "rater", "question"]
    answer = staff.post(address, {**columns, "study": "talk", "_import": "1"}, follow=True)
    assertContains(answer, "6 new conversations")
    assert Rating.objects.filter(conversation__study__key="talk").count() == 5
    upload = SimpleUploadedFile("talk.parquet", contents)
    assert program.client.post("/api/v1/studies/by-api/conversations", {"file": upload}).status_code == 202
    run_job(Job.objects.latest("pk"))
    assert Rating.objects.filter(conversation__study__key="by-api").count() == 5

    damaged = bytearray(contents)
    damaged[4:60] = b"\xff" * 56  # the first page; the footer stays whole
    assertContains(staff.get(preview_page("d.parquet", bytes(damaged))), "d.parquet is a damaged Parquet file")
    cut = preview_page("cut.parquet", contents[:-20])
    assertContains(staff.get(cut), "cut.parquet is not a Parquet file, or is damaged")
    table = pa.table(
        [pa.array(["c"]), pa.array(["b"]), pa.array(["hi"]), pa.array(["ho"])], ["bot", "x", "text", "text"]
    )
    pq.write_table(table, tmp_path / "twice.parquet")
    twice = preview_page("twice.parquet", (tmp_path / "twice.parquet").read_bytes())
    assertContains(staff.get(twice), "twice.parquet has two columns &#x27;text&#x27;")
    settings.CONFAB_UPLOAD_LIMIT_MB = 0
    upload = SimpleUploadedFile("talk.parquet", contents)
    refusal = program.client.post("/api/v1/studies/large/conversations", {"file": upload})
    assert refusal.status_code == 413
    assert "the maximum is 0 MB" in refusal.json()["error"]["message"]


def test_a_file_that_cannot_be_imported_stays_with_its_reason(staff: Client, settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    file = SimpleUploadedFile("a.csv", (CASES / "ratings_decimal_comma.csv").read_bytes())
    page = staff.post(reverse("dashboard:imports"), {"file": file})["Location"]
    columns = {field.html_name: field.value() for field in staff.get(page).context["columns"]}
    for _ in range(2):
        answer = staff.post(page, {**columns, "study": "new", "_import": "1"})
        assertContains(answer, "The file contains ratings without their conversations", status_code=400)
    assert not Job.objects.exists()
    twice = SimpleUploadedFile("b.csv", b"conversation,bot,text,text\nc,b,hi,hi\n")
    page = staff.post(reverse("dashboard:imports"), {"file": twice})["Location"]
    assertContains(staff.get(page), "b.csv has two columns &#x27;text&#x27;")


def test_an_upload_is_its_owners_and_goes_after_a_day(staff: Client, settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    file = SimpleUploadedFile("a.csv", (CASES / "messages_semicolon.csv").read_bytes())
    page = staff.post(reverse("dashboard:imports"), {"file": file})["Location"]
    assert staff.get(page).context["contents"].n_conversations == 8
    other = signed_in(*Right, username="other")
    assert other.get(page)["Location"] == reverse("dashboard:imports")
    [kept] = (tmp_path / "imports").iterdir()
    long_ago = time.time() - UPLOADS_KEPT.total_seconds() - 60
    os.utime(kept, (long_ago, long_ago))
    assert files_expire() == 1
    assertContains(staff.get(page, follow=True), "Upload it again.")


def test_a_package_shows_what_it_holds_and_a_study_file_its_changes(staff: Client) -> None:
    study = make_study("s")
    make_rating(make_conversation(study, n_exchanges=3))
    packed = b"".join(package_pieces(study, ExportOptions()))
    page = staff.post(reverse("dashboard:imports"), {"file": SimpleUploadedFile("s.zip", packed)})["Location"]
    contents = staff.get(page).context["contents"]
    assert (contents.n_conversations, contents.n_ratings, len(contents.bots)) == (1, 1, 1)
    assertContains(staff.post(page, {"study": "again", "_import": "1"}, follow=True), "1 new conversation")
    assert Study.objects.filter(key="again").exists()
    text = study_file_text(study_file_of(study)).replace("name: s", "name: other")
    file = SimpleUploadedFile("s.yaml", text.encode())
    assertContains(staff.post(reverse("dashboard:imports"), {"file": file}), "other")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("conversation,bot,human,reply\nc,b,hi,y\x00o\n", "line 2 reply contains the character U+0000"),
        ("conversation,bot,human,reply\nc,b,h\udc81,yo\n", "line 2 human contains half a surrogate pair or bytes"),
        ("conversation,bot,human,reply\nc,b,,\n", "line 2 human and reply are both empty"),
        ("conversation,bot,speaker,text\nc,b,narrator,hi\n", "line 2 speaker is 'narrator'; it must be human or bot"),
        (
            "conversation,bot,turn,speaker,text\nc,b,0,human,a\nc,b,0,human,b\n",
            "line 2 chat 'c' has turn 0 of the human twice",
        ),
    ],
)
def test_a_mistake_is_told_with_line_value_and_what_would_be_right(staff: Client, content: str, reason: str) -> None:
    file = SimpleUploadedFile("x.csv", content.encode("utf-8", "surrogateescape"))
    page = staff.post(reverse("dashboard:imports"), {"file": file})["Location"]
    [one] = staff.get(page).context["contents"].left_out
    assert f"line {one.line} {one.reason}".startswith(reason)
