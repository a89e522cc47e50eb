"""A study as a file in the browser: every mistake at once, what would change, and the same file out again."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from tests.builders import make_annotated, make_study
from webapp.studies.models import Study

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
    made = Study.objects.get(key="t")
    assert (made.state, made.version.author) == ("draft", "r")
    assert made.values.texts == study.values.texts
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
        ("s.pdf", "x", "is no .yaml or .json file"),
        ("s.yaml", "", "empty"),
        ("s.yaml", "- 1", "must hold keys and values"),
        ("s.yaml", "a: [", "cannot be read"),
    ],
)
def test_what_is_no_studys_file_is_told(staff: Client, name: str, text: str, said: str) -> None:
    answer = staff.post(reverse("dashboard:study_new_file"), sent(text, name))
    html = answer.content.decode()
    assert answer.status_code == 422
    assert said in html or "Choose a study’s file first." in html


def test_a_changed_file_shows_what_would_change_before_it_does(staff: Client) -> None:
    make_study("s", title="Old title")
    text = text_of(staff, "s").replace("Old title", "New title")
    where = reverse("dashboard:study_file_upload", args=["s"])
    html = staff.post(where, sent(text)).content.decode()
    assert "The file would change 1 setting" in html
    assert "Old title" in html
    assert "New title" in html
    assert Study.objects.get().values.texts.title == "Old title"
    staff.post(where, {"text": text, "_sure": "1"})
    assert Study.objects.get().values.texts.title == "New title"
    same = staff.post(where, sent(text), follow=True).content.decode()
    assert "is as the file says already" in same


def test_a_study_with_many_items_takes_two_files(staff: Client) -> None:
    make_annotated("a", n_items=30)
    text = text_of(staff, "a").replace("key: a\n", "key: b\n", 1)
    lines = b"".join(staff.get(reverse("dashboard:study_file", args=["a"]), {"items": ""}).streaming_content)  # type: ignore[attr-defined]
    where = reverse("dashboard:study_new_file")
    assert "not beside the study" in staff.post(where, sent(text)).content.decode()
    both = [SimpleUploadedFile("b.yaml", text.encode()), SimpleUploadedFile("a.items.jsonl", lines)]
    staff.post(where, {"file": both})
    assert Study.objects.get(key="b").items.count() == 30
