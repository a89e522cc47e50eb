"""Every address of the dashboard of version 0.9 still leads somewhere, with its query string."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import Resolver404, resolve

from tests.builders import make_conversation
from webapp.dashboard.old_routes import OLD_ROUTES, OldRoute
from webapp.jobs.models import SelfPlayRun
from webapp.studies.models import Study

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
