"""The page of a study's versions: what each changed, and by whom."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.builders import make_participant, make_study, signed_in
from webapp.core.rights import Right
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser() -> Client:
    return signed_in(Right.READ, Right.ADMINISTER, username="r.okafor")


def test_versions_say_what_each_changed(browser: Client, django_assert_max_num_queries: Any) -> None:
    study = make_study("s", consent_text="First line.\n" + "A long text. " * 10)
    for minutes in range(10, 16):
        make_participant(study)
        study = study_edit(study=study, minutes=minutes, author="a.lin")
    make_participant(study)
    text = study.values.texts.consent_text.replace("First", "<b>Other</b>")
    study_edit(study=study, consent_text=text)
    where = reverse("dashboard:study_versions", args=["s"])
    with django_assert_max_num_queries(30):
        page = browser.get(where).content.decode()
    assert "<b>Other</b>" not in page
    assert "&lt;b&gt;Other&lt;/b&gt; line." in page
    said = re.sub(r"\s+", " ", unescape(page))
    assert said.index("Version 8") < said.index("First line.") < said.index("Version 7")
    assert said.index("Version 7") < said.index("Minutes: 14 → 15") < said.index("Version 6")
    assert said.count("a.lin") == 6
    assert said.count("people have agreed to it") == 7
    assert said.count("The first one.") == 1
