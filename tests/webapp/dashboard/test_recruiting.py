"""The overview hands out the links for those who recruit."""

from __future__ import annotations

from html import unescape

from django.test import Client

from tests.builders import BY_PROLIFIC, make_study
from webapp.studies.versions import study_edit

PROLIFIC = "http://testserver/s/s/?PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}"


def test_the_overview_offers_the_links_ready_to_copy(staff: Client) -> None:
    study = make_study("s")
    page = unescape(staff.get("/dashboard/studies/s/").content.decode())
    assert f'data-copy="{PROLIFIC}"' in page
    assert f"<code>{PROLIFIC}</code>" in page
    assert page.count('data-copy="http://testserver/s/s/"') == 3, "head, anybody, a pasted code"
    question = page.split('data-copy="<ExternalQuestion')[1].split('</ExternalQuestion>"')[0]
    assert "<ExternalURL>http://testserver/s/s/</ExternalURL>" in question
    assert "none of Prolific's completion codes" in page
    study = study_edit(study=study, code_rated="C1")
    page = unescape(staff.get("/dashboard/studies/s/").content.decode())
    assert "none of Prolific's completion codes" not in page


def test_the_overview_offers_only_the_link_of_the_platform_that_the_study_names(staff: Client) -> None:
    make_study("s", **BY_PROLIFIC)
    page = unescape(staff.get("/dashboard/studies/s/").content.decode())
    assert f'data-copy="{PROLIFIC}"' in page
    assert "<ExternalQuestion" not in page
    assert 'data-copy="http://testserver/s/s/"' not in page, "who comes by it cannot be paid"
