"""Around a study's pages: its tabs, every address of version 0.9, and the links for those who recruit."""

import re
from html import unescape
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import Resolver404, resolve, reverse

from tests.builders import BY_PROLIFIC, make_conversation, make_participant, make_study
from webapp.dashboard.old_routes import OLD_ROUTES, OldRoute
from webapp.jobs.models import SelfPlayRun
from webapp.studies.models import Study
from webapp.studies.versions import study_edit
from webapp.transfer.import_file import conversations_sample
from webapp.transfer.services import records_store


def test_pages_say_by_which_test_bots_are_told_apart(staff: Client, rated: Study) -> None:
    address = reverse("dashboard:study_results", args=["rated"])
    always, fixed = ("always-valid test, Holm, p &lt; .05", "fixed-sample test, Holm, p &lt; .05")
    for state in ("collecting", "ended"):
        study_edit(study=rated, state=state)
        html = staff.get(address).content.decode()
        assert (always in html, fixed in html) == (True, False), state
    # A study that was never open here has no looks to account for; one of earlier versions keeps its level.
    Study.objects.filter(pk=rated.pk).update(is_sequential=False)
    html = staff.get(address).content.decode()
    assert (always in html, fixed in html) == (False, True)
    study_edit(study=Study.objects.get(pk=rated.pk), level=None)
    assert "fixed-sample test, Holm, p &lt; .10" in staff.get(address).content.decode()


def test_an_imported_study_hides_pages_about_people_who_come(staff: Client) -> None:
    study = make_study("there")
    Study.objects.update(is_imported=True)
    study.refresh_from_db()
    records_store(study=study, records=conversations_sample())
    make_participant(study, platform="import")
    page = BeautifulSoup(staff.get(_address(study, "study_conversations")).content, "html.parser")
    texts = {link.get_text(strip=True) for link in page.select("nav.tabs a")}
    assert texts == {"Overview", "Conversations", "Results", "Report"}
    assert staff.get(_address(study, "study_people"))["Location"] == _address(study, "study")


def _address(study: Study, route: str) -> str:
    return reverse(f"dashboard:{route}", args=[study.key])


ROUTES = (Path(__file__).parent / "routes_of_0_9.txt").read_text().splitlines()
PARTS = {
    "slug:key": "rated",
    "slug:part": "comparisons",
    "slug:step": "texts",
    "slug:what": "board",
    "slug:kind": "svg",
    "uuid": "0" * 8 + "-0000" * 3 + "-" + "0" * 12,
}


def address(route: str) -> str:
    """Return an address of this route, with a value for each of its parts."""

    def value(part: re.Match[str]) -> str:
        kind = part.group(1).split(":")[0]
        return PARTS.get(part.group(1)) or PARTS.get(kind) or {"int": "1", "slug": "quality"}.get(kind, "parrot")

    return "/dashboard/" + re.sub(r"<([^>]+)>", value, route)


@pytest.mark.parametrize("route", ROUTES)
def test_an_address_of_0_9_is_known(route: str) -> None:
    try:
        resolve(address(route))
    except Resolver404:
        pytest.fail(f"{route} leads nowhere: add it to webapp/dashboard/old_routes.py")


@pytest.mark.parametrize("old", OLD_ROUTES, ids=lambda old: old.route)
def test_an_old_address_leads_to_its_page_with_its_query(old: OldRoute, staff: Client, rated: Study) -> None:
    SelfPlayRun.objects.create(pk=1, plan={"bots": ["eliza"]})
    person = make_conversation(rated).participant_id
    response = staff.get(address(old.route.replace("<uuid:participant_id>", str(person))), {"synthetic": "1"})
    assert response.status_code == 301
    target, _, fragment = response["Location"].partition("#")
    assert target.endswith("?" + "&".join(filter(None, ["synthetic=1", old.query])))
    assert fragment == old.fragment
    page = staff.get(target)
    assert page.status_code == 200
    assert not fragment or f'id="{fragment}"' in page.content.decode()


PROLIFIC = "http://testserver/s/s/?PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}"


def test_the_overview_offers_the_links_ready_to_copy(staff: Client) -> None:
    study = make_study("s")
    page = unescape(staff.get("/dashboard/studies/s/").content.decode())
    assert f'data-copy="{PROLIFIC}"' in page
    assert f"<code>{PROLIFIC}</code>" in page
    assert page.count('data-copy="http://testserver/s/s/"') == 3, "head, anybody, a pasted code"
    question = page.split('data-copy="<ExternalQuestion')[1].split('</ExternalQuestion>"')[0]
    assert "<ExternalURL>http://testserver/s/s/</ExternalURL>" in question
    assert "no completion codes from Prolific" in page
    study = study_edit(study=study, code_rated="C1")
    page = unescape(staff.get("/dashboard/studies/s/").content.decode())
    assert "no completion codes from Prolific" not in page


def test_the_overview_offers_only_the_link_of_the_platform_that_the_study_names(staff: Client) -> None:
    make_study("s", **BY_PROLIFIC)
    page = unescape(staff.get("/dashboard/studies/s/").content.decode())
    assert f'data-copy="{PROLIFIC}"' in page
    assert "<ExternalQuestion" not in page
    assert 'data-copy="http://testserver/s/s/"' not in page, "who comes by it cannot be paid"
