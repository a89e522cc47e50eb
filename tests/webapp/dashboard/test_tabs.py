"""The five tabs of a study, and the pages under them."""

from __future__ import annotations

from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from tests.builders import make_participant, make_study
from webapp.studies.models import Study
from webapp.studies.versions import study_edit
from webapp.transfer.import_file import conversations_sample
from webapp.transfer.services import records_store


def test_pages_say_by_which_test_bots_are_told_apart(staff: Client, rated: Study) -> None:
    address = reverse("dashboard:study_results", args=["rated"])
    assert "always valid while the study collects" in staff.get(address).content.decode()
    study_edit(study=rated, state="ended")
    html = staff.get(address).content.decode()
    assert "always valid while the study collects" not in html
    assert "Holm, p &lt; .10" in html


def test_an_imported_study_hides_pages_about_people_who_come(staff: Client) -> None:
    study = make_study("there")
    Study.objects.update(is_imported=True)
    study.refresh_from_db()
    records_store(study=study, records=conversations_sample())
    make_participant(study, platform="import")
    page = BeautifulSoup(staff.get(_address(study, "study_conversations")).content, "html.parser")
    shown = {link.get_text(strip=True) for link in page.select("nav.tabs a")}
    assert shown == {"Overview", "Conversations", "Results", "Report"}
    assert staff.get(_address(study, "study_people"))["Location"] == _address(study, "study")


def _address(study: Study, route: str) -> str:
    return reverse(f"dashboard:{route}", args=[study.key])
